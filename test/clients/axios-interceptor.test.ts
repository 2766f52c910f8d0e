// The plain request interceptor: it attaches, and no more, with axios and by itself.
import { getEventListeners } from 'node:events'
import axios, { type AxiosError, type AxiosInstance, CanceledError, type CreateAxiosDefaults } from 'axios'
import axiosRetry from 'axios-retry'
import { type AttachOptions, type AuthEvent, ConfigurationError } from 'merchant-auth'
import { createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { rejectionOf, until, useGround } from '../support/ground.ts'
import { MERCHANT_URL, rig } from '../token/harness.ts'
import { conformWith } from './conform.ts'
import { axiosWith, PLAIN_FETCH, PLAIN_HTTP } from './drivers.ts'
import { RENEWAL } from './scenarios/renewal.ts'
import { SIGNALS } from './scenarios/signals.ts'

const ground = useGround()
const withToken = (config: CreateAxiosDefaults = {}, attach?: AttachOptions): AxiosInstance =>
  axiosWith(
    ground.tokens,
    { baseURL: ground.env.merchantUrl, ...config },
    { how: 'createAuthInterceptor', attach },
  )
const reasonsIn = (events: readonly AuthEvent[]) =>
  events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))

describe('the plain interceptor', () => {
  it('takes options and makes a provider of its own', async () => {
    const { environment, clientId, clientSecret, merchantUrl } = ground.env
    const api = axios.create({ baseURL: merchantUrl })
    api.interceptors.request.use(createAuthInterceptor({ environment, clientId, clientSecret }))
    expect((await Promise.all([api.get('/a'), api.get('/b')])).map(({ status }) => status)).toEqual([
      200, 200,
    ])
    expect(ground.env.counts.token).toBe(1)
  })

  it('is rejected with wrong options', () => {
    expect(() => createAuthInterceptor(ground.tokens, { header: '' })).toThrow(ConfigurationError)
  })

  it('leaves a 401 to the caller', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    const { status } = (await rejectionOf(withToken().get('/x'))) as AxiosError
    expect([status, ground.env.counts.token]).toEqual([401, 1])
  })

  it('and axios-retry send the current token', async () => {
    const api = withToken()
    axiosRetry(api as never, {
      retries: 2,
      retryDelay: () => 0,
      retryCondition: async ({ response }) => {
        if (response?.status !== 401) return false
        await ground.tokens.renewToken((await ground.tokens.getToken()).value)
        return true
      },
    })
    await ground.tokens.getToken()
    ground.env.revoke()
    expect((await api.post('/x', 'body')).status).toBe(200)
    expect(ground.sent().map(({ status, body }) => `${status} ${body}`)).toEqual(['401 body', '200 body'])
  })

  it('leaves no listener on a signal that ended its wait', async () => {
    ground.env.fail('token', { kind: 'hang' })
    const abort = new AbortController()
    const call = rejectionOf(withToken().get('/mine', { signal: abort.signal }))
    await until(() => ground.env.counts.token === 1)
    abort.abort()
    expect(await call).toBeInstanceOf(CanceledError)
    expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  })
})

/** What holds for every client but renewals, which it leaves to the caller. */
const ATTACHING = [
  ...RENEWAL.filter(
    ({ group, name }) => group === 'Which calls carry the token' && !name.endsWith('renewed'),
  ),
  ...SIGNALS.filter(({ name }) =>
    /before the call|after the answer|waiting for the (first token|API)/.test(name),
  ),
]
conformWith([PLAIN_HTTP, PLAIN_FETCH], ATTACHING)

interface Config {
  url: string
  headers: { [name: string]: string; Authorization?: string }
  beforeRedirect?: (options: object, response?: unknown, request?: unknown) => void
  signal?: AbortSignal
}
const fresh = (): Config => ({ url: MERCHANT_URL, headers: {} })

/** An interceptor, and what lets it have one token after another. */
function renewing(attach: AttachOptions = {}) {
  const { provider, clock, events } = rig()
  return {
    provider,
    intercept: createAuthInterceptor(provider, attach),
    withheld: () => reasonsIn(events),
    async nextToken(): Promise<string> {
      await clock.advance(1_000_000)
      return `Bearer ${(await provider.getToken()).value}`
    },
  }
}

describe('the interceptor', () => {
  it('attaches a cached token at once, without a promise', async () => {
    const { intercept, nextToken } = renewing()
    const value = await nextToken()
    const config = fresh()
    expect(intercept(config)).toBe(config)
    expect(config.headers).toEqual({ Authorization: value })
  })

  it('gives the same config where it has to wait for one', async () => {
    const config = fresh()
    const { intercept } = renewing()
    const waiting = intercept(config)
    expect(waiting).toBeInstanceOf(Promise)
    expect(await waiting).toBe(config)
    expect(config.headers.Authorization).toMatch(/^Bearer head\.body\.signature-\d+$/)
  })
})

describe('a config that is sent again', () => {
  it.each([
    ['Authorization', 'Bearer'],
    ['X-Custom', ''],
  ])('gets the current token however often other calls got another one: %s', async (header, scheme) => {
    const { intercept, nextToken, withheld } = renewing({ header, scheme })
    await nextToken()
    const old = fresh()
    await intercept(old)
    const current = await nextToken()
    for (let nth = 0; nth < 20; nth += 1) intercept(fresh())
    intercept(old)
    expect(old.headers).toEqual({ [header]: current.replace('Bearer', scheme).trimStart() })
    expect(withheld()).toEqual([])
  })

  it('gets it, too, when another interceptor has attached the same token, and takes it nowhere else', async () => {
    const { provider, intercept, nextToken } = renewing()
    const other = createAuthInterceptor(provider)
    await nextToken()
    const old = fresh()
    intercept(old)
    other(fresh())
    const current = await nextToken()
    intercept(old)
    expect(old.headers).toEqual({ Authorization: current })
    const elsewhere = { ...old, headers: { ...old.headers }, url: 'https://elsewhere.test.example/' }
    other(fresh())
    intercept(elsewhere)
    expect(elsewhere.headers).toEqual({})
  })

  it('is known by any of its last 16 tokens; an older one counts as the caller’s own header', async () => {
    const { intercept, nextToken, withheld } = renewing()
    const configs = []
    for (let nth = 1; nth <= 17; nth += 1) {
      await nextToken()
      const config = fresh()
      intercept(config)
      configs.push(config)
    }
    const values = configs.map(({ headers }) => headers.Authorization)
    expect(new Set(values).size).toBe(17)
    for (const config of configs.toReversed()) intercept(config)
    const [oldest, ...others] = configs.map(({ headers }) => headers.Authorization)
    expect(oldest).toBe(values[0])
    expect(others).toEqual(Array(16).fill(values[16]))
    expect(withheld()).toEqual(['own-header'])
  })

  it('has its header under the name that it is sent in, once', async () => {
    const { intercept, nextToken } = renewing()
    const value = await nextToken()
    const config = { ...fresh(), headers: { authorization: value, 'x-mine': value } }
    intercept(fresh())
    intercept(config)
    expect(config.headers).toEqual({ Authorization: value, 'x-mine': value })
  })

  it('and again, for a day, has one guard of its redirects, which asks the caller’s own once', async () => {
    const { intercept, nextToken } = renewing()
    await nextToken()
    let asked = 0
    const config = {
      ...fresh(),
      beforeRedirect: () => {
        asked += 1
      },
    }
    const bare = fresh()
    for (let nth = 0; nth < 50_000; nth += 1) {
      intercept(config)
      intercept(bare)
    }
    const redirect = () => ({ href: `${MERCHANT_URL}/there`, headers: { authorization: 'Bearer abc' } })
    const guards = [config, bare].map(({ beforeRedirect }) => beforeRedirect as Config['beforeRedirect'])
    const [within, without] = [redirect(), { ...redirect(), href: 'https://elsewhere.example/' }]
    guards[0]?.(within, {}, {})
    guards[1]?.(without, {}, {})
    expect(asked).toBe(1)
    expect(within.headers).toEqual({ Authorization: 'Bearer abc' })
    expect(without.headers).toEqual({})
  })
})

describe('without a provider and without options', () => {
  it.each([undefined, null, 'provider', {}])('is rejected: %j', (auth) => {
    expect(() => createAuthInterceptor(auth as never)).toThrow(ConfigurationError)
    expect(() => createAuthInterceptor(auth as never)).toThrow(
      /^The options of the token provider cannot be used:/,
    )
  })
})

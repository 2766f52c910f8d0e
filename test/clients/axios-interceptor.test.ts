// createAuthInterceptor, which only attaches the token: on an axios instance and called directly.
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

describe('createAuthInterceptor on an axios instance', () => {
  it('accepts provider options and creates its own provider', async () => {
    const { environment, clientId, clientSecret, merchantUrl } = ground.env
    const api = axios.create({ baseURL: merchantUrl })
    api.interceptors.request.use(createAuthInterceptor({ environment, clientId, clientSecret }))
    expect((await Promise.all([api.get('/a'), api.get('/b')])).map(({ status }) => status)).toEqual([
      200, 200,
    ])
    expect(ground.env.counts.token).toBe(1)
  })

  it('rejects invalid options', () => {
    expect(() => createAuthInterceptor(ground.tokens, { header: '' })).toThrow(ConfigurationError)
  })

  it('passes a 401 to the caller without a renewal', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    const { status } = (await rejectionOf(withToken().get('/x'))) as AxiosError
    expect([status, ground.env.counts.token]).toEqual([401, 1])
  })

  it('sends the current token when axios-retry repeats a call', async () => {
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

  it('removes its listener from a signal that aborted its wait', async () => {
    ground.env.fail('token', { kind: 'hang' })
    const abort = new AbortController()
    const call = rejectionOf(withToken().get('/mine', { signal: abort.signal }))
    await until(() => ground.env.counts.token === 1)
    abort.abort()
    expect(await call).toBeInstanceOf(CanceledError)
    expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  })
})

/** The scenarios of every client, without renewals, which this interceptor leaves to the caller. */
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
const newConfig = (): Config => ({ url: MERCHANT_URL, headers: {} })

/** An interceptor, and a function that gives it the next token. */
function interceptorRig(attach: AttachOptions = {}) {
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

describe('createAuthInterceptor, called directly', () => {
  it('attaches a cached token synchronously', async () => {
    const { intercept, nextToken } = interceptorRig()
    const value = await nextToken()
    const config = newConfig()
    expect(intercept(config)).toBe(config)
    expect(config.headers).toEqual({ Authorization: value })
  })

  it('resolves with the same config if it waits for a token', async () => {
    const config = newConfig()
    const { intercept } = interceptorRig()
    const waiting = intercept(config)
    expect(waiting).toBeInstanceOf(Promise)
    expect(await waiting).toBe(config)
    expect(config.headers.Authorization).toMatch(/^Bearer head\.body\.signature-\d+$/)
  })
})

it('attaches the token to a copy of a frozen config', async () => {
  const api = withToken()
  api.interceptors.request.use((config) => Object.freeze(config)) // runs before the one above
  expect((await api.get('/x')).status).toBe(200) // the sandbox answers 401 without a token
})

describe('a config that is sent again', () => {
  it.each([
    ['Authorization', 'Bearer'],
    ['X-Custom', ''],
  ])('gets the current token after many other calls got it: %s', async (header, scheme) => {
    const { intercept, nextToken, withheld } = interceptorRig({ header, scheme })
    await nextToken()
    const old = newConfig()
    await intercept(old)
    const current = await nextToken()
    for (let nth = 0; nth < 20; nth += 1) intercept(newConfig())
    intercept(old)
    expect(old.headers).toEqual({ [header]: current.replace('Bearer', scheme).trimStart() })
    expect(withheld()).toEqual([])
  })

  it('gets the current token, or no token on another origin, if two interceptors share a provider', async () => {
    const { provider, intercept, nextToken } = interceptorRig()
    const other = createAuthInterceptor(provider)
    await nextToken()
    const old = newConfig()
    intercept(old)
    other(newConfig())
    const current = await nextToken()
    intercept(old)
    expect(old.headers).toEqual({ Authorization: current })
    const elsewhere = { ...old, headers: { ...old.headers }, url: 'https://elsewhere.test.example/' }
    other(newConfig())
    intercept(elsewhere)
    expect(elsewhere.headers).toEqual({})
  })

  it('is recognized by any of the last 16 tokens; an older token counts as the caller’s own header', async () => {
    const { intercept, nextToken, withheld } = interceptorRig()
    const configs = []
    for (let nth = 1; nth <= 17; nth += 1) {
      await nextToken()
      const config = newConfig()
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

  it('has the token once, under the header name of the options', async () => {
    const { intercept, nextToken } = interceptorRig()
    const value = await nextToken()
    const config = { ...newConfig(), headers: { authorization: value, 'x-mine': value } }
    intercept(newConfig())
    intercept(config)
    expect(config.headers).toEqual({ Authorization: value, 'x-mine': value })
  })

  it('keeps one redirect guard through 50,000 sends, and it calls the caller’s beforeRedirect once', async () => {
    const { intercept, nextToken } = interceptorRig()
    await nextToken()
    let calls = 0
    const config = {
      ...newConfig(),
      beforeRedirect: () => {
        calls += 1
      },
    }
    const bare = newConfig()
    for (let nth = 0; nth < 50_000; nth += 1) {
      intercept(config)
      intercept(bare)
    }
    const redirect = () => ({ href: `${MERCHANT_URL}/there`, headers: { authorization: 'Bearer abc' } })
    const guards = [config, bare].map(({ beforeRedirect }) => beforeRedirect as Config['beforeRedirect'])
    const [within, without] = [redirect(), { ...redirect(), href: 'https://elsewhere.example/' }]
    guards[0]?.(within, {}, {})
    guards[1]?.(without, {}, {})
    expect(calls).toBe(1)
    expect(within.headers).toEqual({ Authorization: 'Bearer abc' })
    expect(without.headers).toEqual({})
  })
})

describe('createAuthInterceptor without a provider or options', () => {
  it.each([undefined, null, 'provider', {}])('throws a ConfigurationError: %j', (auth) => {
    expect(() => createAuthInterceptor(auth as never)).toThrow(ConfigurationError)
    expect(() => createAuthInterceptor(auth as never)).toThrow(
      /^The options of the token provider cannot be used:/,
    )
  })
})

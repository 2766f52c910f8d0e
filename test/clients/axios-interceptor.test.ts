// The plain request interceptor: it attaches, and no more, with axios and by itself (contract 2, 5).
import { getEventListeners } from 'node:events'
import axios, { AxiosError, type AxiosInstance, CanceledError, type CreateAxiosDefaults } from 'axios'
import axiosRetry from 'axios-retry'
import { ConfigurationError, TokenRequestError } from 'merchant-auth'
import { createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { ADAPTERS, rejectionOf, scripted, until, useGround } from '../support/ground.ts'
import { hang, MERCHANT_URL, rig } from '../token/harness.ts'

const ground = useGround()
const withToken = (config?: CreateAxiosDefaults, attach?: object): AxiosInstance => {
  const api = axios.create({ baseURL: ground.env.merchantUrl, ...config })
  api.interceptors.request.use(createAuthInterceptor(ground.tokens, attach))
  return api
}
const withheld = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))

describe('the plain interceptor', () => {
  it.each(ADAPTERS)('attaches the token, first later and then at once, by %s', async (adapter) => {
    const api = withToken({ adapter })
    expect((await api.get('/a')).status).toBe(200)
    expect((await api.get('/b')).status).toBe(200)
    expect(ground.env.counts.token).toBe(1)
  })

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

  it('registered first runs last, and judges what others have made of the call', async () => {
    await using elsewhere = await scripted((_, response) => void response.end())
    const api = withToken({ baseURL: 'http://127.0.0.1:1' })
    api.interceptors.request.use((config) => {
      config.baseURL = config.url === '/away' ? elsewhere.url : ground.env.merchantUrl
      return config
    })
    expect((await api.get('/x')).status).toBe(200)
    await api.get('/away')
    expect(elsewhere.seen[0]?.headers.authorization).toBeUndefined()
  })

  it('withholds the token, with the reason', async () => {
    const api = withToken({ validateStatus: () => true })
    await api.get('/x', { headers: { authorization: 'Own one' } })
    await api.get('/x', { auth: { username: 'u', password: 'p' } })
    await rejectionOf(api.get('/x', { socketPath: '/nonexistent.sock' }))
    expect(withheld()).toEqual(['own-header', 'own-credentials', 'destination'])
    expect(ground.env.counts.token).toBe(0)
  })

  it('leaves a 401 to the caller', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    const { status } = (await rejectionOf(withToken().get('/x'))) as AxiosError
    expect([status, ground.env.counts.token]).toEqual([401, 1])
  })

  it.each([{}, { header: 'X-Custom', scheme: '' }])(
    'gives a config that is sent again the current token (%o)',
    async (attach) => {
      if ('header' in attach) ground.env.configure(attach)
      const api = withToken({}, attach)
      const old = await ground.tokens.getToken()
      const answer = await api.get('/x')
      ground.env.revoke()
      await ground.tokens.renewToken(old)
      const again = await api.request(answer.config)
      expect(again.status).toBe(200)
      expect(again.data.jti).not.toBe(answer.data.jti)
      expect((await api.request(again.config)).status).toBe(200)
      expect((await api.request(answer.config)).status).toBe(200)
      expect(withheld()).toEqual([])
    },
  )

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

  it('strips an old token from a config that goes elsewhere', async () => {
    await using elsewhere = await scripted((_, response) => void response.end())
    const api = withToken()
    const { config } = await api.get('/x')
    await api.request({ ...config, baseURL: elsewhere.url })
    expect(elsewhere.seen[0]?.headers.authorization).toBeUndefined()
  })

  it.each(['signal', 'cancelToken', 'timeout'] as const)(
    'ends a wait by its %s, as axios does',
    async (limit) => {
      ground.env.fail('token', { kind: 'hang' })
      const abort = new AbortController()
      const { token: cancelToken, cancel } = axios.CancelToken.source()
      const limits = {
        signal: { signal: abort.signal },
        cancelToken: { cancelToken },
        timeout: { timeout: 30 },
      }
      const call = rejectionOf(withToken().get('/mine', limits[limit]))
      await until(() => ground.env.counts.token === 1)
      abort.abort()
      cancel('enough')
      const error = (await call) as AxiosError
      expect(error).toBeInstanceOf(limit === 'timeout' ? AxiosError : CanceledError)
      expect(error).toMatchObject({ code: limit === 'timeout' ? 'ECONNABORTED' : 'ERR_CANCELED' })
      expect(getEventListeners(abort.signal, 'abort')).toEqual([])
      expect(ground.sent()).toEqual([])
    },
  )

  it('rejects as getToken does', async () => {
    ground.env.fail('token', { kind: 'status', status: 400 })
    await expect(withToken().get('/x')).rejects.toBeInstanceOf(TokenRequestError)
  })
})

interface Config {
  url: string
  headers: { [name: string]: string; Authorization?: string }
  beforeRedirect?: (options: object, response?: unknown, request?: unknown) => void
  signal?: AbortSignal
}
const fresh = (): Config => ({ url: MERCHANT_URL, headers: {} })

/** An interceptor, and what lets it have one token after another. */
function renewing() {
  const { provider, clock, events } = rig()
  return {
    provider,
    intercept: createAuthInterceptor(provider),
    withheld: () => events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : [])),
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

  it('lets a signal end the wait, and axios say so', async () => {
    const { provider, endpoint, events } = rig([hang])
    const abort = new AbortController()
    const config = { ...fresh(), signal: abort.signal }
    const waiting = createAuthInterceptor(provider)(config)
    abort.abort()
    expect(await waiting).toBe(config)
    expect(config.headers).toEqual({})
    await vi.waitFor(() => expect(endpoint.count).toBe(1)) // the shared request runs on
    expect(events.map(({ type }) => type)).toEqual(['token-requested'])
    await provider.close()
  })

  it('rejects where the provider does, signal or not', async () => {
    const { provider } = rig([hang])
    const waiting = createAuthInterceptor(provider)({ ...fresh(), signal: new AbortController().signal })
    const error = rejectionOf(waiting as Promise<unknown>)
    await provider.close()
    expect(await error).toMatchObject({ code: 'ERR_PROVIDER_CLOSED' })
  })
})

describe('a config that is sent again', () => {
  it('gets the current token however often other calls got another one', async () => {
    const { intercept, nextToken, withheld } = renewing()
    await nextToken()
    const old = fresh()
    await intercept(old)
    const current = await nextToken()
    for (let nth = 0; nth < 20; nth += 1) intercept(fresh())
    intercept(old)
    expect(old.headers).toEqual({ Authorization: current })
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

// Other interceptors and axios-retry on the same instance, in any order.
import axios, { type AxiosError, type AxiosInstance, type InternalAxiosRequestConfig } from 'axios'
import axiosRetry from 'axios-retry'
import type { TokenProvider } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, apiAt, functionAdapter, rejectionOf, scripted, useGround } from '../support/ground.ts'
import { outcomes } from '../support/recorded.ts'

const ground = useGround()
const addRetries = (api: AxiosInstance, retries = 3) =>
  // biome-ignore lint/suspicious/noExplicitAny: axios-retry was written against the CommonJS declarations of axios
  axiosRetry(api as any, {
    retries,
    retryDelay: () => 0,
    retryCondition: (error) => error.response?.status === 503,
  })

describe('createAuthInterceptor on the same instance', () => {
  for (const order of ['before', 'after'] as const) {
    for (const legacy of [true, false]) {
      const createInstance = (tokens: TokenProvider = ground.tokens): AxiosInstance => {
        const transitional = { legacyInterceptorReqResOrdering: legacy } as object
        const api = axios.create({ baseURL: ground.env.merchantUrl, transitional })
        if (order === 'after') attachAuth(api, ground.tokens)
        api.interceptors.request.use(createAuthInterceptor(tokens))
        if (order === 'before') attachAuth(api, ground.tokens)
        return api
      }

      it(`leaves calls to attachAuth if registered ${order} it (legacy order: ${legacy})`, async () => {
        const api = createInstance(ground.provider()) // during a migration its provider may be another one
        await api.get('/orders')
        ground.env.revoke()
        const answer = await api.get('/orders')
        expect(answer.data).toMatchObject({ headers: { authorization: expect.stringMatching(/^Bearer /) } })
        expect((await api.request(answer.config)).status).toBe(200)
        expect(ground.sent()).toHaveLength(4)
        const { signal } = new AbortController()
        ground.env.fail('merchant', { kind: 'status', status: 500 })
        const errors = [
          await rejectionOf(api.get('/orders', { signal })),
          await rejectionOf(api.get('/orders', { signal: AbortSignal.abort() })),
        ] as AxiosError[]
        for (const { config } of errors) expect(config?.headers.has('authorization')).toBe(false)
        expect(ground.events.filter(({ type }) => type === 'token-withheld')).toEqual([])
      })

      it(`attaches its token to an API that only it covers if registered ${order} attachAuth (legacy order: ${legacy})`, async () => {
        await using server = await scripted((_, response) => response.end())
        const api = createInstance(ground.provider({ environment: apiAt(ground.env, server.url) }))
        await api.get(`${server.url}/x`)
        expect(server.seen[0]?.headers.authorization).toMatch(/^Bearer /)
        outcomes.length = 0 // this interceptor leaves the token in the headers, so log output contains it
      })
    }
  }
})

describe.each(['before', 'after'])('other interceptors registered %s attachAuth', (when) => {
  /** An instance with the token attached and other interceptors. */
  function instance(register: (api: AxiosInstance) => void, baseURL = ground.env.merchantUrl): AxiosInstance {
    const api = axios.create({ baseURL })
    if (when === 'before') register(api)
    attachAuth(api, ground.tokens)
    if (when === 'after') register(api)
    return api
  }

  it('can change the destination and the headers of a call', async () => {
    const api = instance(({ interceptors }) => {
      interceptors.request.use(async (config) => {
        config.headers.set('X-Changed', 'yes')
        if (config.url === 'own') config.headers.set('Authorization', 'Own one')
        config.baseURL = ground.env.merchantUrl
        return { ...config, url: `/changed/${config.url}` } as typeof config
      })
    }, 'http://127.0.0.1:1')
    const { data } = await api.get('orders')
    expect(data).toMatchObject({ path: '/merchant/changed/orders', headers: { 'x-changed': 'yes' } })
    expect(await rejectionOf(api.get('own'))).toMatchObject({ response: { status: 401 } })
    expect(ground.sent().length).toBe(2)
  })

  it('can wrap the adapter but never see the token', async () => {
    let used = 0
    const seen: unknown[] = []
    const recordHeader = ({ headers }: InternalAxiosRequestConfig) =>
      seen.push(headers.get('authorization') ?? undefined)
    const api = instance(({ interceptors }) => {
      interceptors.request.use((config) => {
        recordHeader(config)
        const inner = axios.getAdapter(config.adapter)
        config.adapter = (final) => {
          used += 1
          return inner(final)
        }
        return config
      })
      interceptors.response.use((answer) => {
        recordHeader(answer.config)
        return answer
      })
    })
    expect((await api.request((await api.get('/orders')).config)).status).toBe(200)
    expect(used).toBeGreaterThanOrEqual(2)
    expect(ground.sent().length).toBe(2)
    expect(seen).toEqual([undefined, undefined, undefined, undefined])
  })
})

describe('axios-retry', () => {
  for (const adapter of [...ADAPTERS, functionAdapter]) {
    for (const first of ['axios-retry', 'attachAuth']) {
      it(`works with a renewal (adapter: ${typeof adapter === 'function' ? 'a function' : adapter}, registered first: ${first})`, async () => {
        const api = axios.create({ baseURL: ground.env.merchantUrl, adapter })
        if (first === 'axios-retry') addRetries(api)
        attachAuth(api, ground.tokens)
        if (first !== 'axios-retry') addRetries(api)
        ground.env.fail('merchant', { kind: 'status', status: 503 }, { times: 2 })
        ground.env.fail('merchant', { kind: 'status', status: 401 })
        ground.env.fail('merchant', { kind: 'status', status: 503 })
        const answer = await api.put('/orders', { a: 1 }, { headers: { 'idempotency-key': 'k' } })
        expect(answer.data).toMatchObject({ body: '{"a":1}', headers: { 'idempotency-key': 'k' } })
        expect(ground.sent().map(({ status }) => status)).toEqual([503, 503, 401, 503, 200])
        expect(new Set(ground.sent().map(({ body }) => String(body)))).toEqual(new Set(['{"a":1}']))
        expect(ground.env.counts.token).toBe(2)
      })
    }
  }
})

// What only axios has: attaching and detaching, adapters, other interceptors, limits of a wait, copies of axios.
import { getEventListeners } from 'node:events'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import axios, {
  type AxiosAdapter,
  AxiosError,
  type AxiosInstance,
  type AxiosProgressEvent,
  type AxiosRequestConfig,
  CanceledError,
  type CancelToken,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios'
import axiosRetry from 'axios-retry'
import type { AccessToken, AttachOptions, TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { MAX_HELD_BYTES } from '../../src/attach/held-body.ts'
import { systemClock } from '../../src/base/clock.ts'
import { settled } from '../support/clock.ts'
import {
  ADAPTERS,
  apiAt,
  functionAdapter,
  rejectionOf,
  scripted,
  until,
  useGround,
} from '../support/ground.ts'
import { problemsIn } from '../support/problems.ts'
import { provided, token, untilAborted } from '../support/provided.ts'
import { MERCHANT_URL, rig, status } from '../token/harness.ts'
import { answering, type FakeAnswer, requiredCopy, unknownCopy } from './axios-fakes.ts'
import { axiosWith } from './drivers.ts'

const ground = useGround()
const reject401 = () => ground.env.fail('merchant', { kind: 'status', status: 401 })
const sentStatuses = () => ground.sent().map(({ status }) => status)
const current = token('current.token')

/** An instance with a cached token whose adapter returns these answers, and the `Authorization` of each request. */
function fakeApi(answers: FakeAnswer[] = [], config: CreateAxiosDefaults = {}, attach?: AttachOptions) {
  const sent: unknown[] = []
  const inner = answering(answers)
  const adapter: AxiosAdapter = (final) => {
    sent.push(final.headers.get('authorization') ?? undefined)
    return inner(final)
  }
  const api = axiosWith(provided({ current }), { baseURL: MERCHANT_URL, adapter, ...config }, { attach })
  return { api, sent }
}
const FIRST = 'Bearer current.token'
const SECOND = 'Bearer second.token'

describe('attachAuth', () => {
  const problemsWith = (instance: unknown, header = 'Authorization') =>
    problemsIn(() => attachAuth(instance as never, provided(), { header }))

  it('rejects what is not an axios instance', () => {
    const reason =
      'must be an axios instance (of NestJS: http.axiosRef), or a mock that has interceptors.request.use'
    for (const instance of [undefined, {}, { interceptors: {} }])
      expect(problemsWith(instance)).toEqual([{ option: 'instance', kind: 'invalid', reason }])
    expect(() => attachAuth({} as never, provided())).toThrow(/^The token cannot be attached.*\n.*instance/)
  })

  it('lets a call with a cached token begin at once, as axios does without interceptors', async () => {
    const { api, sent } = fakeApi()
    const called = api.get('/x')
    expect(sent).toHaveLength(1)
    await called
  })

  it('rejects what is not a provider', () => {
    const { environment } = provided()
    const getToken = async () => 'a.b.c'
    const currentToken = () => undefined
    const mocks = [
      {},
      { getToken },
      { getToken, environment },
      { getToken, currentToken, environment: undefined },
    ]
    for (const tokens of mocks)
      expect(problemsIn(() => attachAuth(axios.create(), tokens as never))).toMatchObject([
        { option: 'tokens' },
      ])
  })

  it.each<[string, object]>([
    ['all methods', { 'x-tOKEN': 'one' }],
    ['one method', { post: { 'X-Token': 'one' } }],
    ['common', { common: { 'X-TOKEN': 'one' } }],
  ])('rejects an instance with a default header of the token’s name for %s', (_, headers) => {
    const reason = expect.stringMatching(/default header X-Token[\s\S]*instance\.defaults\.headers/)
    expect(problemsWith(axios.create({ headers }), 'X-Token')).toEqual([
      { option: 'instance', kind: 'conflict', reason },
    ])
    expect(problemsWith(axios.create({ headers }))).toEqual([])
  })

  const ALREADY = /^already .* twice in this program, .* framework evaluates twice, .* hot reload; /
  it('rejects a second token on one instance until the first one is detached', async () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    const detach = attachAuth(api, ground.tokens)
    const already = [{ option: 'instance', kind: 'conflict', reason: expect.stringMatching(ALREADY) }]
    expect(problemsWith(api)).toEqual(already)
    detach()
    expect(await rejectionOf(api.get('/x'))).toMatchObject({ status: 401 })
    attachAuth(api, ground.tokens)
    detach() // it does not affect the second attachment
    expect(problemsWith(api)).toEqual(already)
    expect((await api.get('/x')).status).toBe(200)
  })

  it('rejects with an AxiosError and the API’s 401 if the API also rejects the renewed token', async () => {
    ground.env.configure({ rejectAllTokens: true })
    const error = await rejectionOf(ground.api().post('/orders', { a: 1 }))
    expect(error).toBeInstanceOf(AxiosError)
    const response = { status: 401, data: { error: 'invalid_token' } }
    expect(error).toMatchObject({ code: 'ERR_BAD_REQUEST', response })
    expect(sentStatuses()).toEqual([401, 401])
  })

  it('renews the token after a 401 that validateStatus accepts', async () => {
    reject401()
    expect((await ground.api({ validateStatus: () => true }).get('/orders')).status).toBe(200)
  })
})

it.each([{}, { defaults: {} }, { defaults: { headers: { common: {} } } }])(
  'attachAuth accepts a mock of an instance, as tests of a service have it: %j',
  (mock) => {
    const use = vi.fn(() => 0)
    const response = { use: vi.fn(), eject: vi.fn() }
    const instance = { ...mock, interceptors: { request: { use, eject: vi.fn() }, response } }
    attachAuth(instance as never, provided())()
    expect(use).toHaveBeenCalledOnce()
  },
)

it('a 401 in the cause of an error, as axios 1.13.3 rejects, renews the token', async () => {
  const rejecting: FakeAnswer = async (config) => {
    const response = { status: 401, statusText: '', data: '', headers: {}, config }
    throw Object.assign(new AxiosError('failed', 'ERR_BAD_REQUEST', config, {}), { cause: { response } })
  }
  const { api, sent } = fakeApi([rejecting])
  expect((await api.get('')).status).toBe(200)
  expect(sent).toEqual(['Bearer current.token', 'Bearer second.token'])
})

it('a 401 of another call in the cause of an error renews nothing', async () => {
  const rejecting: FakeAnswer = async (config) => {
    const cause = { response: { status: 401, headers: {}, config: {} } }
    throw Object.assign(new AxiosError('failed', 'ERR_BAD_REQUEST', config, {}), { cause })
  }
  const { api, sent } = fakeApi([rejecting])
  expect(await rejectionOf(api.get(''))).toBeInstanceOf(AxiosError)
  expect(sent).toHaveLength(1)
})

describe('a header of the caller', () => {
  it('of the token’s name that is undefined, which axios does not send, is replaced by the token', async () => {
    const { api, sent } = fakeApi()
    await api.get('', { headers: { Authorization: undefined } } as never)
    expect(sent).toEqual([FIRST])
  })

  it('of the token’s name that is false, which axios does not send, stays so', async () => {
    const { api, sent } = fakeApi()
    await api.get('', { headers: { Authorization: false } } as AxiosRequestConfig)
    expect(sent).toEqual([false])
  })

  it.each(ADAPTERS)('made of auth or of user info in the URL replaces the token: %s', async (adapter) => {
    await using api401 = await scripted((_, response) => void response.writeHead(401).end())
    const tokens = ground.provider({ environment: apiAt(ground.env, api401.url) })
    const api = axiosWith(tokens, { adapter, validateStatus: () => true })
    await api.get(`${api401.url}/x`, { auth: { username: 'u', password: 'p' } })
    await api.get(`${api401.url.replace('//', '//u:p@')}/x`)
    const basic = 'Basic dTpw'
    expect(api401.seen.map(({ headers }) => headers.authorization)).toEqual([basic, basic])
    expect(ground.events).toMatchObject([{ reason: 'own-credentials' }, { reason: 'own-credentials' }])
    expect(ground.env.counts.token).toBe(0)
  })

  it.each(ADAPTERS)('made of auth is sent with a token in another header: %s', async (adapter) => {
    ground.env.configure({ header: 'X-Custom', scheme: '' })
    const api = ground.api({ adapter }, { header: 'X-Custom', scheme: '' })
    const { data } = await api.get('/orders', { auth: { username: 'u', password: 'p' } })
    expect(data.headers).toMatchObject({ 'x-custom': `[token ${data.jti}]`, authorization: '[hidden]' })
  })
})

describe('the adapter of a call', () => {
  it.each<[string, CreateAxiosDefaults['adapter']]>([
    ['http', 'http'],
    ['fetch', 'fetch'],
    ['a list', ['xhr', 'fetch']],
    ['a function', functionAdapter],
    ['a function in a list', ['xhr', functionAdapter] as never],
    ['the default', undefined],
    ['null, as mocks leave it', null as never],
  ])('gets the token and the renewed token, and is on the config of the response: %s', async (_, adapter) => {
    reject401()
    const { status, config } = await ground.api().get('/1', adapter === undefined ? {} : { adapter })
    expect([status, sentStatuses()]).toEqual([200, [401, 200]])
    expect(config.adapter).toEqual(adapter ?? axios.defaults.adapter)
  })

  it.each([{}, { adapter: 'fetch' }])('may come from an instance without defaults: %j', async (config) => {
    reject401()
    const api = new axios.Axios({ baseURL: ground.env.merchantUrl, ...config } as never) as AxiosInstance
    attachAuth(api, ground.tokens)
    expect((await api.get('/orders')).status).toBe(200)
    expect(sentStatuses()).toEqual([401, 200])
  })

  it('may return a 401 without data', async () => {
    const { api, sent } = fakeApi([{ status: 401, data: null }])
    expect((await api.get('')).status).toBe(200)
    expect(sent).toEqual([FIRST, SECOND])
  })

  it.each(['just text', undefined])('may reject with a value that is not an error: %j', async (value) => {
    const { api } = fakeApi([() => Promise.reject(value)])
    expect(await rejectionOf(api.get(''))).toBe(value)
  })

  it('gets both sends with the timeout, the signal and the callbacks of the call', async () => {
    const [{ signal }, onUploadProgress] = [new AbortController(), () => {}]
    const configs: unknown[] = []
    const note = (status: number): FakeAnswer => {
      return ({ timeout, signal, onUploadProgress, ...config }) => {
        configs.push({ timeout, signal, onUploadProgress })
        return answering([{ status }])(config as InternalAxiosRequestConfig)
      }
    }
    const { api, sent } = fakeApi([note(401), note(200)])
    await api.post('', 'abc', { timeout: 61_234, signal, onUploadProgress })
    const expected = { timeout: 61_234, signal, onUploadProgress }
    expect(configs).toEqual([expected, expected])
    expect(sent).toEqual([FIRST, SECOND])
  })
})

describe.each(ADAPTERS)('a call that is sent again by the adapter %s', (adapter) => {
  it('applies params, transforms and interceptors once', async () => {
    reject401()
    const api = ground.api({ adapter })
    const runs: string[] = []
    api.interceptors.request.use((config) => {
      runs.push('interceptor')
      return Object.assign(config, { url: `/changed${config.url}` })
    })
    await api.post('/orders?x=1', 'body', {
      params: { y: 2 },
      transformRequest: (body: string) => {
        runs.push('request')
        return `(${body})`
      },
      transformResponse: (text: string) => {
        runs.push('response')
        return text
      },
    })
    expect(runs).toEqual(['interceptor', 'request', 'response'])
    expect(ground.sent().map(({ path, body }) => `${path} ${body}`)).toEqual([
      '/merchant/changed/orders?x=1&y=2 (body)',
      '/merchant/changed/orders?x=1&y=2 (body)',
    ])
  })

  it('emits upload progress for both sends', async () => {
    reject401()
    const ends: number[] = []
    const onUploadProgress = ({ loaded, total }: AxiosProgressEvent): void => {
      if (loaded === total) ends.push(loaded)
    }
    await ground.api({ adapter }).post('/x', Buffer.alloc(1024 * 1024), { onUploadProgress })
    await until(() => ends.length >= 2)
    expect(ends).toEqual([1024 * 1024, 1024 * 1024])
  })

  it.each(['text', 'arraybuffer', 'stream'] as const)(
    'resolves with the second response: responseType %s',
    async (responseType) => {
      ground.env.fail('merchant', { kind: 'text', status: 401, body: 'x'.repeat(100_000) })
      const { status, data } = await ground.api({ adapter }).get('/orders', { responseType })
      const body = responseType === 'stream' ? await Readable.from(data).toArray() : data
      expect(status).toBe(200)
      expect(Buffer.concat([body].flat().map((part) => Buffer.from(part))).toString()).toContain('"merchant"')
    },
  )

  it('rejects a body beyond maxBodyLength as axios does', async () => {
    const error = await rejectionOf(ground.api({ adapter }).post('/x', 'eleven more', { maxBodyLength: 10 }))
    const message = 'Request body larger than maxBodyLength limit'
    expect(error).toMatchObject({ code: 'ERR_BAD_REQUEST', message, config: { maxBodyLength: 10 } })
  })
})

describe('the stream of a 401 that no caller gets', () => {
  const discarded = async (data = new PassThrough()) => {
    await fakeApi([{ status: 401, data }]).api.get('')
    return data
  }

  it('is read to its end, so that its connection is reused', async () => {
    const data = new PassThrough()
    data.end(Buffer.alloc(MAX_HELD_BYTES))
    await discarded(data)
    await until(() => data.readableEnded)
  })

  it('is destroyed if it is too large', async () => {
    const data = await discarded()
    data.write(Buffer.alloc(MAX_HELD_BYTES + 1))
    await until(() => data.destroyed)
    expect(data.readableEnded).toBe(false)
  })

  it('is destroyed if it does not end', async () => {
    const data = await discarded()
    expect(data.destroyed).toBe(false)
    await until(() => data.destroyed)
  })

  it('may fail while the token is renewed, and afterwards', async () => {
    const data = new PassThrough()
    const renewing = Promise.withResolvers<void>()
    const renewal = Promise.withResolvers<AccessToken>()
    const renew: TokenProvider['renewToken'] = () => {
      renewing.resolve()
      return renewal.promise
    }
    const adapter = answering([{ status: 401, data, headers: { 'Content-Length': '5' } }])
    const call = axiosWith(provided({ current, renew }), { adapter }).get(MERCHANT_URL)
    const fail = () => data.emit('error', new Error('read ECONNRESET')) // throws where nobody listens
    await renewing.promise
    expect(fail).not.toThrow()
    renewal.resolve(token('second.token'))
    expect(await call).toMatchObject({ status: 200 })
    expect(fail).not.toThrow()
  })

  it('is canceled after 1 s if it is a ReadableStream that does not end', async () => {
    const cancel = vi.fn()
    await fakeApi([{ status: 401, data: new ReadableStream({ cancel }) }]).api.get('')
    await until(() => cancel.mock.calls.length === 1)
  })
})

describe('the stream of a 401 that the caller gets', () => {
  /** Makes a call whose 401 has this stream; `renew` runs while the call waits, and renews nothing. */
  async function received(stream: Readable, renew = () => {}): Promise<Readable> {
    const adapter = answering([{ status: 401, data: stream }])
    const tokens = provided({ current, renew: async () => void renew() })
    const { data } = await axiosWith(tokens, { adapter, validateStatus: null }).get(MERCHANT_URL)
    return data
  }

  it.each(['before', 'after'])('fails as it does, %s the caller has it', async (when) => {
    const stream = new PassThrough()
    const fail = (): void => void stream.destroy(new Error('read ECONNRESET'))
    const data = await received(stream, when === 'before' ? fail : undefined)
    if (when === 'after') fail()
    expect(await rejectionOf(text(data))).toMatchObject({ message: 'read ECONNRESET' })
  })

  it('is destroyed if the caller destroys it', async () => {
    const stream = new PassThrough()
    const data = await received(stream)
    data.destroy()
    await until(() => stream.destroyed)
  })
})

it('the stream of a 401 that announces too much is the caller’s at once', async () => {
  const data = new PassThrough()
  const response = { status: 401, data, headers: { 'Content-Length': `${MAX_HELD_BYTES + 1}` } }
  const { api, sent } = fakeApi([response])
  expect(await api.get('')).toMatchObject({ status: 401, data })
  expect(sent).toHaveLength(1)
})

describe.each(['before', 'after'])('an interceptor that is registered %s attachAuth', (when) => {
  /** An instance with the token attached and other interceptors. */
  function instance(register: (api: AxiosInstance) => void, config: CreateAxiosDefaults = {}): AxiosInstance {
    const api = axios.create({ baseURL: ground.env.merchantUrl, ...config })
    if (when === 'before') register(api)
    attachAuth(api, ground.tokens)
    if (when === 'after') register(api)
    return api
  }

  it.each([true, false])('can change URL and headers (legacy order of interceptors: %s)', async (legacy) => {
    const transitional = { legacyInterceptorReqResOrdering: legacy } as object
    const register = ({ interceptors }: AxiosInstance) => {
      interceptors.request.use(async (config) => {
        config.headers.set('X-Changed', 'yes')
        return { ...config, baseURL: ground.env.merchantUrl, url: `/changed/${config.url}` } as typeof config
      })
    }
    const { data } = await instance(register, { baseURL: 'http://127.0.0.1:1', transitional }).get('orders')
    expect(data).toMatchObject({ path: '/merchant/changed/orders', headers: { 'x-changed': 'yes' } })
  })

  it('can set an Authorization header, which replaces the token', async () => {
    const api = instance(({ interceptors }) => {
      interceptors.request.use((config) => {
        config.headers.set('Authorization', 'Own one')
        return config
      })
    })
    expect(await rejectionOf(api.get('/x'))).toMatchObject({ status: 401 })
    expect(ground.env.counts.token).toBe(0)
  })

  it('can wrap the adapter', async () => {
    let calls = 0
    const api = instance(({ interceptors }) => {
      interceptors.request.use((config) => {
        const inner = axios.getAdapter(config.adapter)
        config.adapter = (final) => {
          calls += 1
          return inner(final)
        }
        return config
      })
    })
    expect((await api.get('/orders')).status).toBe(200)
    expect(calls).toBe(1)
  })

  it('sees no token in a request and its response', async () => {
    const seen: unknown[] = []
    const note = <T extends { headers: { get(name: string): unknown } }>(config: T): T => {
      seen.push(config.headers.get('authorization') ?? undefined)
      return config
    }
    const api = instance(({ interceptors }) => {
      interceptors.request.use(note)
      interceptors.response.use((response) => ({ ...response, config: note(response.config) }))
    })
    await api.request((await api.get('/orders')).config)
    expect(seen).toEqual([undefined, undefined, undefined, undefined])
  })

  it.each(['http', 'fetch', functionAdapter] as const)('can be axios-retry: %s', async (adapter) => {
    const options = {
      retries: 3,
      retryDelay: () => 0,
      retryCondition: (error: { response?: { status: number } }) => error.response?.status === 503,
    }
    // axios-retry was written against the CommonJS declarations of axios.
    const api = instance((api) => void axiosRetry(api as never, options as never), { adapter })
    ground.env.fail('merchant', { kind: 'status', status: 503 }, { times: 2 })
    reject401()
    ground.env.fail('merchant', { kind: 'status', status: 503 })
    const { data } = await api.put('/orders', { a: 1 }, { headers: { 'idempotency-key': 'k' } })
    expect(data).toMatchObject({ body: '{"a":1}', headers: { 'idempotency-key': 'k' } })
    expect(sentStatuses()).toEqual([503, 503, 401, 503, 200])
    expect(ground.env.counts.token).toBe(2)
  })
})

describe('a call without a token', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  /** An instance whose token endpoint is down. */
  const down = (prepare: (api: AxiosInstance) => void) => {
    const { provider, endpoint } = rig([], { retries: 0, clock: systemClock })
    endpoint.otherwise = status(503)
    const api = axiosWith(provider, { baseURL: MERCHANT_URL })
    prepare(api)
    return { endpoint, call: rejectionOf(api.get('/42')) }
  }

  it('rejects with an error that has the config of the call, for interceptors that read it', async () => {
    const names: string[] = []
    const { call } = down((api) => {
      api.interceptors.response.use(undefined, (error) => {
        names.push(`${error.config.method} ${error.config.url}`)
        error.config = { ...error.config, url: '/43' }
        throw error
      })
    })
    const error = await call
    expect(names).toEqual(['get /42'])
    expect(error).toMatchObject({ name: 'TokenRequestError', status: 503, config: { url: '/43' } })
    expect(inspect(error) + JSON.stringify(error)).not.toContain('baseURL')
  })

  it('rejects with an error by which a framework steers itself as it is', async () => {
    const steering = Object.assign(new Error('bail out'), { digest: 'DYNAMIC_SERVER_USAGE' })
    const api = axiosWith(provided({ get: () => Promise.reject(steering) }), { baseURL: MERCHANT_URL })
    expect(await rejectionOf(api.get('/42'))).toBe(steering)
    expect(steering).not.toHaveProperty('config')
  })

  it('is repeated by axios-retry, which costs a token request per cooldown', async () => {
    const options = { retries: 3, retryDelay: axiosRetry.exponentialDelay }
    const { call, endpoint } = down((api) => void axiosRetry(api as never, options as never))
    await vi.advanceTimersByTimeAsync(2_000) // the repetitions begin after 0.2, 0.6 and 1.4 s, and a little more
    expect(await call).toMatchObject({ status: 503, config: { 'axios-retry': { retryCount: 3 } } })
    expect(endpoint.count).toBe(2)
  })
})

describe('a config that is sent again', () => {
  it.each(ADAPTERS)('from an error and from a response gets the current token: %s', async (adapter) => {
    ground.env.fail('merchant', { kind: 'status', status: 503 })
    const api = ground.api({ adapter })
    const failed = (await rejectionOf(api.post('/orders', { a: 1 }))) as AxiosError
    const first = await api.request(failed.config ?? {})
    ground.env.revoke()
    const second = await api.request(first.config)
    expect(second.data).toMatchObject({ method: 'POST', path: '/merchant/orders', body: '{"a":1}' })
    expect(second.data.jti).not.toBe(first.data.jti)
  })

  it('by an instance without a token has none', async () => {
    const { config } = await ground.api().get('/orders')
    expect(await rejectionOf(axios.create().request(config))).toMatchObject({ status: 401 })
  })

  it('from a canceled call gets the token of the instance once', async () => {
    const api = ground.api()
    const canceled = await rejectionOf(api.get('/orders', { signal: AbortSignal.abort() }))
    await api.request({ ...(canceled as AxiosError).config, signal: new AbortController().signal })
    expect(ground.events.map(({ type }) => type)).not.toContain('token-withheld')
  })

  it('from a canceled call is sent once, with the token of the instance that sends it', async () => {
    const [first, second] = [fakeApi(), fakeApi()]
    const canceled = await rejectionOf(first.api.get('', { signal: AbortSignal.abort() }))
    const { signal: _, ...config } = (canceled as AxiosError).config as InternalAxiosRequestConfig
    await second.api.request(config)
    expect([...first.sent, ...second.sent]).toEqual([FIRST])
  })
})

describe('a call that waits for a token', () => {
  const get: TokenProvider['getToken'] = (wait) => untilAborted(wait?.signal)
  const renew: TokenProvider['renewToken'] = (_, wait) => untilAborted(wait?.signal)
  /** Starts a call that waits forever: for its first token, or for the renewal after a 401. */
  const waits = {
    'the first token': (config: AxiosRequestConfig) =>
      axiosWith(provided({ get }), { adapter: 'http' }).get(MERCHANT_URL, config),
    'the renewal': (config: AxiosRequestConfig) => {
      const adapter = answering([{ status: 401, data: 'rejected' }])
      return axiosWith(provided({ current, renew }), { adapter }).get(MERCHANT_URL, config)
    },
  }
  type Wait = keyof typeof waits
  const WAITS = Object.keys(waits) as Wait[]

  it.each(WAITS)('is ended by its timeout with axios’ error: %s', async (wait) => {
    const error = await rejectionOf(waits[wait]({ timeout: 20 }))
    expect(error).toBeInstanceOf(AxiosError)
    const message = 'timeout of 20ms exceeded'
    expect(error).toMatchObject({ code: 'ECONNABORTED', message, config: { timeout: 20 } })
  })

  const timedOut = (config: AxiosRequestConfig) =>
    rejectionOf(waits['the first token']({ timeout: 20, ...config }))

  it('is timed out with the message in timeoutErrorMessage', async () => {
    expect(await timedOut({ timeoutErrorMessage: 'late' })).toMatchObject({ message: 'late' })
  })

  it('is timed out with ETIMEDOUT if clarifyTimeoutError says so, and with the fetch adapter', async () => {
    const clarified = await timedOut({ transitional: { clarifyTimeoutError: true } })
    expect(clarified).toMatchObject({ code: 'ETIMEDOUT' })
    for (const adapter of ['fetch', ['xhr', 'fetch']])
      expect(await timedOut({ adapter } as AxiosRequestConfig)).toMatchObject({ code: 'ETIMEDOUT' })
  })

  it('is timed out on an instance without defaults', async () => {
    const api = new axios.Axios({ adapter: 'http' } as never) as AxiosInstance
    attachAuth(api, provided({ get }))
    const error = await rejectionOf(api.get(MERCHANT_URL, { timeout: 20 }))
    expect(error).toMatchObject({ code: 'ECONNABORTED', message: 'timeout of 20ms exceeded' })
  })

  it.each(WAITS)('is canceled by its cancelToken with axios’ error: %s', async (wait) => {
    const { token: cancelToken, cancel } = axios.CancelToken.source()
    const error = rejectionOf(waits[wait]({ cancelToken }))
    await settled()
    cancel('the customer has gone')
    expect(await error).toBeInstanceOf(CanceledError)
    expect(await error).toMatchObject({ code: 'ERR_CANCELED', message: 'the customer has gone' })
  })

  it.each(WAITS)('is canceled by its signal with axios’ error: %s', async (wait) => {
    const abort = new AbortController()
    const error = rejectionOf(waits[wait]({ signal: abort.signal, timeout: 60_000 }))
    await settled()
    abort.abort()
    expect(await error).toBeInstanceOf(CanceledError)
    expect(await error).toMatchObject({ code: 'ERR_CANCELED', config: { url: MERCHANT_URL } })
  })

  it('has all of its timeout again for the send', async () => {
    const adapter = vi.fn(answering())
    await axiosWith(provided({ get: async () => current }), { adapter }).get(MERCHANT_URL, {
      timeout: 60_000,
    })
    expect(adapter.mock.calls).toMatchObject([[{ timeout: 60_000 }]])
  })

  // A timer of Node.js that is too long fires after 1 ms.
  it.each([0, 2 ** 31])('is not ended early by a timeout of %i', async (timeout) => {
    const call = rejectionOf(waits['the first token']({ timeout }))
    expect(await Promise.race([call, sleep(20, 'waits')])).toBe('waits')
  })

  it('leaves no listener on its signal and cancelToken', async () => {
    const { token: cancelToken } = axios.CancelToken.source()
    const { signal } = new AbortController()
    const api = axiosWith(provided(), { adapter: answering() })
    await api.get(MERCHANT_URL, { signal, cancelToken, timeout: 60_000 })
    const { _listeners: listeners } = cancelToken as CancelToken & { _listeners?: unknown[] }
    expect(listeners).toEqual([])
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('a copy of axios', () => {
  it('that was loaded by require() is called with errors of its own classes', async () => {
    const copy = requiredCopy()
    expect(copy.AxiosError).not.toBe(AxiosError)
    const get: TokenProvider['getToken'] = (wait) => untilAborted(wait?.signal)
    const api = axiosWith(provided({ get }), { baseURL: MERCHANT_URL }, { copy })
    expect(await rejectionOf(api.get('', { timeout: 1 }))).toBeInstanceOf(copy.AxiosError)
    const canceled = await rejectionOf(api.get('', { signal: AbortSignal.timeout(1) }))
    expect(canceled).toBeInstanceOf(copy.CanceledError)
    const failed = await rejectionOf(axiosWith(provided(), {}, { copy }).get('http://127.0.0.1:1'))
    expect(failed).toBeInstanceOf(copy.AxiosError)
  })

  it('of another version works, and isAxiosError holds for its errors', async () => {
    const copy = unknownCopy()
    for (const adapter of ADAPTERS) {
      reject401()
      const api = copy.create({ baseURL: ground.env.merchantUrl, adapter })
      attachAuth(api, ground.provider())
      expect((await api.post('/1', { a: 1 })).status).toBe(200)
      ground.env.fail('merchant', { kind: 'status', status: 500 })
      expect(copy.isAxiosError(await rejectionOf(api.get('/2')))).toBe(true)
      const get: TokenProvider['getToken'] = (wait) => untilAborted(wait?.signal)
      const late = axiosWith(provided({ get }), { timeout: 1 }, { copy }).get(MERCHANT_URL)
      expect(copy.isAxiosError(await rejectionOf(late))).toBe(true)
    }
    expect(sentStatuses()).toEqual([401, 200, 500, 401, 200, 500])
  })

  it('may have its default instance attached', async () => {
    const copy = unknownCopy()
    attachAuth(copy, ground.tokens)
    expect((await copy(`${ground.env.merchantUrl}/y`)).status).toBe(200)
  })
})

it('a Unix socket gets no token, even with the URL of an API', async () => {
  const seen: unknown[] = []
  const server = createServer(({ headers }, response) => {
    seen.push(headers.authorization)
    response.end()
  })
  const name = `merchant-auth-${crypto.randomUUID()}`
  const socketPath = process.platform === 'win32' ? `//./pipe/${name}` : join(tmpdir(), `${name}.sock`)
  await new Promise<void>((resolve) => void server.listen(socketPath, resolve))
  await ground.api({ adapter: 'http', socketPath }).get('/x')
  server.closeAllConnections()
  server.close()
  expect([seen, ground.env.counts.token]).toEqual([[undefined], 0])
})

it('a call of an adapter of the caller whose URL cannot be read is settled as it is', async () => {
  const adapter = (config: object) => Promise.resolve({ config, status: 401, data: 'own', headers: {} })
  const api = ground.api({ adapter: adapter as never, baseURL: '', validateStatus: null })
  expect(await api.get('x')).toMatchObject({ status: 401, data: 'own' })
})

// A proxy is a route that the caller chose, not a destination; over https it would see only the host.
it("axios' proxy gets the token over http only in requests to the API", async () => {
  await using proxy = await scripted(({ path }, response) => {
    if (path.endsWith('/to')) response.writeHead(302, { location: 'http://127.0.0.1:1/merchant/y' })
    response.end()
  })
  const { hostname: host, port } = new URL(proxy.url)
  const { origin } = new URL(ground.env.merchantUrl)
  const api = ground.api({ adapter: 'http', proxy: { protocol: 'http', host, port: Number(port) } })
  for (const path of ['/merchant/x', '/x', '/merchant/to']) await api.get(origin + path)
  expect(proxy.seen.map(({ path, headers }) => [path, 'authorization' in headers])).toEqual([
    [`${origin}/merchant/x`, true],
    [`${origin}/x`, false],
    [`${origin}/merchant/to`, true],
    ['http://127.0.0.1:1/merchant/y', false],
  ])
})

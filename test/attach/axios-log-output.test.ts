// What callers of axios can log shows no token: inspect at any depth, JSON, toJSON, structuredClone, a spread. And it still works.
import { once } from 'node:events'
import { Agent, createServer as createHttpServer, globalAgent, type ServerResponse } from 'node:http'
import { createServer } from 'node:http2'
import {
  createServer as createHttpsServer,
  Agent as HttpsAgent,
  globalAgent as httpsGlobalAgent,
} from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { inspect } from 'node:util'
import axios, {
  type AxiosAdapter,
  type InternalAxiosRequestConfig as AxiosConfig,
  AxiosError,
  type AxiosInstance,
  type AxiosRequestConfig,
  type AxiosResponse,
  type CreateAxiosDefaults,
} from 'axios'
import axiosRetry from 'axios-retry'
import { attachAuth } from 'merchant-auth/axios'
import * as undici from 'undici'
import { describe, expect, it } from 'vitest'
import { certificate } from '../cli/certificates.ts'
import {
  ADAPTERS,
  functionAdapter,
  listening,
  rejectionOf,
  scripted,
  until,
  useGround,
} from '../support/ground.ts'
import { findLeaks } from '../support/leaks.ts'
import { provided, token } from '../support/provided.ts'
import { secrets } from '../support/recorded.ts'
import { axiosWith } from './drivers.ts'

const ground = useGround()
const fail = (fault: Parameters<typeof ground.env.fail>[1], times = 1) =>
  ground.env.fail('merchant', fault, { times })

/** Searches a response or an error, and its parts, as callers log them. */
function expectNoToken(outcome: unknown): void {
  const { config, response, cause, headers, toJSON } = outcome as AxiosError & AxiosResponse
  const json = typeof toJSON === 'function' ? toJSON.call(outcome) : undefined
  const spread = { ...(outcome as object) }
  const configs = { config, copiedConfig: { ...config }, fetchOptions: config?.fetchOptions }
  const parts = { whole: outcome, spread, ...configs, response, cause, headers, json }
  for (const [name, part] of Object.entries(parts)) expect(findLeaks(part, secrets), name).toEqual([])
}

async function read({ data }: AxiosResponse): Promise<void> {
  for await (const _ of data);
}

it('the search finds a token in an error of plain axios', async () => {
  const { value } = await ground.tokens.getToken()
  fail({ kind: 'status', status: 500 })
  const headers = { Authorization: `Bearer ${value}` }
  const error = await rejectionOf(axios.get(ground.env.merchantUrl, { headers }))
  expect(findLeaks(error, [value])).toEqual(['inspect', 'JSON'])
})

const EVERY_ADAPTER: [string, NonNullable<CreateAxiosDefaults['adapter']>][] = [
  ['http', 'http'],
  ['fetch', 'fetch'],
  ['a function', functionAdapter],
  ['another axios call', (config) => axios({ ...config, adapter: 'http' })],
]

describe.each(EVERY_ADAPTER)('with the adapter %s, no token is in', (_, adapter) => {
  const api = (config: CreateAxiosDefaults = {}) => ground.api({ adapter, ...config })

  it('a response, whose request still works', async () => {
    const response = await api().post('/orders', { a: 1 })
    expectNoToken(response)
    for (const part of ['res', 'socket']) expect(findLeaks(response.request[part], secrets), part).toEqual([])
    expect(response.request).toBeDefined()
    expect(Object.keys(response)).not.toContain('request')
    expect(String(response.request.url ?? response.request.path)).toMatch(/\/merchant\/orders$/)
  })

  it('an error with a response, whose request still works', async () => {
    fail({ kind: 'status', status: 500, body: { error: 'x' } })
    const error = (await rejectionOf(api().post('/orders', { a: 1 }))) as AxiosError
    expectNoToken(error)
    expect(error.request).toBe(error.response?.request)
    expect(error).toMatchObject({ config: { url: '/orders' }, response: { data: { error: 'x' } } })
    expect((error.toJSON() as AxiosError).config).not.toBe(error.config) // callers may change it
  })

  it('an error without a response, which still has its request', async () => {
    fail({ kind: 'reset' })
    const error = (await rejectionOf(api().get('/orders'))) as AxiosError
    expectNoToken(error)
    expect([error.request === undefined, error.response]).toEqual([false, undefined])
  })

  it('a response or an error whose token is in another header', async () => {
    ground.env.configure({ header: 'X-Custom', scheme: '' })
    const custom = ground.api({ adapter }, { header: 'X-Custom', scheme: '' })
    expectNoToken(await custom.get('/orders'))
    fail({ kind: 'status', status: 500 })
    expectNoToken(await rejectionOf(custom.get('/orders')))
  })

  it('the 401 to the second send of a call', async () => {
    ground.env.configure({ rejectAllTokens: true })
    expectNoToken(await rejectionOf(api().get('/orders')))
    expect(ground.sent()).toHaveLength(2)
  })

  it('a redirect that is not followed', async () => {
    fail({ kind: 'redirect', location: '/merchant/moved' })
    expectNoToken(await api({ maxRedirects: 0, validateStatus: null }).get('/orders'))
  })

  it('an error after a redirect', async () => {
    fail({ kind: 'redirect', location: '/merchant/moved' })
    fail({ kind: 'status', status: 500 })
    expectNoToken(await rejectionOf(api().get('/orders')))
  })

  it('the error of a call that is aborted', async () => {
    fail({ kind: 'hang' })
    const abort = new AbortController()
    const error = rejectionOf(api().get('/orders', { signal: abort.signal }))
    await until(() => ground.sent().length === 1)
    abort.abort()
    expectNoToken(await error)
  })

  it('the error of a call that times out', async () => {
    await ground.tokens.getToken()
    fail({ kind: 'hang' })
    expectNoToken(await rejectionOf(api().get('/orders', { timeout: 50 })))
  })

  it('the error of a response beyond maxContentLength', async () => {
    fail({ kind: 'huge-body', bytes: 100_000 })
    expectNoToken(await rejectionOf(api().get('/orders', { maxContentLength: 1_000 })))
  })

  it('an error that transformResponse throws with the config', async () => {
    const error = await rejectionOf(
      api().get('/orders', {
        transformResponse() {
          throw Object.assign(new TypeError('no'), { config: this })
        },
      }),
    )
    expectNoToken(error)
  })

  it('the errors that axios-retry sees', async () => {
    const errors: unknown[] = []
    const retrying = api()
    axiosRetry(retrying as never, {
      retries: 2,
      retryDelay: () => 0,
      onRetry: (_count: number, error: unknown) => void errors.push(error),
    })
    fail({ kind: 'status', status: 503 }, 3)
    errors.push(await rejectionOf(retrying.get('/orders')))
    expect(errors).toHaveLength(3)
    for (const error of errors) expectNoToken(error)
  })

  it('a config that is sent again', async () => {
    fail({ kind: 'status', status: 503 })
    const error = (await rejectionOf(api().get('/orders'))) as AxiosError
    const response = await api().request(error.config ?? {})
    for (const one of [error, response]) expectNoToken(one)
  })
})

it('an error that is its own cause can be thrown by an adapter', async () => {
  const circular = new AxiosError('no')
  Object.assign(circular, { cause: circular, response: circular })
  const adapter: CreateAxiosDefaults['adapter'] = () => Promise.reject(circular)
  expect(await rejectionOf(ground.api({ adapter }).get('/orders'))).toBe(circular)
})

it('an error of an adapter that wraps the error of axios shows no token', async () => {
  fail({ kind: 'status', status: 500 })
  const wrapping: CreateAxiosDefaults['adapter'] = (config) =>
    functionAdapter(config).catch((reason: Error) => {
      throw AxiosError.from(reason, 'E_MINE', config)
    })
  const error = await rejectionOf(ground.api({ adapter: wrapping }).get('/orders'))
  expect(error).toMatchObject({ code: 'E_MINE' })
  expectNoToken(error)
})

it('an error of an adapter shows no token five causes below it', async () => {
  fail({ kind: 'status', status: 500 })
  const wrapping: CreateAxiosDefaults['adapter'] = (config) =>
    functionAdapter(config).catch((reason: Error) => {
      throw [1, 2, 3, 4, 5].reduce<Error>((cause) => new Error('', { cause }), reason)
    })
  expectNoToken(await rejectionOf(ground.api({ adapter: wrapping }).get('/orders')))
})

describe.each(ADAPTERS)('a streamed response of the adapter %s shows no token', (adapter) => {
  const stream = (config: AxiosRequestConfig = {}) =>
    ground.api({ adapter }).get('/orders', { responseType: 'stream', ...config })

  it('before and after it is read', async () => {
    const response = await stream()
    expectNoToken(response)
    expectNoToken(response.data)
    await read(response)
    expectNoToken(response)
    expectNoToken(response.data)
  })

  it('in an error with status 500', async () => {
    fail({ kind: 'text', body: 'sorry', status: 500 })
    const error = (await rejectionOf(stream())) as AxiosError
    expectNoToken(error)
    await read(error.response as AxiosResponse)
  })

  it('in a 401 after a renewal that failed', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    ground.env.fail('token', { kind: 'status', status: 400 })
    const error = (await rejectionOf(stream())) as AxiosError
    expect(error).toMatchObject({ status: 401 })
    expectNoToken(error)
    await read(error.response as AxiosResponse)
  })

  it('in the error of a truncated body', async () => {
    fail({ kind: 'truncated-body' })
    const response = await stream()
    expectNoToken(await rejectionOf(read(response)))
    expectNoToken(response)
  })

  it('in the error of an abort while it is read', async () => {
    fail({ kind: 'hang', at: 'body' })
    const abort = new AbortController()
    const response = await stream({ signal: abort.signal })
    const error = rejectionOf(read(response))
    abort.abort()
    expectNoToken(await error)
    expectNoToken(response)
  })

  it('in the error of a body beyond maxContentLength', async () => {
    fail({ kind: 'huge-body', bytes: 100_000, gzip: true })
    const response = await stream({ maxContentLength: 1_000 })
    expectNoToken(await rejectionOf(read(response)))
  })
})

// On Node.js 24 this getter stores the socket on the response under a symbol, and the socket leads to the request.
it('a streamed response shows no token after its data.signal was read', async () => {
  const response = await ground.api({ adapter: 'http' }).get('/orders', { responseType: 'stream' })
  void response.data.signal
  expectNoToken(response)
  response.data.resume()
})

// A TLS socket has the options of the request for which it was opened.
it.each([0, 5])('a streamed response over TLS shows no token, with maxRedirects %i', async (maxRedirects) => {
  const { key, cert } = await certificate('localhost')
  const respond = (_: unknown, response: ServerResponse) => void response.write('begun')
  await using server = await listening(createHttpsServer({ key, cert }, respond))
  const baseURL = server.url.replace('http://127.0.0.1', 'https://localhost')
  const tokens = provided({ current: token('the.one.token'), apiUrls: [baseURL] })
  token('another.token')
  const httpsAgent = new HttpsAgent({ ca: cert, keepAlive: true })
  const api = axiosWith(tokens, { baseURL, adapter: 'http', httpsAgent, maxRedirects })
  const response = await api.get('/orders', { responseType: 'stream' })
  expect(response.data.socket.authorized).toBe(true)
  expectNoToken(response)
  expectNoToken(response.data)
  response.data.destroy()
})

it('responses and errors over HTTP/2 show no token', async () => {
  await using server = await listening(
    createServer((request, response) => {
      response.writeHead(request.url === '/fails' ? 500 : 200).end('{}')
    }),
  )
  token('another.token')
  const tokens = provided({ current: token('the.one.token'), apiUrls: [server.url] })
  const api = axiosWith(tokens, { baseURL: server.url, adapter: 'http', httpVersion: 2 })
  expectNoToken(await api.get('/orders'))
  expectNoToken(await rejectionOf(api.get('/fails')))
  const streamed = await api.get('/orders', { responseType: 'stream' })
  expectNoToken(streamed)
  expectNoToken(streamed.data)
  expect(Object.keys(streamed.data)).not.toContain('toJSON') // it is the request, too
  streamed.data.resume()
})

describe.each(ADAPTERS)('an uploaded stream of the adapter %s shows no token', (adapter) => {
  it.each([200, 500])('on the config of a call that ends with %i', async (status) => {
    fail({ kind: 'status', status })
    const api = ground.api({ adapter, validateStatus: () => true })
    const body = Readable.from([Buffer.from('x')])
    const response = await api.post('/orders', body)
    expect(response.config.data).toBe(body)
    expectNoToken(response)
    expectNoToken(body)
  })

  it('while it is still sent', async () => {
    await using server = await listening(
      createHttpServer((_, response) => response.writeHead(500).end('too early')),
    )
    const tokens = provided({ current: token('the.one.token'), apiUrls: [server.url] })
    token('another.token')
    const body = new PassThrough()
    body.write('x')
    const error = await rejectionOf(axiosWith(tokens, { adapter }).post(server.url, body))
    expect(error).toMatchObject({ status: 500 })
    expectNoToken(error)
    expectNoToken(body)
    body.destroy()
  })

  it('in the error of a connection that is reset', async () => {
    fail({ kind: 'reset' })
    const error = await rejectionOf(ground.api({ adapter }).post('/x', Readable.from([Buffer.from('x')])))
    expectNoToken(error)
  })
})

it('an uploaded stream that waits for its request to drain shows no token', async () => {
  await using server = await listening(
    createHttpServer((_, response) => response.writeHead(413).end('too early')),
  )
  const tokens = provided({ current: token('the.one.token'), apiUrls: [server.url] })
  token('another.token')
  const body = Readable.from(Array.from({ length: 100 }, () => Buffer.alloc(65_536)))
  const api = axiosWith(tokens, { adapter: 'http', maxRedirects: 0 })
  expectNoToken(await rejectionOf(api.post(server.url, body)))
  body.destroy()
})

/** An agent that hands its calls to another one, as those of the package proxy-agent do. */
function outerAgent(): Agent {
  const inner = new Agent({ keepAlive: true })
  const addRequest = (...request: unknown[]): void => Reflect.get(inner, 'addRequest').apply(inner, request)
  return Object.assign(new Agent(), { inner, addRequest, destroy: () => inner.destroy() })
}

/** The config of an axios with this dispatcher, whose fetch is that of the same undici. */
function withDispatcher(dispatcher: undici.Dispatcher): CreateAxiosDefaults {
  const { fetch, Request, Response } = undici
  return { adapter: 'fetch', env: { fetch, Request, Response }, fetchOptions: { dispatcher } } as never
}

// A call in flight has its token in a socket, and agents lead to their sockets.
describe.each<[string, () => CreateAxiosDefaults]>([
  ['the default agent', () => ({ adapter: 'http' })],
  ["the caller's keep-alive agent", () => ({ adapter: 'http', httpAgent: new Agent({ keepAlive: true }) })],
  ["Node's own agent, given by the caller", () => ({ adapter: 'http', httpAgent: globalAgent })],
  ["the caller's agent with agents of its own", () => ({ adapter: 'http', httpAgent: outerAgent() })],
  ["the caller's dispatcher", () => withDispatcher(new undici.Agent())],
])('while another call is in flight on %s, no token is in', (_, makeConfig) => {
  /** Runs `act` while a call of the instance is in flight, and searches what it resolves with. */
  async function inFlight(act: (api: AxiosInstance) => Promise<unknown>): Promise<void> {
    const config = makeConfig()
    const api = ground.api(config)
    fail({ kind: 'hang' })
    const abort = new AbortController()
    const other = rejectionOf(api.get('/hangs', { signal: abort.signal }))
    await until(() => ground.sent().some(({ path }) => path.endsWith('/hangs')))
    expectNoToken(await act(api))
    abort.abort()
    await other
    config.httpAgent?.destroy()
  }

  /** Runs `search` while a further call is in flight, which has the socket of the one before, and returns its error. */
  async function whileNext(api: AxiosInstance, search: () => void): Promise<unknown> {
    fail({ kind: 'hang' })
    const abort = new AbortController()
    const next = rejectionOf(api.get('/next', { signal: abort.signal }))
    await until(() => ground.sent().some(({ path }) => path.endsWith('/next')))
    search()
    abort.abort()
    return await next
  }

  it('a response', async () => {
    await inFlight((api) => api.get('/orders'))
  })

  it('an error with a response', async () => {
    await inFlight(async (api) => {
      fail({ kind: 'status', status: 500 })
      return await rejectionOf(api.get('/orders'))
    })
  })

  it('the 401 to the second send of a call', async () => {
    await inFlight(async (api) => {
      ground.env.configure({ rejectAllTokens: true })
      return await rejectionOf(api.get('/orders'))
    })
  })

  it('an error after a redirect', async () => {
    await inFlight(async (api) => {
      fail({ kind: 'redirect', location: '/merchant/moved' })
      fail({ kind: 'status', status: 500 })
      return await rejectionOf(api.get('/orders'))
    })
  })

  it('the error of a call that times out, also while it waits for a token', async () => {
    await inFlight(async (api) => {
      fail({ kind: 'hang' })
      expectNoToken(await rejectionOf(api.get('/orders', { timeout: 50 })))
      ground.env.fail('token', { kind: 'hang' })
      ground.env.revoke()
      return await rejectionOf(api.get('/orders', { timeout: 50 }))
    })
  })

  it('a request that is read when another call has its socket', async () => {
    await inFlight(async (api) => {
      const { request } = await api.get('/orders')
      return await whileNext(api, () => expectNoToken({ request }))
    })
  })

  it.each([200, 500])(
    'a stream with status %i that was read, when another call has its socket',
    async (status) => {
      await inFlight(async (api) => {
        fail({ kind: 'text', body: 'short', status })
        const call = api.get('/orders', { responseType: 'stream' })
        const response = await call.catch((error: AxiosError) => error.response as AxiosResponse)
        await read(response)
        return await whileNext(api, () => expectNoToken(response.data))
      })
    },
  )

  it('a streamed response', async () => {
    await inFlight(async (api) => {
      const response = await api.get('/orders', { responseType: 'stream' })
      expectNoToken(response.data)
      return response
    })
  })

  it('a streamed response that axios decompresses', async () => {
    await inFlight(async (api) => {
      fail({ kind: 'huge-body', bytes: 100_000, gzip: true })
      const response = await api.get('/orders', { responseType: 'stream' })
      expectNoToken(response.data)
      await read(response)
      return response
    })
  })

  it('the late error of a streamed response', async () => {
    await inFlight(async (api) => {
      fail({ kind: 'huge-body', bytes: 100_000, gzip: true })
      const response = await api.get('/orders', { responseType: 'stream', maxContentLength: 1_000 })
      const error = (await rejectionOf(read(response))) as AxiosError
      expect(error.request).toBeDefined()
      return error
    })
  })

  it('the error of a streamed response that is aborted', async () => {
    await inFlight(async (api) => {
      fail({ kind: 'hang', at: 'body' })
      const abort = new AbortController()
      const response = await api.get('/orders', { responseType: 'stream', signal: abort.signal })
      const error = rejectionOf(read(response))
      abort.abort()
      return await error
    })
  })

  it('an error while a stream is still sent', async () => {
    await using server = await listening(
      createHttpServer((_, response) => response.writeHead(500).end('too early')),
    )
    await inFlight(async (api) => {
      const body = new PassThrough()
      body.write('x')
      const error = await rejectionOf(api.post(server.url, body))
      body.destroy()
      return error
    })
  })

  it.each([
    ['before it is sent', () => AbortSignal.abort()],
    ['while it waits for its response', () => AbortSignal.timeout(50)],
  ])('an error of a call that is canceled %s', async (_when, signal) => {
    await inFlight(async (api) => {
      fail({ kind: 'hang' })
      return await rejectionOf(api.get('/orders', { signal: signal() }))
    })
  })

  it('a response and an error of another server', async () => {
    await using elsewhere = await scripted((_, response) => void response.writeHead(500).end())
    await inFlight((api) => api.get(elsewhere.url, { validateStatus: null }))
    await inFlight((api) => rejectionOf(api.get(elsewhere.url)))
    const adapter: AxiosAdapter = (config) => axios.getAdapter('http')({ ...config })
    await inFlight((api) => api.get(elsewhere.url, { adapter, validateStatus: null }))
    await inFlight((api) => rejectionOf(api.get(elsewhere.url, { adapter })))
  })
})

const SETTERS: [string, (config: AxiosConfig, agents: object) => AxiosConfig][] = [
  ['sets', (config, agents) => Object.assign(config, agents)],
  ['sets on a copy of the config', (config, agents) => ({ ...config, ...agents })],
]

it('JSON of the error of a canceled call breaks circles in its config, as on the plain client', async () => {
  class Circle {
    readonly name = 'mine'
    readonly self = this
  }
  const jsonOf = async (attach: boolean) => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    if (attach) attachAuth(api, ground.tokens)
    const abort = new AbortController()
    api.interceptors.request.use(async (config) => {
      abort.abort()
      return config
    })
    const data = new Circle()
    return JSON.stringify(await rejectionOf(api.post('/orders', data, { signal: abort.signal })))
  }
  const [plain, ours] = [await jsonOf(false), await jsonOf(true)]
  expect(JSON.parse(ours).config.data).toEqual(JSON.parse(plain).config.data)
})

describe.each(['before', 'after'])('while a first call is in flight, no token is in an error', (when) => {
  it.each(SETTERS)(`by an agent that an interceptor, registered ${when} attachAuth, %s`, async (_, set) => {
    const httpAgent = new Agent({ keepAlive: true })
    const api = axios.create({ baseURL: ground.env.merchantUrl, adapter: 'http' })
    const seen: unknown[] = []
    api.interceptors.response.use(null, (error) => {
      seen.push(error)
      throw error
    })
    const abort = new AbortController()
    let isBroken = false
    const intercept = async (config: AxiosConfig): Promise<AxiosConfig> => {
      if (config.url === '/canceled') abort.abort()
      const own = set(config, { httpAgent })
      if (isBroken) throw new AxiosError('no', 'E_BREAKER', own)
      return own
    }
    if (when === 'before') api.interceptors.request.use(intercept)
    attachAuth(api, ground.tokens)
    if (when === 'after') api.interceptors.request.use(intercept)
    fail({ kind: 'hang' })
    const end = new AbortController()
    const other = rejectionOf(api.get('/hangs', { signal: end.signal }))
    await until(() => ground.sent().length === 1)
    await rejectionOf(api.get('/orders', { signal: AbortSignal.abort() }))
    await rejectionOf(api.get('/canceled', { signal: abort.signal }))
    isBroken = true
    await rejectionOf(api.get('/orders'))
    isBroken = false
    fail({ kind: 'status', status: 500 })
    await rejectionOf(api.get('/orders'))
    const codes = ['ERR_CANCELED', 'ERR_CANCELED', 'E_BREAKER', 'ERR_BAD_RESPONSE']
    expect(seen).toMatchObject(codes.map((code) => ({ code, config: { httpAgent } })))
    for (const error of seen) expectNoToken(error)
    end.abort()
    await other
    httpAgent.destroy()
  })
})

it.each([
  ["the caller's https agent", () => new HttpsAgent({ keepAlive: true })],
  ["Node's own https agent, given by the caller", () => httpsGlobalAgent],
])('while another call is in flight on %s, no token is in an error', async (_, makeAgent) => {
  const silent = createTcpServer() // the call waits for TLS
  await using server = await listening(silent)
  const baseURL = server.url.replace('http:', 'https:')
  const tokens = provided({ current: token('the.one.token'), apiUrls: [baseURL] })
  const api = axiosWith(tokens, { baseURL, adapter: 'http', httpsAgent: makeAgent() })
  const abort = new AbortController()
  const other = rejectionOf(api.get('/waits', { signal: abort.signal }))
  await once(silent, 'connection')
  expectNoToken(await rejectionOf(api.get('/orders', { signal: AbortSignal.abort() })))
  abort.abort()
  expectNoToken(await other)
})

it('a request shows what was called when it is logged', async () => {
  const { request } = await ground.api({ adapter: 'http' }).get('/orders')
  const { host } = new URL(ground.env.merchantUrl)
  expect(inspect(request)).toContain("path: '/merchant/orders'")
  expect(JSON.parse(JSON.stringify(request))).toMatchObject({ method: 'GET', path: '/merchant/orders' })
  expect(request._header).toContain(`Host: ${host}`)
  expect(request._header).toContain('Authorization: [hidden]')
  expect(request.getHeader('authorization')).toBe('[hidden]')
  expectNoToken(request.getHeaders())
})

it('a Request of fetch shows what was called when it is logged', async () => {
  const { request } = await ground.api({ adapter: 'fetch' }).get('/orders')
  const called = { method: 'GET', url: `${ground.env.merchantUrl}/orders` }
  expect(JSON.parse(JSON.stringify(request))).toEqual(called)
  expect(inspect(request)).toBe(inspect(called))
  expectNoToken(request.headers)
})

it('the options of a request show no token, whatever case an undefined header of the caller has', async () => {
  const headers = { authorization: undefined }
  const { request } = await ground.api({ adapter: 'http' }).get('/orders', { headers } as never)
  const shown = request._redirectable?._options ?? request._options
  expect(Object.keys(shown.headers)).toContain('authorization')
  expectNoToken(shown)
})

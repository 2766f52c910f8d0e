// What callers of axios can log about their calls contains no token and still works, however they call.
import { Agent } from 'node:http'
import { createServer } from 'node:http2'
import { Readable } from 'node:stream'
import { inspect } from 'node:util'
import axios, {
  type AxiosAdapter,
  AxiosError,
  type AxiosInstance,
  type AxiosResponse,
  type CreateAxiosDefaults,
} from 'axios'
import axiosRetry from 'axios-retry'
import { describe, expect, it } from 'vitest'
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
import { outcomes, secrets } from '../support/recorded.ts'
import { axiosWith } from './drivers.ts'

const ground = useGround()

/** Where an error or a response contains a secret: as a whole, and in the log output of each part. */
function leaksOf(outcome: unknown): string[] {
  expect(secrets.size).toBeGreaterThan(1) // the client secret and at least one token
  const { config, response, cause, headers, data, toJSON } = outcome as Record<string, unknown>
  const answer = (response ?? {}) as Record<string, unknown>
  const json = typeof toJSON === 'function' ? toJSON.call(outcome) : undefined
  const parts = [config, response, cause, headers, json, answer['config'], answer['headers']]
  for (const body of [data, answer['data']]) if (typeof body !== 'string') parts.push(body)
  const logged = parts.flatMap((part) => [
    inspect(part, { depth: Infinity }),
    inspect(part, { depth: 6, showHidden: true, customInspect: false }),
  ])
  return [...findLeaks(outcome, secrets), ...findLeaks(logged, secrets)]
}

function expectNoToken(...all: unknown[]): void {
  expect(all.flatMap(leaksOf)).toEqual([])
  outcomes.length = 0 // already searched here
}

async function read({ data }: AxiosResponse): Promise<void> {
  for await (const _ of data);
}

/** Something that happens to a caller; resolves with the errors and responses that the caller gets. */
type Scenario = (api: AxiosInstance, own: AxiosAdapter) => Promise<unknown>

const fail = (fault: Parameters<typeof ground.env.fail>[1], times = 1) =>
  ground.env.fail('merchant', fault, { times })

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'validateStatus that accepts every status, a 500 and a 401': async (api) => {
    fail({ kind: 'status', status: 500 })
    const first = await api.get('/orders', { validateStatus: () => true })
    ground.env.configure({ rejectAllTokens: true })
    return [first, await api.get('/orders', { validateStatus: null })]
  },
  'responseType arraybuffer, a 200 and a 500': async (api) => {
    const good = await api.get('/orders', { responseType: 'arraybuffer' })
    fail({ kind: 'text', body: 'sorry', status: 500 })
    return [good, await rejectionOf(api.get('/orders', { responseType: 'arraybuffer' }))]
  },
  'responseType stream, a 200 and a 500': async (api) => {
    const good = await api.get('/orders', { responseType: 'stream' })
    expectNoToken(good)
    await read(good)
    fail({ kind: 'text', body: 'sorry', status: 500 })
    const error = (await rejectionOf(api.get('/orders', { responseType: 'stream' }))) as AxiosError
    expectNoToken(error)
    await read(error.response as AxiosResponse)
    return [good, error]
  },
  'responseType stream, a truncated body': async (api) => {
    fail({ kind: 'truncated-body' })
    const answer = await api.get('/orders', { responseType: 'stream' })
    return [await rejectionOf(read(answer)), answer]
  },
  'responseType stream, aborted while it is read': async (api) => {
    fail({ kind: 'hang', at: 'body' })
    const abort = new AbortController()
    const answer = await api.get('/orders', { responseType: 'stream', signal: abort.signal })
    const error = rejectionOf(read(answer))
    abort.abort()
    return [await error, answer]
  },
  'responseType stream, gzip, beyond maxContentLength': async (api) => {
    fail({ kind: 'huge-body', bytes: 100_000, gzip: true })
    const answer = await api.get('/orders', { responseType: 'stream', maxContentLength: 1_000 })
    return [await rejectionOf(read(answer)), answer]
  },
  'maxRedirects 0': (api) => {
    fail({ kind: 'redirect', location: '/merchant/moved' })
    return rejectionOf(api.get('/orders', { maxRedirects: 0 }))
  },
  'canceled by an interceptor, after a 200': async (api) => {
    const { config } = await api.get('/orders')
    api.interceptors.request.use((given) => Object.assign(given, { signal: AbortSignal.abort() }))
    return await rejectionOf(api.request(config))
  },
  'an adapter for one request, and a 500': (api, own) => {
    fail({ kind: 'status', status: 500 })
    return rejectionOf(api.get('/orders', { adapter: (config) => own(config) }))
  },
  'an adapter that copies the config, and a reset': (api, own) => {
    fail({ kind: 'reset' })
    const adapter: AxiosAdapter = (config) => own({ ...config, headers: config.headers.concat() })
    return rejectionOf(api.get('/orders', { adapter }))
  },
  'an adapter that wraps an error in an AxiosError': async (api, own) => {
    fail({ kind: 'status', status: 500 })
    const adapter: AxiosAdapter = (config) =>
      own(config).catch((reason: Error) => {
        throw AxiosError.from(reason, 'E_MINE', config)
      })
    const error = await rejectionOf(api.get('/orders', { adapter }))
    expect(error).toMatchObject({ code: 'E_MINE' })
    return error
  },
  'error.config sent again, answered with a 503 and a 200': async (api) => {
    fail({ kind: 'status', status: 503 }, 2)
    const headers = { 'x-mine': '1' }
    const first = (await rejectionOf(api.post('/orders', { amount: 1 }, { headers }))) as AxiosError
    const second = (await rejectionOf(api.request(first.config ?? {}))) as AxiosError
    const third = await api.request(second.config ?? {})
    ground.env.revoke()
    const last = await api.request(third.config)
    expect(last.data).toMatchObject({ method: 'POST', path: '/merchant/orders', headers })
    expect(last.data.jti).not.toBe(third.data.jti)
    expect(last.config.adapter).toEqual(third.config.adapter)
    expect(await rejectionOf(axios.create().request(last.config))).toMatchObject({ status: 401 })
    return [first, second, third, last]
  },
  'axios-retry, and three 503s': async (api) => {
    const errors: unknown[] = []
    axiosRetry(api, { retries: 2, retryDelay: () => 0, onRetry: (_, error) => void errors.push(error) })
    fail({ kind: 'status', status: 503 }, 3)
    return [await rejectionOf(api.get('/orders')), ...errors]
  },
  'transformResponse that throws': (api) =>
    rejectionOf(
      api.get('/orders', {
        transformResponse() {
          throw Object.assign(new TypeError('no'), { config: this })
        },
      }),
    ),
  'a stream as the body': async (api) => await api.post('/orders', Readable.from([Buffer.from('x')])),
}

describe.for(ADAPTERS)('the log output of axios %s callers contains no token:', (adapter) => {
  it.for(Object.entries(SCENARIOS))('%s', async ([, run]) => {
    const outcome = await run(ground.api({ adapter }), axios.getAdapter(adapter))
    expectNoToken(...(Array.isArray(outcome) ? outcome : [outcome]))
  })
})

describe.for<[string, CreateAxiosDefaults['adapter']]>([
  ['http', 'http'],
  ['fetch', 'fetch'],
  ['a function', functionAdapter],
])('responses and errors of axios with the adapter %s', ([name, adapter]) => {
  it.each(['Authorization', 'X-Custom'])(
    'keep their usable parts and expose no token in log output: header %s',
    async (header) => {
      ground.env.configure({ header })
      const api = ground.api({ adapter } as CreateAxiosDefaults, { header })
      const answer = await api.post('/orders', { a: 1 })
      fail({ kind: 'status', status: 500, body: { error: 'x' } })
      const failed = (await rejectionOf(api.post('/orders', { a: 1 }))) as AxiosError
      fail({ kind: 'reset' })
      const noAnswer = (await rejectionOf(api.get('/orders'))) as AxiosError
      for (const { request } of [answer, failed, failed.response as AxiosResponse, noAnswer])
        expect(request).toBeDefined()
      expect(noAnswer.response).toBeUndefined()
      expect(failed.request).toBe(failed.response?.request)
      if (name !== 'fetch') expect(answer.request.path).toBe('/merchant/orders')
      expectNoToken(answer, failed, noAnswer)
      for (const { config } of [answer, failed, noAnswer]) {
        // A key without a value would get in the way if the headers are reused for another call.
        const names = Object.keys(config?.headers ?? {}).map((key) => key.toLowerCase())
        expect(names).not.toContain(header.toLowerCase())
      }
    },
  )
})

it('log output contains no token over HTTP/2', async () => {
  await using server = await listening(
    createServer((request, response) => {
      response.writeHead(request.url?.endsWith('rejected') ? 500 : 200).end('{}')
    }),
  )
  const baseURL = server.url
  token('another.token')
  const tokens = provided({ current: token('the.one.token'), apiUrls: [baseURL] })
  const api = axiosWith(tokens, { baseURL, adapter: 'http', httpVersion: 2 })
  const stream = await api.get('/orders', { responseType: 'stream' })
  stream.data.resume()
  expectNoToken(await rejectionOf(api.get('/rejected')), stream)
})

// On Node.js 24 this getter stores the socket on the response under a symbol, and the socket leads to the request.
it('log output of a streamed response contains no token after its data.signal was read', async () => {
  const answer: AxiosResponse = await ground
    .api({ adapter: 'http' })
    .get('/orders', { responseType: 'stream' })
  expectNoToken(answer)
  void answer.data.signal
  expectNoToken(answer)
  answer.data.resume()
})

// A pending call has its token in a socket, and agents lead to their sockets.
describe.for(['the default agent', 'an agent of the caller'])('during a pending call on %s', (whose) => {
  const others: Readonly<Record<string, (api: AxiosInstance, elsewhere: string) => Promise<unknown>>> = {
    'a 200 response': (api) => api.get('/orders'),
    'a 200 response to a config that an interceptor copied': (api) => {
      api.interceptors.request.use((config) => ({ ...config }))
      return api.get('/orders')
    },
    'a 500 error': (api) => {
      fail({ kind: 'status', status: 500 })
      return rejectionOf(api.get('/orders'))
    },
    'an error of a call canceled before its adapter ran': (api) =>
      rejectionOf(api.get('/orders', { signal: AbortSignal.abort() })),
    // Its request is not hidden for its own sake: its agent leads to the requests of other calls.
    'a 500 error from another server': (api, elsewhere) => rejectionOf(api.get(elsewhere)),
    'a response from another server': (api, elsewhere) => api.get(elsewhere, { validateStatus: null }),
  }

  it.for(Object.entries(others))('log output of %s contains no token', async ([, start]) => {
    await using elsewhere = await scripted((_, response) => void response.writeHead(500).end())
    const httpAgent = whose === 'the default agent' ? undefined : new Agent({ keepAlive: true })
    const api = ground.api({ adapter: 'http', ...(httpAgent && { httpAgent }) })
    fail({ kind: 'hang' })
    const abort = new AbortController()
    const other = rejectionOf(api.get('/hangs', { signal: abort.signal }))
    await until(() => ground.sent().length === 1)
    const outcome = await start(api, elsewhere.url)
    const leaks = findLeaks(outcome, secrets)
    abort.abort()
    await other
    httpAgent?.destroy()
    outcomes.length = 0 // searched while the other call was under way
    expect(leaks).toEqual([])
  })
})

describe('a call with streams', () => {
  it.each([
    ['an agent of its own', () => new Agent({ keepAlive: true })],
    ['the default agent', () => undefined],
  ])('leads to no token of earlier calls on the same connection: %s', async (_, agent) => {
    await using server = await scripted((_, response) => void response.end('{}'))
    const tokens = provided({ current: token('first.token'), apiUrls: [server.url] })
    const api = axiosWith(tokens, { baseURL: server.url, httpAgent: agent() })
    await Promise.all([api.get('/a'), api.get('/b')])
    await new Promise((resolve) => setImmediate(resolve)) // until their connections are idle
    const body = Readable.from(['x'])
    const posted = await api.post('/c', body)
    const answer = await api.get('/d', { responseType: 'stream' })
    const everything = { depth: Infinity, showHidden: true, getters: true, customInspect: false }
    expect(
      findLeaks(
        [body, posted, answer, answer.data].map((one) => inspect(one, everything)),
        secrets,
      ),
    ).toEqual([])
    await read(answer)
  })
})

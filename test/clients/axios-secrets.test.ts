// No token in what callers of axios can log of their calls, in whatever way they make them, and all of it still works.
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
import { record } from '../faults/cells.ts'
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

/** Where a token shows in an error or an answer, and in a log of each of its parts by itself. */
function leaksOf(outcome: unknown): string[] {
  expect(secrets.size).toBeGreaterThan(1) // the client's own and at least one token
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

function withoutToken(...all: unknown[]): void {
  expect(all.flatMap(leaksOf)).toEqual([])
  outcomes.length = 0 // what has been searched here
}

async function read({ data }: AxiosResponse): Promise<void> {
  for await (const _ of data);
}

/** Something that happens to a caller; yields the error or the answer that the caller gets, or several. */
type Play = (api: AxiosInstance, own: AxiosAdapter) => Promise<unknown>

const fail = (fault: Parameters<typeof ground.env.fail>[1], times = 1) =>
  ground.env.fail('merchant', fault, { times })

const SCENES: Readonly<Record<string, Play>> = {
  'validateStatus that takes all, status 401 and 500': async (api) => {
    fail({ kind: 'status', status: 500 })
    const first = await api.get('/orders', { validateStatus: () => true })
    ground.env.configure({ rejectAllTokens: true })
    return [first, await api.get('/orders', { validateStatus: null })]
  },
  'responseType arraybuffer, a good call and a 500': async (api) => {
    const good = await api.get('/orders', { responseType: 'arraybuffer' })
    fail({ kind: 'text', body: 'sorry', status: 500 })
    return [good, await rejectionOf(api.get('/orders', { responseType: 'arraybuffer' }))]
  },
  'responseType stream, a good call and a 500': async (api) => {
    const good = await api.get('/orders', { responseType: 'stream' })
    withoutToken(good)
    await read(good)
    fail({ kind: 'text', body: 'sorry', status: 500 })
    const error = (await rejectionOf(api.get('/orders', { responseType: 'stream' }))) as AxiosError
    withoutToken(error)
    await read(error.response as AxiosResponse)
    return [good, error]
  },
  'responseType stream, a body that breaks off': async (api) => {
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
  'cancelled by an interceptor, after a good call': async (api) => {
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
  'an adapter that makes an AxiosError of another': async (api, own) => {
    fail({ kind: 'status', status: 500 })
    const adapter: AxiosAdapter = (config) =>
      own(config).catch((reason: Error) => {
        throw AxiosError.from(reason, 'E_MINE', config)
      })
    const error = await rejectionOf(api.get('/orders', { adapter }))
    expect(error).toMatchObject({ code: 'E_MINE' })
    return error
  },
  'error.config sent again, to a 503 and to a 200': async (api) => {
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
  'axios-retry, and three times 503': async (api) => {
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

describe.for(ADAPTERS)('callers of axios %s have no token in any log output:', (adapter) => {
  it.for(Object.entries(SCENES))('%s', async ([row, play], { task }) => {
    const outcome = await play(ground.api({ adapter }), axios.getAdapter(adapter))
    withoutToken(...(Array.isArray(outcome) ? outcome : [outcome]))
    const group = 'Log output of callers of axios'
    record(task, { table: 'clients', group, row, column: `axios ${adapter}`, cell: 'no token' })
  })
})

describe.for<[string, CreateAxiosDefaults['adapter']]>([
  ['http', 'http'],
  ['fetch', 'fetch'],
  ['a function', functionAdapter],
])('an answer and its errors on axios by %s', ([name, adapter]) => {
  it.each(['Authorization', 'X-Custom'])('have parts that still work, and no token: %s', async (header) => {
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
    withoutToken(answer, failed, noAnswer)
    for (const { config } of [answer, failed, noAnswer]) {
      // A key without a value would be in the way where the headers are taken for another call.
      const names = Object.keys(config?.headers ?? {}).map((key) => key.toLowerCase())
      expect(names).not.toContain(header.toLowerCase())
    }
  })
})

it('over HTTP/2 there is no token in any log output', async () => {
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
  withoutToken(await rejectionOf(api.get('/rejected')), stream)
})

// Node 24's getter hangs the socket on the answer by a symbol, and the socket has the request.
it("a stream's answer shows no token once its data.signal has been read", async () => {
  const answer: AxiosResponse = await ground
    .api({ adapter: 'http' })
    .get('/orders', { responseType: 'stream' })
  withoutToken(answer)
  void answer.data.signal
  withoutToken(answer)
  answer.data.resume()
})

// A call under way has its token in a socket, and agents know their sockets.
describe.for(['the default agent', 'an agent of the caller'])('with a call under way on %s', (whose) => {
  const others: Readonly<Record<string, (api: AxiosInstance, elsewhere: string) => Promise<unknown>>> = {
    'a good answer': (api) => api.get('/orders'),
    'a good answer, where an interceptor copied the config': (api) => {
      api.interceptors.request.use((config) => ({ ...config }))
      return api.get('/orders')
    },
    'a 500': (api) => {
      fail({ kind: 'status', status: 500 })
      return rejectionOf(api.get('/orders'))
    },
    'a call that was cancelled before its adapter ran': (api) =>
      rejectionOf(api.get('/orders', { signal: AbortSignal.abort() })),
    // Its request is not hidden for its own sake: its agent knows the requests of the others.
    'a 500 elsewhere, without the token': (api, elsewhere) => rejectionOf(api.get(elsewhere)),
    'an answer from elsewhere': (api, elsewhere) => api.get(elsewhere, { validateStatus: null }),
  }

  it.for(Object.entries(others))('%s shows no token', async ([, start]) => {
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
  ])('shows nothing of the calls before it on the same connection: %s', async (_, agent) => {
    await using server = await scripted((_, response) => void response.end('{}'))
    const tokens = provided({ current: token('first.token'), apiUrls: [server.url] })
    const api = axiosWith(tokens, { baseURL: server.url, httpAgent: agent() })
    await Promise.all([api.get('/a'), api.get('/b')])
    await new Promise((resolve) => setImmediate(resolve)) // their connections are free
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

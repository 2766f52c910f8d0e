// Every fault of the sandbox as a client sees it, the order in which faults apply, and which are rejected.
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Fault } from '../../src/testing/index.ts'
import {
  call,
  callByNodeHttp,
  configurationError,
  freshToken,
  requestToken,
  until,
  useSandbox,
} from './calls.ts'

const use = useSandbox()
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** Adds a fault to the merchant API, and calls that API with a valid token. */
const callWithFault = async (fault: Fault, init: RequestInit = {}) => {
  const token = await freshToken(use.env)
  const id = use.env.fail('merchant', fault)
  return { id, answer: call(use.env.merchantUrl, token, init) }
}
const merchant = async () => (await call(use.env.merchantUrl, undefined)).status
const requests = () => use.env.requests('merchant')
const UNAVAILABLE = { kind: 'status', status: 503 } as const

describe('fail() of the sandbox', () => {
  it('applies faults in order, each to its number of requests', async () => {
    const first = use.env.fail('merchant', UNAVAILABLE, { times: 2 })
    const second = use.env.fail('merchant', { kind: 'status', status: 429 })
    const answers = [await merchant(), await merchant(), await merchant(), await merchant()]
    expect(answers).toEqual([503, 503, 429, 401])
    expect(requests().map(({ fault }) => fault)).toEqual([first, first, second, undefined])
    expect(requests().at(-1)).not.toHaveProperty('fault')
  })

  it('applies a fault with times: Infinity to all requests until it is cleared', async () => {
    use.env.fail('merchant', UNAVAILABLE, { times: Number.POSITIVE_INFINITY })
    use.env.fail('in-store', UNAVAILABLE)
    for (let i = 0; i < 20; i += 1) expect(await merchant()).toBe(503)
    use.env.clearFaults('merchant')
    expect(await merchant()).toBe(401)
    expect((await call(use.env.inStoreUrl, undefined)).status).toBe(503)
    use.env.fail('merchant', UNAVAILABLE)
    use.env.clearFaults()
    const response = await call(use.env.merchantUrl, undefined)
    expect([response.status, response.headers.has('x-sandbox-fault')]).toEqual([401, false])
  })

  it('applies a fault with a path to requests to that path and below it only', async () => {
    const token = await freshToken(use.env)
    const path = '/merchant/stores/7'
    use.env.fail('merchant', { kind: 'status', status: 401 }, { path, times: Number.POSITIVE_INFINITY })
    use.env.fail('merchant', UNAVAILABLE)
    const statusOf = async (below: string) => (await call(use.env.merchantUrl + below, token)).status
    const below = [
      '/stores/7',
      '/stores/8',
      '/stores/70',
      '/stores/7/orders?storeId=8',
      '/orders?at=/stores/7',
    ]
    const statuses = []
    for (const one of below) statuses.push(await statusOf(one))
    expect(statuses).toEqual([401, 503, 200, 401, 200])
  })

  it.each<[option: string, fault: unknown, options?: object]>([
    ['fault.kind', { kind: 'explode' }],
    ['fault.status', { kind: 'status', status: 100 }],
    ['fault.afterMs', { kind: 'reset', afterMs: 5 }],
    ['times', { kind: 'reset' }, { times: 0 }],
    ['path', { kind: 'reset' }, { path: 'stores/7' }],
    ['path', { kind: 'reset' }, { path: '/stores?id=7' }],
  ])('rejects an invalid %s: %o %o', (option, fault, options) => {
    const order = () => use.env.fail('token', fault as never, options)
    expect(order).toThrow(configurationError(option))
  })
})

describe('a fault with a fixed response', () => {
  const date = 'Wed, 21 Oct 2037 07:28:00 GMT'
  const location = 'https://elsewhere.example/x'
  const given = { 'X-Why': 'quota', 'Content-Type': 'application/problem+json' }
  const JSON_TYPE = { 'content-type': 'application/json' }

  it.each<[Fault, status: number, headers: Record<string, string | null>, body: string]>([
    [
      { kind: 'status', status: 429, retryAfter: 7, headers: given, body: { title: 'Too many' } },
      429,
      { 'retry-after': '7', 'x-why': 'quota', 'content-type': 'application/problem+json' },
      '{"title":"Too many"}',
    ],
    [
      { kind: 'status', status: 503, retryAfter: date },
      503,
      { 'retry-after': date, 'content-type': null, 'content-length': '0' },
      '',
    ],
    [{ kind: 'status', status: 204, body: 'x' }, 204, { 'content-length': null }, ''],
    [{ kind: 'json', body: { access_token: 5 }, status: 202 }, 202, JSON_TYPE, '{"access_token":5}'],
    [
      { kind: 'text', body: '<p>€</p>', contentType: 'text/html' },
      200,
      { 'content-type': 'text/html' },
      '<p>€</p>',
    ],
    [{ kind: 'redirect', location }, 307, { location }, ''],
  ])('is sent as given: %o', async (fault, status, headers, body) => {
    const { id, answer } = await callWithFault(fault)
    const response = await answer
    expect(response.status).toBe(status)
    expect(response.headers.get('x-sandbox-fault')).toBe(id)
    for (const [name, value] of Object.entries(headers)) expect(response.headers.get(name)).toBe(value)
    expect(await response.text()).toBe(body)
    expect(requests().at(-1)).toMatchObject({ status, fault: id })
  })
})

describe('the fault hang', () => {
  it('sends nothing while other requests are answered', async () => {
    const abort = new AbortController()
    const { id, answer } = await callWithFault({ kind: 'hang' }, { signal: abort.signal })
    const settled = vi.fn()
    answer.then(settled, settled)
    await until(() => requests().at(-1)?.fault === id)
    for (let i = 0; i < 5; i += 1) expect(await merchant()).toBe(401)
    expect(settled).not.toHaveBeenCalled()
    expect(requests()[0]).not.toHaveProperty('status')
    abort.abort()
    await expect(answer).rejects.toHaveProperty('name', 'AbortError')
  })
})

it.each([
  { at: 'headers', late: [true, true] },
  { at: 'body', late: [expect.any(Boolean), true] },
] as const)('the fault hang lasts for its duration of 50 ms: $at', async ({ at, late }) => {
  const startedAt = performance.now()
  const { answer } = await callWithFault({ kind: 'hang', at, durationMs: 50 })
  const headersAt = answer.then(() => performance.now())
  await (await answer).text()
  const isLate = [await headersAt, performance.now()].map((endedAt) => endedAt - startedAt >= 49)
  expect(isLate).toEqual(late)
})

it('the fault reset ends the connection without a response', async () => {
  const { id, answer } = await callWithFault({ kind: 'reset' })
  await expect(answer).rejects.toHaveProperty('cause.code', 'ECONNRESET')
  expect(requests().at(-1)).toMatchObject({ fault: id })
  expect(requests().at(-1)).not.toHaveProperty('status')
})

it('the token endpoint still issues a valid token with a fault that sends the usual response', async () => {
  use.env.fail('token', { kind: 'huge-body', bytes: 100_000 })
  const text = await (await requestToken(use.env)).text()
  expect(text.length).toEqual(100_000)
  const { access_token } = JSON.parse(text) as { access_token: string }
  expect((await call(use.env.merchantUrl, access_token)).status).toBe(200)
})

describe('the fault truncated-body', () => {
  it('breaks off after half of the Content-Length', async () => {
    use.env.fail('merchant', { kind: 'truncated-body' })
    const response = await callByNodeHttp(use.env.merchantUrl, undefined)
    let bytes = 0
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    await expect(once(response, 'end')).rejects.toHaveProperty('code', 'ECONNRESET')
    expect(bytes).toBe(Math.floor(Number(response.headers['content-length']) / 2))
  })
})

describe('the fault huge-body', () => {
  it('sends 10 MiB of valid JSON without a Content-Length', async () => {
    const response = await (await callWithFault({ kind: 'huge-body' })).answer
    expect(response.status).toBe(200)
    expect(response.headers.has('content-length')).toBe(false)
    const text = await response.text()
    expect(text.length).toBe(10 * 1024 * 1024)
    expect(JSON.parse(text)).toMatchObject({ api: 'merchant' })
  })

  it('sends few bytes with gzip', async () => {
    use.env.fail('merchant', { kind: 'huge-body', gzip: true })
    const response = await callByNodeHttp(use.env.merchantUrl, undefined)
    expect(response.headers['content-encoding']).toBe('gzip')
    const zipped = await buffer(response)
    expect(zipped.length).toBeLessThan(64 * 1024)
    expect(gunzipSync(zipped).length).toBe(10 * 1024 * 1024)
  })

  it('does not block the server if its client disconnects', async () => {
    const response = await (await callWithFault({ kind: 'huge-body', bytes: Number.MAX_SAFE_INTEGER })).answer
    await response.body?.cancel()
    expect(await merchant()).toBe(401)
  })
})

describe('the fault slow-body', () => {
  const start = async () => {
    const token = await freshToken(use.env)
    use.env.fail('merchant', { kind: 'slow-body', durationMs: 10_000 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    return await callByNodeHttp(use.env.merchantUrl, token)
  }

  it('sends the headers, and then the body in pieces over its duration', async () => {
    const response = await start()
    expect(response.statusCode).toBe(200)
    const pieces: Buffer[] = []
    response.on('data', (piece: Buffer) => pieces.push(piece))
    const length = Number(response.headers['content-length'])
    const received = () => Buffer.concat(pieces).length / length
    await vi.advanceTimersByTimeAsync(5_000)
    await until(() => received() >= 0.4)
    expect(received()).toBeLessThanOrEqual(0.5)
    await vi.advanceTimersByTimeAsync(4_999)
    await until(() => received() >= 0.9)
    await callByNodeHttp(use.env.inStoreUrl, undefined)
    expect(received()).toBeLessThan(1)
    const ended = once(response, 'end')
    await vi.advanceTimersByTimeAsync(1)
    await ended
    expect(JSON.parse(Buffer.concat(pieces).toString())).toMatchObject({ api: 'merchant' })
  })
})

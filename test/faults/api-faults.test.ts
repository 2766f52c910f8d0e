// The sandbox's faults at the API: with the token attached callers get what they would have got without this package.
import axios, { type AxiosRequestConfig } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import type { Fault } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { useGround } from '../attach/calls.ts'
import { findLeaks } from '../support/leaks.ts'
import { withRoom } from '../support/patience.ts'
import { type Caller, met } from './api-met.ts'
import { type Client, counted, onEach, TABLE } from './api-rig.ts'
import { tell } from './told.ts'

const ground = useGround()
const GROUP = 'faults of the API, with the token and without this package'
const LIMIT_MS = 150
const CLIENT_AT = { 'axios http': 0, 'axios fetch': 1, fetch: 2 } as const

interface Row {
  readonly row: string
  readonly fault: Fault
  readonly limitMs?: number
  readonly config?: AxiosRequestConfig
  readonly requests?: number
  /** What callers of axios' http adapter, of its fetch adapter and of fetch get. */
  readonly expected: readonly [string, string, string]
}

const ROWS: Row[] = [
  {
    row: 'status 500',
    fault: { kind: 'status', status: 500 },
    expected: ['ERR_BAD_RESPONSE, status 500', 'ERR_BAD_RESPONSE, status 500', 'status 500'],
  },
  {
    row: 'status 503, Retry-After',
    fault: { kind: 'status', status: 503, retryAfter: 1, body: { error: 'x' } },
    expected: ['ERR_BAD_RESPONSE, status 503', 'ERR_BAD_RESPONSE, status 503', 'status 503'],
  },
  {
    row: 'status 429, Retry-After',
    fault: { kind: 'status', status: 429, retryAfter: 1 },
    expected: ['ERR_BAD_REQUEST, status 429', 'ERR_BAD_REQUEST, status 429', 'status 429'],
  },
  {
    row: 'no answer, and the caller goes',
    fault: { kind: 'hang' },
    limitMs: LIMIT_MS,
    expected: ['ECONNABORTED', 'ETIMEDOUT', 'TimeoutError'],
  },
  {
    row: 'half an answer, and the caller goes',
    fault: { kind: 'hang', at: 'body' },
    limitMs: LIMIT_MS,
    expected: ['ERR_BAD_RESPONSE, status 200', 'ETIMEDOUT', 'TimeoutError, status 200'],
  },
  {
    row: 'connection reset',
    fault: { kind: 'reset' },
    expected: ['ECONNRESET', 'ERR_NETWORK', 'TypeError (ECONNRESET)'],
  },
  {
    row: 'slow body',
    fault: { kind: 'slow-body', durationMs: 40 },
    expected: ['status 200', 'status 200', 'status 200'],
  },
  {
    row: 'truncated body',
    fault: { kind: 'truncated-body' },
    expected: ['ERR_BAD_RESPONSE, status 200', 'TypeError', 'TypeError (UND_ERR_SOCKET), status 200'],
  },
  {
    row: 'body of 1 MiB',
    fault: { kind: 'huge-body', bytes: 2 ** 20 },
    expected: ['status 200, 1 MiB', 'status 200, 1 MiB', 'status 200, 1 MiB'],
  },
  {
    row: 'body of 1 MiB, gzip',
    fault: { kind: 'huge-body', bytes: 2 ** 20, gzip: true },
    expected: ['status 200, 1 MiB', 'status 200, 1 MiB', 'status 200, 1 MiB'],
  },
  {
    row: 'body of 1 MiB, maxContentLength 1 000',
    fault: { kind: 'huge-body', bytes: 2 ** 20 },
    config: { maxContentLength: 1_000 },
    expected: ['ERR_BAD_RESPONSE', 'ERR_BAD_RESPONSE', 'no such option'],
  },
  {
    row: 'JSON that is no order, status 418',
    fault: { kind: 'json', body: [null], status: 418 },
    expected: ['ERR_BAD_REQUEST, status 418', 'ERR_BAD_REQUEST, status 418', 'status 418'],
  },
  {
    row: 'text',
    fault: { kind: 'text', body: '<p>sorry</p>' },
    expected: ['status 200', 'status 200', 'status 200'],
  },
  {
    row: 'text where JSON was asked for',
    fault: { kind: 'text', body: '<p>sorry</p>' },
    config: { responseType: 'json', transitional: { silentJSONParsing: false } },
    expected: ['ERR_BAD_RESPONSE, status 200', 'ERR_BAD_RESPONSE, status 200', 'no such option'],
  },
  {
    row: 'redirect within the API',
    fault: { kind: 'redirect', location: '/merchant/moved' },
    requests: 2,
    expected: ['status 200', 'status 200', 'status 200'],
  },
  {
    row: 'redirect to a place where nobody listens',
    fault: { kind: 'redirect', location: 'http://127.0.0.1:1/' },
    expected: ['ECONNREFUSED', 'ERR_NETWORK', 'TypeError'],
  },
]

describe('a fault of the API', () => {
  it.for(
    onEach(ROWS.map((row) => [row.row, row] as const)).filter(
      ([client, , { expected }]) => expected[CLIENT_AT[client]] !== 'no such option',
    ),
  )(
    'reaches the callers of %s as it is: %s',
    async ([client, , { row, fault, limitMs, config = {}, requests = 1, expected }], { task }) => {
      const { value: token } = await ground.tokens.getToken()
      const url = `${ground.env.merchantUrl}/orders`
      const meet = async (caller: Caller, limit: number | undefined) => {
        const before = ground.sent().length
        ground.env.clearFaults()
        ground.env.fail('merchant', fault)
        const { seen, printable } = await met(caller, { url, limitMs: limit, config })
        return { seen, printable, requests: ground.sent().length - before }
      }
      const meetBoth = async (limit?: number) => {
        const bare = await meet(bareClient(client, token), limit)
        return { bare, attached: await meet(attachedClient(client), limit) }
      }
      const short = expected[CLIENT_AT[client]]
      const isAsExpected = (met: Awaited<ReturnType<typeof meetBoth>>) =>
        [met.bare, met.attached].every((one) => one.seen.short === short && one.requests === requests)
      const { bare, attached } =
        limitMs === undefined ? await meetBoth() : await withRoom(limitMs, meetBoth, isAsExpected)
      expect(attached.seen).toEqual(bare.seen)
      expect([bare.requests, attached.requests]).toEqual([requests, requests])
      expect(new Set(ground.sent().map(({ headers }) => headers['authorization'])).size).toBe(1)
      expect(ground.env.counts.token).toBe(1)
      expect(ground.events.filter(({ type }) => type === 'token-rejected')).toEqual([])
      expect(attached.printable.flatMap((value) => findLeaks(value, [token]))).toEqual([])
      // Without this package the token stands in all that axios gives out: the search does search.
      if (client !== 'fetch')
        expect(bare.printable.flatMap((value) => findLeaks(value, [token]))).not.toEqual([])
      const cell = `${attached.seen.short}; ${counted(requests, 'request')}`
      expect(cell).toBe(`${short}; ${counted(requests, 'request')}`)
      tell(task, { table: TABLE, group: GROUP, row, column: client, cell })
    },
  )
})

function bareClient(client: Client, token: string): Caller {
  const headers = { Authorization: `Bearer ${token}` }
  const byFetch: typeof fetch = (input, init) =>
    fetch(input, { ...init, headers: { ...init?.headers, ...headers } })
  if (client === 'fetch') return byFetch
  return axios.create({ baseURL: ground.env.merchantUrl, adapter: adapterOf(client), headers })
}

function attachedClient(client: Client): Caller {
  return client === 'fetch' ? createAuthFetch(ground.tokens) : ground.api({ adapter: adapterOf(client) })
}

function adapterOf(client: Client): string {
  return client === 'axios http' ? 'http' : 'fetch'
}

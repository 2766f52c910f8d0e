// What callers get from an API that rejects tokens, and how many token requests that costs: for 250 calls and for an hour of calls.
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { Random } from '../support/random.ts'
import { thinOut } from '../support/recorded.ts'
import { granted, rig } from '../token/harness.ts'
import { counted, record } from './cells.ts'

/** A request, as a rule sees it. */
interface ApiRequest {
  /** The number of the call, from 0. */
  readonly n: number
  /** 0 for its first try. */
  readonly attempt: number
  readonly token: string
  readonly now: number
}

/** Decides how the API answers requests; created for each test because it may remember tokens. */
type Rule = () => (request: ApiRequest) => 200 | 401

/** Rejects about half of the requests, by a generator with a fixed seed. */
function isRejectedAtRandom({ n, attempt }: ApiRequest): boolean {
  const number = new Random(20_260_101 + (2 * n + attempt - 1) * 0x6d2b79f5).next() * 2 ** 32
  return number % 2 === 0
}

const always: Rule = () => () => 401
const alternating: Rule =
  () =>
  ({ n, attempt }) =>
    (n + attempt) % 2 === 0 ? 401 : 200
const atRandom: Rule = () => (request) => (isRejectedAtRandom(request) ? 401 : 200)
/** Accepts a token 5 s after it first saw it, as if another node had to learn of it first. */
const after5Seconds: Rule = () => {
  const seenAt = new Map<string, number>()
  return ({ token, now }) => {
    if (!seenAt.has(token)) seenAt.set(token, now)
    return now - (seenAt.get(token) ?? now) >= 5_000 ? 200 : 401
  }
}

/**
 * A fetch for two APIs, on the injected clock. The rule applies to the merchant API, or to both.
 *
 * @param delayOf how long (ms) the answer to a call is delayed, so that answers arrive one after another
 */
function callsTo(rule: Rule, { both = false, delayOf = (_: number): number => 0 } = {}) {
  const { provider, endpoint, clock, events } = rig()
  endpoint.otherwise = granted({ expires_in: 86_400 })
  const judge = rule()
  const attempts = new Map<string, number>()
  const requests = { merchant: 0, 'in-store': 0 }
  const send: typeof fetch = async (input, init) => {
    const path = new URL(String(input)).pathname
    const [, api, number] = path.split('/') as [string, keyof typeof requests, string]
    const token = /^Bearer (.+)$/.exec(new Headers(init?.headers).get('authorization') ?? '')?.[1]
    if (token === undefined) return new Response(null, { status: 400 }) // every request here must have a token
    requests[api] += 1
    const attempt = attempts.get(path) ?? 0
    attempts.set(path, attempt + 1)
    const n = Number(number)
    const request = { n, attempt, token, now: clock.monotonicMs() }
    const status = api === 'merchant' || both ? judge(request) : 200
    if (delayOf(n) > 0) await new Promise((resolve) => setTimeout(resolve, delayOf(n)))
    return new Response(null, { status })
  }
  const authFetch = createAuthFetch(provider, { fetch: send })
  /** The status that the caller gets. */
  const get = async (api: keyof typeof requests, n: number): Promise<number> =>
    (await authFetch(`https://api.test.example/${api}/${n}`)).status
  return { requests, endpoint, clock, events, get }
}

type Calls = ReturnType<typeof callsTo>
type Statuses = Record<keyof Calls['requests'], number[]>

/** `501 × 200, 499 × 401` */
function tally(statuses: readonly number[]): string {
  const counts = new Map<number, number>()
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1)
  return [...counts]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${count} × ${status}`)
    .join(', ')
}

/** Calls both APIs alternately, one call after another, the given seconds apart. */
async function oneByOne({ get, clock }: Calls, many: number, seconds: number): Promise<Statuses> {
  const statuses: Statuses = { merchant: [], 'in-store': [] }
  for (let n = 0; n < many; n += 1) {
    statuses.merchant.push(await get('merchant', n))
    statuses['in-store'].push(await get('in-store', n))
    if (seconds > 0) await clock.advance(seconds * 1_000)
  }
  thinOut()
  return statuses
}

async function allAtOnce({ get }: Calls, many: number): Promise<Statuses> {
  const all = Array.from({ length: many }, (_, n) => n)
  const statuses = await Promise.all(all.map((n) => Promise.all([get('merchant', n), get('in-store', n)])))
  thinOut()
  return { merchant: statuses.map(([one]) => one), 'in-store': statuses.map(([, other]) => other) }
}

describe('250 calls to an API that rejects tokens', () => {
  const MANY = 250
  const staggered = { delayOf: (n: number) => (n % 10) * 20 }
  const RANDOM = '401 to half of the requests, at random'
  const AT_ONCE: [row: string, rule: Rule, expected: string][] = [
    ['401 to every request', always, '250 × 401; 2 tokens, 500 requests'],
    ['401 to every second request', alternating, '250 × 200; 2 tokens, 375 requests'],
    [RANDOM, atRandom, '198 × 200, 52 × 401; 2 tokens, 378 requests'],
  ]
  const ONE_BY_ONE: typeof AT_ONCE = [
    ['401 to every request', always, '250 × 401; 2 tokens, 251 requests'],
    ['401 to every second request', alternating, '126 × 200, 124 × 401; 2 tokens, 251 requests'],
    [RANDOM, atRandom, '123 × 200, 127 × 401; 2 tokens, 251 requests'],
  ]
  const GROUPS: [group: string, rows: typeof AT_ONCE, make: typeof allAtOnce, options: object][] = [
    ['250 calls at once', AT_ONCE, allAtOnce, {}],
    // When the last answers arrive, the first ones have already renewed the token.
    ['250 calls, their answers staggered', AT_ONCE, allAtOnce, staggered],
    ['250 calls one after another', ONE_BY_ONE, (calls) => oneByOne(calls, MANY, 0), {}],
  ]

  it.for(GROUPS.flatMap(([group, rows, ...how]) => rows.map((row) => [group, ...row, ...how] as const)))(
    'renew the token once and do not affect another API: %s, %s',
    async ([group, row, rule, expected, make, options], { task }) => {
      const calls = callsTo(rule, options)
      const { requests, endpoint, events } = calls
      const statuses = await make(calls, MANY)
      const cost = `${counted(endpoint.count, 'token')}, ${counted(requests.merchant, 'request')}`
      const cell = `${tally(statuses.merchant)}; ${cost}`
      expect(cell).toBe(expected)
      expect([tally(statuses['in-store']), requests['in-store']]).toEqual(['250 × 200', 250])
      expect(events.filter(({ type }) => type === 'token-rejected').length).toBeLessThanOrEqual(MANY)
      record(task, { table: 'api', group, row, column: 'callers, and costs', cell })
    },
  )
})

const HOUR = 3_600
const EVERY = { '0.5 s': 0.5, '1 s': 1, '10 s': 10, '30 s': 30, '62 s': 62, '5 min': 300 } as const
type Interval = keyof typeof EVERY
const INTERVALS = Object.keys(EVERY) as Interval[]

/** The number of renewals, and the statuses that callers get. */
type Expected = readonly [renewals: number, statuses: string]

const EXPECTED_ALWAYS: Record<Interval, Expected> = {
  // Renewals at 0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047 s. The next may come 30 min later.
  '0.5 s': [12, '7200 × 401'],
  '1 s': [12, '3600 × 401'],
  // At 0, 10, 20, 30, 40, 60, 100, 170, 300, 560, 1080, 2110 s.
  '10 s': [12, '360 × 401'],
  // At 0, 30, 60, 90, 120, 150, 210, 300, 450, 720, 1260, 2310 s.
  '30 s': [12, '120 × 401'],
  // Each call comes a minute after the gap of 1 s, which resets all but the hourly limit.
  '62 s': [12, '59 × 401'],
  '5 min': [12, '12 × 401'],
}

const ROWS: [row: string, rule: Rule, Record<Interval, Expected>][] = [
  ['401 to every request', always, EXPECTED_ALWAYS],
  [
    '401 to every second request',
    alternating,
    {
      '0.5 s': [12, '3612 × 200, 3588 × 401'],
      '1 s': [12, '1812 × 200, 1788 × 401'],
      '10 s': [12, '192 × 200, 168 × 401'],
      '30 s': [12, '72 × 200, 48 × 401'],
      '62 s': [12, '41 × 200, 18 × 401'],
      '5 min': [6, '12 × 200'],
    },
  ],
  [
    '401 to half of the requests, at random',
    atRandom,
    {
      '0.5 s': [12, '3632 × 200, 3568 × 401'],
      '1 s': [12, '1805 × 200, 1795 × 401'],
      '10 s': [12, '195 × 200, 165 × 401'],
      '30 s': [12, '70 × 200, 50 × 401'],
      '62 s': [12, '37 × 200, 22 × 401'],
      '5 min': [6, '9 × 200, 3 × 401'],
    },
  ],
  [
    '401 to each token for its first 5 s',
    after5Seconds,
    {
      // The tokens of 0, 1 and 3 s are replaced before the API accepts them; it accepts that of 7 s from 12 s on.
      '0.5 s': [4, '7176 × 200, 24 × 401'],
      '1 s': [4, '3588 × 200, 12 × 401'],
      '10 s': [1, '359 × 200, 1 × 401'],
      '30 s': [1, '119 × 200, 1 × 401'],
      '62 s': [1, '58 × 200, 1 × 401'],
      '5 min': [1, '11 × 200, 1 × 401'],
    },
  ],
]

describe('an hour of calls to an API that rejects tokens', () => {
  const group = 'an hour of calls, one every …'

  it.for(ROWS.flatMap(([row, ...rest]) => INTERVALS.map((column) => [row, column, ...rest] as const)))(
    'renews the token within the rate limit and does not affect another API: %s, one call every %s',
    async ([row, column, rule, results], { task }) => {
      const calls = callsTo(rule)
      const statuses = await oneByOne(calls, HOUR / EVERY[column], EVERY[column])
      const renewals = calls.endpoint.count - 1
      const [expectedRenewals, expected] = results[column]
      expect(expectedRenewals).toBeLessThanOrEqual(12)
      expect([renewals, tally(statuses.merchant)]).toEqual([expectedRenewals, expected])
      expect(new Set(statuses['in-store'])).toEqual(new Set([200]))
      expect(calls.requests['in-store']).toBe(statuses['in-store'].length)
      expect(calls.requests.merchant).toBe(statuses.merchant.length + renewals)
      expect(calls.events.filter(({ type }) => type === 'token-requested')).toHaveLength(1 + renewals)
      const cell = `${counted(renewals, 'renewal')}; ${tally(statuses.merchant)}`
      record(task, { table: 'api-hour', group, row, column, cell })
    },
  )

  it.for(INTERVALS)(
    'renews the token within a rate limit for each API if both reject it (one call every %s)',
    async (column, { task }) => {
      const calls = callsTo(always, { both: true })
      const statuses = await oneByOne(calls, HOUR / EVERY[column], EVERY[column])
      const renewals = calls.endpoint.count - 1
      const [expectedRenewals, expected] = EXPECTED_ALWAYS[column]
      const tallies = [tally(statuses.merchant), tally(statuses['in-store'])]
      expect([renewals, ...tallies]).toEqual([2 * expectedRenewals, expected, expected])
      const cell = `${counted(renewals, 'renewal')}; 2 × ${expected}`
      record(task, { table: 'api-hour', group, row: '401 to every request, from both APIs', column, cell })
    },
  )
})

/** A hanging token request with 1 000 callers, and a ten-minute outage of the token endpoint: what they cost and how they end. */
import type { TokenRequestError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { type Answer, granted, hang, noConnection, rejection, rig, status } from '../token/harness.ts'
import { record } from './cells.ts'
import {
  bringTo,
  COLD,
  EXPIRED,
  inWords,
  outcomeOf,
  requestsOf,
  TABLE,
  useLongestJitter,
  WINDOW,
} from './token-words.ts'

useLongestJitter()

const CALLERS = 1_000
const stalled: Answer = () => new Response(new ReadableStream())
const HANGS = [
  { row: 'at the headers', answer: hang },
  { row: 'in the body', answer: stalled },
]

describe.for(HANGS)('a token request that hangs $row', ({ row, answer }) => {
  const group = `one hang, ${CALLERS} callers`

  it.for([COLD, EXPIRED])(
    'times out for all waiting callers and does not affect later calls, token cache %s',
    async (column, { task }) => {
      const made = rig([], { retries: 0 })
      const { provider, endpoint, clock } = made
      await bringTo(column, made)
      const before = endpoint.count
      endpoint.answers.push(answer)
      const calls = Promise.all(
        Array.from({ length: CALLERS }, () => rejection<TokenRequestError>(provider.getToken())),
      )
      await clock.advance(10_000) // timeoutMs, which the only attempt gets in full
      const errors = await calls
      expect(new Set(errors).size, 'error objects').toBe(CALLERS)
      const outcomes = [...new Set(errors.map(outcomeOf))]
      expect(outcomes).toEqual(['TokenRequestError, ERR_TOKEN_TIMEOUT'])
      expect(endpoint.count - before).toBe(1)
      await clock.advance(1_000)
      const tokens = await Promise.all(Array.from({ length: CALLERS }, () => provider.getToken()))
      expect(new Set(tokens).size, 'tokens').toBe(1)
      expect(endpoint.count - before).toBe(2)
      const cell = `all ${outcomes} after 10 s; later calls: a token, 1 request`
      record(task, { table: TABLE, group, row, column, cell })
    },
  )

  it('is retried once, and the same callers get the token', async ({ task }) => {
    const { provider, endpoint, clock } = rig([answer])
    const calls = Promise.all(Array.from({ length: CALLERS }, () => provider.getToken()))
    await clock.advance(5_200)
    expect(new Set(await calls).size).toBe(1)
    expect(endpoint.count).toBe(2)
    const cell = `a token after 5.2 s; ${requestsOf(endpoint.count)}`
    record(task, { table: TABLE, group, row: `${row}, retried`, column: COLD, cell })
  })

  it('does not affect callers if it is a background refresh, and the next refresh succeeds', async ({
    task,
  }) => {
    const { provider, endpoint, clock } = rig([granted(), answer], { retries: 0 })
    const first = await provider.getToken()
    await clock.advance(900_000)
    for (const ms of [0, 4_999, 1, 26_562]) {
      // 85 s remain when it ends: the pause is a quarter of that, plus 25% of jitter
      await clock.advance(ms)
      const served = await Promise.all(Array.from({ length: CALLERS }, () => provider.getToken()))
      expect(new Set(served)).toEqual(new Set([first]))
      await settled()
    }
    expect(endpoint.count).toBe(2)
    await clock.advance(1)
    await provider.getToken()
    await settled()
    expect((await provider.getToken()).value).not.toBe(first?.value)
    expect(endpoint.count).toBe(3)
    const cell = 'current token at once; later calls: a token, 1 request'
    record(task, { table: TABLE, group, row, column: WINDOW, cell })
  })
})

const OUTAGE_MS = 600_000
const EVERY_MS = 500
const RETRY_AFTER_45 = { 'retry-after': '45' }

/**
 * The token requests of ten minutes with a call every 500 ms, calculated by hand. A token request begins with the first
 * call after the cooldown of the previous one (1, 2, 4 and then 5 s; up to 30 s after a 4xx). It takes no time, 0.6 s
 * (three attempts) or 10 s (two attempts that hang). `firstSuccessMs` counts from the end of the outage: the pending
 * token request and its cooldown have to end first. `fromWindow`: requests and `firstSuccessMs` if the outage begins
 * inside the refresh window. Background refreshes make one attempt each, at 0, 28.5, 48, 61.5, 70.5, 77 and 83.5 s: each
 * after 5/16 of the remaining lifetime, or after 6.25 s. Only Retry-After delays the first call after expiry, at 90 s.
 * The cooldown after that call is the longest one, because it is not the first failure in a row.
 */
const OUTAGES = [
  // Token requests at 0, 2, 5, 10, 16 and then every 6 s: 102 times three attempts. The last one ends at 598.6 s.
  // From the window: 7, and from 90 s on every 6 s: 85 times three.
  { row: '503', answer: status(503), requests: 306, firstSuccessMs: 4_000, fromWindow: [262, 0] },
  { row: 'no connection', answer: noConnection, requests: 306, firstSuccessMs: 4_000, fromWindow: [262, 0] },
  // At 0, 11, 23, 37, 52 and then every 15 s: 41 times two attempts. The last one ends at 602 s.
  // From the window: at 0, 32, 54, 69 and 80.5 s, and from 90 s on every 15 s: 34 times two.
  { row: 'hangs', answer: hang, requests: 82, firstSuccessMs: 7_000, fromWindow: [73, 0] },
  // At 0, 1, 3, 7 and then every 5 s: 122 times. The last one is at 597 s.
  // From the window: 7, and from 90 s on every 5 s.
  {
    row: 'invalid answers',
    answer: status(200, '{}'),
    requests: 122,
    firstSuccessMs: 2_000,
    fromWindow: [109, 0],
  },
  { row: 'redirects', answer: status(302), requests: 122, firstSuccessMs: 2_000, fromWindow: [109, 0] },
  // At 0, 1, 3, 7, 15, 31, 61 and then every 30 s: 24 times. The last one is at 571 s.
  // From the window: 7, and from 90 s on every 30 s.
  { row: '401', answer: status(401), requests: 24, firstSuccessMs: 1_000, fromWindow: [24, 0] },
  // Every 45 s: 14 times. The last one is at 585 s.
  {
    row: '429, Retry-After 45 s',
    answer: status(429, '', RETRY_AFTER_45),
    requests: 14,
    firstSuccessMs: 30_000,
    fromWindow: [14, 30_000],
  },
] as const

/** Calls every 500 ms during a ten-minute outage of the token endpoint, and then until a call gets a token. */
async function runOutage(made: ReturnType<typeof rig>, answer: Answer) {
  const { provider, endpoint, clock } = made
  const before = endpoint.count
  const startedAt = clock.monotonicMs()
  const current = provider.currentToken()
  const seen = { served: 0, renewed: false, requests: 0, firstSuccessMs: Number.NaN }
  endpoint.otherwise = answer
  for (let ms = 0; ms < OUTAGE_MS + 60_000; ms += EVERY_MS) {
    if (ms === OUTAGE_MS) {
      seen.requests = endpoint.count - before
      endpoint.otherwise = granted()
    }
    provider.getToken().then(
      (token) => {
        if (token === current) seen.served += 1
        else if (!seen.renewed) {
          seen.renewed = true
          seen.firstSuccessMs = clock.monotonicMs() - startedAt - OUTAGE_MS
        }
      },
      () => {},
    )
    await settled()
    if (seen.renewed) break
    await clock.advance(EVERY_MS)
  }
  return seen
}

function cellOf({ requests, firstSuccessMs }: { requests: number; firstSuccessMs: number }): string {
  const when = firstSuccessMs === 0 ? 'at its end' : `${inWords(firstSuccessMs)} after its end`
  return `${requestsOf(requests)}; a token ${when}`
}

describe('a ten-minute outage of the token endpoint', () => {
  const group = 'outage of 10 minutes, a caller every 0.5 s'

  it.for([COLD, EXPIRED].flatMap((column) => OUTAGES.map((outage) => ({ column, ...outage }))))(
    'costs the calculated requests and ends with a token: $row, token cache $column',
    async ({ column, row, answer, requests, firstSuccessMs }, { task }) => {
      const made = rig()
      await bringTo(column, made)
      const seen = await runOutage(made, answer)
      expect(seen).toEqual({ served: 0, renewed: true, requests, firstSuccessMs })
      const cell = cellOf(seen)
      record(task, { table: TABLE, group, row, column, cell })
    },
  )

  it.for(OUTAGES)(
    'leaves callers the current token until it expires: $row, inside the refresh window',
    async (outage, { task }) => {
      const { row, answer, fromWindow } = outage
      const [requests, firstSuccessMs] = fromWindow
      const unhandled = vi.fn()
      process.on('unhandledRejection', unhandled)
      const made = rig()
      await bringTo(WINDOW, made)
      const seen = await runOutage(made, answer)
      process.off('unhandledRejection', unhandled)
      expect(unhandled).not.toHaveBeenCalled()
      // The current token is served for 90 s, to two calls a second.
      expect(seen).toEqual({ served: 180, renewed: true, requests, firstSuccessMs })
      const cell = cellOf(seen)
      record(task, { table: TABLE, group, row, column: WINDOW, cell })
    },
  )

  it.for([COLD, EXPIRED])(
    'costs no more requests with all faults in turn than with the worst one, token cache %s',
    async (column, { task }) => {
      const made = rig()
      await bringTo(column, made)
      let nth = 0
      const seen = await runOutage(made, (init) => {
        const { answer } = OUTAGES[nth % OUTAGES.length] as (typeof OUTAGES)[number]
        nth += 1
        return answer(init)
      })
      // The most expensive fault alone costs 306 requests; Retry-After has the longest cooldown.
      expect(seen.requests).toBeGreaterThan(7)
      expect(seen.requests).toBeLessThanOrEqual(306)
      expect(seen.firstSuccessMs).toBeLessThanOrEqual(45_000)
      const cell = cellOf(seen)
      record(task, { table: TABLE, group, row: 'all of these in turn', column, cell })
    },
  )
})

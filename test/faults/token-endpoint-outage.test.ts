/** One hang among a thousand callers, and ten minutes without a token endpoint: what they cost, and how they end. */
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
    'ends for all who wait, and poisons no later call, %s',
    async (column, { task }) => {
      const made = rig([], { retries: 0 })
      const { provider, endpoint, clock } = made
      await bringTo(column, made)
      const before = endpoint.count
      endpoint.answers.push(answer)
      const calls = Promise.all(
        Array.from({ length: CALLERS }, () => rejection<TokenRequestError>(provider.getToken())),
      )
      await clock.advance(10_000) // timeoutMs, all of which the only attempt gets
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

  it('is followed by a second attempt for the same callers', async ({ task }) => {
    const { provider, endpoint, clock } = rig([answer])
    const calls = Promise.all(Array.from({ length: CALLERS }, () => provider.getToken()))
    await clock.advance(5_200)
    expect(new Set(await calls).size).toBe(1)
    expect(endpoint.count).toBe(2)
    const cell = `a token after 5.2 s; ${requestsOf(endpoint.count)}`
    record(task, { table: TABLE, group, row: `${row}, retried`, column: COLD, cell })
  })

  it('in the background is noticed by nobody, and ends before the next one', async ({ task }) => {
    const { provider, endpoint, clock } = rig([granted(), answer], { retries: 0 })
    const first = await provider.getToken()
    await clock.advance(900_000)
    for (const ms of [0, 4_999, 1, 26_562]) {
      // 85 s are left when it ends: a quarter of that, and a quarter more
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
 * The requests of ten minutes with a caller every half a second, counted on paper. A token request begins with the
 * first call after the cooldown (1, 2, 4 and then 5 s; to 30 s after a 4xx) of the one before, which itself takes no
 * time, 0.6 s (three attempts) or 10 s (two that hang). `firstSuccessMs`: from the end of the outage; what is under
 * way then has to end, and its cooldown too. `fromWindow`: the same where the outage began inside the refresh window.
 * In the background there is one attempt at 0, 28.5, 48, 61.5, 70.5, 77 and 83.5 s: each after 5/16 of what is left, or
 * 6.25 s. The first call after expiry, at 90 s, is then one that no pause but Retry-After holds back; the cooldown after
 * it is the longest at once, because it is not the first failure in a row.
 */
const OUTAGES = [
  // Begins at 0, 2, 5, 10, 16 and then every 6 s: 102 times three requests. The last one ends at 598.6 s.
  // From the window: 7 requests, and from 90 s on every 6 s 85 times three.
  { row: '503', answer: status(503), requests: 306, firstSuccessMs: 4_000, fromWindow: [262, 0] },
  { row: 'no connection', answer: noConnection, requests: 306, firstSuccessMs: 4_000, fromWindow: [262, 0] },
  // Begins at 0, 11, 23, 37, 52 and then every 15 s: 41 times two requests. The last one ends at 602 s.
  // From the window: at 0, 32, 54, 69 and 80.5 s, and from 90 s on every 15 s 34 times two.
  { row: 'hangs', answer: hang, requests: 82, firstSuccessMs: 7_000, fromWindow: [73, 0] },
  // Begins at 0, 1, 3, 7 and then every 5 s: 122 times. The last one at 597 s.
  // From the window: 7, and from 90 s on every 5 s.
  {
    row: 'bad answers',
    answer: status(200, '{}'),
    requests: 122,
    firstSuccessMs: 2_000,
    fromWindow: [109, 0],
  },
  { row: 'redirects', answer: status(302), requests: 122, firstSuccessMs: 2_000, fromWindow: [109, 0] },
  // Begins at 0, 1, 3, 7, 15, 31, 61 and then every 30 s: 24 times. The last one at 571 s.
  // From the window: 7, and from 90 s on every 30 s.
  { row: '401', answer: status(401), requests: 24, firstSuccessMs: 1_000, fromWindow: [24, 0] },
  // Every 45 s: 14 times. The last one at 585 s.
  {
    row: '429, Retry-After 45 s',
    answer: status(429, '', RETRY_AFTER_45),
    requests: 14,
    firstSuccessMs: 30_000,
    fromWindow: [14, 30_000],
  },
] as const

/** Calls every half a second for ten minutes without a token endpoint, and then until there is a token. */
async function sufferOutage(made: ReturnType<typeof rig>, answer: Answer) {
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

describe('an outage of ten minutes', () => {
  const group = 'outage of 10 minutes, a caller every 0.5 s'

  it.for([COLD, EXPIRED].flatMap((column) => OUTAGES.map((outage) => ({ column, ...outage }))))(
    'with $row, $column',
    async ({ column, row, answer, requests, firstSuccessMs }, { task }) => {
      const made = rig()
      await bringTo(column, made)
      const seen = await sufferOutage(made, answer)
      expect(seen).toEqual({ served: 0, renewed: true, requests, firstSuccessMs })
      const cell = cellOf(seen)
      record(task, { table: TABLE, group, row, column, cell })
    },
  )

  it.for(OUTAGES)('that begins inside the refresh window, with $row', async (outage, { task }) => {
    const { row, answer, fromWindow } = outage
    const [requests, firstSuccessMs] = fromWindow
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const made = rig()
    await bringTo(WINDOW, made)
    const seen = await sufferOutage(made, answer)
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
    // The current token is served for 90 s, to two calls a second.
    expect(seen).toEqual({ served: 180, renewed: true, requests, firstSuccessMs })
    const cell = cellOf(seen)
    record(task, { table: TABLE, group, row, column: WINDOW, cell })
  })

  it.for([COLD, EXPIRED])('with all of these faults in turn, %s', async (column, { task }) => {
    const made = rig()
    await bringTo(column, made)
    let nth = 0
    const seen = await sufferOutage(made, (init) => {
      const { answer } = OUTAGES[nth % OUTAGES.length] as (typeof OUTAGES)[number]
      nth += 1
      return answer(init)
    })
    // The dearest of them alone costs 306 requests; the longest cooldown is that of Retry-After.
    expect(seen.requests).toBeGreaterThan(7)
    expect(seen.requests).toBeLessThanOrEqual(306)
    expect(seen.firstSuccessMs).toBeLessThanOrEqual(45_000)
    const cell = cellOf(seen)
    record(task, { table: TABLE, group, row: 'all of these in turn', column, cell })
  })
})

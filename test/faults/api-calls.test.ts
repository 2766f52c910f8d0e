// 250 calls to an API that rejects, at once, staggered, or one after another: what callers get, and what it costs.
import { describe, expect, it } from 'vitest'
import { thinOut } from '../support/recorded.ts'
import { CALLS, type Calls, callsTo, costOf, RULES, type Rule, TABLE, tally } from './api-rig.ts'
import { record } from './cells.ts'

type Row = [row: string, rule: Rule, expected: string]

const place = (group: string, row: string) => ({ table: TABLE, group, row, column: 'callers, and costs' })
const staggered = { delayOf: (n: number) => (n % 10) * 20 }

/** 250 calls at once; the statuses that their callers get. */
const allAtOnce = ({ get }: Calls): Promise<number[]> =>
  Promise.all(CALLS.map((n) => get(`/merchant/orders/${n}`)))

/** Calls by each of these rules, and what comes of them. */
function meet(
  group: string,
  rows: readonly Row[],
  make: (calls: Calls) => Promise<number[]>,
  options = {},
): void {
  it.for(rows)('that meet %s', async ([row, rule, expected], { task }) => {
    const calls = callsTo(rule, options)
    const cell = costOf(await make(calls), calls)
    expect(cell).toBe(expected)
    thinOut()
    record(task, { ...place(group, row), cell })
  })
}

describe('250 calls at once', () => {
  const group = '250 calls at once'

  it('that meet 401 for ever leave the other API unharmed', async ({ task }) => {
    const calls = callsTo(RULES.forEver)
    const both = await Promise.all(
      CALLS.map((n) => Promise.all([calls.get(`/merchant/orders/${n}`), calls.get(`/in-store/sales/${n}`)])),
    )
    const rejecting = costOf(
      both.map(([status]) => status),
      calls,
    )
    const healthy = `${tally(both.map(([, status]) => status))}; ${calls.apis.inStore} requests`
    expect(rejecting).toBe('250 × 401; 2 tokens, 500 requests')
    expect(healthy).toBe('250 × 200; 250 requests')
    expect(calls.events.filter(({ type }) => type === 'token-rejected').length).toBeLessThanOrEqual(250)
    thinOut()
    record(task, { ...place(group, '401 for ever'), cell: rejecting })
    record(task, { ...place(group, 'the other API meanwhile'), cell: healthy })
  })

  const rows: Row[] = [
    ['401 to every second request', RULES.alternating, '250 × 200; 2 tokens, 375 requests'],
    ['401 to half of the requests, at random', RULES.atRandom, '198 × 200, 52 × 401; 2 tokens, 378 requests'],
  ]
  meet(group, rows, allAtOnce)

  it('of which only the first token is accepted', async ({ task }) => {
    const calls = callsTo(RULES.onlyTheFirst)
    expect(await calls.get('/merchant/orders/0')).toBe(200)
    await calls.clock.advance(86_400_000) // the first one has expired
    calls.apis.merchant = 0
    const statuses = await allAtOnce(calls)
    const cell = costOf(statuses, calls)
    expect(cell).toBe('250 × 401; 3 tokens, 500 requests')
    thinOut()
    record(task, { ...place(group, '401 to all tokens but one that has expired'), cell })
  })
})

describe('250 calls at once, their answers staggered', () => {
  const group = '250 calls, their answers staggered'

  // The first answers of many are long there, and the token renewed, when the last ones come.
  const rows: Row[] = [
    ['401 for ever', RULES.forEver, '250 × 401; 2 tokens, 500 requests'],
    ['401 to every second request', RULES.alternating, '250 × 200; 2 tokens, 375 requests'],
    ['401 to half of the requests, at random', RULES.atRandom, '198 × 200, 52 × 401; 2 tokens, 378 requests'],
  ]
  meet(group, rows, allAtOnce, staggered)

  it('with tokens that the API accepts only after 2 s', async ({ task }) => {
    const calls = callsTo(RULES.after2Seconds, staggered)
    const early = await allAtOnce(calls)
    expect(costOf(early, calls)).toBe('250 × 401; 2 tokens, 500 requests')
    await calls.clock.advance(2_000)
    const late = await allAtOnce(calls)
    const cell = costOf([...early, ...late], calls)
    expect(cell).toBe('250 × 200, 250 × 401; 2 tokens, 750 requests')
    thinOut()
    record(task, { ...place(group, '401 to each token for 2 s, and 250 calls more'), cell })
  })
})

describe('250 calls one after another, within a second', () => {
  const rows: Row[] = [
    ['401 for ever', RULES.forEver, '250 × 401; 2 tokens, 251 requests'],
    ['401 to every second request', RULES.alternating, '126 × 200, 124 × 401; 2 tokens, 251 requests'],
    [
      '401 to half of the requests, at random',
      RULES.atRandom,
      '123 × 200, 127 × 401; 2 tokens, 251 requests',
    ],
  ]
  meet('250 calls one after another', rows, async ({ get }) => {
    const statuses: number[] = []
    for (const n of CALLS) {
      statuses.push(await get(`/merchant/orders/${n}`))
      // The other API stays as it is.
      if (n % 100 === 0) expect(await get(`/in-store/sales/${n}`)).toBe(200)
    }
    return statuses
  })
})

// An hour of calls to an API that rejects, on a clock that stands in between: what it costs.
import type { AuthEvent } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { thinOut } from '../support/recorded.ts'
import { callsTo, type JudgedApis, RULES, type Rule, tally } from './api-rig.ts'
import { counted, record } from './cells.ts'

const GROUP = 'an hour of calls, one every …'
const HOUR = 3_600
const EVERY = { '0.5 s': 0.5, '1 s': 1, '10 s': 10, '30 s': 30, '62 s': 62, '5 min': 300 } as const
type Interval = keyof typeof EVERY
const INTERVALS = Object.keys(EVERY) as Interval[]

/** How many renewals, and what the callers get. */
type Expected = readonly [renewals: number, statuses: string]

const FOR_EVER: Record<Interval, Expected> = {
  // Renewals at 0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047 s. The next may come 30 min later.
  '0.5 s': [12, '7200 × 401'],
  '1 s': [12, '3600 × 401'],
  // At 0, 10, 20, 30, 40, 60, 100, 170, 300, 560, 1080, 2110 s.
  '10 s': [12, '360 × 401'],
  // At 0, 30, 60, 90, 120, 150, 210, 300, 450, 720, 1260, 2310 s.
  '30 s': [12, '120 × 401'],
  // Each call comes a minute later than the gap of 1 s, so all but the limit for an hour begins anew.
  '62 s': [12, '59 × 401'],
  '5 min': [12, '12 × 401'],
}

const ROWS: [row: string, rule: Rule, Record<Interval, Expected>][] = [
  ['401 for ever', RULES.forEver, FOR_EVER],
  [
    '401 to every second request',
    RULES.alternating,
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
    RULES.atRandom,
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
    RULES.after5Seconds,
    {
      // The tokens of 0, 1 and 3 s are replaced before their time; that of 7 s is accepted from 12 s on.
      '0.5 s': [4, '7176 × 200, 24 × 401'],
      '1 s': [4, '3588 × 200, 12 × 401'],
      '10 s': [1, '359 × 200, 1 × 401'],
      '30 s': [1, '119 × 200, 1 × 401'],
      '62 s': [1, '58 × 200, 1 × 401'],
      '5 min': [1, '11 × 200, 1 × 401'],
    },
  ],
]

describe('an hour of calls', () => {
  it.for(ROWS.flatMap(([row, ...rest]) => INTERVALS.map((column) => [row, column, ...rest] as const)))(
    'that meet %s, %s apart, costs what the limit allows, and the other API nothing',
    async ([row, column, rule, literal], { task }) => {
      const { renewals, statuses, inStore, apis, events } = await anHour(rule, EVERY[column])
      const [most, expected] = literal[column]
      expect(most).toBeLessThanOrEqual(12)
      expect([renewals, tally(statuses)]).toEqual([most, expected])
      expect(new Set(inStore)).toEqual(new Set([200]))
      expect(apis.inStore).toBe(inStore.length)
      expect(apis.merchant).toBe(statuses.length + renewals)
      expect(events.filter(({ type }) => type === 'token-requested')).toHaveLength(1 + renewals)
      const cell = `${counted(renewals, 'renewal')}; ${tally(statuses)}`
      record(task, { table: 'api-hour', group: GROUP, row, column, cell })
    },
  )

  it.for(INTERVALS)('that both APIs reject costs each its own limit (%s apart)', async (column, { task }) => {
    const { statuses, inStore, renewals } = await anHour(RULES.forEver, EVERY[column], { both: true })
    const [most, expected] = FOR_EVER[column]
    expect([renewals, tally(statuses), tally(inStore)]).toEqual([2 * most, expected, expected])
    const cell = `${counted(renewals, 'renewal')}; 2 × ${tally(statuses)}`
    record(task, { table: 'api-hour', group: GROUP, row: '401 for ever, of both APIs', column, cell })
  })
})

interface Hour {
  readonly apis: JudgedApis
  readonly events: readonly AuthEvent[]
  readonly renewals: number
  readonly statuses: readonly number[]
  readonly inStore: readonly number[]
}

async function anHour(rule: Rule, seconds: number, { both = false } = {}): Promise<Hour> {
  const { apis, endpoint, clock, events, get } = callsTo(rule, { both })
  const statuses: number[] = []
  const inStore: number[] = []
  for (let n = 0; n * seconds < HOUR; n += 1) {
    statuses.push(await get(`/merchant/orders/${n}`))
    inStore.push(await get(`/in-store/orders/${n}`))
    await clock.advance(seconds * 1_000)
  }
  thinOut()
  return { apis, events, renewals: endpoint.count - 1, statuses, inStore }
}

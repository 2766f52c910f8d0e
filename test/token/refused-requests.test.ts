/** A token endpoint that counts refused requests, too, and says nothing but 429: it recovers, and so do all processes. */
import { describe, expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'
import { withoutJitter } from './harness.ts'
import { DAY_MS, HOUR_MS, type Service, type SetUp, simulate } from './spent-quota.ts'

withoutJitter()

const HOURLY = [10, HOUR_MS] as const
const DAILY: Service = { quotas: [HOURLY, [50, DAY_MS]], lifetimeS: 86_400 }
const SLIDING: Service = { quotas: [HOURLY], sliding: true, lifetimeS: 3_600 }

/** The window of the service, and 30 minutes; 90 for processes that know nothing of each other and hear nothing. */
const SOON_MIN = 90
const LATER_MIN = 150

describe('a token endpoint whose quota of 10 an hour was spent at a deployment', () => {
  it.each<[name: string, setUp: Omit<SetUp, 'spent'>, mostMin: number, mostRequests: number]>([
    ['1 process', { processes: 1, service: DAILY }, SOON_MIN, 12],
    ['4 processes', { processes: 4, service: DAILY }, LATER_MIN, 48],
    [
      '4, an exact Retry-After',
      { processes: 4, service: { ...DAILY, saysWhen: 'retry-after' } },
      SOON_MIN,
      12,
    ],
    ['1, an API rejects every token', { processes: 1, service: SLIDING, rejects: true }, SOON_MIN, 200],
    ['1 with a store', { processes: 1, service: DAILY, shared: true }, SOON_MIN, 12],
    ['4 with a store', { processes: 4, service: DAILY, shared: true }, SOON_MIN, 12],
    ['100 with a store', { processes: 100, service: DAILY, shared: true, callEveryMs: 60_000 }, SOON_MIN, 12],
    ['4 with a store, sliding', { processes: 4, service: SLIDING, shared: true }, SOON_MIN, 60],
  ])('serves all processes again: %s', { timeout: PATIENCE_MS }, async (_, setUp, mostMin, mostRequests) => {
    const day = await simulate({ ...setUp, spent: 10 })
    expect(day.downMin).toBeLessThanOrEqual(mostMin)
    expect(day.requests).toBeLessThanOrEqual(mostRequests)
  })
})

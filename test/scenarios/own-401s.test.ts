/** Simulated days of calls that get a 401 of their own, of revoked tokens, and of APIs that learn of a token late. */
import { describe, expect, inject, it } from 'vitest'
import { BUCKET, MAX_DOUBT_MS, MAX_ROW_MS, REFILL_MS } from '../../src/token/limits/renewals.ts'
import {
  type ApiName,
  allGood,
  BY_HAND,
  badByChance,
  badInThrees,
  CLIENTS,
  DAY_MS,
  FETCH,
  HOUR_MS,
  type Kinds,
  MINUTE_MS,
  type Outcome,
  oneBadStoreOf,
  type Plan,
  SECOND_MS,
  simulate,
  withHealthChecks,
} from './simulated-api.ts'

const SEEDS = inject('deep') ? Array.from({ length: 20 }, (_, n) => n + 1) : [1, 2, 3]

/** One outcome for each seed. */
async function simulateAll(plan: Omit<Plan, 'seed'>): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = []
  for (const seed of SEEDS) outcomes.push(await simulate({ ...plan, seed }))
  return outcomes
}

/** The largest of each figure. */
function worstOf(outcomes: readonly Outcome[]) {
  const most = (figure: (outcome: Outcome) => number): number => Math.max(...outcomes.map(figure))
  return {
    requests: most(({ requests }) => requests),
    inAnHour: most(({ requestsInWorstHour }) => requestsInWorstHour),
    inADay: most(({ requestsInWorstDay }) => requestsInWorstDay),
    lost: most(({ lost }) => lost.length),
    lostForMs: most(({ lostForMs }) => lostForMs),
  }
}

const CALL_EVERY_MS = 10 * SECOND_MS
/** What the contract says of a day of calls with a 401 of their own: renewals, and good calls that a revocation costs. */
const MOST_RENEWALS = 12
const MOST_LOST = 36
/** The same of a day with many calls a second. */
const MOST_REQUESTS = 27
/**
 * In doubt, a call that is rejected this long after the first one renews. It is sent up to one interval later, and one that
 * is bad may come before the revocation.
 */
const lostForAtMostMs = (everyMs: number): number => MAX_ROW_MS + 2 * everyMs
/** The most renewals within this time, and a scheduled one. */
const mostWithin = (ms: number): number => BUCKET + Math.floor(ms / REFILL_MS) + 1

describe.each(CLIENTS)('a day of calls with $name, of which 10 % get a 401 of their own,', (client) => {
  const plan = {
    client,
    forMs: DAY_MS,
    traffic: [{ kinds: badByChance(0.1), everyMs: CALL_EVERY_MS }],
  }

  it('costs few token requests, and no good call', async () => {
    const { requests, lost } = worstOf(await simulateAll(plan))
    expect(requests).toBeLessThanOrEqual(1 + MOST_RENEWALS)
    expect(lost).toBe(0)
  })

  it('costs few good calls, and not for long, when the token is revoked', async () => {
    const worst = worstOf(await simulateAll({ ...plan, revokedAtMs: [12 * HOUR_MS] }))
    expect(worst.requests).toBeLessThanOrEqual(1 + MOST_RENEWALS)
    expect(worst.lost).toBeLessThanOrEqual(MOST_LOST)
    expect(worst.lostForMs).toBeLessThanOrEqual(lostForAtMostMs(CALL_EVERY_MS))
  })
})

it.each(CLIENTS)(
  'no call of 50 at a time is lost when tokens are revoked three times: $name',
  async (client) => {
    const worst = worstOf(
      await simulateAll({
        client,
        forMs: 5 * SECOND_MS,
        judgedWithinMs: 20,
        revokedAtMs: [1, 2, 3].map((second) => second * SECOND_MS),
        traffic: [{ kinds: allGood, everyMs: 0, loops: 50 }],
      }),
    )
    expect(worst).toMatchObject({ requests: 4, lost: 0 })
  },
)

describe('a revoked token among calls with a 401 of their own', () => {
  // After the first hour hardly anything happens, so an eighth of the day is enough for npm test.
  const busy = inject('deep')
    ? { client: FETCH, forMs: DAY_MS, revokedAtMs: [6 * HOUR_MS] }
    : { client: FETCH, forMs: DAY_MS / 8, revokedAtMs: [2 * HOUR_MS] }

  it.each([
    { name: '20 loops, 10 % by chance', kinds: badByChance(0.1), loops: 20 },
    { name: '20 loops, 3 % in threes', kinds: badInThrees(0.03), loops: 20 },
    { name: 'one loop, 1 % by chance', kinds: badByChance(0.01), loops: 1 },
    { name: 'one loop, one of 40 stores has a wrong id', kinds: oneBadStoreOf(40), loops: 1 },
  ])('loses few good calls, and not for long: $name', async ({ kinds, loops }) => {
    const everyMs = 2 * SECOND_MS
    const worst = worstOf(await simulateAll({ ...busy, traffic: [{ kinds, everyMs, loops }] }))
    expect(worst.requests).toBeLessThanOrEqual(MOST_REQUESTS)
    expect(worst.lost).toBeLessThanOrEqual(MOST_LOST)
    expect(worst.lostForMs).toBeLessThanOrEqual(lostForAtMostMs(everyMs))
  })

  it('loses few good calls of a loop that calls every 10 minutes', async () => {
    const everyMs = 10 * MINUTE_MS
    const worst = worstOf(
      await simulateAll({
        client: FETCH,
        forMs: DAY_MS,
        revokedAtMs: [12 * HOUR_MS],
        traffic: [{ kinds: badByChance(0.3), everyMs }],
      }),
    )
    expect(worst.requests).toBeLessThanOrEqual(1 + MOST_RENEWALS)
    expect(worst.lost).toBeLessThanOrEqual(2)
  })

  it.each([
    { name: 'each 2 s', everyMs: 2 * SECOND_MS },
    { name: 'each 10 s', everyMs: CALL_EVERY_MS },
  ])('is found in time where most calls go to a health check: $name', async ({ everyMs }) => {
    const kinds = withHealthChecks(0.9, badByChance(0.1))
    const worst = worstOf(
      await simulateAll({
        client: FETCH,
        forMs: DAY_MS,
        revokedAtMs: [12 * HOUR_MS],
        traffic: [{ kinds, everyMs }],
      }),
    )
    expect(worst.requests).toBeLessThanOrEqual(1 + MOST_RENEWALS)
    expect(worst.lostForMs).toBeLessThanOrEqual(MAX_DOUBT_MS + 5 * MINUTE_MS)
  })

  it('is renewed for the first call where only health checks are accepted and no call is bad', async () => {
    const worst = worstOf(
      await simulateAll({
        client: FETCH,
        forMs: DAY_MS,
        revokedAtMs: [12 * HOUR_MS],
        traffic: [{ kinds: withHealthChecks(0.9, allGood), everyMs: CALL_EVERY_MS }],
      }),
    )
    expect(worst).toMatchObject({ requests: 2, lost: 0 })
  })
})

describe('an API that rejects every token', () => {
  it.each([
    { name: 'each 10 s', everyMs: CALL_EVERY_MS, forMs: 2 * DAY_MS },
    { name: 'each 10 min', everyMs: 10 * MINUTE_MS, forMs: 2 * DAY_MS },
    { name: 'each second', everyMs: SECOND_MS, forMs: 25 * HOUR_MS },
  ])('spends no quota and harms no other API: $name', async ({ everyMs, forMs }) => {
    const rejectingApi: ApiName = 'inStore'
    const worst = worstOf(
      await simulateAll({
        client: FETCH,
        forMs,
        rejectingApi,
        traffic: [
          { kinds: allGood, everyMs: CALL_EVERY_MS },
          // Right after the scheduled renewal, which counts, too.
          { kinds: allGood, everyMs, api: rejectingApi, fromMs: 23.25 * HOUR_MS },
        ],
      }),
    )
    expect(worst.inAnHour).toBeLessThanOrEqual(mostWithin(HOUR_MS))
    expect(worst.inADay).toBeLessThanOrEqual(mostWithin(DAY_MS))
    expect(worst.lost).toBe(0)
  })

  it('is limited by the bucket alone where nobody reports accepted calls', async () => {
    const outcomes = await simulateAll({
      client: BY_HAND,
      forMs: 25 * HOUR_MS,
      rejectingApi: 'merchant',
      traffic: [{ kinds: allGood, everyMs: CALL_EVERY_MS }],
    })
    for (const { requestedAtMs } of outcomes) {
      expect(requestedAtMs.filter((atMs) => atMs < 10 * MINUTE_MS)).toHaveLength(1 + BUCKET)
    }
    const worst = worstOf(outcomes)
    expect(worst.inAnHour).toBeLessThanOrEqual(mostWithin(HOUR_MS))
    expect(worst.inADay).toBeLessThanOrEqual(mostWithin(DAY_MS))
  })
})

describe('an API that learns of a new token late', () => {
  const LATE = [
    { lag: '15 min', lagMs: 15 * MINUTE_MS, lifetimeMs: 10 * HOUR_MS, forMs: 40 * HOUR_MS, requests: 5 },
    // The token before has to live for as long as the API does not know the new one.
    {
      lag: '1 h',
      lagMs: HOUR_MS,
      lifetimeMs: DAY_MS,
      forMs: 72 * HOUR_MS,
      requests: 4,
      options: { refreshAheadMs: 90 * MINUTE_MS },
    },
  ]
  const planFor = (late: (typeof LATE)[number], kinds: Kinds) => {
    const { lag: _, requests: __, ...plan } = late
    return { client: FETCH, traffic: [{ kinds, everyMs: CALL_EVERY_MS }], ...plan }
  }

  it.each(LATE)('loses no call and costs no further token: $lag', async (late) => {
    const worst = worstOf(await simulateAll(planFor(late, allGood)))
    expect(worst.lost).toBe(0)
    expect(worst.requests).toBeLessThanOrEqual(late.requests + 2)
  })

  it.each(LATE)('loses hardly a good call among others with a 401 of their own: $lag', async (late) => {
    const plan = planFor(late, badByChance(0.1))
    const inTime = worstOf(await simulateAll({ ...plan, lagMs: 0 }))
    const worst = worstOf(await simulateAll(plan))
    expect(worst.lost).toBeLessThanOrEqual(2)
    expect(worst.requests).toBeLessThanOrEqual(inTime.requests + 2)
  })
})

describe('three processes with a store', () => {
  const trafficWith = (kinds: Kinds) =>
    [kinds, allGood, allGood].map((each, process) => ({ kinds: each, everyMs: CALL_EVERY_MS, process }))

  it('lose few calls when their token is revoked, where one of them makes bad calls', async () => {
    const outcomes = await simulateAll({
      client: FETCH,
      forMs: DAY_MS,
      processes: 3,
      revokedAtMs: [12 * HOUR_MS],
      traffic: trafficWith(badByChance(0.1)),
    })
    expect(worstOf(outcomes).inADay).toBeLessThan(50)
    // Each of the two healthy processes, which share the doubt of the other one.
    for (const { lost } of outcomes) {
      expect(lost.filter(({ process }) => process > 0).length).toBeLessThanOrEqual(
        2 * (2 + MAX_ROW_MS / CALL_EVERY_MS),
      )
      expect(lost.filter(({ process }) => process === 0).length).toBeLessThanOrEqual(MOST_LOST)
    }
  })

  const late = {
    client: FETCH,
    forMs: 40 * HOUR_MS,
    processes: 3,
    lifetimeMs: 10 * HOUR_MS,
    lagMs: 10 * MINUTE_MS,
  }

  it('lose no call, and share each token, where the API learns of it 10 min late', async () => {
    const worst = worstOf(await simulateAll({ ...late, traffic: trafficWith(allGood) }))
    expect(worst.lost).toBe(0)
    expect(worst.requests).toBeLessThanOrEqual(7)
  })

  it('lose hardly a good call where the API is late and one of them makes bad calls', async () => {
    const worst = worstOf(await simulateAll({ ...late, traffic: trafficWith(badByChance(0.1)) }))
    expect(worst.lost).toBeLessThanOrEqual(2)
    expect(worst.inADay).toBeLessThan(20)
  })
})

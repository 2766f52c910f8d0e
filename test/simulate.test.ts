/** The simulation of a fleet, on a small scale: in threads of its own, where its clock and its randomness disturb nobody. */
import { beforeAll, describe, expect, it } from 'vitest'
import { type Outcome, PHASES } from '../scripts/simulate/figures.ts'
import { type Job, runJobs } from '../scripts/simulate/jobs.ts'
import { type SimulationOptions, scenarioOf, UNGUARDED, VARIANTS } from '../scripts/simulate/scenario.ts'

const PROVIDERS = 30
const LIFETIMES = 8
const LEASE_MS = 10_000
/** For the request of whoever has the lease after one who died. */
const GRACE_MS = 1_000
const SLOWEST_REQUEST_MS = 400
const SLOWEST_REDIS_MS = 5
const OPERATION_TIMEOUT_MS = 250

const eventful: SimulationOptions = {
  providers: PROVIDERS,
  hours: 2,
  lifetimeSeconds: (2 * 3_600) / LIFETIMES,
  callEverySeconds: 10,
  seed: 4,
  calm: false,
}
/** Two hours, four tokens of half an hour each: the first one lives for 1 490 s before it is renewed. */
const calm = { ...eventful, lifetimeSeconds: 1_800, callEverySeconds: 1, calm: true }
const CALM_TOKENS = Math.ceil((2 * 3_600) / 1_490)
const pausing = { ...calm, providers: 10, hours: 1, lifetimeSeconds: 300, callEverySeconds: 5 }

const jobsOf = (options: SimulationOptions): Job[] =>
  VARIANTS.map((variant) => ({ variant, scenario: scenarioOf(options) }))

let eventfulOutcomes: Outcome[]
let calmOutcomes: Outcome[]
let again: Outcome
let crashing: Outcome
let paused: Outcome

beforeAll(async () => {
  const repeated = jobsOf(calm).slice(-1)
  const allCrash = {
    ...scenarioOf({ ...calm, providers: 10, hours: 0.05 }),
    accidents: { pause: 0, crash: 1 },
  }
  const crashes: Job[] = [{ variant: 'store with lease', scenario: allCrash }]
  const manyPause = { ...scenarioOf(pausing), accidents: { pause: 0.6, crash: 0 } }
  const pauses: Job[] = [{ variant: 'store with lease', scenario: manyPause }]
  const outcomes = await runJobs([...jobsOf(eventful), ...jobsOf(calm), ...repeated, ...crashes, ...pauses])
  eventfulOutcomes = outcomes.slice(0, 3)
  calmOutcomes = outcomes.slice(3, 6)
  again = outcomes[6] as Outcome
  crashing = outcomes[7] as Outcome
  paused = outcomes[8] as Outcome
})

const longestWait = ({ waits }: Outcome): number => Math.max(...PHASES.map((phase) => waits[phase].longestMs))

describe('two hours of a fleet with deploys, accidents and a Redis outage', () => {
  it('fail no call, and let none wait for ever', () => {
    for (const { failed, forgotten, failure, calls } of [...eventfulOutcomes, crashing]) {
      expect({ failed, forgotten }, failure).toEqual({ failed: 0, forgotten: 0 })
      expect(calls).toBeGreaterThan(0)
    }
  })

  it('give no call an expired token, but for those of processes that write late without a lease', () => {
    const guarded = [...eventfulOutcomes, crashing, paused].filter((_, nth) => VARIANTS[nth] !== UNGUARDED)
    for (const { expired } of guarded) expect(expired).toBe(0)
  })

  it('cost each process its own tokens without a store', () => {
    const [without] = eventfulOutcomes
    const replaced = 3 * PROVIDERS
    expect(without?.restarts).toBe(replaced)
    expect(without?.requests).toBeGreaterThanOrEqual(PROVIDERS * LIFETIMES + replaced / 2)
  })

  it.each([
    ['without a lease', 1],
    ['with a lease', 2],
  ] as const)('cost a tenth of that with a store %s, and in the outage one for each process', (_, nth) => {
    const [without, ...stores] = eventfulOutcomes
    const { requests = 0, outageRequests = 0, restarts = 0, storeFailures = 0 } = stores[nth - 1] ?? {}
    expect(10 * (requests - outageRequests)).toBeLessThan(without?.requests ?? 0)
    expect(outageRequests).toBeGreaterThanOrEqual(PROVIDERS)
    expect(outageRequests).toBeLessThanOrEqual(1.2 * PROVIDERS)
    expect(storeFailures).toBeGreaterThanOrEqual(PROVIDERS)
    expect(restarts).toBeGreaterThan(3 * PROVIDERS)
  })

  it('lose leases, and yet no older token takes the place of a newer one', () => {
    expect(paused.leasesLost).toBeGreaterThan(3)
    for (const leased of [eventfulOutcomes[2], paused]) expect(leased?.olderWritten).toBe(0)
  })

  it('let no call wait for longer than a lease and a token request, though all who have the lease crash', () => {
    const atMostMs = LEASE_MS + GRACE_MS + SLOWEST_REQUEST_MS + OPERATION_TIMEOUT_MS
    expect(longestWait(crashing)).toBeGreaterThan(LEASE_MS)
    for (const leased of [crashing, eventfulOutcomes[2] as Outcome])
      expect(longestWait(leased)).toBeLessThan(atMostMs)
  })
})

describe('two calm hours of a fleet under steady load', () => {
  it('cost one token request in each lifetime with a lease', () => {
    expect(calmOutcomes[2]?.requests).toBe(CALM_TOKENS)
  })

  it('cost several without a lease, and one for each process without a store', () => {
    expect(calmOutcomes[1]?.requests).toBeGreaterThan(CALM_TOKENS)
    expect(calmOutcomes[0]?.requests).toBeGreaterThanOrEqual(PROVIDERS * 4)
  })

  it('let a call wait for one request, one look and some answers of Redis at most', () => {
    const atMostMs = SLOWEST_REQUEST_MS + 100 + 4 * SLOWEST_REDIS_MS
    expect(longestWait(calmOutcomes[2] as Outcome)).toBeLessThanOrEqual(atMostMs)
  })

  it('come out the same with the same seed', () => {
    expect(again).toEqual(calmOutcomes[2])
  })
})

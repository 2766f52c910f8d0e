/**
 * What a fleet costs: the model in simulated time, with every rule checked. `npm run simulate` runs it at full size and
 * prints the table of docs/stores.md.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Random } from '../support/random.ts'
import type { Machine } from './actions.ts'
import { fakeEncryption, loadProvider } from './encryption.ts'
import { Fleet } from './fleet.ts'
import type { FleetProcess } from './process.ts'
import { Timeline } from './timeline.ts'

const FULL = process.env['MODE'] === 'figures'
const PROCESSES = FULL ? 200 : 20
const HOURS = FULL ? 24 : 6
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const LIFETIME_MS = HOUR_MS
const CALL_EVERY_MS = MINUTE_MS
/** Before this time no token request has been answered. */
const EARLY_MS = 60
/** About how long a process takes to renew the token for all others. */
const TURN_MS = 300

const LEASE_MS = 10_000
const GRACE_MS = 1_000
const OPERATION_MS = 250
const POLL_EVERY_MS = 50
const SLOWEST_REQUEST_MS = 400
const SLOWEST_COMMAND_MS = 5

class Simulation {
  readonly fleet: Fleet
  readonly random = new Random(4)
  readonly timeline = new Timeline(this.random)
  readonly figures = { calls: 0, failed: 0, longestWaitMs: 0, requests: 0, commands: 0, peak: 0, leases: 0 }
  /** Called with each process that acquires the lease. */
  onLease: (process: FleetProcess) => void = () => {}
  readonly #paused = new Set<FleetProcess>()

  constructor(lifetimeMs = LIFETIME_MS) {
    this.fleet = new Fleet(
      {
        machines: Array.from({ length: PROCESSES }, () => this.#machine()),
        answers: [],
        options: { timeoutMs: LEASE_MS, retries: 2, expiryMarginMs: undefined, refreshAheadMs: undefined },
        lifetimeSeconds: lifetimeMs / 1_000,
        onLease: (process) => {
          this.figures.leases += 1
          this.onLease(process)
        },
      },
      this.timeline.later,
    )
    for (let nth = 0; nth < PROCESSES; nth += 1) this.#callLater(nth)
  }

  /** Continues for so many hours. The same seed gives the same figures. */
  async run(hours: number): Promise<Simulation> {
    const jitter = vi.spyOn(Math, 'random').mockImplementation(() => this.random.next())
    const { figures, fleet } = this
    for (let seconds = hours * 3_600; seconds > 0; seconds -= 1) {
      const before = fleet.server.commands
      await this.timeline.run(fleet, 1_000)
      figures.peak = Math.max(figures.peak, fleet.server.commands - before)
    }
    figures.requests = fleet.endpoint.requests
    figures.commands = fleet.server.commands
    jitter.mockRestore()
    return this
  }

  /** Replaces every process within half an hour. */
  deploy(): void {
    for (let nth = 0; nth < PROCESSES; nth += 1)
      this.timeline.after(this.random.next() * 0.5 * HOUR_MS, () =>
        this.fleet.act({ does: 'close', who: 0, replaced: true }),
      )
  }

  crash(process: FleetProcess): void {
    const who = this.fleet.living.indexOf(process)
    if (who >= 0) this.fleet.act({ does: 'crash', who, replaced: true })
  }

  /** Freezes the process for longer than its lease lasts. */
  pause(process: FleetProcess): void {
    this.#paused.add(process)
    process.steps.pause()
    this.timeline.after(this.random.between(10_500, 40_000), () => process.steps.resume())
  }

  /** A machine whose clocks are wrong by minutes or hours. */
  #machine(): Machine {
    const { random } = this
    return {
      monotonicMs: random.between(0, 1_000 * HOUR_MS),
      epochMs: Math.round((2 * random.next() - 1) ** 3 * 12 * HOUR_MS),
      resends: random.chance(0.5),
      ordered: true,
      encryptsLate: false,
    }
  }

  #callLater(nth: number): void {
    this.timeline.after(-Math.log(1 - this.random.next()) * CALL_EVERY_MS, () => void this.#call(nth))
  }

  async #call(nth: number): Promise<void> {
    this.#callLater(nth)
    const { figures, timeline } = this
    const { living } = this.fleet
    const process = living[nth % living.length] as FleetProcess
    const from = timeline.now
    figures.calls += 1
    const value = await process.getToken()
    if (!process.lives || this.#paused.has(process)) return
    if (value === undefined) figures.failed += 1
    figures.longestWaitMs = Math.max(figures.longestWaitMs, timeline.now - from)
  }
}

let calm: Simulation

beforeAll(async () => {
  await loadProvider()
  await fakeEncryption()
  calm = await new Simulation().run(HOURS)
}, 600_000)

const rows: Record<string, Record<string, number | string>> = {}

/** Adds a row to the table. */
function show(row: string, { figures }: Simulation): void {
  const { requests, calls, failed, longestWaitMs, commands, peak } = figures
  const perLifetime = (count: number): string => ((count * LIFETIME_MS) / (HOURS * HOUR_MS)).toFixed(1)
  rows[row] = {
    'token requests': requests,
    'per lifetime': perLifetime(requests),
    calls,
    failed,
    'longest wait (ms)': Math.round(longestWaitMs),
    'Redis commands per process and lifetime': perLifetime(commands / PROCESSES),
    'most in a second': peak,
  }
}

describe(`${HOURS} hours of ${PROCESSES} processes that share a token of an hour`, {
  timeout: 600_000,
}, () => {
  afterAll(() => {
    if (FULL) console.table(rows)
  })

  it('cost one token request per lifetime, and no call waits longer than for one request and one poll', () => {
    show('nothing goes wrong', calm)
    const { requests, failed, longestWaitMs } = calm.figures
    expect(failed).toBe(0)
    expect(requests).toBeGreaterThanOrEqual((HOURS * HOUR_MS) / LIFETIME_MS)
    expect(requests).toBeLessThanOrEqual(Math.ceil((HOURS * HOUR_MS) / (0.75 * LIFETIME_MS)))
    expect(longestWaitMs).toBeLessThanOrEqual(SLOWEST_REQUEST_MS + POLL_EVERY_MS + 4 * SLOWEST_COMMAND_MS)
  })

  it('have the same figures with the same seed', async () => {
    const [one, other] = [await new Simulation().run(0.5), await new Simulation().run(0.5)]
    expect(other.figures).toEqual(one.figures)
  })

  it('cost at most one more token request if all processes are replaced three times', async () => {
    const deployed = new Simulation()
    for (const part of [1 / 4, 1 / 2, 3 / 4])
      deployed.timeline.after(part * HOURS * HOUR_MS, () => deployed.deploy())
    await deployed.run(HOURS)
    show('three deployments', deployed)
    expect(deployed.figures.failed).toBe(0)
    expect(deployed.figures.requests).toBeLessThanOrEqual(calm.figures.requests + 1)
  })

  it('cost about one token request per process while Redis hangs for an hour, and fail no call', async () => {
    const simulation = await new Simulation().run(2)
    const { requests: before, longestWaitMs } = simulation.figures
    simulation.fleet.act({ does: 'server', mood: 'hangs' })
    await simulation.run(1)
    expect(simulation.figures.requests - before).toBeGreaterThanOrEqual(PROCESSES)
    expect(simulation.figures.requests - before).toBeLessThanOrEqual(1.2 * PROCESSES)
    simulation.fleet.act({ does: 'server', mood: 'well' })
    simulation.fleet.act({ does: 'flush' })
    await simulation.run(HOURS - 3)
    show('Redis hangs for an hour', simulation)
    expect(simulation.figures.failed).toBe(0)
    expect(simulation.figures.longestWaitMs).toBeLessThanOrEqual(
      Math.max(longestWaitMs, OPERATION_MS + SLOWEST_REQUEST_MS),
    )
  })

  it('cost no token request while Redis hangs for nine minutes from the opening of the refresh window', async () => {
    const simulation = await new Simulation().run((48 * MINUTE_MS - 10_000) / HOUR_MS)
    simulation.fleet.act({ does: 'server', mood: 'hangs' })
    await simulation.run((9 * MINUTE_MS) / HOUR_MS)
    expect(simulation.figures.requests).toBe(1)
    simulation.fleet.act({ does: 'server', mood: 'well' })
    await simulation.run(HOURS - 1)
    show('Redis hangs for 9 minutes', simulation)
    expect(simulation.figures.failed).toBe(0)
    expect(simulation.figures.requests).toBeLessThanOrEqual(calm.figures.requests + 1)
  })

  it('cost no token request while Redis hangs for half an hour, with a token of 10 hours', async () => {
    const simulation = await new Simulation(10 * HOUR_MS).run(9 - 10_000 / HOUR_MS)
    simulation.fleet.act({ does: 'server', mood: 'hangs' })
    await simulation.run(0.5)
    expect(simulation.figures).toMatchObject({ requests: 1, failed: 0 })
  })

  it('fail no call while the token endpoint is down for eight of every twenty minutes', async () => {
    const simulation = new Simulation()
    const { endpoint } = simulation.fleet
    for (let at = 20 * MINUTE_MS; at < HOURS * HOUR_MS; at += 20 * MINUTE_MS) {
      simulation.timeline.after(at, () => {
        endpoint.outage = { kind: 'status', status: 503 }
      })
      simulation.timeline.after(at + 8 * MINUTE_MS, () => {
        endpoint.outage = undefined
      })
    }
    await simulation.run(HOURS)
    show('token endpoint down for 8 min of every 20', simulation)
    expect(simulation.figures.failed).toBe(0)
  })

  it('let no call wait longer than a lease and a token request if lease holders crash or freeze', async () => {
    const atMostMs = LEASE_MS + GRACE_MS + SLOWEST_REQUEST_MS + OPERATION_MS
    const crashing = new Simulation()
    crashing.onLease = (process) =>
      crashing.timeline.after(crashing.random.next() * EARLY_MS, () => crashing.crash(process))
    await crashing.run(0.1)
    const pausing = new Simulation()
    pausing.onLease = (process) =>
      pausing.timeline.after(pausing.random.next() * TURN_MS, () => pausing.pause(process))
    await pausing.run(HOURS)
    show('every holder of the lease stands still', pausing)
    expect(crashing.figures.longestWaitMs).toBeGreaterThan(LEASE_MS)
    for (const { figures } of [crashing, pausing]) {
      expect(figures.failed).toBe(0)
      expect(figures.leases).toBeGreaterThan(3)
      expect(figures.longestWaitMs).toBeLessThanOrEqual(atMostMs)
    }
  })
})

/** What is counted while the fleet runs. */
import type { Scenario, Span } from './scenario.ts'

const MINUTE_MS = 60_000
/** A process that was started has been called by then, and what an outage leaves behind is over. */
const AFTERMATH = 1 / 288

export const PHASES = ['cold start', 'deploys', 'Redis outage', 'otherwise'] as const
export type Phase = (typeof PHASES)[number]

export interface Waits {
  readonly calls: number
  readonly longestMs: number
}

/** What came of one variant. */
export interface Outcome {
  readonly requests: number
  /** In the outage, and in what it leaves behind. */
  readonly outageRequests: number
  readonly requestsPerMinute: readonly number[]
  readonly outage: Span
  readonly longestWaitPerMinute: readonly number[]
  readonly calls: number
  readonly failed: number
  /** Calls that failed in a process that stood still meanwhile. */
  readonly failedStanding: number
  readonly failure: string | undefined
  /** Calls that wait in the end, and have for longer than any may. */
  readonly forgotten: number
  readonly expired: number
  readonly older: number
  readonly waits: Readonly<Record<Phase, Waits>>
  /** Of the calls that waited, in ms. */
  readonly medianWaitMs: number
  readonly longWaitMs: number
  /** Of calls in a process that stood still meanwhile. */
  readonly standing: Waits
  readonly restarts: number
  readonly redisCommands: number
  readonly redisPeakPerSecond: number
  readonly storeFailures: number
  readonly fromStore: number
  readonly leases: number
  readonly paused: number
  readonly crashed: number
  readonly leasesLost: number
  readonly olderWritten: number
}

export class Figures {
  calls = 0
  expired = 0
  older = 0
  forgotten = 0
  restarts = 0
  storeFailures = 0
  fromStore = 0
  leases = 0
  paused = 0
  crashed = 0
  leasesLost = 0
  olderWritten = 0
  requests = 0
  readonly #requestsPerMinute: number[]
  readonly #longestWaitPerMinute: number[]
  readonly #waits: number[] = []
  readonly #byPhase: Record<Phase, Waits>
  #standing: Waits = { calls: 0, longestMs: 0 }
  readonly #phaseOf: (at: number) => Phase
  readonly #outage: Span
  #redisCommands = 0
  #redisSecond = { second: 0, commands: 0 }
  #redisPeak = 0
  #outageRequests = 0
  #failed = 0
  #failedStanding = 0
  #failure: string | undefined

  constructor({ durationMs, deploys }: Scenario, outage: Span) {
    const minutes = Math.ceil(durationMs / MINUTE_MS)
    this.#requestsPerMinute = new Array(minutes).fill(0)
    this.#longestWaitPerMinute = new Array(minutes).fill(0)
    this.#byPhase = Object.fromEntries(PHASES.map((phase) => [phase, none()])) as Record<Phase, Waits>
    this.#outage = outage
    const aftermathMs = AFTERMATH * durationMs
    const isIn = ({ from, until }: Span, at: number): boolean => at >= from && at < until + aftermathMs
    this.#phaseOf = (at) => {
      if (at < aftermathMs) return 'cold start'
      if (deploys.some((deploy) => isIn(deploy, at))) return 'deploys'
      return isIn(outage, at) ? 'Redis outage' : 'otherwise'
    }
  }

  tokenRequest(at: number): void {
    this.requests += 1
    if (this.#phaseOf(at) === 'Redis outage') this.#outageRequests += 1
    const minute = minuteOf(at)
    this.#requestsPerMinute[minute] = (this.#requestsPerMinute[minute] ?? 0) + 1
  }

  /** A call has waited for a token. Where its process stood still, that is nobody's fault but the machine's. */
  waited({ from, ms, stoodStill }: { from: number; ms: number; stoodStill: boolean }): void {
    if (stoodStill) {
      this.#standing = plus(this.#standing, ms)
      return
    }
    const phase = this.#phaseOf(from)
    this.#byPhase[phase] = plus(this.#byPhase[phase], ms)
    this.#waits.push(ms)
    const minute = minuteOf(from)
    this.#longestWaitPerMinute[minute] = Math.max(this.#longestWaitPerMinute[minute] ?? 0, ms)
  }

  failed({ error, stoodStill }: { error: unknown; stoodStill: boolean }): void {
    if (stoodStill) this.#failedStanding += 1
    else this.#failed += 1
    this.#failure ??= String(error)
  }

  redisCommand(at: number): void {
    this.#redisCommands += 1
    const second = Math.floor(at / 1_000)
    if (second !== this.#redisSecond.second) this.#redisSecond = { second, commands: 0 }
    this.#redisSecond.commands += 1
    this.#redisPeak = Math.max(this.#redisPeak, this.#redisSecond.commands)
  }

  outcome(): Outcome {
    const sorted = this.#waits.sort((one, other) => one - other)
    const share = (part: number): number => sorted[Math.floor(part * (sorted.length - 1))] ?? 0
    const { calls, forgotten, expired, older, restarts, storeFailures, fromStore } = this
    const { leases, paused, crashed, leasesLost, olderWritten, requests } = this
    return {
      ...{ calls, forgotten, expired, older, restarts, storeFailures, fromStore },
      ...{ leases, paused, crashed, leasesLost, olderWritten, requests },
      outage: { from: this.#outage.from, until: this.#outage.until },
      outageRequests: this.#outageRequests,
      requestsPerMinute: this.#requestsPerMinute,
      longestWaitPerMinute: this.#longestWaitPerMinute,
      redisCommands: this.#redisCommands,
      redisPeakPerSecond: this.#redisPeak,
      failed: this.#failed,
      failedStanding: this.#failedStanding,
      failure: this.#failure,
      waits: this.#byPhase,
      medianWaitMs: share(0.5),
      longWaitMs: share(0.99),
      standing: this.#standing,
    }
  }
}

function none(): Waits {
  return { calls: 0, longestMs: 0 }
}

function plus({ calls, longestMs }: Waits, ms: number): Waits {
  return { calls: calls + 1, longestMs: Math.max(longestMs, ms) }
}

function minuteOf(at: number): number {
  return Math.floor(at / MINUTE_MS)
}

/** Clocks that stand until a test moves them. */
import type { Clock } from 'merchant-auth'
import { systemClock } from '../../src/clock.ts'

interface Sleeper {
  readonly wakesAt: number
  wake(): void
}

/** Two hands that stand until somebody moves them, and those who sleep until then. */
abstract class FakeClock implements Clock {
  #monotonicMs = 1_000
  #epochMs = Date.UTC(2026, 0, 1)
  protected readonly sleepers = new Set<Sleeper>()

  monotonicMs(): number {
    return this.#monotonicMs
  }

  epochMs(): number {
    return this.#epochMs
  }

  /** How many wait. */
  get sleeping(): number {
    return this.sleepers.size
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const onAbort = (): void => {
        this.sleepers.delete(sleeper)
        reject(signal?.reason)
      }
      const sleeper: Sleeper = {
        wakesAt: this.#monotonicMs + ms,
        wake: () => {
          this.sleepers.delete(sleeper)
          signal?.removeEventListener('abort', onAbort)
          resolve()
        },
      }
      this.sleepers.add(sleeper)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  /** Sets the wall clock forward or back; the monotonic one does not notice. */
  stepWallClock(ms: number): void {
    this.#epochMs += ms
  }

  /** How long (ms) until the next sleeper wakes; undefined where nobody sleeps. */
  untilNextWakeMs(): number | undefined {
    let next = Number.POSITIVE_INFINITY
    for (const { wakesAt } of this.sleepers) next = Math.min(next, wakesAt)
    return Number.isFinite(next) ? Math.max(0, next - this.#monotonicMs) : undefined
  }

  protected pass(ms: number): void {
    this.#monotonicMs += ms
    this.#epochMs += ms
  }
}

/** Pauses end when a test moves it; each of its two hands moves by itself if need be. */
export class ManualClock extends FakeClock {
  /** Lets time pass on both clocks, waking sleepers one by one as their time comes. */
  async advance(ms: number): Promise<void> {
    const until = this.monotonicMs() + ms
    await settled()
    for (;;) {
      const next = [...this.sleepers].sort((a, b) => a.wakesAt - b.wakesAt)[0]
      if (next === undefined || next.wakesAt > until) break
      this.pass(Math.max(0, next.wakesAt - this.monotonicMs()))
      next.wake()
      await settled()
    }
    this.pass(until - this.monotonicMs())
    await settled()
  }
}

/** Time moves at one stroke, and a schedule says in which order those wake whose time has come: timers fire late. */
export class ScheduledClock extends FakeClock {
  readonly #schedule: (wake: () => void) => void

  constructor(schedule: (wake: () => void) => void = () => {}) {
    super()
    this.#schedule = schedule
  }

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const slept = super.sleep(ms, signal)
    this.#wakeThoseDue()
    return slept
  }

  /** Lets time pass on both clocks. */
  advance(ms: number): void {
    this.pass(ms)
    this.#wakeThoseDue()
  }

  #wakeThoseDue(): void {
    for (const sleeper of this.sleepers) {
      if (sleeper.wakesAt > this.monotonicMs()) continue
      this.sleepers.delete(sleeper)
      this.#schedule(() => sleeper.wake())
    }
  }
}

/** Pauses are real: for real servers, where tokens, cooldowns and rate limits should not depend on how fast they are. */
export class StandingClock implements Clock {
  readonly #atStart = { monotonicMs: performance.now(), epochMs: Date.now() }
  #laterMs = 0
  readonly sleep = systemClock.sleep

  monotonicMs(): number {
    return this.#atStart.monotonicMs + this.#laterMs
  }

  epochMs(): number {
    return this.#atStart.epochMs + this.#laterMs
  }

  advance(ms: number): void {
    this.#laterMs += ms
  }
}

/** Lets everything run that is ready to. */
export async function settled(turns = 5): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

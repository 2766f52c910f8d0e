/** Clocks that a test controls. */
import type { Clock } from 'merchant-auth'
import { systemClock } from '../../src/base/clock.ts'

interface Sleeper {
  readonly wakesAt: number
  wake(): void
}

/** A monotonic and a wall clock that stand still until a test moves them, and the sleepers that wait for them. */
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

  /** The number of pending sleeps. */
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

  /** Sets the wall clock forward or back, but not the monotonic one. */
  stepWallClock(ms: number): void {
    this.#epochMs += ms
  }

  /** How long (ms) until the next sleeper wakes; undefined if there is none. */
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

/** Moves when a test advances it; the wall clock can also be stepped separately. */
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

/** Time passes in one step, and a schedule decides in which order the due sleepers wake, so timers can fire late. */
export class ScheduledClock extends FakeClock {
  readonly #schedule: (wake: () => void) => void

  constructor(schedule: (wake: () => void) => void = () => {}) {
    super()
    this.#schedule = schedule
  }

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const slept = super.sleep(ms, signal)
    this.#wakeDueSleepers()
    return slept
  }

  /** Lets time pass on both clocks. */
  advance(ms: number): void {
    this.pass(ms)
    this.#wakeDueSleepers()
  }

  #wakeDueSleepers(): void {
    for (const sleeper of this.sleepers) {
      if (sleeper.wakesAt > this.monotonicMs()) continue
      this.sleepers.delete(sleeper)
      this.#schedule(() => sleeper.wake())
    }
  }
}

/** Stands still, but sleeps in real time: for real servers, whose speed must not affect expiry and rate limits. */
export class StandingClock implements Clock {
  /** Whole milliseconds: with a fraction, the difference of two times can be more than what passed between them. */
  readonly #atStart = { monotonicMs: Math.round(performance.now()), epochMs: Date.now() }
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

/** Lets everything run that is ready to run. */
export async function settled(turns = 5): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

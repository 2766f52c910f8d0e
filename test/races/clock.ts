/** Time in the races: it moves when an action says so, and those who slept wake in whatever order the schedule has. */
import type { Clock } from '../../src/index.ts'

export class RaceClock implements Clock {
  #monotonicMs = 1_000
  #epochMs = Date.UTC(2026, 0, 1)
  readonly #sleepers = new Map<() => void, number>()
  readonly #schedule: (wake: () => void) => void

  /** `schedule` is handed each sleeper whose time has come: timers fire late, and in any order with all else. */
  constructor(schedule: (wake: () => void) => void) {
    this.#schedule = schedule
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  epochMs(): number {
    return this.#epochMs
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const onAbort = (): void => {
        this.#sleepers.delete(wake)
        reject(signal?.reason)
      }
      const wake = (): void => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#sleepers.set(wake, this.#monotonicMs + ms)
      this.#wakeThoseDue()
    })
  }

  /** Lets time pass on both clocks. */
  advance(ms: number): void {
    this.#monotonicMs += ms
    this.#epochMs += ms
    this.#wakeThoseDue()
  }

  /** Sets the wall clock; also what a machine that sleeps does to it. */
  stepWallClock(ms: number): void {
    this.#epochMs += ms
  }

  /** How long (ms) until the next sleeper wakes; undefined where nobody sleeps. */
  untilNextWakeMs(): number | undefined {
    const next = Math.min(...this.#sleepers.values())
    return Number.isFinite(next) ? next - this.#monotonicMs : undefined
  }

  #wakeThoseDue(): void {
    for (const [wake, wakesAt] of this.#sleepers) {
      if (wakesAt > this.#monotonicMs) continue
      this.#sleepers.delete(wake)
      this.#schedule(wake)
    }
  }
}

/** Lets everything run that is ready to. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** The time since an instant, by two clocks. */
import type { Clock, Instant } from './clock.ts'

/**
 * The time since an instant, by whichever clock says more: the monotonic clock stops while a machine sleeps, and the wall
 * clock may be set. A jump of the wall clock stays counted, so that setting it back does not make the time shorter.
 */
export class ElapsedTime {
  readonly since: Instant
  /** The smallest observed offset (ms) of the wall clock from the monotonic clock. */
  #leastOffsetMs: number
  /** The largest jump (ms) of the wall clock beyond that offset. */
  #aheadMs = 0

  constructor(since: Instant) {
    this.since = since
    this.#leastOffsetMs = since.epochMs - since.monotonicMs
  }

  /** The time (ms) until now. */
  ms(clock: Clock): number {
    const monotonicMs = clock.monotonicMs()
    const offsetMs = clock.epochMs() - monotonicMs
    if (offsetMs < this.#leastOffsetMs) this.#leastOffsetMs = offsetMs
    if (offsetMs - this.#leastOffsetMs > this.#aheadMs) this.#aheadMs = offsetMs - this.#leastOffsetMs
    return monotonicMs - this.since.monotonicMs + this.#aheadMs
  }
}

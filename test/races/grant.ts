/** A token that the model's endpoint issued, and how long it may be handed out by the documented rules. */
import type { Clock } from '../../src/base/clock.ts'
import type { Sent } from './endpoint.ts'

export interface GrantOptions {
  readonly expiryMarginMs: number | undefined
  readonly refreshAheadMs: number | undefined
}

/** A token that the endpoint issued, as its client must treat it. */
export class Grant {
  readonly value: string
  readonly windowMs: number
  readonly #sent: Sent
  readonly #usableMs: number
  /** All steps of the wall clock ahead since it was sent: each may count. */
  #aheadMs: number

  constructor(
    value: string,
    sent: Sent,
    lifetimeMs: number,
    { expiryMarginMs, refreshAheadMs }: GrantOptions,
  ) {
    const marginMs = expiryMarginMs ?? Math.min(10_000, 0.05 * lifetimeMs)
    const windowMs = refreshAheadMs ?? Math.min(3_600_000, 0.2 * lifetimeMs)
    this.value = value
    this.windowMs = Math.min(windowMs, 0.5 * lifetimeMs)
    this.#sent = sent
    this.#usableMs = lifetimeMs - Math.min(marginMs, 0.25 * lifetimeMs)
    this.#aheadMs = sent.aheadMs
  }

  wallClockStepped(ms: number): void {
    this.#aheadMs += Math.max(0, ms)
  }

  /** The remaining time by the clock that leaves less. */
  remainsMs(clock: Clock): number {
    const livedMs = clock.monotonicMs() - this.#sent.at
    const livedOnTheWallMs = clock.epochMs() - this.#sent.wallAt
    return this.#usableMs - Math.max(livedMs, livedOnTheWallMs)
  }

  /** The remaining time if every step ahead counts, even one that was set back. */
  certainlyRemainsMs(clock: Clock): number {
    return this.#usableMs - (clock.monotonicMs() - this.#sent.at) - this.#aheadMs
  }
}

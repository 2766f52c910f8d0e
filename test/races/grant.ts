/** A token that the endpoint issued, and how long it may be handed out by the documented rules. */
import type { IncomingClock } from './incoming.ts'

/** What a provider's options say of the life of its tokens. */
export interface GrantOptions {
  readonly expiryMarginMs: number | undefined
  readonly refreshAheadMs: number | undefined
}

/** When a token request was sent, and how far the wall clock had been set ahead until then. */
export interface Sent {
  readonly at: number
  readonly wallAt: number
  readonly aheadMs: number
}

/** Reads a clock for a request that is sent now. */
export function sentNow(clock: IncomingClock): Sent {
  return { at: clock.monotonicMs(), wallAt: clock.epochMs(), aheadMs: clock.aheadMs }
}

export class Grant {
  readonly value: string
  readonly windowMs: number
  readonly #clock: IncomingClock
  readonly #sent: Sent
  readonly #usableMs: number

  constructor(
    value: string,
    { clock, sent, lifetimeMs }: { clock: IncomingClock; sent: Sent; lifetimeMs: number },
    { expiryMarginMs, refreshAheadMs }: GrantOptions,
  ) {
    const marginMs = expiryMarginMs ?? Math.min(10_000, 0.05 * lifetimeMs)
    const windowMs = refreshAheadMs ?? Math.min(3_600_000, 0.2 * lifetimeMs)
    this.value = value
    this.windowMs = Math.min(windowMs, 0.5 * lifetimeMs)
    this.#clock = clock
    this.#sent = sent
    this.#usableMs = lifetimeMs - Math.min(marginMs, 0.25 * lifetimeMs)
  }

  /** The remaining time by the clock that leaves less. */
  get remainsMs(): number {
    const livedMs = this.#clock.monotonicMs() - this.#sent.at
    const livedOnTheWallMs = this.#clock.epochMs() - this.#sent.wallAt
    return this.#usableMs - Math.max(livedMs, livedOnTheWallMs)
  }

  /** The remaining time if every step ahead counts, even one that was set back. */
  get certainlyRemainsMs(): number {
    const livedMs = this.#clock.monotonicMs() - this.#sent.at
    return this.#usableMs - livedMs - (this.#clock.aheadMs - this.#sent.aheadMs)
  }
}

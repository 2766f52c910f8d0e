/** A token's lifetime on two clocks: how long the token is used, and when it is renewed. */
import type { Clock, Instant } from '../clock.ts'

/** The options that determine when a token is renewed and when it is no longer used. */
export interface LifetimeOptions {
  readonly refreshAheadMs: number | undefined
  readonly expiryMarginMs: number | undefined
}

const MAX_WINDOW_MS = 5 * 60 * 1000
const MAX_MARGIN_MS = 10 * 1000

/** The lifetime of one token, counted from the moment its request was sent. */
export class Lifetime {
  /** How long before its margin the token is renewed in the background (ms); 0: never. */
  readonly windowMs: number
  readonly #sentAt: Instant
  readonly #usableMs: number
  readonly #marginMs: number
  /** The smallest observed offset (ms) of the wall clock from the monotonic clock. */
  #leastOffsetMs: number
  /** The largest jump (ms) of the wall clock beyond that offset. */
  #aheadMs = 0

  /**
   * `jitter` (0 to 1) shortens the window by up to a quarter, so that processes that started together do not
   * renew together.
   */
  constructor(
    sentAt: Instant,
    lifetimeMs: number,
    { refreshAheadMs, expiryMarginMs }: LifetimeOptions,
    jitter: number,
  ) {
    const marginMs = expiryMarginMs ?? Math.min(MAX_MARGIN_MS, 0.05 * lifetimeMs)
    const windowMs = refreshAheadMs ?? Math.min(MAX_WINDOW_MS, 0.2 * lifetimeMs)
    this.#sentAt = sentAt
    this.#leastOffsetMs = sentAt.epochMs - sentAt.monotonicMs
    this.#marginMs = Math.min(marginMs, 0.25 * lifetimeMs)
    this.#usableMs = lifetimeMs - this.#marginMs
    this.windowMs = Math.min(windowMs, 0.5 * lifetimeMs) * (1 - 0.25 * jitter)
  }

  /**
   * How long (ms) the token may still be used; 0 or less: it may not. It ends when either clock says so: the monotonic
   * clock stops while a machine sleeps, and the wall clock may be set. A jump of the wall clock stays counted, so that
   * setting it back does not extend the lifetime.
   */
  servableForMs(clock: Clock): number {
    const monotonicMs = clock.monotonicMs()
    const offsetMs = clock.epochMs() - monotonicMs
    if (offsetMs < this.#leastOffsetMs) this.#leastOffsetMs = offsetMs
    if (offsetMs - this.#leastOffsetMs > this.#aheadMs) this.#aheadMs = offsetMs - this.#leastOffsetMs
    return this.#usableMs - (monotonicMs - this.#sentAt.monotonicMs) - this.#aheadMs
  }

  /** How long (ms) until the token expires. */
  remainsMs(clock: Clock): number {
    return this.servableForMs(clock) + this.#marginMs
  }
}

/** What the referee keeps: tokens given, failures, rejections, in the contract's arithmetic. */
import type { RaceClock } from './clock.ts'

export interface RefereeOptions {
  readonly retries: number
  readonly expiryMarginMs: number | undefined
  readonly refreshAheadMs: number | undefined
}

/** A token that the endpoint gave, as its client should see it. */
export class Grant {
  readonly value: string
  readonly windowMs: number
  readonly #sent: { readonly at: number; readonly wallAt: number }
  readonly #usableMs: number
  /** All steps of the wall clock ahead since it was sent: each may count. */
  #aheadMs: number

  constructor(
    value: string,
    sent: { readonly at: number; readonly wallAt: number; readonly aheadMs: number },
    lifetimeMs: number,
    { expiryMarginMs, refreshAheadMs }: RefereeOptions,
  ) {
    const marginMs = expiryMarginMs ?? Math.min(10_000, 0.05 * lifetimeMs)
    const windowMs = refreshAheadMs ?? Math.min(300_000, 0.2 * lifetimeMs)
    this.value = value
    this.windowMs = Math.min(windowMs, 0.5 * lifetimeMs)
    this.#sent = sent
    this.#usableMs = lifetimeMs - Math.min(marginMs, 0.25 * lifetimeMs)
    this.#aheadMs = sent.aheadMs
  }

  wallClockStepped(ms: number): void {
    this.#aheadMs += Math.max(0, ms)
  }

  /** What remains of it by the clock that says less. */
  remainsMs(clock: RaceClock): number {
    const livedMs = clock.monotonicMs() - this.#sent.at
    const livedOnTheWallMs = clock.epochMs() - this.#sent.wallAt
    return this.#usableMs - Math.max(livedMs, livedOnTheWallMs)
  }

  /** What remains of it where every step ahead counts, whether it was taken back or not. */
  certainlyRemainsMs(clock: RaceClock): number {
    return this.#usableMs - (clock.monotonicMs() - this.#sent.at) - this.#aheadMs
  }
}

/** A failed acquisition, and how long it keeps the endpoint alone. */
export interface Failure {
  readonly at: number
  readonly leastMs: number
  readonly mostMs: number
  readonly retryAfterMs: number
  /** Whether it may have been one that nobody waited for, and whether it was so without a doubt. */
  readonly background: boolean
  readonly surelyBackground: boolean
}

export const NO_FAILURE: Failure = {
  at: Number.NEGATIVE_INFINITY,
  leastMs: 0,
  mostMs: 0,
  retryAfterMs: 0,
  background: true,
  surelyBackground: false,
}

/** An acquisition that runs, and the rejections that alone may have been the reason for it. */
export interface Acquisition {
  readonly at: number
  readonly background: boolean
  readonly surelyBackground: boolean
  readonly apis: ReadonlySet<string>
}

/** The rejections of one API: how often it may have a token renewed (contract 5.7). */
export class Ration {
  #gapMs = 0
  #openAt = Number.NEGATIVE_INFINITY
  #lastRejection = Number.POSITIVE_INFINITY

  rejected(now: number): void {
    if (now - this.#lastRejection > this.#gapMs + 60_000) {
      this.#gapMs = 0
      this.#openAt = Number.NEGATIVE_INFINITY
    }
    this.#lastRejection = now
  }

  isOpen(now: number): boolean {
    return this.#openAt <= now
  }

  renewed(at: number): void {
    this.#gapMs = Math.min(this.#gapMs === 0 ? 1_000 : this.#gapMs * 2, 300_000)
    this.#openAt = at + this.#gapMs
  }
}

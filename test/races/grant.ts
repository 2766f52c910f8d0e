/** A token that the endpoint issued, and how long it may be handed out by the documented rules. */
import {
  MARGIN_SHARE,
  MAX_GIVEN_MARGIN_SHARE,
  MAX_GIVEN_WINDOW_SHARE,
  MAX_MARGIN_MS,
  MAX_WINDOW_MS,
  WINDOW_SHARE,
} from '../../src/token/request/access-token.ts'
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
  readonly moment: number
}

/** Reads a clock for a request that is sent now. */
export function sentNow(clock: IncomingClock): Sent {
  return {
    at: clock.monotonicMs(),
    wallAt: clock.epochMs(),
    aheadMs: clock.aheadMs,
    moment: clock.nextMoment(),
  }
}

interface GrantParts extends Pick<Grant, 'lifetimeMs' | 'isRenewal'> {
  readonly clock: IncomingClock
  readonly sent: Sent
}

export class Grant {
  readonly value: string
  readonly lifetimeMs: number
  readonly windowMs: number
  /** Whether it may have been requested because of a 401. */
  readonly isRenewal: boolean
  readonly #clock: IncomingClock
  readonly #sent: Sent
  readonly #usableMs: number
  readonly #issuedMoment: number

  constructor(
    value: string,
    { clock, sent, lifetimeMs, isRenewal }: GrantParts,
    { expiryMarginMs, refreshAheadMs }: GrantOptions,
  ) {
    const marginMs = expiryMarginMs ?? Math.min(MAX_MARGIN_MS, MARGIN_SHARE * lifetimeMs)
    const windowMs = refreshAheadMs ?? Math.min(MAX_WINDOW_MS, WINDOW_SHARE * lifetimeMs)
    this.value = value
    this.lifetimeMs = lifetimeMs
    this.isRenewal = isRenewal
    this.windowMs = Math.min(windowMs, MAX_GIVEN_WINDOW_SHARE * lifetimeMs)
    this.#clock = clock
    this.#sent = sent
    this.#issuedMoment = clock.nextMoment()
    this.#usableMs = lifetimeMs - Math.min(marginMs, MAX_GIVEN_MARGIN_SHARE * lifetimeMs)
  }

  /** When (monotonic ms) it was requested. */
  get sentAt(): number {
    return this.#sent.at
  }

  /** Whether it was issued after a moment. */
  isIssuedSince(moment: number): boolean {
    return this.#issuedMoment > moment
  }

  /** Whether it was requested after a moment. */
  isRequestedSince(moment: number): boolean {
    return this.#sent.moment > moment
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

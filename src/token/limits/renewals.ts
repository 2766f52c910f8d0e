/**
 * What a 401 of one API says about the token, and how often 401s may renew it.
 *
 * An API is in doubt from a renewal that it caused until a call that is repeated with the new token is not rejected. In doubt, a
 * 401 may be about the call, such as a store id that the account does not have: several of them renew, not each. Out of doubt,
 * each 401 renews. In both cases a gap between renewals and a bucket of them limit how often.
 */
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/clock.ts'
import { doubled } from './backoff.ts'

export const FIRST_GAP_MS: number = SECOND_MS
const MAX_GAP_MS = 30 * MINUTE_MS
/** The gap ends after this time, beyond its own, without a 401. */
const QUIET_MS = MINUTE_MS
/** How many renewals may follow one another. Services of this kind allow 10 token requests in an hour and 50 in a day. */
export const BUCKET = 8
/** How long it takes until the bucket gets one back. */
export const REFILL_MS: number = 40 * MINUTE_MS
/** How many 401s renew the token in doubt, after one renewal that did not help; the number doubles with each further one. */
export const FIRST_COUNT = 2
export const MAX_COUNT = 16
/** A revoked token is found after this time, even if few calls show it. */
export const MAX_COUNTING_MS: number = MINUTE_MS
/** A revoked token is found after this time, even if a path accepts calls without a look at their token. */
export const MAX_DOUBT_MS: number = 4 * HOUR_MS

/** What processes share about the renewals for one API. Instants are ms after the moment of writing; undefined: never. */
export interface SharedRenewals {
  readonly neededCount: number
  readonly inDoubtSince?: number | undefined
  readonly gapMs: number
  readonly gapEndsAt?: number | undefined
  readonly fullAt?: number | undefined
}

interface State {
  /**
   * When (monotonic ms) doubt about this API began: at the last renewal that it caused, here or in another process, or when it
   * rejected two tokens for one call. NEVER if it is not in doubt.
   */
  inDoubtSince: number
  /** How many 401s renew in doubt, after renewals that did not help; 0: there was none. */
  neededCount: number
  /** How many 401s came since the API last accepted a call with the current token, while it was in doubt. */
  count: number
  /**
   * When (monotonic ms) the first of them came; in a doubt that was adopted from another process, when that began: a process that
   * makes one call and ends would never count further. FOREVER if there was none.
   */
  countingSince: number
  lastRejectionAt: number
  /** When (monotonic ms) a renewal last helped. */
  helpedAt: number
  /** The gap (ms) after the last renewal; 0: none. */
  gapMs: number
  gapEndsAt: number
  /** When (monotonic ms) the bucket is full again. */
  fullAt: number
}

const NEVER = Number.NEGATIVE_INFINITY
const FOREVER = Number.POSITIVE_INFINITY

/** The renewals that one API caused. */
export class Renewals {
  /** The token with which the API last accepted a call. */
  #accepted: string | undefined
  readonly #state: State = {
    inDoubtSince: NEVER,
    neededCount: 0,
    count: 0,
    countingSince: FOREVER,
    lastRejectionAt: NEVER,
    helpedAt: NEVER,
    gapMs: 0,
    gapEndsAt: NEVER,
    fullAt: NEVER,
  }

  /** When (monotonic ms) the next renewal is allowed. */
  get nextAt(): number {
    const { gapEndsAt, fullAt } = this.#state
    return Math.max(gapEndsAt, fullAt - (BUCKET - 1) * REFILL_MS)
  }

  /** The API accepted a call with a token. A late answer to a call with an earlier token than the current one changes nothing. */
  accepted(token: string, current: string | undefined): void {
    const isCurrent = token === current
    if (isCurrent) this.#endCounting()
    if (isCurrent || this.#accepted !== current) this.#accepted = token
  }

  get isInDoubt(): boolean {
    return this.#state.inDoubtSince !== NEVER
  }

  /** Whether the API accepted a call with this token, and none with another one since. */
  hasAccepted(token: string): boolean {
    return this.#accepted === token
  }

  /** The API returned 401 for a call with the current token. Returns whether that may be about the token. */
  countRejection(now: number): boolean {
    const state = this.#state
    if (now - state.lastRejectionAt > state.gapMs + QUIET_MS) this.#endGap()
    state.lastRejectionAt = now
    if (state.inDoubtSince === NEVER) return true
    state.count += 1
    state.countingSince = Math.min(state.countingSince, now)
    return (
      state.count >= Math.max(state.neededCount, FIRST_COUNT) ||
      now - state.countingSince >= MAX_COUNTING_MS ||
      now - state.inDoubtSince >= MAX_DOUBT_MS
    )
  }

  /** The API rejected one call with the current token and with the one before: from now on one more 401 does not renew. */
  beginDoubt(now: number): void {
    if (this.#state.inDoubtSince === NEVER) this.#state.inDoubtSince = now
  }

  /**
   * A token that the API rejected was replaced. From now on it is in doubt, until a call that is repeated with the new token
   * is not rejected.
   *
   * @param at when (monotonic ms) its request began
   * @param options `isReported`: whether that call will be reported. Otherwise nothing would end the doubt, so it does not begin.
   */
  renewed(
    at: number,
    { isRequested, isReported = true }: { readonly isRequested: boolean; readonly isReported?: boolean },
  ): void {
    const state = this.#state
    // Otherwise another process has counted it.
    if (isRequested) {
      const isFirst = state.neededCount === 0
      const isLate = isReported && !isFirst && at - state.inDoubtSince >= MAX_DOUBT_MS
      if (isReported && !isLate)
        state.neededCount = doubled(state.neededCount, { first: FIRST_COUNT, most: MAX_COUNT })
      if (isLate) this.#endGap() // 401s that are not about the token must not keep doubling the gap, one renewal after the other
      state.fullAt = Math.max(state.fullAt, at) + REFILL_MS
      this.#beginGap(at)
    }
    if (isReported) state.inDoubtSince = at
    this.#endCounting()
  }

  /** A call that was repeated with the token of the last renewal was not rejected. */
  helped(now: number): void {
    this.#state.inDoubtSince = NEVER
    this.#state.neededCount = 0
    this.#endCounting()
    this.#state.helpedAt = now
    this.#endGap()
  }

  /** A renewal failed. */
  failed(now: number): void {
    this.#beginGap(now)
  }

  shared(now: number): SharedRenewals {
    const { inDoubtSince, neededCount, gapMs, gapEndsAt, fullAt } = this.#state
    const after = (at: number): number | undefined => (at === NEVER ? undefined : at - now)
    return {
      neededCount,
      inDoubtSince: after(inDoubtSince),
      gapMs,
      gapEndsAt: after(gapEndsAt),
      fullAt: after(fullAt),
    }
  }

  /** Adopts what another process knows where it is stricter. What a renewal that helped has ended does not come back. */
  adopt(
    theirs: SharedRenewals,
    { writtenAt, now }: { readonly writtenAt: number; readonly now: number },
  ): void {
    const state = this.#state
    const at = (afterMs = NEVER): number => writtenAt + afterMs
    state.fullAt = Math.max(state.fullAt, at(theirs.fullAt))
    const inDoubtSince = at(theirs.inDoubtSince)
    if (inDoubtSince > state.helpedAt) {
      if (!this.isInDoubt) state.countingSince = inDoubtSince
      state.inDoubtSince = Math.max(state.inDoubtSince, inDoubtSince)
      state.neededCount = Math.max(state.neededCount, theirs.neededCount)
    }
    const gapEndsAt = at(theirs.gapEndsAt)
    const gapBeganAt = gapEndsAt - theirs.gapMs
    const isOver = gapBeganAt <= state.helpedAt || now - gapEndsAt > QUIET_MS
    if (isOver || gapEndsAt <= state.gapEndsAt) return
    state.gapMs = theirs.gapMs
    state.gapEndsAt = gapEndsAt
    state.lastRejectionAt = Math.max(state.lastRejectionAt, gapBeganAt) // a 401 caused it
  }

  #endCounting(): void {
    this.#state.count = 0
    this.#state.countingSince = FOREVER
  }

  #beginGap(at: number): void {
    this.#state.gapMs = doubled(this.#state.gapMs, { first: FIRST_GAP_MS, most: MAX_GAP_MS })
    this.#state.gapEndsAt = at + this.#state.gapMs
    this.#state.lastRejectionAt = Math.max(this.#state.lastRejectionAt, at) // a 401 caused it, however long ago
  }

  #endGap(): void {
    this.#state.gapMs = 0
    this.#state.gapEndsAt = NEVER
  }
}

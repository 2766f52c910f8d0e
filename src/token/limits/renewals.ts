/**
 * How often the 401s of one API may renew the token.
 *
 * While an API is not in doubt, each 401 renews. From a renewal on, it is in doubt until a call that is repeated with the new
 * token is not rejected: meanwhile a 401 may be about its call, such as a store id that the account does not have. One number,
 * n, then holds renewals back: n 401s in a row, and n seconds. Whatever helps, a bucket limits how many renewals follow one
 * another.
 */
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/clock.ts'

/** How many renewals may follow one another. Services of this kind allow 10 token requests in an hour and 50 in a day. */
export const BUCKET = 8
/** How long it takes until the bucket gets one back. */
export const REFILL_MS: number = 40 * MINUTE_MS
/** n after a renewal that put the API in doubt. It doubles with each further one that failed or did not help. */
export const FIRST_DOUBT = 4
export const MAX_DOUBT = 64
/** With a few 401s in a row, a revoked token is found after this time. */
export const MAX_ROW_MS: number = MINUTE_MS
const LEAST_ROW = 3
/** A revoked token is found after this time, even if a path accepts calls without a look at their token. */
export const MAX_DOUBT_MS: number = 4 * HOUR_MS

/** What processes share about the renewals for one API. Instants are ms after the moment of writing; undefined: never. */
export interface SharedRenewals {
  readonly doubt: number
  readonly renewedAt?: number | undefined
  readonly fullAt?: number | undefined
}

const NEVER = Number.NEGATIVE_INFINITY

/** 401s in a row: since the API last accepted a call with the current token, or since that token was acquired. */
interface Row {
  readonly count: number
  /** When the first one came. */
  readonly since: number
  /** How many of them renew after {@link MAX_ROW_MS}. */
  readonly least: number
}

const NO_ROW: Row = { count: 0, since: Number.POSITIVE_INFINITY, least: LEAST_ROW }

/** The renewals that one API caused. Instants are monotonic ms. */
export class Renewals {
  /** The token with which the API last accepted a call. */
  #accepted: string | undefined
  /** n; 0: the API is not in doubt. */
  #doubt = 0
  /** When the last renewal began, or failed, here or in another process; never if it helped. */
  #renewedAt = NEVER
  /** When a renewal last helped: a doubt that began before is over, whatever other processes know of it. */
  #helpedAt = NEVER
  /** When the bucket is full again. */
  #fullAt = NEVER
  #row = NO_ROW

  /** When the bucket has a renewal again. */
  get bucketAt(): number {
    return this.#fullAt - (BUCKET - 1) * REFILL_MS
  }

  /** When the next renewal is allowed. */
  get nextAt(): number {
    return Math.max(this.#renewedAt + this.#doubt * SECOND_MS, this.bucketAt)
  }

  /** The API accepted a call with a token. A late answer to a call with an earlier token than the current one changes nothing. */
  accepted(token: string, current: string | undefined): void {
    const isCurrent = token === current
    if (isCurrent) this.endRow()
    if (isCurrent || this.#accepted !== current) this.#accepted = token
  }

  /** Whether the API accepted a call with this token, and none with another one since. */
  hasAccepted(token: string): boolean {
    return this.#accepted === token
  }

  /** The API returned 401 for a call with the current token. */
  countRejection(now: number): void {
    const { count, since, least } = this.#row
    this.#row = { count: count + 1, since: Math.min(since, now), least }
  }

  /** The 401s so far say nothing about the next token. */
  endRow(): void {
    this.#row = NO_ROW
  }

  /** Whether a 401 may be about the token, by the 401s so far. */
  isSuspect(now: number): boolean {
    return this.#isLongRow(now) || now - this.#renewedAt >= MAX_DOUBT_MS
  }

  /** A token was requested at `at` in place of one that the API rejected. */
  renewed(at: number): void {
    this.failed(at)
    this.drew(at)
    this.endRow()
  }

  /** A renewal failed, or has not helped yet. One that only the time brought about, and not the 401s, says nothing new. */
  failed(at: number): void {
    if (this.#doubt === 0) this.#doubt = FIRST_DOUBT
    else if (this.#isLongRow(at)) this.#doubt = Math.min(2 * this.#doubt, MAX_DOUBT)
    this.#renewedAt = at
  }

  /** A renewal drew from the bucket. */
  drew(at: number): void {
    this.#fullAt = Math.max(this.#fullAt, at) + REFILL_MS
  }

  /** A call that was repeated with a newer token was not rejected. */
  helped(now: number): void {
    this.#doubt = 0
    this.#renewedAt = NEVER
    this.#helpedAt = now
  }

  shared(now: number): SharedRenewals {
    const after = (at: number): number | undefined => (at === NEVER ? undefined : at - now)
    return { doubt: this.#doubt, renewedAt: after(this.#renewedAt), fullAt: after(this.#fullAt) }
  }

  /** Adopts what another process knows where it is stricter. */
  adopt({ doubt, renewedAt, fullAt }: SharedRenewals, writtenAt: number): void {
    const at = (afterMs = NEVER): number => writtenAt + afterMs
    this.#fullAt = Math.max(this.#fullAt, at(fullAt))
    const theirs = at(renewedAt)
    if (theirs <= this.#helpedAt) return
    // Processes that make one call and end would never count further: to them, the 401 of that renewal is the first of the row.
    const isNewHere = this.#doubt === 0 && this.#accepted === undefined
    if (isNewHere) this.#row = { count: this.#row.count + 1, since: theirs, least: LEAST_ROW - 1 }
    this.#renewedAt = Math.max(this.#renewedAt, theirs)
    this.#doubt = Math.max(this.#doubt, doubt)
  }

  /** Whether n 401s have come in a row, any while not in doubt, or a few for a minute. */
  #isLongRow(now: number): boolean {
    const { count, since, least } = this.#row
    return count >= this.#doubt || (count >= least && now - since >= MAX_ROW_MS)
  }
}

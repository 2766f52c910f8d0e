/**
 * When a token may be requested, and when it must be, by the purpose of the request. These are the rules as they are
 * documented, with numbers of their own: nothing here comes from the code under test.
 */

/** Who needs a token: a caller without one, a call whose token an API rejected, or nobody yet. */
export type Purpose = 'caller' | 'rejected' | 'background'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** A failed acquisition, as far as it is known from outside. */
export interface Failure {
  /** When (monotonic ms) it ended. */
  readonly at: number
  /** The status of the last answer; undefined if there was none. */
  readonly status: number | undefined
  /** The time (ms) that the last answer named, by Retry-After or by a spent quota. */
  readonly namedMs: number | undefined
  /** How many 429s it got before the last one. */
  readonly earlierRefusals: number
  /** Whether it was a renewal in the background. */
  readonly background: 'yes' | 'maybe' | 'no'
  /** How long (ms) the current token could still be handed out. */
  readonly servableForMs: number
}

/** The shortest and the longest time (ms) that a rule allows, where it leaves a choice. */
interface Range {
  readonly leastMs: number
  readonly mostMs: number
}

/** The pauses after failed acquisitions. */
export class Pauses {
  /** When (monotonic ms) the pause for a purpose ends at the earliest, and at the latest. */
  readonly #ends: Record<Purpose, { least: number; most: number }> = {
    caller: { least: Number.NEGATIVE_INFINITY, most: Number.NEGATIVE_INFINITY },
    rejected: { least: Number.NEGATIVE_INFINITY, most: Number.NEGATIVE_INFINITY },
    background: { least: Number.NEGATIVE_INFINITY, most: Number.NEGATIVE_INFINITY },
  }
  /** Failures other than 429 since the last success: those that certainly, and those that possibly count. */
  #failures = { least: 0, most: 0 }
  /** Acquisitions that a 429 ended since the last success, and pauses that doubled since. */
  #refusals = { inARow: 0, all: 0, doubled: 0 }
  #only4xx = true

  /** No request for this purpose may be sent before this moment (monotonic ms). */
  earliest(purpose: Purpose): number {
    return this.#ends[purpose].least
  }

  /** From this moment (monotonic ms) on, a request for this purpose must be sent. */
  latest(purpose: Purpose): number {
    return this.#ends[purpose].most
  }

  /** A success ends all pauses. */
  succeeded(): void {
    for (const end of Object.values(this.#ends)) end.least = end.most = Number.NEGATIVE_INFINITY
    this.#failures = { least: 0, most: 0 }
    this.#refusals = { inARow: 0, all: 0, doubled: 0 }
    this.#only4xx = true
  }

  failed(failure: Failure): void {
    const { at, background, namedMs = 0 } = failure
    const isRefusal = failure.status === 429
    const cooldown = isRefusal ? this.#afterRefusal(failure) : this.#afterFailure(failure)
    const obeyedMs = Math.min(namedMs, MINUTE_MS)
    const quarterMs = Math.min(Math.max(failure.servableForMs / 4, 5 * SECOND_MS), 5 * MINUTE_MS)
    const ownPauseMs = Math.max(0.75 * quarterMs, namedMs)

    // A failed background renewal holds back nobody else, but for a 429, and for what the answer asked for.
    const holdsOthers = background === 'no' || isRefusal
    const forOthers = {
      leastMs: holdsOthers ? cooldown.leastMs : obeyedMs,
      mostMs: holdsOthers || background === 'maybe' ? cooldown.mostMs : obeyedMs,
    }
    this.#begin('caller', at, forOthers)
    this.#begin('rejected', at, forOthers)

    const cooldownForBackgroundMs = isRefusal || background !== 'yes' ? cooldown.leastMs : 0
    const leastMs = {
      yes: Math.max(ownPauseMs, cooldownForBackgroundMs),
      maybe: Math.min(ownPauseMs, cooldown.leastMs),
      no: cooldown.leastMs,
    }[background]
    const earlierEnd = this.#ends.background.least // a pause of the background ends by a success only
    this.#begin('background', at, { leastMs, mostMs: Number.POSITIVE_INFINITY })
    this.#ends.background.least = Math.max(earlierEnd, this.#ends.background.least)
  }

  #begin(purpose: Purpose, at: number, { leastMs, mostMs }: Range): void {
    this.#ends[purpose] = { least: at + leastMs, most: at + mostMs }
  }

  /** 1 s, doubling to 5 s; to 30 s after a 4xx; a longer Retry-After up to 60 s. */
  #afterFailure({ status = 0, background, namedMs = 0 }: Failure): Range {
    this.#refusals.inARow = 0
    if (background === 'no') this.#failures.least += 1
    this.#failures.most += 1
    this.#only4xx &&= status >= 400 && status < 500
    const obeyedMs = Math.min(namedMs, MINUTE_MS)
    const leastLimitMs = this.#only4xx ? 30 * SECOND_MS : 5 * SECOND_MS
    const leastMs = Math.min(SECOND_MS * 2 ** Math.max(0, this.#failures.least - 1), leastLimitMs)
    const mostMs = Math.min(SECOND_MS * 2 ** (this.#failures.most - 1), 30 * SECOND_MS)
    return { leastMs: Math.max(leastMs, obeyedMs), mostMs: Math.max(mostMs, obeyedMs) }
  }

  /**
   * After a 429 that names a time: that time, from 1 s to 1 h. After one that names none, and after any further one in a
   * row: from 10 s, doubling to 30 min, or the time named if that is longer. "In a row" may count the 429s of one
   * acquisition, and those before another failure, or not.
   */
  #afterRefusal({ namedMs, earlierRefusals }: Failure): Range {
    const { inARow, all, doubled } = this.#refusals
    const namedWithinMs = Math.min(namedMs ?? 0, HOUR_MS)
    const pauseMs = (isFirst: boolean, doublings: number): number =>
      isFirst && namedMs !== undefined
        ? Math.max(namedWithinMs, SECOND_MS)
        : Math.max(Math.min(10 * SECOND_MS * 2 ** doublings, 30 * MINUTE_MS), namedWithinMs)
    const range = {
      leastMs: pauseMs(inARow === 0, inARow === 0 ? 0 : doubled),
      mostMs: pauseMs(all === 0 && earlierRefusals === 0, all + earlierRefusals),
    }
    if (inARow > 0 || namedMs === undefined) this.#refusals.doubled += 1
    this.#refusals.inARow += 1
    this.#refusals.all += 1
    return range
  }
}

/** So many renewals of one API may follow one another, and the next one is possible so much later. */
const BUCKET = 8
const REFILL_MS = 40 * MINUTE_MS
const MOST_IN_A_DAY = BUCKET + DAY_MS / REFILL_MS
const MAX_GAP_MS = 30 * MINUTE_MS
const MAX_DOUBT_MS = 4 * HOUR_MS
/** How many 401s renew in doubt, at least and at most. */
const COUNT = { least: 2, most: 16 }

/**
 * The bounds within which the 401s of one API renew: when one must, and when it must not. Where more is known to the
 * provider than to the referee, neither holds.
 */
export class RenewalBounds {
  /** Whether a renewal has not helped yet. */
  #doubt: 'no' | 'maybe' | 'yes' = 'no'
  /** The 401s since the API last accepted a call with the current token, and when the first of them came. */
  #counted = { count: 0, since: 0 }
  #gapMs = 0
  #gapEndsAt = Number.NEGATIVE_INFINITY
  #lastRejection = Number.POSITIVE_INFINITY
  /** When a gap may have begun last. */
  #troubledAt = Number.NEGATIVE_INFINITY
  readonly #renewals: number[] = []
  readonly #possibleRenewals: number[] = []

  /** The API accepted a call with the current token. */
  accepted(): void {
    this.#counted = { count: 0, since: 0 }
  }

  /** A 401 for the current token, and for the one before if there is one. */
  rejected(now: number): void {
    if (now - this.#lastRejection > this.#gapMs + MINUTE_MS) this.#endGap()
    this.#lastRejection = now
    if (this.#counted.count === 0) this.#counted.since = now
    this.#counted.count += 1
  }

  /** Whether the last 401 may be about the token. */
  mayBeAboutToken(now: number): boolean {
    const { count, since } = this.#counted
    const isOld = now - since >= MINUTE_MS || now - (this.#renewals.at(-1) ?? 0) >= MAX_DOUBT_MS
    return this.#doubt !== 'yes' || count >= COUNT.least || isOld
  }

  /** Whether gap and bucket allow a renewal. */
  isOpen(now: number): boolean {
    const isLimited =
      countSince(this.#renewals, now - REFILL_MS) >= BUCKET ||
      countSince(this.#renewals, now - DAY_MS) >= MOST_IN_A_DAY
    return this.#gapEndsAt <= now && !isLimited
  }

  /** Whether the last 401 must renew. */
  mustRenew(now: number): boolean {
    const { count, since } = this.#counted
    const isAboutToken =
      this.#doubt === 'no' || count >= COUNT.most || (count > 0 && now - since >= MINUTE_MS)
    const lately = [...this.#renewals, ...this.#possibleRenewals]
    const hasRoom = countSince(lately, now - BUCKET * REFILL_MS) < BUCKET
    return isAboutToken && hasRoom && now >= this.#troubledAt + MAX_GAP_MS
  }

  /** When (monotonic ms) something changes: the gap, the bucket, and the end of doubt. */
  get landmarks(): number[] {
    const [eighth = Number.NaN, last = Number.NaN] = [this.#renewals.at(-BUCKET), this.#renewals.at(-1)]
    const countedFor = this.#counted.count > 0 ? this.#counted.since + MINUTE_MS : Number.NaN
    const doubtEndsAt = this.#doubt === 'no' ? Number.NaN : last + MAX_DOUBT_MS
    return [this.#gapEndsAt, eighth + REFILL_MS, countedFor, doubtEndsAt]
  }

  /** A renewal that certainly was for this API. */
  renewed(at: number): void {
    if (at - (this.#renewals.at(-1) ?? at) >= MAX_DOUBT_MS) this.#endGap()
    this.#gapMs = Math.min(this.#gapMs === 0 ? SECOND_MS : this.#gapMs * 2, MAX_GAP_MS)
    this.#gapEndsAt = at + this.#gapMs
    this.#renewals.push(at)
    this.#troubledAt = at
    this.#doubt = 'yes'
    this.accepted()
  }

  /** A renewal that may have been for this API, and may have failed. */
  mayHaveRenewed(at: number): void {
    this.#possibleRenewals.push(at)
    this.#troubledAt = at
    if (this.#doubt === 'no') this.#doubt = 'maybe'
  }

  /** A call that was repeated with the renewed token was not rejected. */
  helped(): void {
    this.#doubt = 'no'
    this.#troubledAt = Number.NEGATIVE_INFINITY
    this.#endGap()
    this.accepted()
  }

  /** The API rejected the current token and the one before. */
  beginDoubt(): void {
    if (this.#doubt === 'no') this.#doubt = 'maybe'
  }

  #endGap(): void {
    this.#gapMs = 0
    this.#gapEndsAt = Number.NEGATIVE_INFINITY
  }
}

function countSince(renewals: readonly number[], from: number): number {
  return renewals.filter((at) => at > from).length
}

/** The quotas of the last answers that are reserved for callers without a token: a fifth or less of the limit is left. */
export class ReservedQuotas {
  #endsAt = Number.NEGATIVE_INFINITY

  answered({ limit, remaining, resetsInSeconds }: AnsweredQuota, now: number): void {
    this.#endsAt = remaining <= limit / 5 ? now + resetsInSeconds * SECOND_MS : Number.NEGATIVE_INFINITY
  }

  /** Whether a token that is still valid must not be renewed. */
  isReserved(now: number): boolean {
    return now < this.#endsAt
  }

  get endsAt(): number {
    return this.#endsAt
  }
}

/** What an answer of the token endpoint says about its only quota. */
export interface AnsweredQuota {
  readonly limit: number
  readonly remaining: number
  readonly resetsInSeconds: number
}

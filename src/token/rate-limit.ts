/** When a token may be requested: the whole rule is {@link RequestLimits}; below it are the limits that it combines. */
import type { Clock } from '../clock.ts'
import { TokenRequestError, TokenResponseError } from '../errors.ts'
import { isReserved, keyOf, type Quota, spentForMs } from '../quota.ts'

/**
 * Why a token is requested: a `caller` waits who has no token that may be used, an API returned 401 for one that may
 * (`rejection`), or the cached one is in its refresh window (`background`).
 */
export type Purpose = 'caller' | 'rejection' | 'background'

/** A failed acquisition and the cooldown after it, in which calls get its error. */
export interface Failure {
  readonly error: unknown
  /** When (monotonic ms) it failed. */
  readonly at: number
  /** When (monotonic ms) the cooldown ends. */
  readonly endsAt: number
}

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** All limits on the token requests of one provider. */
export class RequestLimits {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #cooldown = new Cooldown()
  readonly #quotas = new Quotas()
  readonly #renewals = new Map<string | undefined, RenewalLimit>()
  /** When (monotonic ms) the pause after a failed background renewal ends. */
  #backgroundAt = Number.NEGATIVE_INFINITY

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /**
   * When (monotonic ms) a token may be requested for this purpose; `api` is the base URL of the API that rejected one.
   * Callers without a token wait for nothing but the end of a cooldown.
   *
   * | limit | caller | rejection | background |
   * |---|---|---|---|
   * | the cooldown after a failure | yes | yes | yes |
   * | a quota that is nearly spent | | yes | yes |
   * | how often this API causes a renewal | | yes | |
   * | the pause after a failed background renewal | | | yes |
   */
  nextAt(purpose: Purpose, api?: string): number {
    switch (purpose) {
      case 'caller':
        return this.#cooldown.endsAt
      case 'rejection':
        return Math.max(this.#cooldown.endsAt, this.#quotas.reservedUntil, this.#renewalsAt(api))
      case 'background':
        return Math.max(this.#cooldown.endsAt, this.#quotas.reservedUntil, this.#backgroundAt)
    }
  }

  /** Whether a token may be requested now. */
  mayRequest(purpose: Purpose, api?: string): boolean {
    return this.#now >= this.nextAt(purpose, api)
  }

  /** The last failure since the last success. */
  get lastFailure(): Failure | undefined {
    return this.#cooldown.failure
  }

  /** Records what a response said about quotas. */
  quotasReported(quotas: readonly Quota[]): void {
    this.#quotas.note(quotas, this.#now)
  }

  /** Records that an API rejected the cached token. */
  rejected(api: string | undefined): void {
    this.#renewalsOf(api).rejected(this.#now)
  }

  /** Records that a token was acquired, from the token endpoint or from the store. */
  succeeded(): void {
    this.#cooldown.reset()
    this.#backgroundAt = Number.NEGATIVE_INFINITY
  }

  /** Records that the token that an API rejected was replaced by a request that began at `requestedAt` (monotonic ms). */
  renewed(api: string | undefined, requestedAt: number): void {
    this.#renewalsOf(api).renewed(requestedAt)
  }

  /** Records that an acquisition failed: the cooldown begins. After a background renewal, `pauseBackground` follows. */
  failed(error: unknown, purpose: Purpose, api?: string): Failure {
    if (purpose === 'rejection') this.#renewalsOf(api).failed(this.#now, { refused: isRefusal(error) })
    if (purpose === 'background') this.#backgroundAt = this.#now + (retryAfterMsOf(error) ?? 0)
    return this.#cooldown.begin(error, purpose, this.#now)
  }

  /**
   * Begins the pause after a background renewal that yielded no token. `servableForMs` is what remains of the current one;
   * the pause is at most `limitMs`, unless the token endpoint asked for a longer one.
   */
  pauseBackground(servableForMs: number, limitMs: number = Number.POSITIVE_INFINITY): void {
    const pauseMs = Math.min(backgroundPauseMs(servableForMs), limitMs)
    this.#backgroundAt = Math.max(this.#backgroundAt, this.#now + pauseMs)
  }

  /** The pause that the last failure began, if it was a 429: other processes respect it, too. */
  get sharedPause(): SharedPause | undefined {
    return this.#cooldown.pause(this.#now)
  }

  /** Continues the pause of another process; `error` is what calls get meanwhile. */
  adoptPause(pause: SharedPause, error: () => unknown): void {
    this.#cooldown.adopt(pause, error, this.#now)
  }

  /** The renewals that an API caused, for other processes. */
  renewalHistory(api: string | undefined): RenewalHistory {
    return this.#renewalsOf(api).history(this.#now)
  }

  /** Counts the renewals that an API caused in other processes, too. */
  adoptRenewals(api: string | undefined, history: RenewalHistory): void {
    this.#renewalsOf(api).adopt(history, this.#now)
  }

  get #now(): number {
    return this.#clock.monotonicMs()
  }

  #renewalsAt(api: string | undefined): number {
    return this.#renewals.get(api)?.nextAt ?? Number.NEGATIVE_INFINITY
  }

  #renewalsOf(api: string | undefined): RenewalLimit {
    const limit = this.#renewals.get(api) ?? new RenewalLimit()
    this.#renewals.set(api, limit)
    return limit
  }
}

/** A gap that doubles with each use, up to a limit. */
class DoublingGap {
  /** The last gap (ms); 0 if there was none. */
  lastMs = 0

  next({ firstMs, limitMs }: { readonly firstMs: number; readonly limitMs: number }): number {
    this.lastMs = Math.min(this.lastMs === 0 ? firstMs : this.lastMs * 2, limitMs)
    return this.lastMs
  }

  reset(): void {
    this.lastMs = 0
  }
}

const FIRST_COOLDOWN_MS = SECOND_MS
const MAX_COOLDOWN_MS = 5 * SECOND_MS
const MAX_COOLDOWN_4XX_MS = 30 * SECOND_MS
const MAX_RETRY_AFTER_MS = MINUTE_MS
/** Some services count rejected requests, too, and announce it by nothing but a 429: only a long pause lets them recover. */
const FIRST_COOLDOWN_429_MS = 10 * SECOND_MS
const MAX_COOLDOWN_429_MS = 30 * MINUTE_MS
const MIN_RETRY_AFTER_429_MS = SECOND_MS
const MAX_RETRY_AFTER_429_MS = HOUR_MS

/** The pause that a 429 began, as processes with a store share it. */
export interface SharedPause {
  /** The next pause is twice as long (ms); 0 after a first 429 that named a time. */
  readonly gapMs: number
  /** What remains of it (ms). */
  readonly remainsMs: number
}

/** The time after a failed acquisition in which no token is requested. */
class Cooldown {
  failure: Failure | undefined
  readonly #failures = new DoublingGap()
  readonly #rateLimits = new DoublingGap()
  /** Whether there was a 429 since the last success, here or in another process. */
  #wasRateLimited = false

  /** When (monotonic ms) it ends. */
  get endsAt(): number {
    return this.failure?.endsAt ?? Number.NEGATIVE_INFINITY
  }

  begin(error: unknown, purpose: Purpose, now: number): Failure {
    const pauseMs =
      statusOf(error) === 429 ? this.#after429Ms(error) : this.#afterOtherFailureMs(error, purpose)
    this.failure = { error, at: now, endsAt: Math.max(this.endsAt, now + pauseMs) }
    return this.failure
  }

  reset(): void {
    this.failure = undefined
    this.#failures.reset()
    this.#rateLimits.reset()
    this.#wasRateLimited = false
  }

  /** After a background renewal, which has a pause of its own, it lasts only as long as the token endpoint asks. */
  #afterOtherFailureMs(error: unknown, purpose: Purpose): number {
    const status = statusOf(error)
    const isClientError = status >= 400 && status < 500 // waiting rarely fixes those
    const limitMs = isClientError ? MAX_COOLDOWN_4XX_MS : MAX_COOLDOWN_MS
    const gapMs = this.#failures.next({ firstMs: FIRST_COOLDOWN_MS, limitMs })
    const namedMs = Math.min(retryAfterMsOf(error) ?? 0, MAX_RETRY_AFTER_MS)
    return purpose === 'background' ? namedMs : Math.max(gapMs, namedMs)
  }

  /** The time that the first 429 names counts as it is. Later ones show that it is not to be relied upon. */
  #after429Ms(error: unknown): number {
    const namedMs = retryAfterMsOf(error)
    const isFirst = !this.#wasRateLimited
    this.#wasRateLimited = true
    const limitedMs = Math.min(Math.max(namedMs ?? 0, MIN_RETRY_AFTER_429_MS), MAX_RETRY_AFTER_429_MS)
    if (isFirst && namedMs !== undefined) return limitedMs
    const gapMs = this.#rateLimits.next({ firstMs: FIRST_COOLDOWN_429_MS, limitMs: MAX_COOLDOWN_429_MS })
    return Math.max(gapMs, limitedMs)
  }

  pause(now: number): SharedPause | undefined {
    if (this.failure === undefined || statusOf(this.failure.error) !== 429) return undefined
    return { gapMs: this.#rateLimits.lastMs, remainsMs: this.failure.endsAt - now }
  }

  adopt({ gapMs, remainsMs }: SharedPause, error: () => unknown, now: number): void {
    this.#wasRateLimited = true
    this.#rateLimits.lastMs = Math.max(this.#rateLimits.lastMs, gapMs)
    const endsAt = now + remainsMs
    if (endsAt <= Math.max(now, this.endsAt)) return
    const { failure } = this
    const isOver = failure === undefined || failure.endsAt <= now
    this.failure = isOver ? { error: error(), at: now, endsAt } : { ...failure, endsAt }
  }
}

function statusOf(error: unknown): number {
  return error instanceof TokenRequestError ? (error.status ?? 0) : 0
}

/** The time (ms) that the token endpoint named, by Retry-After or by spent quotas; undefined if it named none. */
function retryAfterMsOf(error: unknown): number | undefined {
  if (!(error instanceof TokenRequestError)) return undefined
  const spentMs = spentForMs(error.answer?.quotas)
  return spentMs > 0 ? Math.max(spentMs, error.retryAfterMs ?? 0) : error.retryAfterMs
}

/** Whether the token endpoint refused the request, or returned something else than a token. */
function isRefusal(error: unknown): boolean {
  const status = statusOf(error)
  return error instanceof TokenResponseError || (status >= 300 && status < 500 && status !== 408)
}

/** The quotas of the most recent responses. */
class Quotas {
  /** When (monotonic ms) each quota that is reserved for callers without a token is full again. */
  readonly #reserved = new Map<string, number>()

  /** Records the quotas of a response that arrived now. */
  note(quotas: readonly Quota[], now: number): void {
    for (const [key, fullAt] of this.#reserved)
      if (fullAt === Number.POSITIVE_INFINITY) this.#reserved.delete(key) // it never said when
    for (const quota of quotas) {
      if (isReserved(quota))
        this.#reserved.set(keyOf(quota), now + (quota.resetsInMs ?? Number.POSITIVE_INFINITY))
      else this.#reserved.delete(keyOf(quota))
    }
  }

  /** When (monotonic ms) the last of them is full again. */
  get reservedUntil(): number {
    return Math.max(Number.NEGATIVE_INFINITY, ...this.#reserved.values())
  }
}

const MIN_BACKGROUND_PAUSE_MS = 5 * SECOND_MS
const MAX_BACKGROUND_PAUSE_MS = 5 * MINUTE_MS

/** About a quarter of the time that the current token may still be used, and random, so that processes do not try together. */
function backgroundPauseMs(servableForMs: number): number {
  const pauseMs = Math.min(Math.max(servableForMs / 4, MIN_BACKGROUND_PAUSE_MS), MAX_BACKGROUND_PAUSE_MS)
  return pauseMs * (0.75 + Math.random() / 2)
}

const FIRST_RENEWAL_GAP_MS = SECOND_MS
const MAX_RENEWAL_GAP_MS = 30 * MINUTE_MS
const MAX_FAILED_GAP_MS = 5 * MINUTE_MS
/** The gaps start over after this time, beyond the last gap, without a rejection. */
const QUIET_MS = MINUTE_MS
const MAX_PER_HOUR = 12
const MAX_PER_DAY = 60
/** Two recorded renewals closer than this are the same one, seen by two processes. */
const SAME_MS = 500

/** What one process shares with the others about its renewals for one API. */
export interface RenewalHistory {
  /** The gap (ms) after the last of them. */
  readonly gapMs: number
  /** How long ago (ms) they began, oldest first. */
  readonly renewedAgoMs: readonly number[]
}

/**
 * How often a token that one API rejected is renewed. Tokens are counted and billed: an API that rejects every token must
 * not cost new ones forever, however rarely it is called.
 */
class RenewalLimit {
  readonly #gap = new DoublingGap()
  #gapEndsAt = Number.NEGATIVE_INFINITY
  /** The gap after renewals that failed: they cost no token, but requests may be counted, too. */
  readonly #failedGap = new DoublingGap()
  #failedGapEndsAt = Number.NEGATIVE_INFINITY
  #renewals: readonly number[] = []
  #lastRejection = Number.POSITIVE_INFINITY

  /** When (monotonic ms) the next renewal is allowed. */
  get nextAt(): number {
    const hourEndsAt = (this.#renewals.at(-MAX_PER_HOUR) ?? Number.NEGATIVE_INFINITY) + HOUR_MS
    const dayEndsAt = (this.#renewals.at(-MAX_PER_DAY) ?? Number.NEGATIVE_INFINITY) + DAY_MS
    return Math.max(this.#gapEndsAt, this.#failedGapEndsAt, hourEndsAt, dayEndsAt)
  }

  /** Records a rejection by this API; after a long time without one, the gaps start over. */
  rejected(now: number): void {
    const quietMs = now - this.#lastRejection - QUIET_MS
    if (quietMs > this.#gap.lastMs) this.#gap.reset()
    if (quietMs > this.#failedGap.lastMs) this.#failedGap.reset()
    this.#lastRejection = now
  }

  renewed(requestedAt: number): void {
    this.#failedGap.reset()
    this.#failedGapEndsAt = Number.NEGATIVE_INFINITY
    this.#gapEndsAt =
      requestedAt + this.#gap.next({ firstMs: FIRST_RENEWAL_GAP_MS, limitMs: MAX_RENEWAL_GAP_MS })
    this.#keep([...this.#renewals, requestedAt])
  }

  /** Records a renewal that failed. One that the token endpoint refused is tried less often. */
  failed(now: number, { refused }: { readonly refused: boolean }): void {
    const limitMs = refused ? MAX_RENEWAL_GAP_MS : MAX_FAILED_GAP_MS
    this.#failedGapEndsAt = now + this.#failedGap.next({ firstMs: FIRST_RENEWAL_GAP_MS, limitMs })
  }

  history(now: number): RenewalHistory {
    return { gapMs: this.#gap.lastMs, renewedAgoMs: this.#renewals.map((at) => now - at) }
  }

  /**
   * Merges the history of another process, so that this limit is at least as strict. The other process's gap counts only
   * while it may still apply: it starts over after a minute without a rejection.
   */
  adopt({ gapMs, renewedAgoMs }: RenewalHistory, now: number): void {
    const agoMs = renewedAgoMs.at(-1) ?? Number.POSITIVE_INFINITY
    const endsAt = now - agoMs + gapMs
    if (agoMs <= 2 * gapMs + QUIET_MS && endsAt > this.#gapEndsAt) {
      this.#gap.lastMs = gapMs
      this.#gapEndsAt = endsAt
    }
    const all = [...this.#renewals, ...renewedAgoMs.map((ago) => now - ago)].sort((a, b) => a - b)
    this.#keep(all.filter((at, n) => n === 0 || at - (all[n - 1] as number) > SAME_MS))
  }

  #keep(renewals: readonly number[]): void {
    this.#renewals = renewals.slice(-MAX_PER_DAY)
  }
}

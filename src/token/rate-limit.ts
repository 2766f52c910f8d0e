/** Rate limits of the token endpoint: the cooldown after a failure, quotas, and how often a rejected token is renewed. */
import { isReserved, keyOf, type Quota } from '../quota.ts'

/** The limits on a token request. */
export interface RequestLimits {
  /** When (monotonic ms) the cooldown ends, and quotas allow it. */
  readonly notBefore: () => number
  /** The API that rejected the current token, and its limit on renewals. */
  readonly rejection?: { readonly api: string | undefined; readonly limit: RenewalLimit } | undefined
}

/** Whether a token may be requested now. */
export function mayRequest({ notBefore, rejection }: RequestLimits, now: number): boolean {
  return now >= notBefore() && (rejection === undefined || rejection.limit.waitMs(now) === 0)
}

const SECOND_MS = 1_000
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** A pause that doubles each time it begins, up to a limit. */
class Backoff {
  /** The last pause (ms); 0 if there was none. */
  gapMs = 0
  /** When (monotonic ms) it ends. */
  endsAt = Number.NEGATIVE_INFINITY

  /** Begins a pause of twice the last one, at least `leastMs`. */
  begin(now: number, { limitMs, firstMs = SECOND_MS, leastMs = 0 }: BackoffLimits): void {
    this.gapMs = Math.min(this.gapMs === 0 ? firstMs : this.gapMs * 2, limitMs)
    this.endsAt = now + Math.max(this.gapMs, leastMs)
  }

  /** Continues a pause that began elsewhere, if it is longer. */
  adopt(gapMs: number, endsAt: number): void {
    this.gapMs = Math.max(this.gapMs, gapMs)
    this.endsAt = Math.max(this.endsAt, endsAt)
  }

  /** Ends the pause, and lets the next one be as short as the first. */
  reset(): void {
    this.gapMs = 0
    this.endsAt = Number.NEGATIVE_INFINITY
  }
}

interface BackoffLimits {
  readonly limitMs: number
  readonly firstMs?: number
  readonly leastMs?: number
}

const MAX_COOLDOWN_MS = 5 * SECOND_MS
const MAX_COOLDOWN_4XX_MS = 30 * SECOND_MS
const MAX_RETRY_AFTER_MS = MINUTE_MS
/** Some services count refused requests, too, and announce it by nothing but a 429: only a long pause lets them recover. */
const FIRST_COOLDOWN_429_MS = 10 * SECOND_MS
const MAX_COOLDOWN_429_MS = 30 * MINUTE_MS
const MAX_RETRY_AFTER_429_MS = HOUR_MS

/** What a failed token request says about the next one. */
export interface FailureKind {
  /** The response's status; 0 if there was none. */
  readonly status: number
  /** The response's Retry-After (ms), or the delay (ms) until the spent quotas of a 429 are full again. */
  readonly retryAfterMs: number
  /** Whether it was a background renewal. */
  readonly background: boolean
}

/** The pause that a 429 began, which processes with a store share. */
export interface SharedPause {
  /** The next pause is twice as long (ms). */
  readonly gapMs: number
  /** What remains of it (ms) for renewals. */
  readonly remainsMs: number
  /** What remains of it (ms) for callers without a token. */
  readonly callersMs: number
}

/** The time after a failed token request in which no other is sent. */
export class Cooldown {
  readonly #failures = new Backoff()
  readonly #refusals = new Backoff()
  /**
   * When (monotonic ms) it ends for callers without a token: a background renewal that failed counts only by its
   * Retry-After and its quotas.
   */
  endsForCallersAt: number = Number.NEGATIVE_INFINITY

  /** When (monotonic ms) it ends for renewals after rejections. */
  get endsAt(): number {
    return Math.max(this.#failures.endsAt, this.#refusals.endsAt)
  }

  /** When (monotonic ms) it ends for background renewals, which have another pause after other failures of their own. */
  get endsForBackgroundAt(): number {
    return Math.max(this.endsForCallersAt, this.#refusals.endsAt)
  }

  /** Begins the cooldown after one more failure in a row. */
  failed(now: number, { status, retryAfterMs, background }: FailureKind): void {
    const isRefusal = status === 429
    const leastMs = Math.min(retryAfterMs, isRefusal ? MAX_RETRY_AFTER_429_MS : MAX_RETRY_AFTER_MS)
    const isClientError = status >= 400 && status < 500 // waiting rarely fixes those
    const limitMs = isClientError ? MAX_COOLDOWN_4XX_MS : MAX_COOLDOWN_MS
    const backoff = isRefusal ? this.#refusals : this.#failures
    backoff.begin(
      now,
      isRefusal
        ? { limitMs: MAX_COOLDOWN_429_MS, firstMs: FIRST_COOLDOWN_429_MS, leastMs }
        : { limitMs, leastMs },
    )
    this.endsForCallersAt = background ? now + leastMs : backoff.endsAt
  }

  /** Ends it. */
  succeeded(): void {
    this.#failures.reset()
    this.#refusals.reset()
    this.endsForCallersAt = Number.NEGATIVE_INFINITY
  }

  /** The pause to share with other processes; undefined if there was no 429 since the last success. */
  pause(now: number): SharedPause | undefined {
    const { gapMs, endsAt } = this.#refusals
    if (gapMs === 0) return undefined
    return { gapMs, remainsMs: endsAt - now, callersMs: Math.min(this.endsForCallersAt, endsAt) - now }
  }

  /** Continues the pause of another process. */
  adopt({ gapMs, remainsMs, callersMs }: SharedPause, now: number): void {
    this.#refusals.adopt(gapMs, now + remainsMs)
    this.endsForCallersAt = Math.max(this.endsForCallersAt, now + callersMs)
  }
}

/** The quotas of the most recent responses. */
export class Quotas {
  /** When (monotonic ms) each quota that is reserved for callers without a token is full again. */
  readonly #reserved = new Map<string, number>()

  /** Records the quotas of a response that arrived now. */
  note(quotas: readonly Quota[], now: number): void {
    for (const [key, fullAt] of this.#reserved)
      if (fullAt <= now || fullAt === Infinity) this.#reserved.delete(key)
    for (const quota of quotas) {
      if (isReserved(quota)) this.#reserved.set(keyOf(quota), now + (quota.resetsInMs ?? Infinity))
      else this.#reserved.delete(keyOf(quota))
    }
  }

  /** When (monotonic ms) a token that is still valid may be renewed. */
  get renewalsAt(): number {
    return Math.max(Number.NEGATIVE_INFINITY, ...this.#reserved.values())
  }
}

const MIN_PAUSE_MS = 5 * SECOND_MS
const MAX_PAUSE_MS = 5 * MINUTE_MS

/**
 * The pause after a background renewal that failed: about a quarter of the time for which the current token may still be
 * used, and random, so that processes do not try together.
 */
export function backgroundPauseMs(servableForMs: number): number {
  const pauseMs = Math.min(Math.max(servableForMs / 4, MIN_PAUSE_MS), MAX_PAUSE_MS)
  return pauseMs * (0.75 + Math.random() / 2)
}

const MAX_RENEWAL_GAP_MS = 30 * MINUTE_MS
const MAX_FAILED_GAP_MS = 5 * MINUTE_MS
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
export class RenewalLimit {
  readonly #backoff = new Backoff()
  /** The pause after renewals that failed: they cost no token, but requests may be counted, too. */
  readonly #failures = new Backoff()
  #renewals: readonly number[] = []
  #lastRejection = Number.POSITIVE_INFINITY

  /** Records a rejection by this API; after a long time without one, the gaps start over. */
  rejected(now: number): void {
    const quietMs = now - this.#lastRejection - QUIET_MS
    if (quietMs > this.#backoff.gapMs) this.#backoff.reset()
    if (quietMs > this.#failures.gapMs) this.#failures.reset()
    this.#lastRejection = now
  }

  /** Delay (ms) until the next renewal is allowed; 0: now. */
  waitMs(now: number): number {
    return Math.max(this.tokensWaitMs(now), this.#failures.endsAt - now)
  }

  /** The part of it that is due to tokens, not to failures. */
  tokensWaitMs(now: number): number {
    const hourEndsAt = (this.#renewals.at(-MAX_PER_HOUR) ?? Number.NEGATIVE_INFINITY) + HOUR_MS
    const dayEndsAt = (this.#renewals.at(-MAX_PER_DAY) ?? Number.NEGATIVE_INFINITY) + DAY_MS
    return Math.max(0, Math.max(this.#backoff.endsAt, hourEndsAt, dayEndsAt) - now)
  }

  /** Records a renewal that began at `startedAt` and succeeded. */
  renewed(startedAt: number): void {
    this.#failures.reset()
    this.#backoff.begin(startedAt, { limitMs: MAX_RENEWAL_GAP_MS })
    this.#keep([...this.#renewals, startedAt])
  }

  /** Records a renewal that failed. One that the token endpoint refused is tried less often. */
  failed(now: number, { refused }: { readonly refused: boolean }): void {
    this.#failures.begin(now, { limitMs: refused ? MAX_RENEWAL_GAP_MS : MAX_FAILED_GAP_MS })
  }

  /** The history to share with other processes. */
  history(now: number): RenewalHistory {
    return { gapMs: this.#backoff.gapMs, renewedAgoMs: this.#renewals.map((at) => now - at) }
  }

  /**
   * Merges the history of another process, so that this limit is at least as strict. The other process's gap counts only
   * while it may still apply: it starts over after a minute without a rejection.
   */
  adopt({ gapMs, renewedAgoMs }: RenewalHistory, now: number): void {
    const agoMs = renewedAgoMs.at(-1) ?? Infinity
    const endsAt = now - agoMs + gapMs
    if (agoMs <= 2 * gapMs + QUIET_MS && endsAt > this.#backoff.endsAt) {
      this.#backoff.gapMs = gapMs
      this.#backoff.endsAt = endsAt
    }
    const all = [...this.#renewals, ...renewedAgoMs.map((ago) => now - ago)].sort((a, b) => a - b)
    const distinct = all.filter((at, n) => n === 0 || at - (all[n - 1] as number) > SAME_MS)
    this.#keep(distinct)
  }

  #keep(renewals: readonly number[]): void {
    this.#renewals = renewals.slice(-MAX_PER_DAY)
  }
}

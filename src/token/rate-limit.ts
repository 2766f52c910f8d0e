/** Rate limits of the token endpoint: the cooldown after a failure, and how often a rejected token is renewed. */

/** The limits on a token request. */
export interface RequestLimits {
  /** When (monotonic ms) the cooldown ends. */
  readonly cooldownEndsAt: number
  /** The API that rejected the current token, and its limit on renewals. */
  readonly rejection?: { readonly api: string | undefined; readonly limit: RenewalLimit } | undefined
}

/** Whether a token may be requested now. */
export function mayRequest({ cooldownEndsAt, rejection }: RequestLimits, now: number): boolean {
  return now >= cooldownEndsAt && (rejection === undefined || rejection.limit.waitMs(now) === 0)
}

/** A pause that doubles each time it begins, up to a limit. */
class Backoff {
  /** The last pause (ms); 0 if there was none. */
  gapMs = 0
  /** When (monotonic ms) it ends. */
  endsAt = Number.NEGATIVE_INFINITY

  /** Begins a pause of twice the last one, at least `leastMs`. */
  begin(now: number, limitMs: number, leastMs = 0): void {
    this.gapMs = Math.min(this.gapMs === 0 ? FIRST_MS : this.gapMs * 2, limitMs)
    this.endsAt = now + Math.max(this.gapMs, leastMs)
  }

  /** Ends the pause, and lets the next one be as short as the first. */
  reset(): void {
    this.gapMs = 0
    this.endsAt = Number.NEGATIVE_INFINITY
  }
}

const FIRST_MS = 1_000
const MAX_COOLDOWN_MS = 5_000
const MAX_COOLDOWN_4XX_MS = 30_000
const MAX_RETRY_AFTER_MS = 60_000

/** What a failed token request says about the next one. */
export interface FailureKind {
  /** Whether the response was a 4xx: waiting rarely fixes those. */
  readonly clientError: boolean
  /** The response's Retry-After (ms). */
  readonly retryAfterMs: number | undefined
  /** Whether it was a background renewal. */
  readonly background: boolean
}

/** The time after a failed token request in which no other is sent. */
export class Cooldown {
  readonly #backoff = new Backoff()
  #retryAfterUntil = Number.NEGATIVE_INFINITY
  #background = false

  /** When (monotonic ms) it ends for renewals. */
  get endsAt(): number {
    return this.#backoff.endsAt
  }

  /** When it ends for a caller without a token: a background failure counts only by its Retry-After. */
  get endsForCallersAt(): number {
    return this.#background ? this.#retryAfterUntil : this.endsAt
  }

  /** Begins the cooldown after one more failure in a row. */
  failed(now: number, { clientError, retryAfterMs = 0, background }: FailureKind): void {
    const leastMs = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
    this.#backoff.begin(now, clientError ? MAX_COOLDOWN_4XX_MS : MAX_COOLDOWN_MS, leastMs)
    this.#retryAfterUntil = now + leastMs
    this.#background = background
  }

  /** Ends it. */
  succeeded(): void {
    this.#backoff.reset()
    this.#retryAfterUntil = Number.NEGATIVE_INFINITY
  }
}

const MAX_RENEWAL_GAP_MS = 5 * 60_000
const QUIET_MS = 60_000
const HOUR_MS = 60 * 60_000
const MAX_PER_HOUR = 20
/** Two recorded renewals closer than this are the same one, seen by two processes. */
const SAME_MS = 500

/** What one process shares with the others about its renewals for one API. */
export interface RenewalHistory {
  /** The gap (ms) after the last of them. */
  readonly gapMs: number
  /** How long ago (ms) they began, within the last hour, oldest first. */
  readonly renewedAgoMs: readonly number[]
}

/**
 * How often a token that one API rejected is renewed. Tokens are counted and billed: an API that rejects every token must
 * not cost new ones forever, however rarely it is called.
 */
export class RenewalLimit {
  readonly #backoff = new Backoff()
  #renewals: number[] = []
  #lastRejection = Number.POSITIVE_INFINITY

  /** Records a rejection by this API; after a long time without one, the gaps start over. */
  rejected(now: number): void {
    if (now - this.#lastRejection > this.#backoff.gapMs + QUIET_MS) this.#backoff.reset()
    this.#lastRejection = now
  }

  /** Delay (ms) until the next renewal is allowed; 0: now. */
  waitMs(now: number): number {
    const oldest = this.#renewals.length < MAX_PER_HOUR ? undefined : this.#renewals[0]
    return Math.max(0, this.#backoff.endsAt - now, oldest === undefined ? 0 : oldest + HOUR_MS - now)
  }

  /** Records a renewal that began at `startedAt` and succeeded. */
  renewed(startedAt: number): void {
    this.#backoff.begin(startedAt, MAX_RENEWAL_GAP_MS)
    this.#renewals.push(startedAt)
    if (this.#renewals.length > MAX_PER_HOUR) this.#renewals.shift()
  }

  /** The history to share with other processes. */
  history(now: number): RenewalHistory {
    const renewedAgoMs = this.#renewals.map((at) => now - at).filter((agoMs) => agoMs < HOUR_MS)
    return { gapMs: this.#backoff.gapMs, renewedAgoMs }
  }

  /**
   * Merges the history of another process, so that this limit is at least as strict. The other process's gap counts only
   * while it may still apply: it starts over after a minute without a rejection.
   */
  adopt({ gapMs, renewedAgoMs }: RenewalHistory, now: number): void {
    const agoMs = renewedAgoMs.at(-1)
    if (agoMs === undefined) return
    const endsAt = now - agoMs + gapMs
    if (agoMs <= 2 * gapMs + QUIET_MS && endsAt > this.#backoff.endsAt) {
      this.#backoff.gapMs = gapMs
      this.#backoff.endsAt = endsAt
    }
    const all = [...this.#renewals, ...renewedAgoMs.map((ago) => now - ago)].sort((a, b) => a - b)
    const distinct = all.filter((at, n) => n === 0 || at - (all[n - 1] as number) > SAME_MS)
    this.#renewals = distinct.filter((at) => now - at < HOUR_MS).slice(-MAX_PER_HOUR)
  }
}

/** Rate limits of the token endpoint: the cooldown after a failure, and how often a rejected token is renewed. */

/** What holds back a token request. */
export interface RequestLimits {
  /** When (monotonic ms) the cooldown ends. */
  readonly cooldownEndsAt: number
  /** The API that rejected the current token, and how often that may cost another. */
  readonly rejection?: { readonly api: string | undefined; readonly limit: RenewalLimit } | undefined
}

/** Whether the token endpoint may be asked now. */
export function mayRequest({ cooldownEndsAt, rejection }: RequestLimits, now: number): boolean {
  return now >= cooldownEndsAt && (rejection === undefined || rejection.limit.waitMs(now) === 0)
}

/** A pause that doubles each time it begins, up to a limit. */
class Backoff {
  /** The last pause (ms); 0 where there was none. */
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
  /** Whether the answer was a 4xx: a failure that time alone seldom fixes. */
  readonly clientError: boolean
  /** What the answer's Retry-After asked for (ms). */
  readonly retryAfterMs: number | undefined
  /** Whether it was a background renewal. */
  readonly background: boolean
}

/** The time after a failed token request in which the token endpoint is not asked. */
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
/** Renewals are further apart than this: one that two processes know of differs by less. */
const SAME_MS = 500

/** What one process shares with the others about its renewals for one API. */
export interface RenewalHistory {
  /** The gap (ms) after the last of them. */
  readonly gapMs: number
  /** How long ago (ms) they began, within the last hour, the oldest first. */
  readonly renewedAgoMs: readonly number[]
}

/**
 * How often a token that one API rejected is renewed. Tokens are counted and billed: an API that rejects every token must
 * not cost new ones for ever, however slowly it is called.
 */
export class RenewalLimit {
  readonly #backoff = new Backoff()
  #renewals: number[] = []
  #lastRejection = Number.POSITIVE_INFINITY

  /** Notes a rejection by this API; a long quiet time before it resets the gaps. */
  rejected(now: number): void {
    if (now - this.#lastRejection > this.#backoff.gapMs + QUIET_MS) this.#backoff.reset()
    this.#lastRejection = now
  }

  /** How long (ms) until the next renewal may come; 0: now. */
  waitMs(now: number): number {
    const oldest = this.#renewals.length < MAX_PER_HOUR ? undefined : this.#renewals[0]
    return Math.max(0, this.#backoff.endsAt - now, oldest === undefined ? 0 : oldest + HOUR_MS - now)
  }

  /** Notes a renewal that began at `startedAt` and got a token. */
  renewed(startedAt: number): void {
    this.#backoff.begin(startedAt, MAX_RENEWAL_GAP_MS)
    this.#renewals.push(startedAt)
    if (this.#renewals.length > MAX_PER_HOUR) this.#renewals.shift()
  }

  /** What the other processes should know of it. */
  history(now: number): RenewalHistory {
    const renewedAgoMs = this.#renewals.map((at) => now - at).filter((agoMs) => agoMs < HOUR_MS)
    return { gapMs: this.#backoff.gapMs, renewedAgoMs }
  }

  /**
   * Makes it as strict as another process's, which may have renewed since. That one's gap is over for good when no
   * rejection can have come for a minute longer than it: a process that gets one after the gap renews.
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

/** One doubling gate: how long to leave something alone after a failure, and how often it may be tried. */

/** A gate that closes for a time which doubles with each closing, up to a limit. */
class DoublingGate {
  readonly #firstMs: number
  #gapMs = 0
  #openAt = Number.NEGATIVE_INFINITY

  constructor(firstMs: number) {
    this.#firstMs = firstMs
  }

  /** The gap (ms) of the last closing; 0 where there was none. */
  get gapMs(): number {
    return this.#gapMs
  }

  /** How long (ms) it stays closed; 0: it is open. */
  closedForMs(now: number): number {
    return Math.max(0, this.#openAt - now)
  }

  /** Closes it for twice the last gap, at least `leastMs`. */
  close(now: number, limitMs: number, leastMs = 0): void {
    this.#gapMs = Math.min(this.#gapMs === 0 ? this.#firstMs : this.#gapMs * 2, limitMs)
    this.#openAt = now + Math.max(this.#gapMs, leastMs)
  }

  /** Closes it for at least what remains of another gap that began `agoMs` ago. */
  adopt(now: number, { gapMs, agoMs }: { gapMs: number; agoMs: number }): void {
    const openAt = now - agoMs + gapMs
    if (openAt <= this.#openAt) return
    this.#gapMs = gapMs
    this.#openAt = openAt
  }

  /** Opens it, and lets the next closing begin anew. */
  reset(): void {
    this.#gapMs = 0
    this.#openAt = Number.NEGATIVE_INFINITY
  }
}

const FIRST_MS = 1_000
const MAX_COOLDOWN_MS = 5_000
const MAX_COOLDOWN_4XX_MS = 30_000
const MAX_RETRY_AFTER_MS = 60_000

/** What a failed token request says about the next one. */
export interface FailureKind {
  /** Whether the answer was a 4xx: something that time alone seldom mends. */
  readonly clientError: boolean
  /** What the answer's Retry-After asked for (ms). */
  readonly retryAfterMs: number | undefined
  /** Whether nobody waited for it. */
  readonly background: boolean
}

/** The time after a failed token request in which the token endpoint is left alone. */
export class Cooldown {
  readonly #gate = new DoublingGate(FIRST_MS)
  #retryAfterUntil = Number.NEGATIVE_INFINITY
  #background = false

  /** Begins the cooldown after one more failure in a row. */
  failed(now: number, { clientError, retryAfterMs = 0, background }: FailureKind): void {
    const least = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
    this.#gate.close(now, clientError ? MAX_COOLDOWN_4XX_MS : MAX_COOLDOWN_MS, least)
    this.#retryAfterUntil = now + least
    this.#background = background
  }

  /** Ends it. */
  succeeded(): void {
    this.#gate.reset()
    this.#retryAfterUntil = Number.NEGATIVE_INFINITY
  }

  /** What remains of it (ms) for a renewal that nobody waits for. */
  remainsMs(now: number): number {
    return this.#gate.closedForMs(now)
  }

  /** What remains of it (ms) for a caller without a token: a background failure counts only by its Retry-After. */
  remainsForCallersMs(now: number): number {
    return this.#background ? Math.max(0, this.#retryAfterUntil - now) : this.remainsMs(now)
  }
}

const MAX_RATION_GAP_MS = 5 * 60_000
const QUIET_MS = 60_000
const HOUR_MS = 60 * 60_000
const MOST_PER_HOUR = 20
/** Renewals are further apart than this: one that two processes know of differs by less. */
const SAME_MS = 500

/** What one process tells others of its renewals for one API. */
export interface RationState {
  /** The gap (ms) after the last of them. */
  readonly gapMs: number
  /** How long ago (ms) they began, within the last hour, the oldest first. */
  readonly renewedAgoMs: readonly number[]
}

/**
 * How often one API may have a token renewed that it refused. Tokens are counted and billed: an API that
 * refuses every token must not buy new ones for ever, however slowly it is called.
 */
export class RenewalRation {
  readonly #gate = new DoublingGate(FIRST_MS)
  #renewals: number[] = []
  #lastRejection = Number.POSITIVE_INFINITY

  /** Notes a rejection by this API; a long quiet time before it lets the gaps begin anew. */
  rejected(now: number): void {
    if (now - this.#lastRejection > this.#gate.gapMs + QUIET_MS) this.#gate.reset()
    this.#lastRejection = now
  }

  /** How long (ms) until the next renewal may come; 0: now. */
  waitMs(now: number): number {
    const oldest = this.#renewals.length < MOST_PER_HOUR ? undefined : this.#renewals[0]
    return Math.max(this.#gate.closedForMs(now), oldest === undefined ? 0 : oldest + HOUR_MS - now)
  }

  /** Notes a renewal that began at `startedAt` and yielded a token. */
  renewed(startedAt: number): void {
    this.#gate.close(startedAt, MAX_RATION_GAP_MS)
    this.#renewals.push(startedAt)
    if (this.#renewals.length > MOST_PER_HOUR) this.#renewals.shift()
  }

  /** What others should know of it. */
  state(now: number): RationState {
    const renewedAgoMs = this.#renewals.map((at) => now - at).filter((agoMs) => agoMs < HOUR_MS)
    return { gapMs: this.#gate.gapMs, renewedAgoMs }
  }

  /**
   * Makes it as strict as another process's, which may have renewed since. That one's gap is over for good when
   * nobody can have been refused for a minute longer than it: whoever is, once the gap is over, renews.
   */
  adopt({ gapMs, renewedAgoMs }: RationState, now: number): void {
    const agoMs = renewedAgoMs.at(-1)
    if (agoMs === undefined) return
    if (agoMs <= 2 * gapMs + QUIET_MS) this.#gate.adopt(now, { gapMs, agoMs })
    const both = [...this.#renewals, ...renewedAgoMs.map((ago) => now - ago)].sort((a, b) => a - b)
    const apart = both.filter((at, n) => n === 0 || at - (both[n - 1] as number) > SAME_MS)
    this.#renewals = apart.filter((at) => now - at < HOUR_MS).slice(-MOST_PER_HOUR)
  }
}

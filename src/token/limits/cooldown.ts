/** The time after a failed acquisition in which calls fail fast and no token is requested. */
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/clock.ts'
import { TokenRequestError } from '../../base/errors.ts'
import { spentForMs } from '../../base/quota.ts'
import { doubled } from './backoff.ts'

/** A failed acquisition and the cooldown after it, in which calls get its error. */
export interface Failure {
  readonly error: unknown
  /** When (monotonic ms) the cooldown ends. */
  readonly endsAt: number
}

/** The cooldown that a 429 began, as processes with a store share it. */
export interface SharedCooldown {
  /** The length of the last one (ms), which the next one doubles; 0 after a first 429 that named a time. */
  readonly gapMs: number
  /** When it ends (ms after the moment of writing). */
  readonly endsInMs: number
}

export const FIRST_COOLDOWN_MS: number = SECOND_MS
const MAX_COOLDOWN_TEMPORARY_MS = 5 * SECOND_MS
const MAX_COOLDOWN_LASTING_MS = 30 * SECOND_MS
const MAX_RETRY_AFTER_MS = MINUTE_MS
/** Some services count refused requests, too, and say so only by a 429: they recover only after a long pause. */
export const FIRST_COOLDOWN_429_MS: number = 10 * SECOND_MS
const MAX_COOLDOWN_429_MS = 30 * MINUTE_MS
const MIN_RETRY_AFTER_429_MS = SECOND_MS
export const MAX_RETRY_AFTER_429_MS: number = HOUR_MS

/** The cooldown of one provider. */
export class Cooldown {
  failure: Failure | undefined
  /** The last gap (ms) after a failure other than a 429; 0: none since the last success. */
  #gapMs = 0
  /** The last gap (ms) after a 429 that named no time, or was not the first one. */
  #gap429Ms = 0
  /** Whether there was a 429 since the last success, here or in another process. */
  #wasRateLimited = false

  /** When (monotonic ms) it ends. */
  get endsAt(): number {
    return this.failure?.endsAt ?? Number.NEGATIVE_INFINITY
  }

  begin(error: unknown, now: number, { isBackground }: { readonly isBackground: boolean }): Failure {
    const pauseMs =
      statusOf(error) === 429 ? this.#after429Ms(error) : this.#afterOtherMs(error, isBackground)
    this.failure = { error, endsAt: Math.max(this.endsAt, now + pauseMs) }
    return this.failure
  }

  reset(): void {
    this.failure = undefined
    this.#gapMs = 0
    this.#gap429Ms = 0
    this.#wasRateLimited = false
  }

  /** After a background renewal, which has a pause of its own, it lasts only as long as the token endpoint asks. */
  #afterOtherMs(error: unknown, isBackground: boolean): number {
    const namedMs = Math.min(retryAfterMsOf(error) ?? 0, MAX_RETRY_AFTER_MS)
    if (isBackground) return namedMs
    const most = isLasting(error) ? MAX_COOLDOWN_LASTING_MS : MAX_COOLDOWN_TEMPORARY_MS
    this.#gapMs = doubled(this.#gapMs, { first: FIRST_COOLDOWN_MS, most })
    return Math.max(this.#gapMs, namedMs)
  }

  /** The time that the first 429 names counts as it is. Later ones show that it is not to be relied upon. */
  #after429Ms(error: unknown): number {
    const namedMs = retryAfterMsOf(error)
    const isFirst = !this.#wasRateLimited
    this.#wasRateLimited = true
    const limitedMs = Math.min(Math.max(namedMs ?? 0, MIN_RETRY_AFTER_429_MS), MAX_RETRY_AFTER_429_MS)
    if (isFirst && namedMs !== undefined) return limitedMs
    this.#gap429Ms = doubled(this.#gap429Ms, { first: FIRST_COOLDOWN_429_MS, most: MAX_COOLDOWN_429_MS })
    return Math.max(this.#gap429Ms, limitedMs)
  }

  /** What other processes have to know of it; undefined if no 429 began it. */
  shared(now: number): SharedCooldown | undefined {
    if (this.failure === undefined || statusOf(this.failure.error) !== 429) return undefined
    return { gapMs: this.#gap429Ms, endsInMs: this.failure.endsAt - now }
  }

  /** Continues the cooldown of another process; `error` is what calls get meanwhile. */
  adopt(
    { gapMs, endsInMs }: SharedCooldown,
    {
      writtenAt,
      now,
      error,
    }: { readonly writtenAt: number; readonly now: number; readonly error: () => unknown },
  ): void {
    this.#wasRateLimited = true
    this.#gap429Ms = Math.max(this.#gap429Ms, gapMs)
    const endsAt = writtenAt + endsInMs
    if (endsAt <= Math.max(now, this.endsAt)) return
    const own = this.endsAt > now ? this.failure?.error : undefined
    this.failure = { error: statusOf(own) === 429 ? own : error(), endsAt } // only the error of a 429 explains a shared pause
  }
}

/**
 * Whether this is a failure that waiting rarely fixes: a 4xx, unless the response says that the endpoint itself is in trouble, or
 * a lasting failure of the network, such as a certificate that is refused. A 408 counts as a 4xx, although it is retried.
 */
function isLasting(error: unknown): boolean {
  if (!(error instanceof TokenRequestError)) return false
  const { retryable, status = 0 } = error
  if (status === 408) return true
  return !retryable && (status === 0 || status >= 400)
}

function statusOf(error: unknown): number {
  return error instanceof TokenRequestError ? (error.status ?? 0) : 0
}

/** The time (ms) that the token endpoint named, by Retry-After or by spent quotas; undefined if it named none. */
export function retryAfterMsOf(error: unknown): number | undefined {
  if (!(error instanceof TokenRequestError)) return undefined
  const spentMs = spentForMs(error.answer?.quotas)
  return spentMs > 0 ? Math.max(spentMs, error.retryAfterMs ?? 0) : error.retryAfterMs
}

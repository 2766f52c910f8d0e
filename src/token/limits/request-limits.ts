/** When a token may be requested: the whole rule is {@link RequestLimits}; the files beside it are the limits that it combines. */
import { type Clock, MINUTE_MS, SECOND_MS } from '../../base/clock.ts'
import type { Quota } from '../../base/quota.ts'
import { Cooldown, type Failure, retryAfterMsOf, type SharedCooldown } from './cooldown.ts'
import { ReservedQuotas } from './quotas.ts'
import { Renewals, type SharedRenewals } from './renewals.ts'

/**
 * Why a token is acquired:
 *
 * - `caller`: a caller is waiting, and there is no token that may be used
 * - `forced`: a caller asked for another token
 * - `rejected`: an API returned 401 for a token that may be used, and attachments report how it answers
 * - `by-hand`: the same, and somebody calls `renewToken` himself
 * - `look`: a 401 renews nothing, but the store may have another token; none is requested
 * - `background`: the cached token is in its refresh window
 */
export type Purpose = 'caller' | 'forced' | 'rejected' | 'by-hand' | 'look' | 'background'

/** What needs a token. */
export interface Need {
  readonly purpose: Purpose
  /** The base URL of the API that rejected a token; undefined if unknown. */
  readonly api?: string | undefined
}

/** Why no token may be requested now. */
export interface Hold {
  /** Of several reasons the one that says most: a cooldown before a quota, a quota before a rate limit. */
  readonly reason: 'limited' | 'quota' | 'cooldown'
  /** When (monotonic ms) no reason is left: before that, another attempt is in vain. */
  readonly until: number
}

/** The limits of one process, for others. All instants are ms after the moment of writing. */
export interface SharedLimits {
  readonly cooldown?: SharedCooldown | undefined
  readonly renewals: Readonly<Record<string, SharedRenewals>>
}

const NEVER = Number.NEGATIVE_INFINITY
/** A client that renews by itself need not say which API rejected its token. */
const UNKNOWN_API = ''
/** A part of the time that the current token may still be used. */
export const BACKGROUND_PAUSE_SHARE = 0.25
export const MIN_BACKGROUND_PAUSE_MS: number = 5 * SECOND_MS
const MAX_BACKGROUND_PAUSE_MS = 5 * MINUTE_MS
/** The pause is longer or shorter by up to this part of it, so that processes do not try together. */
export const BACKGROUND_PAUSE_SPREAD = 0.25

/** All limits on the token requests of one provider. */
export class RequestLimits {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #cooldown = new Cooldown()
  readonly #quotas = new ReservedQuotas()
  readonly #renewals = new Map<string, Renewals>()
  /** When (monotonic ms) the pause after a failed background renewal ends. */
  #backgroundAt = NEVER

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /**
   * Why no token may be requested now; undefined if one may. Callers without a token wait for nothing but the end of a
   * cooldown, and so do those who ask for another one: a leaked token cannot wait until a quota is full again. A reserve of
   * a quota is kept from renewals, which nobody asked for.
   *
   * | limit | caller | forced | rejected | by-hand | background |
   * |---|---|---|---|---|---|
   * | the cooldown after a failure | yes | yes | yes | yes | yes |
   * | a quota that is nearly spent | | | yes | yes | yes |
   * | the bucket of the API's renewals | | | yes | yes | |
   * | n seconds after the API's last renewal | | | yes | | |
   * | the pause after a failed background renewal | | | | | yes |
   */
  holdOn({ purpose, api }: Need): Hold | undefined {
    const now = this.#now
    const renewals = this.#renewals.get(api ?? UNKNOWN_API)
    const holds: Hold[] = [{ reason: 'cooldown', until: this.#cooldown.endsAt }]
    if (purpose !== 'caller' && purpose !== 'forced')
      holds.push({ reason: 'quota', until: this.#quotas.reservedUntil })
    if (purpose === 'rejected') holds.push({ reason: 'limited', until: renewals?.nextAt ?? NEVER })
    if (purpose === 'by-hand') holds.push({ reason: 'limited', until: renewals?.bucketAt ?? NEVER })
    if (purpose === 'background') holds.push({ reason: 'limited', until: this.#backgroundAt })
    const [first, ...others] = holds.filter(({ until }) => now < until)
    return (
      first && { reason: first.reason, until: Math.max(first.until, ...others.map(({ until }) => until)) }
    )
  }

  /** Whether a token may be requested now. A renewal may have adopted doubt from another process since it was decided on. */
  mayRequest(need: Need): boolean {
    if (need.purpose === 'look' || (need.purpose === 'rejected' && !this.isSuspect(need.api))) return false
    return this.holdOn(need) === undefined
  }

  /** Whether the background pause is over: after a failed renewal, or after a newer token that an API did not know yet. */
  get isBackgroundDue(): boolean {
    return this.#now >= this.#backgroundAt
  }

  /** The last failure since the last success. */
  get lastFailure(): Failure | undefined {
    return this.#cooldown.failure
  }

  /** The record of the renewals that an API caused; begins one if there is none. */
  recordFor(api: string | undefined): Renewals {
    const key = api ?? UNKNOWN_API
    const known = this.#renewals.get(key)
    if (known !== undefined) return known
    const record = new Renewals()
    this.#renewals.set(key, record)
    return record
  }

  /** Whether a 401 of this API may be about the token. */
  isSuspect(api: string | undefined): boolean {
    return this.#renewals.get(api ?? UNKNOWN_API)?.isSuspect(this.#now) ?? true
  }

  /** Whether this API accepted a call with this token, and none with another one since. */
  hasAccepted(api: string | undefined, token: string): boolean {
    return this.#renewals.get(api ?? UNKNOWN_API)?.hasAccepted(token) ?? false
  }

  /** Whether any API accepted a call with this token, and none with another one since. */
  anyHasAccepted(token: string | undefined): boolean {
    return token !== undefined && [...this.#renewals.values()].some((record) => record.hasAccepted(token))
  }

  /** Records what a response said about quotas. */
  quotasReported(quotas: readonly Quota[]): void {
    this.#quotas.note(quotas, this.#now)
  }

  /** Records that a token was acquired, from the token endpoint or from the store. */
  succeeded(): void {
    this.#cooldown.reset()
    this.#backgroundAt = NEVER
  }

  /** Records that an acquisition failed. `servableForMs`: how long the current token may still be used. */
  failed(error: unknown, { purpose, api }: Need, servableForMs: number): Failure {
    if (purpose === 'rejected') this.recordFor(api).failed(this.#now)
    if (purpose === 'background') this.pauseBackground(servableForMs, retryAfterMsOf(error))
    return this.#cooldown.begin(error, this.#now, { isBackground: purpose === 'background' })
  }

  /**
   * Begins the pause after a background renewal that yielded no token that works: about a quarter of the time (ms) that the
   * current one may still be used, or longer, if the endpoint asks for it.
   */
  pauseBackground(servableForMs: number, askedForMs = 0): void {
    const shareMs = Math.max(servableForMs * BACKGROUND_PAUSE_SHARE, MIN_BACKGROUND_PAUSE_MS)
    const spread = 1 + BACKGROUND_PAUSE_SPREAD * (2 * Math.random() - 1)
    const pauseMs = Math.min(shareMs, MAX_BACKGROUND_PAUSE_MS) * spread
    this.#backgroundAt = this.#now + Math.max(pauseMs, askedForMs)
  }

  /** The pause ends then (monotonic ms), if not before. */
  endBackgroundPauseBy(at: number): void {
    this.#backgroundAt = Math.min(this.#backgroundAt, at)
  }

  /** What other processes have to know. */
  get shared(): SharedLimits {
    const now = this.#now
    const renewals = [...this.#renewals].map(([api, one]) => [api, one.shared(now)] as const)
    return { cooldown: this.#cooldown.shared(now), renewals: Object.fromEntries(renewals) }
  }

  /**
   * Adopts the limits of another process where they are stricter.
   *
   * @param writtenAt when (monotonic ms) they were written
   * @param error what calls get during a cooldown that another process began
   */
  adopt(
    { cooldown, renewals }: SharedLimits,
    { writtenAt, error }: { readonly writtenAt: number; readonly error: () => unknown },
  ): void {
    const now = this.#now
    if (cooldown !== undefined) this.#cooldown.adopt(cooldown, { writtenAt, now, error })
    for (const [api, theirs] of Object.entries(renewals)) this.recordFor(api).adopt(theirs, writtenAt)
  }

  get #now(): number {
    return this.#clock.monotonicMs()
  }
}

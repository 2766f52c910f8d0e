/** An access token: what callers get, with its value hidden from log output, and what a provider caches, with its lifetime. */
import { type Clock, HOUR_MS, type Instant, SECOND_MS } from '../../base/clock.ts'
import { ElapsedTime } from '../../base/elapsed-time.ts'
import { type Quota, redactQuotas } from '../../base/quota.ts'
import { redact, type UsedSecrets } from '../../base/redact.ts'
import type { ResolvedOptions } from '../../options/options.ts'
import type { TokenResponse } from './token-response.ts'

/** An access token. Its value is readable, but appears in no inspect or JSON output of it. */
export interface AccessToken {
  /** What goes into the header: one or more visible ASCII characters. */
  readonly value: string
  /** The token's type (RFC 6750); no other type is accepted. */
  readonly tokenType: 'Bearer'
  /** The scopes that the service granted, separated by spaces; undefined where it did not say. */
  readonly scope?: string | undefined
  /**
   * When it expires, in ms since the epoch: `expires_in` after the moment its request was sent. For people and logs; a
   * provider also checks a second clock, and hands it out until `expiryMarginMs` before that.
   */
  readonly expiresAt: number
}

class HiddenAccessToken implements AccessToken {
  readonly #value: string
  readonly tokenType = 'Bearer'
  declare readonly scope?: string
  readonly expiresAt: number

  constructor(value: string, expiresAt: number, scope: string | undefined) {
    this.#value = value
    if (scope !== undefined) this.scope = scope
    this.expiresAt = expiresAt
    Object.freeze(this)
  }

  get value(): string {
    return this.#value
  }

  /** Where a caller puts `${token}` into a header, the header says what is wrong. */
  toString(): string {
    return '[AccessToken: use its value]'
  }
}

/** Creates a token whose value is hidden from inspect and JSON output. */
export function createAccessToken(value: string, expiresAt: number, scope?: string): AccessToken {
  return new HiddenAccessToken(value, expiresAt, scope)
}

/** The options that determine when a token is renewed and when it is no longer used. */
export interface LifetimeOptions {
  readonly refreshAheadMs?: number | undefined
  readonly expiryMarginMs?: number | undefined
}

/** Each share is a part of the lifetime. */
export const WINDOW_SHARE = 0.2
export const MAX_WINDOW_MS: number = HOUR_MS
export const MARGIN_SHARE = 0.05
export const MAX_MARGIN_MS: number = 10 * SECOND_MS
/** What the options ask for counts up to these shares: most of a token's life is left to use it. */
export const MAX_GIVEN_WINDOW_SHARE = 0.5
export const MAX_GIVEN_MARGIN_SHARE = 0.25
/** The window is shorter by up to this part of it, at random, so that processes that started together do not renew together. */
export const WINDOW_SPREAD = 0.25
/** While the store fails, the token is renewed in the last part of the window only. */
const STORE_FAILURE_SHARE = 0.25

/** The lifetime of one token, counted from the moment its request was sent. */
class Lifetime {
  /** How long before its margin the token is renewed in the background (ms); 0: never. */
  readonly windowMs: number
  /**
   * How long before its margin the token is renewed even if the store fails (ms): a random moment in the last quarter of
   * the window, so that processes do not renew together. For fleets whose store is down for a while: an outage of three
   * quarters of the window costs them no token request.
   */
  readonly despiteStoreFailureMs: number
  /** Since its request was sent. */
  readonly #age: ElapsedTime
  readonly #usableMs: number
  readonly #marginMs: number

  /** `jitter`: 0 to 1, at random. */
  constructor(
    sentAt: Instant,
    lifetimeMs: number,
    { refreshAheadMs, expiryMarginMs }: LifetimeOptions,
    jitter: number,
  ) {
    const marginMs = expiryMarginMs ?? Math.min(MAX_MARGIN_MS, MARGIN_SHARE * lifetimeMs)
    const windowMs = refreshAheadMs ?? Math.min(MAX_WINDOW_MS, WINDOW_SHARE * lifetimeMs)
    this.#age = new ElapsedTime(sentAt)
    this.#marginMs = Math.min(marginMs, MAX_GIVEN_MARGIN_SHARE * lifetimeMs)
    this.#usableMs = lifetimeMs - this.#marginMs
    this.windowMs = Math.min(windowMs, MAX_GIVEN_WINDOW_SHARE * lifetimeMs) * (1 - WINDOW_SPREAD * jitter)
    this.despiteStoreFailureMs = this.windowMs * STORE_FAILURE_SHARE * (1 - jitter)
  }

  /** When the request for the token was sent. */
  get sentAt(): Instant {
    return this.#age.since
  }

  /** How long (ms) the token may still be used; 0 or less: it may not. */
  servableForMs(clock: Clock): number {
    return this.#usableMs - this.#age.ms(clock)
  }

  /** How long (ms) until the token expires. */
  remainsMs(clock: Clock): number {
    return this.servableForMs(clock) + this.#marginMs
  }
}

/** A token as a provider caches it. */
export class CachedToken extends Lifetime {
  readonly token: AccessToken
  /** As the token endpoint gave it. */
  readonly lifetimeMs: number
  /** What its response said about quotas. */
  readonly quotas: readonly Quota[]

  constructor(response: TokenResponse, options: ResolvedOptions, secrets: UsedSecrets) {
    const { value, scope, lifetimeMs, sentAt, quotas } = response
    super(sentAt, lifetimeMs, options, Math.random())
    const shown = scope === undefined ? undefined : redact(scope, secrets)
    this.token = createAccessToken(value, Math.round(sentAt.epochMs + lifetimeMs), shown)
    this.lifetimeMs = lifetimeMs
    this.quotas = redactQuotas(quotas, secrets) // now with this token
  }
}

const MAX_REJECTED = 16

/** The tokens that APIs rejected most recently: they are not acquired from a store again. */
export class RejectedTokens {
  #values: readonly string[] = []

  add(value: string): void {
    this.#values = [...this.#values.filter((other) => other !== value), value].slice(-MAX_REJECTED)
  }

  has(value: string): boolean {
    return this.#values.includes(value)
  }
}

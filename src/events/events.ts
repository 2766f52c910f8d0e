/** The events of a provider: their types. */
import type { Quota } from '../base/quota.ts'

interface AuthEventBase {
  /** The environment's name, if it has one. */
  readonly environment?: string | undefined
}

/** An attempt at a token request begins. */
export interface TokenRequestedEvent extends AuthEventBase {
  readonly type: 'token-requested'
  /** 1 for the first attempt. */
  readonly attempt: number
  /** The token endpoint's URL without user info and query. */
  readonly url: string
}

/** The provider acquired a token. */
export interface TokenAcquiredEvent extends AuthEventBase {
  readonly type: 'token-acquired'
  /** Whether the token came from the token endpoint or from the store. */
  readonly source: 'endpoint' | 'store'
  /** Time (ms) from the need for a token to its arrival, including waits for other requests and for the store. */
  readonly durationMs: number
  /** The token's lifetime (ms) as issued by the token endpoint. */
  readonly lifetimeMs: number
  /** What remains of the lifetime (ms): `lifetimeMs` minus the time of the request and the time in the store. */
  readonly remainsMs: number
  /** The quotas for token requests that the response reported; undefined if there were none. */
  readonly quota?: readonly Quota[] | undefined
}

/** An attempt at a token request failed. */
export interface TokenRequestFailedEvent extends AuthEventBase {
  readonly type: 'token-request-failed'
  /** 1 for the first attempt. */
  readonly attempt: number
  /** The code of the error of this attempt. */
  readonly code: string
  /** HTTP status of the response; undefined if there was no response, or if it was a success without an `error`. */
  readonly status?: number | undefined
  /** The OAuth error code of the response. */
  readonly error?: string | undefined
  /** Delay (ms) until the next attempt; undefined if there is none. */
  readonly nextTryMs?: number | undefined
  /** The quotas for token requests that the response reported; undefined if there were none. */
  readonly quota?: readonly Quota[] | undefined
}

interface RejectedCallEventBase extends AuthEventBase {
  /** The name of the API that rejected it, or its `apiUrls` entry if it has no name; undefined if unknown. */
  readonly api?: string | undefined
  /** The method of the call that was rejected; undefined if unknown. */
  readonly method?: string | undefined
  /** Its URL without user info, query and fragment; undefined if unknown. */
  readonly url?: string | undefined
}

/** An API returned 401 to a call with the current token; once for each call. */
export interface TokenRejectedEvent extends RejectedCallEventBase {
  readonly type: 'token-rejected'
}

/** A token was replaced before it expired. */
export interface TokenRenewedEvent extends AuthEventBase {
  readonly type: 'token-renewed'
  /** Why: the token was about to expire, an API rejected it, or `getToken` was called with `forceRefresh`. */
  readonly reason: 'expiring' | 'rejected' | 'forced'
}

/** A rejected token was not renewed, and the caller got the API's 401. */
export interface RenewalSuppressedEvent extends RejectedCallEventBase {
  readonly type: 'renewal-suppressed'
  /**
   * Why:
   *
   * - `accepted`: the API has accepted a call with this token since it was acquired: this 401 is about the call, as far as is known
   * - `limited`: the API has accepted none, the last new token did not help, and renewals for it are limited
   * - `quota`: what is left of a quota is reserved for callers without a token
   * - `cooldown`: the last token request failed
   */
  readonly reason: 'accepted' | 'limited' | 'quota' | 'cooldown'
  /** Delay (ms) until the next renewal for this API is allowed, if the time holds it back; undefined for `accepted`. */
  readonly nextRenewalMs?: number | undefined
}

/** A call was sent without the token. */
export interface TokenWithheldEvent extends AuthEventBase {
  readonly type: 'token-withheld'
  /** Why: the URL is not below `apiUrls`, the caller set the header, or the caller gave other credentials. */
  readonly reason: 'destination' | 'own-header' | 'own-credentials'
  /** The call's URL without user info, query and fragment. */
  readonly url: string
}

/** A token store failed. The process continued without it. */
export interface StoreFailedEvent extends AuthEventBase {
  readonly type: 'store-failed'
  /** The operation that failed. */
  readonly operation: 'get' | 'set' | 'lease'
  /**
   * Why, if known: the code of a system error (`ECONNREFUSED`; `ETIMEDOUT` for an operation that took too long), the
   * first word of a Redis error (`READONLY`, `OOM`), the name of the error's class (`ClientClosedError`), or `UNREADABLE` for an
   * entry that cannot be decrypted or parsed.
   */
  readonly code?: string | undefined
}

/** All events of `onEvent` and of the diagnostics channel `merchant-auth`, discriminated by `type`. */
export type AuthEvent =
  | TokenRequestedEvent
  | TokenAcquiredEvent
  | TokenRequestFailedEvent
  | TokenRejectedEvent
  | TokenRenewedEvent
  | RenewalSuppressedEvent
  | TokenWithheldEvent
  | StoreFailedEvent

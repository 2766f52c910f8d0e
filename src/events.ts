/** The events by which the package is seen, and their two outlets: `onEvent` and the diagnostics channel. */
import { type Channel, channel } from 'node:diagnostics_channel'
import type { Environment } from './environments.ts'

interface AuthEventBase {
  /** The environment's name, where it has one. */
  readonly environment?: string | undefined
}

/** A request goes to the token endpoint. */
export interface TokenRequestedEvent extends AuthEventBase {
  readonly type: 'token-requested'
  /** 1 for the first attempt. */
  readonly attempt: number
  /** The token endpoint's URL without user info and query. */
  readonly url: string
}

/** A token has arrived. */
export interface TokenAcquiredEvent extends AuthEventBase {
  readonly type: 'token-acquired'
  /** Whether the token endpoint gave it, or the store had it. */
  readonly source: 'endpoint' | 'store'
  /** From the moment a token was wanted (ms), with the wait for a turn and the store. */
  readonly durationMs: number
  /** The token's lifetime (ms) as the token endpoint gave it. */
  readonly lifetimeMs: number
  /** How much of it remains (ms): less than `lifetimeMs` by the time that it took, and that it was in a store. */
  readonly remainsMs: number
}

/** An attempt at the token endpoint failed. */
export interface TokenRequestFailedEvent extends AuthEventBase {
  readonly type: 'token-request-failed'
  /** 1 for the first attempt. */
  readonly attempt: number
  /** The code of the error that this attempt ended with. */
  readonly code: string
  /** HTTP status of the answer; undefined where there was none, or a success. */
  readonly status?: number | undefined
  /** The OAuth error code of the answer. */
  readonly error?: string | undefined
  /** When (ms from now) the next attempt follows; undefined where none does. */
  readonly nextTryMs?: number | undefined
}

/** An API rejected a token. */
export interface TokenRejectedEvent extends AuthEventBase {
  readonly type: 'token-rejected'
  /** The `apiUrls` entry that rejected it, where it is known. */
  readonly api?: string | undefined
}

/** A token was replaced before its end: in the background, or because an API had rejected it. */
export interface TokenRenewedEvent extends AuthEventBase {
  readonly type: 'token-renewed'
  /** It was about to expire, or an API rejected it. */
  readonly reason: 'expiring' | 'rejected'
}

/** A rejected token is not renewed now, because of the rate limit of renewals for this API. */
export interface RenewalSuppressedEvent extends AuthEventBase {
  readonly type: 'renewal-suppressed'
  /** The `apiUrls` entry that rejected the token, where it is known. */
  readonly api?: string | undefined
  /** When (ms from now) the next renewal for this API may come. */
  readonly nextRenewalMs: number
}

/** A call went out without the token. */
export interface TokenWithheldEvent extends AuthEventBase {
  readonly type: 'token-withheld'
  /** Not below `apiUrls`; a header of that name set by the caller; credentials of the caller's own. */
  readonly reason: 'destination' | 'own-header' | 'own-credentials'
  /** The call's URL without user info, query and fragment. */
  readonly url: string
}

/** A token store failed; the process went on by itself. */
export interface StoreFailedEvent extends AuthEventBase {
  readonly type: 'store-failed'
  /** What the store was asked to do. */
  readonly operation: 'get' | 'set' | 'delete' | 'lease'
  /**
   * Why, where it is known: a system error's code (`ECONNREFUSED`; `ETIMEDOUT` for an operation that took too
   * long), the word that a Redis error begins with (`READONLY`, `OOM`), or `UNREADABLE` for an entry that is there
   * and cannot be parsed.
   */
  readonly code?: string | undefined
}

/** Every event that `onEvent` and the diagnostics channel `merchant-auth` get, by its `type`. */
export type AuthEvent =
  | TokenRequestedEvent
  | TokenAcquiredEvent
  | TokenRequestFailedEvent
  | TokenRejectedEvent
  | TokenRenewedEvent
  | RenewalSuppressedEvent
  | TokenWithheldEvent
  | StoreFailedEvent

const diagnostics: Channel = channel('merchant-auth')

/** Emits an event to the listeners. One that costs something to make is given as a function, called only where one listens. */
export type Emit = (event: AuthEvent | (() => AuthEvent)) => void

/** Emits the events of one provider. A listener that throws, or rejects, disturbs nothing. */
export function createEmit(
  onEvent: ((event: AuthEvent) => void) | undefined,
  environment: string | undefined,
): Emit {
  return (given) => {
    if (onEvent === undefined && !diagnostics.hasSubscribers) return
    const made = typeof given === 'function' ? given() : given
    const event = Object.freeze(environment === undefined ? made : { ...made, environment })
    if (onEvent !== undefined) callSafely(onEvent, event)
    if (diagnostics.hasSubscribers) diagnostics.publish(event)
  }
}

function callSafely(listener: (event: AuthEvent) => void, event: AuthEvent): void {
  try {
    const returned: unknown = listener(event)
    if (returned instanceof Promise) returned.catch(() => {})
  } catch {
    // A listener's fault is the listener's.
  }
}

/** What an attachment needs of a provider to emit its own events. */
export interface Outlet {
  readonly emit: Emit
  /** The client secrets and tokens that may stand in no event. */
  readonly secrets: Iterable<string>
}

const outlets = new WeakMap<object, Outlet>()

/** Makes a provider's outlet known to those who attach its token. */
export function rememberOutlet(provider: object, outlet: Outlet): void {
  outlets.set(provider, outlet)
}

/** The outlet of a provider; of one made elsewhere, the diagnostics channel and its current token. */
export function outletOf(provider: {
  readonly environment: Environment
  currentToken(): { readonly value: string } | undefined
}): Outlet {
  const secrets = {
    *[Symbol.iterator]() {
      const token = provider.currentToken()
      if (token !== undefined) yield token.value
    },
  }
  return outlets.get(provider) ?? { emit: createEmit(undefined, provider.environment.name), secrets }
}

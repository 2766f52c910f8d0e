/** An access token: what callers get, which shows its value in no log output, and what a provider caches. */
import type { ResolvedOptions } from '../options.ts'
import { HIDDEN, redact, type UsedSecrets } from '../redact.ts'
import { Lifetime } from './lifetime.ts'
import type { TokenResponse } from './token-response.ts'

/** An access token. Its value is readable, but appears in no inspect or JSON output of it. */
export interface AccessToken {
  /** What goes into the header: one or more of the characters of a bearer token (RFC 6750 §2.1). */
  readonly value: string
  /** The token's type (RFC 6750); no other type is accepted. */
  readonly tokenType: 'Bearer'
  /** The scopes that the service granted, separated by spaces; undefined where it did not say. */
  readonly scope?: string | undefined
  /**
   * When it expires, in ms since the epoch: `expires_in` after the moment its request was sent. For people and logs; a
   * provider judges by a second clock, too, and hands it out until `expiryMarginMs` before that.
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
}
hideGetters(HiddenAccessToken)

/**
 * Keeps what the getters of a class return out of all inspect output of its instances. `inspect` with `showHidden` and
 * `getters` calls the getters of prototypes, up to the first whose constructor is one of JavaScript's own.
 */
export function hideGetters({ prototype }: { readonly prototype: object }): void {
  Object.defineProperty(prototype, 'constructor', { value: Object })
}

/** Creates a token whose value is hidden from inspect and JSON output. */
export function createAccessToken(value: string, expiresAt: number, scope?: string): AccessToken {
  return new HiddenAccessToken(value, expiresAt, scope)
}

/** A token as a provider caches it. */
export interface CachedToken {
  readonly token: AccessToken
  readonly lifetime: Lifetime
  /** As the token endpoint gave it. */
  readonly lifetimeMs: number
}

/** Makes what a provider caches of a token response. */
export function createCachedToken(
  { value, scope, lifetimeMs, sentAt }: TokenResponse,
  options: ResolvedOptions,
  secrets: UsedSecrets,
): CachedToken {
  const lifetime = new Lifetime(sentAt, lifetimeMs, options, Math.random())
  secrets.add(value)
  const shown = scope === undefined ? undefined : redactScope(scope, secrets)
  return { token: createAccessToken(value, sentAt.epochMs + lifetimeMs, shown), lifetime, lifetimeMs }
}

/** `redact` searches no text that is longer than two of these. */
const PIECE = /.{1,4000}(?: |$)| *[^ ]+ ?/gs

/** The scope without secrets. A long one is searched in pieces of whole values, each together with the next. */
function redactScope(scope: string, secrets: UsedSecrets): string {
  const pieces = scope.match(PIECE) ?? []
  if (pieces.length < 3) return redact(scope, secrets)
  const texts = pieces.map((piece, n) => piece + (pieces[n + 1] ?? ''))
  return texts.every((text) => redact(text, secrets) === text) ? scope : HIDDEN
}

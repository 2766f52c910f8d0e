/** A token in hand, with its life: made of a grant, where that is of use. */
import { type Environment, tokenEndpoint } from '../environments.ts'
import { TokenResponseError } from '../errors.ts'
import type { ResolvedOptions } from '../options.ts'
import { HIDDEN, redact, shownUrl, type UsedSecrets } from '../redact.ts'
import { type AccessToken, createAccessToken } from './access-token.ts'
import { Lifetime } from './lifetime.ts'
import type { SentGrant } from './token-request.ts'

/** A token in hand, with its life. */
export interface HeldToken {
  readonly token: AccessToken
  readonly lifetime: Lifetime
  /** As the token endpoint gave it. */
  readonly lifetimeMs: number
}

/** Makes a token of a grant. */
export function holdToken(
  { value, scope, lifetimeMs, sentAt }: SentGrant,
  options: ResolvedOptions,
  secrets: UsedSecrets,
): HeldToken {
  const lifetime = new Lifetime(sentAt, lifetimeMs, options, Math.random())
  secrets.add(value)
  const shown = scope === undefined ? undefined : shownScope(scope, secrets)
  return { token: createAccessToken(value, sentAt.epochMs + lifetimeMs, shown), lifetime, lifetimeMs }
}

/** `redact` searches no text that is longer than two of these. */
const PIECE = /.{1,4000}(?: |$)| *[^ ]+ ?/gs

/** The scope without secrets. A long one is searched in pieces of whole values, each together with the next. */
function shownScope(scope: string, secrets: UsedSecrets): string {
  const pieces = scope.match(PIECE) ?? []
  if (pieces.length < 3) return redact(scope, secrets)
  const texts = pieces.map((piece, n) => piece + (pieces[n + 1] ?? ''))
  return texts.every((text) => redact(text, secrets) === text) ? scope : HIDDEN
}

/**
 * As `holdToken`, for what the token endpoint has just given.
 *
 * @throws TokenResponseError where its time has passed already
 */
export function holdFreshToken(grant: SentGrant, options: ResolvedOptions, secrets: UsedSecrets): HeldToken {
  const held = holdToken(grant, options, secrets)
  if (held.lifetime.servableForMs(options.clock) <= 0) throw expiredOnArrival(options.environment, secrets)
  return held
}

/** For a token that had expired before it could be handed out. */
export function expiredOnArrival(environment: Environment, secrets: UsedSecrets): TokenResponseError {
  return new TokenResponseError(
    `POST ${shownUrl(tokenEndpoint(environment), secrets)} gave a token that had expired before it could be used. ` +
      'Its lifetime is too short for the time that the answer takes.',
    [{ field: 'expires_in', reason: 'is shorter than the request took' }],
  )
}

/** The settings of one attachment: whose token it is, where the token may go, and in which header. */
import { type Destinations, destinationsOf } from '../destinations.ts'
import { outletOf, type TokenWithheldEvent } from '../events.ts'
import { type AttachOptions, type ResolvedAttach, resolveAttach } from '../options.ts'
import { shownUrl } from '../redact.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/token-provider.ts'

/** One attachment of a provider's token to one client. */
export interface AttachContext extends ResolvedAttach {
  readonly tokens: TokenProvider
  readonly destinations: Destinations
  /** Whether the header is `Authorization`, which clients remove themselves on cross-origin redirects. */
  readonly isAuthorization: boolean
  /** The value of the header that carries this token. */
  headerValue(token: AccessToken): string
  /** Emits `token-withheld` for a call to this URL. */
  emitWithheld(reason: TokenWithheldEvent['reason'], url: string): void
}

/**
 * Checks the options of an attachment; `takes` says which further options are allowed.
 *
 * @throws ConfigurationError
 */
export function createAttachContext(
  tokens: TokenProvider,
  options: AttachOptions | undefined,
  takes?: { readonly fetch: boolean },
): AttachContext {
  const attach = resolveAttach(tokens, options, takes)
  const { emit, secrets } = outletOf(tokens)
  return {
    ...attach,
    tokens,
    destinations: destinationsOf(tokens.environment),
    isAuthorization: attach.headerKey === 'authorization',
    headerValue: ({ value }) => attach.prefix + value,
    emitWithheld: (reason, url) => {
      emit(() => ({ type: 'token-withheld', reason, url: shownUrl(url, secrets) }))
    },
  }
}

/** What the caller set that replaces the token. */
export interface OwnAuthorization {
  /** Whether the caller set the header. */
  readonly header: boolean
  /** Whether the client makes an `Authorization` header of credentials that the caller gave. */
  readonly credentials?: boolean
}

/** Whether a call gets the token. Emits `token-withheld` where it does not. */
export function getsToken(context: AttachContext, url: string, own: OwnAuthorization): boolean {
  const { api, isTokenEndpoint, hasUserInfo } = context.destinations(url)
  if (isTokenEndpoint) return false // a token request would wait for itself
  const hasCredentials = context.isAuthorization && (own.credentials === true || hasUserInfo)
  if (api !== undefined && !own.header && !hasCredentials) return true
  context.emitWithheld(api === undefined ? 'destination' : own.header ? 'own-header' : 'own-credentials', url)
  return false
}

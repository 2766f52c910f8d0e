/** What an attachment knows: whose token, where it may go, in which header, and whom to tell. */
import { type Destinations, destinationsOf, hasUserInfo } from '../destinations.ts'
import { type Environment, tokenEndpoint } from '../environments.ts'
import { outletOf, type TokenWithheldEvent } from '../events.ts'
import { type AttachOptions, type ResolvedAttach, resolveAttach } from '../options.ts'
import { shownUrl } from '../redact.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'

/** Why a call goes without the token. That it is the request for one is not emitted. */
export type WithheldReason = TokenWithheldEvent['reason'] | 'token-request'

/** One attachment of a provider's token to one client. */
export interface AttachContext extends ResolvedAttach {
  readonly tokens: TokenProvider
  readonly destinations: Destinations
  /** Whether the header is `Authorization`, which clients treat with care of their own. */
  readonly isAuthorization: boolean
  /** Whether this is the URL of the token endpoint, whose requests wait for no token: they would wait for themselves. */
  isTokenEndpoint(url: string): boolean
  /** Emits that a call to this URL goes without the token. */
  emitWithheld(reason: WithheldReason, url: string): void
  /** The URL that was judged last, and how: the next one is often the same. */
  readonly last: { url: string | undefined; reason: WithheldReason | undefined }
}

/**
 * Checks what is to be attached; `takes` says which options there are besides.
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
    isTokenEndpoint: tokenEndpointOf(tokens.environment),
    emitWithheld: (reason, url) => {
      if (reason === 'token-request') return
      emit(() => ({ type: 'token-withheld', reason, url: shownUrl(url, secrets) }))
    },
    last: { url: undefined, reason: undefined },
  }
}

/** Compares URLs with that of the token endpoint; a provider of the caller's own need not have one. */
function tokenEndpointOf(environment: Environment): (url: string) => boolean {
  if (!URL.canParse(environment.authUrl)) return () => false
  const endpoint = tokenEndpoint(environment)
  return (url) => {
    if (!url.includes('/oauth/token') || !URL.canParse(url)) return false
    const { origin, pathname } = new URL(url)
    return origin + pathname === endpoint
  }
}

/** The value of the header. */
export function headerValue({ prefix }: AttachContext, token: AccessToken): string {
  return prefix + token.value
}

/** Why a call with this URL, and with or without a header of the caller's own, goes without the token. */
export function whyWithheld(
  context: AttachContext,
  url: string,
  ownHeader: boolean,
  ownCredentials = false,
): WithheldReason | undefined {
  const { last } = context
  if (last.url !== url) {
    last.reason = whyUrlWithheld(context, url)
    last.url = url
  }
  if (last.reason === 'destination' || last.reason === 'token-request') return last.reason
  if (ownHeader) return 'own-header'
  return ownCredentials && context.isAuthorization ? 'own-credentials' : last.reason
}

function whyUrlWithheld(
  { destinations, isAuthorization, isTokenEndpoint }: AttachContext,
  url: string,
): WithheldReason | undefined {
  if (isTokenEndpoint(url)) return 'token-request'
  if (destinations.apiOf(url) === undefined) return 'destination'
  return isAuthorization && hasUserInfo(url) ? 'own-credentials' : undefined
}

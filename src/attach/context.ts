/** What an attachment knows: whose token, where it may go, in which header, and whom to tell. */
import { type Destinations, destinationsOf, hasUserInfo } from '../destinations.ts'
import { ConfigurationError } from '../errors.ts'
import { emitOf, type TokenWithheldEvent } from '../events.ts'
import { type AttachOptions, type ResolvedAttach, resolveAttach } from '../options.ts'
import { shownUrl } from '../redact.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/token-provider.ts'

/** Why a call goes without the token. */
export type WithheldReason = TokenWithheldEvent['reason']

/** One attachment of a provider's token to one client. */
export interface AttachContext extends ResolvedAttach {
  readonly tokens: TokenProvider
  readonly destinations: Destinations
  /** Whether the header is `Authorization`, which clients treat with care of their own. */
  readonly isAuthorization: boolean
  /** Tells that a call to this URL goes without the token. */
  tellWithheld(reason: WithheldReason, url: string): void
  /** The URL that was judged last, and how: the next one is often the same. */
  readonly last: { url: string | undefined; reason: WithheldReason | undefined }
}

/**
 * Checks what is to be attached.
 *
 * @throws ConfigurationError
 */
export function createAttachContext(
  tokens: TokenProvider,
  options: AttachOptions | undefined,
): AttachContext {
  if (typeof tokens?.getToken !== 'function') {
    throw new ConfigurationError('The token cannot be attached', [
      { option: 'tokens', reason: 'must be a token provider, as createTokenProvider() makes it' },
    ])
  }
  const attach = resolveAttach(options)
  const emit = emitOf(tokens)
  return {
    ...attach,
    tokens,
    destinations: destinationsOf(tokens.environment),
    isAuthorization: attach.headerKey === 'authorization',
    tellWithheld: (reason, url) => emit({ type: 'token-withheld', reason, url: shownUrl(url) }),
    last: { url: undefined, reason: undefined },
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
  if (last.reason === 'destination') return 'destination'
  if (ownHeader) return 'own-header'
  return ownCredentials && context.isAuthorization ? 'own-credentials' : last.reason
}

function whyUrlWithheld(
  { destinations, isAuthorization }: AttachContext,
  url: string,
): WithheldReason | undefined {
  if (destinations.apiOf(url) === undefined) return 'destination'
  return isAuthorization && hasUserInfo(url) ? 'own-credentials' : undefined
}

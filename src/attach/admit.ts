/** Which calls get the token: decided by the URL, and by what the caller set. */
import type { Destinations } from '../environment/destinations.ts'
import type { TokenWithheldEvent } from '../events/events.ts'
import type { TokenProvider } from '../token/provider.ts'
import { isOfAttachment } from './sent-headers.ts'

/** Why a call goes without the token. */
export type WithheldReason = TokenWithheldEvent['reason']

/**
 * Whether a call gets the token, or why not:
 *
 * - `token-request`: it is the provider's own token request, which would wait for itself
 * - `other-service`: it has credentials of its own for a service that is below none of `apiUrls`
 * - `other-attachment`: another attachment of the provider has given it the token
 */
export type Decision = 'attach' | 'token-request' | 'other-service' | 'other-attachment' | WithheldReason

/** The attachment. */
interface Attachment {
  readonly destinations: Destinations
  /** Whether the token's header is `Authorization`. */
  readonly isAuthorization: boolean
  readonly tokens: TokenProvider
}

/** What the caller set on a call. */
interface Own {
  /** Its header of the token's name. */
  readonly header: unknown
  /** Whether it has other credentials besides. */
  readonly credentials?: boolean
}

/** Decides on a call. */
export function admit(
  { destinations, isAuthorization, tokens }: Attachment,
  url: string,
  { header, credentials }: Own,
): Decision {
  const { api, isTokenEndpoint, hasUserInfo } = destinations(url)
  if (isTokenEndpoint) return 'token-request'
  const hasHeader = header !== undefined
  const hasCredentials = isAuthorization && (credentials === true || hasUserInfo)
  if (api === undefined) return hasHeader || hasCredentials ? 'other-service' : 'destination'
  if (!hasHeader && !hasCredentials) return 'attach'
  if (isOfAttachment(tokens, header)) return 'other-attachment'
  return hasHeader ? 'own-header' : 'own-credentials'
}

/** Whether the call was probably meant to get the token. */
export function isWithheld(decision: Decision): decision is WithheldReason {
  return decision === 'destination' || decision === 'own-header' || decision === 'own-credentials'
}

/** What it means that the token endpoint rejected a request, and what to do about it. */
import { inManual } from '../../base/manual-link.ts'
import type { ResolvedOptions } from '../../options/options.ts'
import type { OAuthError } from './token-response.ts'

/**
 * Why a token request was rejected:
 *
 * - `client`: the client id, or its secret or assertion, is wrong
 * - `audience`: the client may not request a token for this audience
 * - `grant`: the client may not use the client credentials grant
 * - `grant-type`: the endpoint does not support that grant, or does not find it in the body
 * - `scope`: the endpoint wants a scope, or another one
 * - `format`: the endpoint does not accept the body
 * - `no-endpoint`: there is no token endpoint at this URL
 * - `too-many`: too many tokens were requested
 * - `server`: the endpoint itself fails
 * - `other`: the response does not show it
 */
export type RefusalReason =
  | 'client'
  | 'audience'
  | 'grant'
  | 'grant-type'
  | 'scope'
  | 'format'
  | 'no-endpoint'
  | 'too-many'
  | 'server'
  | 'other'

/** Why a token request was rejected, as far as its response shows. */
export interface Refusal {
  readonly reason: RefusalReason
  /** Whether the response contains an OAuth error that says so. Otherwise the reason is the usual one for its status. */
  readonly isExplained: boolean
}

/**
 * The errors of RFC 6749 §5.2 and RFC 8707 §2, those that Auth0 uses instead, and those of RFC 6749 §4.1.2.1 that some token
 * endpoints return with status 400 while they are in trouble.
 */
const BY_ERROR: Readonly<Record<string, RefusalReason>> = {
  invalid_client: 'client',
  access_denied: 'audience',
  invalid_target: 'audience',
  invalid_audience: 'audience',
  unauthorized_client: 'grant',
  unsupported_grant_type: 'grant-type',
  invalid_scope: 'scope',
  temporarily_unavailable: 'server',
  server_error: 'server',
}

const INVALID_REQUEST = 'invalid_request'

/** The reason for a status and an OAuth error. */
export function refusalOf(status: number, { error, errorDescription, detail }: OAuthError): Refusal {
  // These say more than an error beside them: Auth0 calls too many requests access_denied, others an overload invalid_client.
  if (status === 429) return { reason: 'too-many', isExplained: false }
  if (status === 408 || status >= 500) return { reason: 'server', isExplained: false }
  const oauthError = error?.toLowerCase() ?? codeIn(detail)
  // Auth0 returns the first one for a wrong secret, Keycloak the second one.
  if (status === 401 && ['access_denied', 'unauthorized_client'].includes(oauthError))
    return { reason: 'client', isExplained: true }
  const explained = BY_ERROR[oauthError]
  if (explained !== undefined) return { reason: explained, isExplained: true }
  if (status === 400 && /\bscope\b/i.test(errorDescription ?? detail ?? ''))
    return { reason: 'scope', isExplained: true }
  return { reason: reasonOfStatus(status, oauthError || withoutStatus(detail)), isExplained: false }
}

/**
 * The OAuth error in an error of another shape, which several frameworks and gateways return, or what fits the words: where no
 * `grant_type` is found, the endpoint does not read the body.
 */
function codeIn(detail = ''): string {
  const words = detail.toLowerCase()
  const code = words.split(': ').find((part) => part in BY_ERROR || part === INVALID_REQUEST)
  return code ?? (words.includes('grant_type') ? INVALID_REQUEST : '')
}

/** What a body says besides its status. */
function withoutStatus(detail = ''): string {
  return detail.replace(/^(?:\d{3} )?bad request\.?$/i, '')
}

function reasonOfStatus(status: number, words: string): RefusalReason {
  if (status === 401) return 'client'
  if (status === 403) return 'audience'
  if (status === 404) return 'no-endpoint'
  if (status === 405 || status === 415) return 'format'
  if (status === 400 && (words === '' || words === INVALID_REQUEST)) return 'format'
  return 'other'
}

/** What to do about a 429. */
export const TOO_MANY: string = `Too many token requests: try again later (${inManual('429-from-the-token-endpoint')}).`
const CLIENT_REFUSED = inManual('the-token-endpoint-rejects-the-client')
const CHECK = 'Check authUrl, clientId and audience.'

/** What to do about a rejection, in terms of the options. */
export function adviceFor(
  status: number,
  oauth: OAuthError,
  { bodyFormat, credential }: Pick<ResolvedOptions, 'bodyFormat' | 'credential'>,
): string {
  const form =
    bodyFormat === 'json' ? " A server that takes a form instead of JSON needs bodyFormat: 'form'." : ''
  const { reason, isExplained } = refusalOf(status, oauth)
  const between = isExplained ? '' : ', and whether a firewall or a gateway rejects the request'
  const advice: Readonly<Record<RefusalReason, string>> = {
    client: `Check authUrl, clientId and ${credential.option}, and how the endpoint expects them (${CLIENT_REFUSED}).`,
    audience: `Check ${isExplained ? '' : 'authUrl, and '}that this client may ask for this audience${between}.`,
    grant:
      'Check authUrl and clientId. If they are correct, ask the service to allow this client the client credentials grant.',
    'grant-type': CHECK + form,
    scope: 'Check the scope: tokenParameters has it.',
    format: CHECK + form,
    'no-endpoint': CHECK,
    'too-many': TOO_MANY,
    server:
      'The token endpoint is in trouble: try again later. Some return this for a wrong client or secret, too.' +
      form,
    other: `Check authUrl, clientId, ${credential.option} and audience, and that they belong to one environment.`,
  }
  return advice[reason]
}

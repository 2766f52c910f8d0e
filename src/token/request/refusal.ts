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
  invalid_grant: 'grant', // some say so of a client that was not approved
  unsupported_grant_type: 'grant-type',
  invalid_scope: 'scope',
  temporarily_unavailable: 'server',
  server_error: 'server',
}

const INVALID_REQUEST = 'invalid_request'

/** What the words are about where no error says it: the first one that matches. */
const BY_WORDS: readonly (readonly [pattern: RegExp, RefusalReason])[] = [
  // The endpoint does not read the body, or does not find a field in it.
  [/x-www-form-urlencoded|\bformparam\b|^(?!.*\b(?:blocked|firewall|waf)\b).*\bcontent[- ]type\b/i, 'format'],
  [
    /\b(?:missing|no|required?|must contain)\b.*grant[_ ]type|grant[_ ]type.*\b(?:missing|required|not found|null)\b/i,
    'format',
  ],
  [
    /^(?!.*\b(?:invalid|wrong|incorrect)\b).*\b(?:missing|required?|must contain)\b.*client_(?:id|secret|assertion)/i,
    'format',
  ],
  [
    /^(?!.*\b(?:invalid|wrong|incorrect)\b).*client_(?:id|secret|assertion).*\b(?:missing|required)\b/i,
    'format',
  ],
  [/grant[_ ]type/i, 'grant-type'],
  [/(?:\b|_)(?:secret|assertion|certificat\w*|mtls)\b/i, 'client'],
  [/\b(?:jwt|jws|aud|iss|iat|nbf|jti|kid)\b/i, 'client'], // of an assertion
  [/(?<!\b(?:browser\S*|attack|bot) )(?:\b|_)signatures?\b(?! id)/i, 'client'], // a firewall speaks of signatures, too
  [
    /\b(?:(?:invalid|bad|wrong|incorrect) (?:client )?(?:credentials|authentication)|client authentication|not identified)\b/i,
    'client',
  ],
  [/(?:\b|_)scopes?\b/i, 'scope'],
  [/\baudience\b/i, 'audience'],
]

/** The reason for a status and an OAuth error. */
export function refusalOf(status: number, { error, errorDescription, detail }: OAuthError): Refusal {
  // These say more than an error beside them: Auth0 calls too many requests access_denied, others an overload invalid_client.
  if (status === 429) return unexplained('too-many')
  if (status === 408 || status >= 500) return unexplained('server')
  if (status === 406 || status === 415) return unexplained('format') // Spotify's says server_error
  const words = errorDescription ?? detail ?? ''
  // Several frameworks and gateways return the OAuth error in an error of another shape.
  const said = [error ?? '', ...(detail ?? '').split(': ')].map((text) => text.toLowerCase())
  const oauthError = said.find((text) => Object.hasOwn(BY_ERROR, text)) ?? ''
  const byWords = BY_WORDS.find(([pattern]) => pattern.test(words))?.[1]
  const byError = reasonOfError(oauthError, { status, byWords })
  if (byError !== undefined) return { reason: byError, isExplained: true }
  if (byWords !== undefined && status !== 404) return unexplained(byWords)
  const isVague =
    said.includes(INVALID_REQUEST) || said.every((text) => /^(?:(?:\d{3} )?bad request\.?)?$/.test(text))
  const isIncomplete = /\b(?:required|missing)\b/i.test(words)
  return unexplained(reasonOfStatus(status, isVague || isIncomplete))
}

function unexplained(reason: RefusalReason): Refusal {
  return { reason, isExplained: false }
}

function reasonOfError(
  error: string,
  { status, byWords }: { readonly status: number; readonly byWords: RefusalReason | undefined },
): RefusalReason | undefined {
  // Auth0 returns the first one for a wrong secret. Keycloak returns unauthorized_client for that, DocuSign invalid_grant.
  if (error === 'access_denied' && status === 401) return 'client'
  if (BY_ERROR[error] === 'grant' && byWords === 'client') return 'client'
  // ServiceNow says server_error of a wrong secret.
  if (error === 'server_error' && status === 401) return 'client'
  return BY_ERROR[error]
}

function reasonOfStatus(status: number, isUnread: boolean): RefusalReason {
  if (status === 401) return 'client'
  if (status === 403) return 'audience'
  if (status === 404 || status === 405 || status === 410) return 'no-endpoint'
  if ((status === 400 || status === 422) && isUnread) return 'format'
  return 'other'
}

/** What to do about a 429. */
export const TOO_MANY: string = `Too many token requests: try again later (${inManual('429-from-the-token-endpoint')}).`
/** Where the manual lists what token endpoints say of a client. */
export const CLIENT_REFUSED: string = inManual('the-token-endpoint-rejects-the-client')

/** What to do about a rejection, in terms of the options. */
export function adviceFor(
  status: number,
  oauth: OAuthError,
  { bodyFormat, credential }: Pick<ResolvedOptions, 'bodyFormat' | 'credential'>,
): string {
  const form =
    bodyFormat === 'json' ? " A server that takes a form instead of JSON needs bodyFormat: 'form'." : ''
  const { reason, isExplained } = refusalOf(status, oauth)
  const advice: Readonly<Record<RefusalReason, string>> = {
    client:
      `Check authUrl and its path, clientId and ${credential.option}, and how the endpoint expects them ` +
      `(${CLIENT_REFUSED}).`,
    audience: isExplained
      ? 'Check what the response says, and that this client may ask for this audience.'
      : `Unless that says why, check authUrl, clientId and ${credential.option}, that this client may ask for this ` +
        `audience, or has to send none ` +
        `(${CLIENT_REFUSED}), and whether a firewall or a gateway rejects the request.`,
    grant:
      'Check authUrl and clientId. If they are correct, ask the service whether this client is enabled, and may use the client ' +
      'credentials grant.',
    'grant-type': `Check authUrl, and whether the service has a grant_type of its own (${CLIENT_REFUSED}).${form}`,
    scope: 'Check authUrl, and the scope in tokenParameters.',
    format:
      `Check authUrl, clientId, ${credential.option} and audience.` +
      (form || ` If it misses a field that you send: ${CLIENT_REFUSED}.`) +
      ' If it requires a further field: tokenParameters.',
    'no-endpoint':
      'Check authUrl, which /oauth/token is appended to. If the path or the method is another one: ' +
      'merchant-auth/docs/another-token-endpoint.md.',
    'too-many': TOO_MANY,
    server:
      'The token endpoint, or what is in front of it, is in trouble: try again later.' +
      (status === 501 ? ' Or nothing at this URL takes a POST; in a test, check what it mocks.' : '') +
      (status === 500 ? ` Some return this for a wrong client or secret, too.${form}` : ''),
    other:
      `Unless that says why, check authUrl, clientId, ${credential.option} and audience, and that they belong to one ` +
      `environment (${CLIENT_REFUSED}).`,
  }
  return advice[reason]
}

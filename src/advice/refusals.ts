/** What it means that the token endpoint rejected a request. */
import type { Advice } from './failure.ts'

/** The redacted error of a response. */
export interface OAuthError {
  /** RFC 6749 §5.2. */
  readonly error?: string | undefined
  readonly errorDescription?: string | undefined
  /** What the body says besides: its hint, or, where it has no `error_description`, one line from an error of another shape. */
  readonly detail?: string | undefined
}

/** A kind of rejection. */
export interface Refusal extends Advice {
  /** The `error` codes that say so: RFC 6749 §5.2, RFC 8707 §2, and what services use instead. */
  readonly errors?: readonly string[]
  /** The statuses that say so where the response has no usual OAuth error. */
  readonly statuses?: readonly number[]
  /** What the words are about, where no error says it. */
  readonly words?: readonly RegExp[]
  /** Whether waiting may fix it. */
  readonly isTemporary?: true
}

const OTHER_SERVER =
  'A response without an OAuth error may come from another path, an API, a firewall or a gateway.'

export type RefusalKind =
  | 'too-many'
  | 'server'
  | 'server-500'
  | 'server-501'
  | 'format'
  | 'fields'
  | 'grant-type'
  | 'client'
  | 'basic'
  | 'assertion'
  | 'scope'
  | 'audience'
  | 'no-audience'
  | 'grant'
  | 'no-endpoint'
  | 'other'

/** The kinds, in the order in which their words are looked for. */
export const REFUSAL_KINDS: Readonly<Record<RefusalKind, Refusal>> = {
  'too-many': {
    statuses: [429],
    isTemporary: true,
    advice: 'Try again later{later}: too many tokens were requested ({tooMany}).',
  },
  server: {
    // Some token endpoints return the errors of RFC 6749 §4.1.2.1 with status 400 while they are in trouble.
    errors: ['temporarily_unavailable', 'server_error'],
    isTemporary: true,
    advice: 'Try again later{later}: the token endpoint, or what is in front of it, is in trouble.',
  },
  'server-500': {
    statuses: [500],
    isTemporary: true,
    advice:
      'Try again later{later}: the token endpoint is in trouble. Some return this for a wrong client ID or secret, or want ' +
      '{bodyFormat}.',
  },
  'server-501': {
    statuses: [501],
    isTemporary: true,
    advice: 'Check {authUrl}, or, in a test, mock the token request, too: nothing at this URL takes a POST.',
  },
  format: {
    statuses: [406, 415], // of Spotify with server_error
    // The endpoint does not read the body, or does not find a field in it.
    words: [
      /x-www-form-urlencoded|\bformparam\b|^(?!.*\b(?:blocked|firewall|waf)\b).*\bcontent[- ]type\b/i,
      /\b(?:missing|no|required?|must contain)\b.*grant[_ ]type|grant[_ ]type.*\b(?:missing|required|not found|null)\b/i,
      /^(?!.*\b(?:invalid|wrong|incorrect)\b).*\b(?:missing|required?|must contain)\b.*client_(?:id|secret|assertion)/i,
      /^(?!.*\b(?:invalid|wrong|incorrect)\b).*client_(?:id|secret|assertion).*\b(?:missing|required)\b/i,
    ],
    advice:
      'Set {bodyFormat}: the token endpoint does not read JSON. If it still misses the client, set {authMethod}.',
  },
  // Of a form, and where nothing says what is missing:
  fields: {
    advice:
      'Check {authUrl}, {clientId}, {credential} and {audience}, and what the token endpoint requires: a further field, or fewer ' +
      '({tokenParameters}), or {bodyFormat}, or {authMethod} ({endpoints}).',
  },
  'grant-type': {
    errors: ['unsupported_grant_type'],
    words: [/grant[_ ]type/i],
    advice:
      'Set {bodyFormat}, as the token endpoint may not read this body. Otherwise check {authUrl}, and whether the service has ' +
      'the client credentials grant, or a grant_type of its own ({endpoints}).',
  },
  client: {
    errors: ['invalid_client'],
    statuses: [401],
    words: [
      /(?:\b|_)(?:secret|certificat\w*|mtls)\b/i,
      /(?<!\b(?:browser\S*|attack|bot) )(?:\b|_)signatures?\b(?! id)/i, // a firewall speaks of signatures, too
      /\b(?:(?:invalid|bad|wrong|incorrect) (?:client )?(?:credentials|authentication)|client authentication|not identified)\b/i,
    ],
    advice:
      'Compare {clientId}, {credential} and {authUrl}: they belong to one environment, and the secret is the latest one, ' +
      'without a stray quote or space. If they do, set {authMethod} ({clientRefused}).',
    inCheck:
      'Compare the client ID and secret with what the service shows: both belong to this environment, the secret is the latest ' +
      'one, without a stray quote or space, and the client is enabled. Otherwise set {authMethod}, or {bodyFormat} ' +
      `({endpoints}). ${OTHER_SERVER}`,
  },
  // The response asks for it in its WWW-Authenticate:
  basic: {
    advice:
      'Set {authMethod}, as the response asks for HTTP Basic. If that does not help, compare {clientId}, {credential} and ' +
      '{authUrl} ({clientRefused}).',
  },
  assertion: {
    words: [/(?:\b|_)assertion\b/i, /\b(?:jwt|jws|aud|iss|iat|nbf|jti|kid)\b/i],
    advice:
      'Compare {clientId}, {authUrl} and the iss, sub and aud of {credential} with what is registered, where its public key ' +
      "must be, too. Also check this machine's clock ({clientRefused}).",
    inCheck:
      'Check that the service knows the public key of the assertion, and its iss, sub and aud, and that it has not expired or ' +
      "been used before. Also compare this machine's clock, as an iat in the future is rejected " +
      '(docs/token-endpoint.md#assertions); the endpoint may want {bodyFormat}, or another proof of identity ({endpoints}).',
  },
  scope: {
    errors: ['invalid_scope'],
    words: [/(?:\b|_)scopes?\b/i],
    advice:
      'Check {authUrl}, and the scope in {tokenParameters}: the token endpoint wants one, or another one.',
  },
  audience: {
    errors: ['access_denied', 'invalid_target', 'invalid_audience'],
    statuses: [403],
    words: [/\baudience\b/i],
    advice:
      'Check {audience} character by character, and whether this client may ask for it, or set {tokenPath} and leave it out. ' +
      'Without an OAuth error, also check {clientId}, {credential}, and a firewall or a gateway.{check}',
    inCheck:
      'Check {audience} character by character, including a slash at the end: it belongs to the environment of {authUrl}, this ' +
      'client may request it; with {tokenPath}, leave it out. Some return this for a wrong client ID ' +
      `or secret, too. ${OTHER_SERVER}`,
  },
  // The request had none:
  'no-audience': {
    advice:
      'Set {audience}, if the service has one. Otherwise compare {clientId}, {credential} and {authUrl}, and look for a firewall ' +
      'or a gateway.',
  },
  grant: {
    errors: ['unauthorized_client', 'invalid_grant'], // some say so of a client that was not approved
    advice:
      'Check {authUrl} and {clientId}, and ask the service whether this client is enabled for the client credentials grant.',
  },
  'no-endpoint': {
    statuses: [404, 405, 410],
    advice:
      'Check {authUrl}, or set {tokenPath}, which is /oauth/token otherwise: this URL is not a token endpoint, or wants another ' +
      'method ({endpoints}).',
  },
  other: {
    advice:
      'Check that {authUrl}, {clientId}, {credential} and {audience} belong to one environment ({clientRefused}).',
  },
}

const KINDS = Object.keys(REFUSAL_KINDS) as RefusalKind[]

/** How the request was sent, and what its response asks for. */
export interface RefusedRequest {
  /** Whether the client proves its identity by an assertion. */
  readonly isAssertion?: boolean
  readonly isForm?: boolean
  /** Whether the response asks for HTTP Basic, and the request had none. */
  readonly needsBasic?: boolean
  /** Whether the request names an audience. */
  readonly hasAudience?: boolean
}

/** The kind for a status and an OAuth error. */
export function refusalOf(
  status: number,
  oauth: OAuthError,
  request: RefusedRequest = {},
): Refusal & { readonly kind: RefusalKind } {
  const kind = kindFor(kindOf(status, oauth), request)
  return { kind, ...REFUSAL_KINDS[kind] }
}

/** What a kind becomes where the request was sent in another way than by default. */
function kindFor(
  found: RefusalKind,
  { isAssertion, isForm, needsBasic, hasAudience = true }: RefusedRequest,
): RefusalKind {
  if (found === 'audience' && !hasAudience) return 'no-audience'
  if (found === 'grant-type' && isForm) return 'grant'
  const kind = found === 'format' && isForm ? 'fields' : found
  if (isAssertion) return kind === 'client' ? 'assertion' : kind
  if (needsBasic && /^(?:client|assertion|grant|fields)$/.test(kind)) return 'basic'
  return kind === 'assertion' ? 'client' : kind
}

function kindWith(isIts: (refusal: Refusal) => boolean | undefined): RefusalKind | undefined {
  return KINDS.find((kind) => isIts(REFUSAL_KINDS[kind]))
}

function kindOf(status: number, { error = '', errorDescription, detail = '' }: OAuthError): RefusalKind {
  const byStatus = kindWith(({ statuses }) => statuses?.includes(status))
  const isServer = status === 408 || status >= 500
  // These say more than an error beside them: Auth0 calls too many requests access_denied, others an overload invalid_client.
  if (status === 429 || status === 406 || status === 415 || isServer) return byStatus ?? 'server'
  const words = errorDescription ?? detail
  const byWords = kindWith((refusal) => refusal.words?.some((pattern) => pattern.test(words)))
  // Several frameworks and gateways return the OAuth error in an error of another shape.
  const said = [error, ...detail.split(': ')].map((text) => text.toLowerCase())
  for (const oauthError of said) {
    const byError = kindWith(({ errors }) => errors?.includes(oauthError))
    if (byError === undefined) continue
    // For a wrong secret, Auth0 returns access_denied, ServiceNow server_error, Keycloak unauthorized_client,
    // and DocuSign invalid_grant.
    const isClient = status === 401 && (oauthError === 'access_denied' || oauthError === 'server_error')
    const isGrantOfClient = byError === 'grant' && (byWords === 'client' || byWords === 'assertion')
    return isClient || isGrantOfClient ? 'client' : byError
  }
  if (byWords !== undefined && status !== 404) return byWords
  const isVague =
    said.includes('invalid_request') || said.every((text) => /^(?:(?:\d{3} )?bad request\.?)?$/.test(text))
  const isIncomplete = /\b(?:required|missing)\b/i.test(words)
  const isUnread = (status === 400 || status === 422) && (isVague || isIncomplete)
  return byStatus ?? (isUnread ? 'fields' : 'other')
}

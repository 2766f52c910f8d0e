/** What it means that the token endpoint rejected a request. */
import type { Failure } from './failure.ts'

/** The part of an OAuth error that a refusal is recognized by. */
interface OAuthWords {
  readonly error?: string | undefined
  readonly errorDescription?: string | undefined
  readonly detail?: string | undefined
}

/** A kind of rejection. */
export interface Refusal extends Failure {
  /** The `error` codes that say so: RFC 6749 §5.2, RFC 8707 §2, and what services use instead. */
  readonly errors?: readonly string[]
  /** The statuses that say so where the response has no usual OAuth error. */
  readonly statuses?: readonly number[]
  /** What the words are about, where no error says it. */
  readonly words?: readonly RegExp[]
  /** Whether waiting may fix it. */
  readonly isTemporary?: true
}

const step = 'response'
const OTHER_SERVER =
  ' If the response has no OAuth error, it may come from an API, from another path than the token endpoint, or from a firewall ' +
  'or a gateway in between.'

/** The kinds, in the order in which their words are looked for. */
export const REFUSAL_KINDS = {
  'too-many': {
    kind: 'too-many',
    step,
    statuses: [429],
    isTemporary: true,
    advice: 'Try again later{later}: too many tokens were requested ({tooMany}).',
  },
  server: {
    kind: 'server',
    step,
    // Some token endpoints return the errors of RFC 6749 §4.1.2.1 with status 400 while they are in trouble.
    errors: ['temporarily_unavailable', 'server_error'],
    isTemporary: true,
    advice: 'Try again later{later}: the token endpoint, or what is in front of it, is in trouble.',
  },
  'server-500': {
    kind: 'server-500',
    step,
    statuses: [500],
    isTemporary: true,
    advice:
      'Try again later{later}: the token endpoint is in trouble. Some return this where they want another client ID or ' +
      'secret{form}.',
  },
  'server-501': {
    kind: 'server-501',
    step,
    statuses: [501],
    isTemporary: true,
    advice: 'Check {authUrl}, or, in a test, what it mocks: nothing at this URL takes a POST.',
  },
  format: {
    kind: 'format',
    step,
    statuses: [406, 415], // of Spotify with server_error
    // The endpoint does not read the body, or does not find a field in it.
    words: [
      /x-www-form-urlencoded|\bformparam\b|^(?!.*\b(?:blocked|firewall|waf)\b).*\bcontent[- ]type\b/i,
      /\b(?:missing|no|required?|must contain)\b.*grant[_ ]type|grant[_ ]type.*\b(?:missing|required|not found|null)\b/i,
      /^(?!.*\b(?:invalid|wrong|incorrect)\b).*\b(?:missing|required?|must contain)\b.*client_(?:id|secret|assertion)/i,
      /^(?!.*\b(?:invalid|wrong|incorrect)\b).*client_(?:id|secret|assertion).*\b(?:missing|required)\b/i,
    ],
    advice:
      'Check {authUrl}, {clientId} and {audience}, and what the token endpoint requires: a further field, or fewer ' +
      '({tokenParameters}), or the client ID and {credential} in another way ({endpoints}){form}.',
  },
  'grant-type': {
    kind: 'grant-type',
    step,
    errors: ['unsupported_grant_type'],
    words: [/grant[_ ]type/i],
    advice:
      'Check {authUrl}, and whether the service supports the client credentials grant, or wants a grant_type of its own ' +
      '({endpoints}){form}.',
  },
  client: {
    kind: 'client',
    step,
    errors: ['invalid_client'],
    statuses: [401],
    words: [
      /(?:\b|_)(?:secret|certificat\w*|mtls)\b/i,
      /(?<!\b(?:browser\S*|attack|bot) )(?:\b|_)signatures?\b(?! id)/i, // a firewall speaks of signatures, too
      /\b(?:(?:invalid|bad|wrong|incorrect) (?:client )?(?:credentials|authentication)|client authentication|not identified)\b/i,
    ],
    advice:
      'Compare {clientId}, {credential} and {authUrl}: they belong to one environment, and the secret is the latest one, without a ' +
      'stray quote or space. If they do, check how the endpoint expects them ({clientRefused}).',
    inCheck:
      'Compare the client ID and the client secret with what the service shows: both belong to this environment (production and ' +
      'test have their own), and the secret is the latest one, has not expired, and has no stray quote or space; the client is ' +
      `enabled. If they are correct, the endpoint may expect them in another way ({endpoints}){form}.${OTHER_SERVER}`,
  },
  assertion: {
    kind: 'assertion',
    step,
    words: [/(?:\b|_)assertion\b/i, /\b(?:jwt|jws|aud|iss|iat|nbf|jti|kid)\b/i],
    advice:
      'Compare {clientId}, {authUrl} and the iss, sub and aud of {credential} with what is registered, and check that the service ' +
      "knows its public key. Also check this machine's clock ({clientRefused}).",
    inCheck:
      'Check that the service knows the public key of the assertion, that iss, sub and aud are what is registered there (iss and ' +
      'sub are the client ID, unless a platform writes the assertion), and that it has not expired or been used before. Also ' +
      "compare this machine's clock: an iat in the future is rejected, so set it some seconds back (docs/assertions.md). The " +
      'endpoint may want the client to prove its identity in another way ({endpoints}){form}.',
  },
  scope: {
    kind: 'scope',
    step,
    errors: ['invalid_scope'],
    words: [/(?:\b|_)scopes?\b/i],
    advice:
      'Check {authUrl}, and the scope in {tokenParameters}: the token endpoint wants one, or another one.',
  },
  audience: {
    kind: 'audience',
    step,
    errors: ['access_denied', 'invalid_target', 'invalid_audience'],
    statuses: [403],
    words: [/\baudience\b/i],
    advice:
      'Check {audience} character by character, that it belongs to the environment of {authUrl}, and that this client may ask for ' +
      'it, or has to send none ({clientRefused}). Without an OAuth error, also check {clientId} and {credential}, and whether a ' +
      'firewall or a gateway rejects the request.',
    inCheck:
      'Check {audience} character by character, including a slash at the end, and that it belongs to the same environment as ' +
      '{authUrl}: this client may not request a token for it, or the token endpoint takes none ({endpoints}). Some return this for ' +
      `a wrong client ID or secret, too.${OTHER_SERVER}`,
  },
  grant: {
    kind: 'grant',
    step,
    errors: ['unauthorized_client', 'invalid_grant'], // some say so of a client that was not approved
    advice:
      'Check {authUrl} and {clientId}. If they are correct, ask the service whether this client is enabled, and may use the client ' +
      'credentials grant.',
  },
  'no-endpoint': {
    kind: 'no-endpoint',
    step,
    statuses: [404, 405, 410],
    advice:
      'Check {authUrl}, which /oauth/token is appended to: there is no token endpoint at this URL, or it wants another method. ' +
      'If its path is another one: {endpoints}.',
  },
  other: {
    kind: 'other',
    step,
    advice:
      'Check {authUrl}, {clientId}, {credential} and {audience}, unless the response says why, and that they belong to one ' +
      'environment ({clientRefused}).',
  },
} as const satisfies Readonly<Record<string, Refusal>>

export const REFUSALS: readonly Refusal[] = Object.values(REFUSAL_KINDS)

export type RefusalKind = keyof typeof REFUSAL_KINDS

/** Why a token request was rejected, as far as its response shows. */
export interface FoundRefusal {
  readonly refusal: Refusal
  /** Whether the response contains an OAuth error that says so. Otherwise it is the usual meaning of its status or words. */
  readonly isExplained: boolean
}

/** The kind for a status and an OAuth error. `isAssertion`: whether the client proves its identity by an assertion. */
export function refusalOf(
  status: number,
  oauth: OAuthWords,
  { isAssertion = false }: { readonly isAssertion?: boolean } = {},
): FoundRefusal {
  const { kind, isExplained } = kindOf(status, oauth)
  const isProof = kind === 'client' || kind === 'assertion'
  return { refusal: REFUSAL_KINDS[isProof ? (isAssertion ? 'assertion' : 'client') : kind], isExplained }
}

function kindOf(
  status: number,
  { error = '', errorDescription, detail = '' }: OAuthWords,
): { readonly kind: RefusalKind; readonly isExplained: boolean } {
  const byStatus = REFUSALS.find(({ statuses }) => statuses?.includes(status))?.kind as
    | RefusalKind
    | undefined
  const isServer = status === 408 || status >= 500
  // These say more than an error beside them: Auth0 calls too many requests access_denied, others an overload invalid_client.
  if (status === 429 || status === 406 || status === 415 || isServer)
    return { kind: byStatus ?? 'server', isExplained: false }
  const words = errorDescription ?? detail
  // Several frameworks and gateways return the OAuth error in an error of another shape.
  const said = [error, ...detail.split(': ')].map((text) => text.toLowerCase())
  const byWords = REFUSALS.find((one) => one.words?.some((pattern) => pattern.test(words)))?.kind as
    | RefusalKind
    | undefined
  const oauthError = said.find((text) => REFUSALS.some(({ errors }) => errors?.includes(text)))
  const byError = REFUSALS.find(({ errors }) => errors?.includes(oauthError ?? ''))?.kind as
    | RefusalKind
    | undefined
  if (oauthError !== undefined && byError !== undefined) {
    // Auth0 returns access_denied for a wrong secret, ServiceNow server_error. Keycloak returns unauthorized_client, DocuSign invalid_grant.
    const isClient = status === 401 && (oauthError === 'access_denied' || oauthError === 'server_error')
    const isGrantOfClient = byError === 'grant' && (byWords === 'client' || byWords === 'assertion')
    return { kind: isClient || isGrantOfClient ? 'client' : byError, isExplained: true }
  }
  if (byWords !== undefined && status !== 404) return { kind: byWords, isExplained: false }
  const isVague =
    said.includes('invalid_request') || said.every((text) => /^(?:(?:\d{3} )?bad request\.?)?$/.test(text))
  const isIncomplete = /\b(?:required|missing)\b/i.test(words)
  const isUnread = (status === 400 || status === 422) && (isVague || isIncomplete)
  return { kind: byStatus ?? (isUnread ? 'format' : 'other'), isExplained: false }
}

/** What to do about a token endpoint's answer: an error status, an OAuth error, or a success without a token. */
import type { TokenRequestError, TokenResponseError } from '../errors.ts'

/** What to do about an error status of the token endpoint. */
export function adviceForStatus(failure: TokenRequestError): string {
  const { status = 0, error } = failure
  const code = error?.toLowerCase()
  const known = code !== undefined && Object.hasOwn(OAUTH, code) ? OAUTH[code] : undefined
  if (known !== undefined && !(status === 401 && code === 'access_denied')) return known
  if (status === 401) return code === undefined ? CLIENT + FOREIGN : CLIENT
  if (status === 403) return code === undefined ? AUDIENCE + FOREIGN : AUDIENCE
  if (status === 404 || status === 405) {
    return 'There is no token endpoint at this URL. Check MERCHANT_AUTH_URL: /oauth/token is added to it.'
  }
  if (status === 415 || (status === 400 && (code === undefined || code === 'invalid_request'))) return FORMAT
  if (status === 429) return `Too many token requests were made. Try again ${laterThan(failure)}.`
  if (status === 408 || status >= 500) {
    return `The token endpoint is in trouble, not this set-up. Try again ${laterThan(failure)}.`
  }
  return 'Check MERCHANT_AUTH_URL, MERCHANT_AUTH_CLIENT_ID and MERCHANT_AUTH_AUDIENCE.'
}

const CLIENT =
  'The client id or the client secret is wrong. Check that both belong to this environment (production and test have ' +
  'their own), that the secret is the newest one, and that no quote or blank slipped in.'
const AUDIENCE =
  'This client may not have a token for this audience. Check MERCHANT_AUTH_AUDIENCE letter by letter, its slash at the ' +
  'end too, and that it belongs to the same environment as MERCHANT_AUTH_URL.'

/** Behind a status without an OAuth error (RFC 6749 §5.2). */
const FOREIGN =
  ' The answer names no OAuth error, so it may come from something in between: a firewall, a list of allowed addresses, ' +
  'a gateway.'
const FORMAT =
  'The token endpoint does not take the request as it is. Check MERCHANT_AUTH_URL. A server that wants a form instead of ' +
  "JSON needs the option bodyFormat: 'form' (here --body-format form)."

/** The errors of RFC 6749 §5.2 and RFC 8707 §2, and what Auth0 says instead. */
const OAUTH: Readonly<Record<string, string>> = {
  invalid_client: CLIENT,
  access_denied: AUDIENCE,
  invalid_target: AUDIENCE,
  invalid_audience: AUDIENCE,
  unauthorized_client:
    'The client is known, but may not ask for tokens by client credentials. Ask the service to allow it.',
  unsupported_grant_type:
    'This token endpoint gives no tokens for client credentials. Check MERCHANT_AUTH_URL; else ask the service.',
}

/** What the answer asked for, which this package may obey in part. */
function laterThan({ answer }: TokenRequestError): string {
  const ms = answer?.retryAfterMs ?? 0
  if (ms === 0) return 'later'
  return ms > 86_400_000 ? 'another day' : `in ${Math.ceil(ms / 1000)} s`
}

/** What to do about an answer that is a success, but no token. */
export function adviceForAnswer({ issues }: TokenResponseError): string {
  if (!issues.some(({ field }) => field === 'body')) {
    return 'The token endpoint answers otherwise than RFC 6749 §5.1 has it. Check MERCHANT_AUTH_URL; else tell the service.'
  }
  return 'Something else answers at this URL: a web page, a login, a proxy. Check MERCHANT_AUTH_URL: /oauth/token is added to it.'
}

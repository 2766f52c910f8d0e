/** What to do about a token endpoint's answer: an error status, an OAuth error, or a success without a token. */
import type { TokenRequestError, TokenResponseError } from '../errors.ts'

/** What to do about an error status of the token endpoint. */
export function adviceForStatus({ status = 0, error, retryAfterMs }: TokenRequestError): string {
  const code = error?.toLowerCase()
  if (code === 'access_denied' && status !== 401) return AUDIENCE
  if (code === 'invalid_target' || code === 'invalid_audience') return AUDIENCE
  if (status === 401 || code === 'invalid_client' || code === 'unauthorized_client') return CLIENT
  if (status === 403) return AUDIENCE
  if (status === 404 || status === 405) {
    return 'There is no token endpoint at this URL. Check MERCHANT_AUTH_URL: /oauth/token is added to it.'
  }
  if (status === 429) return `Too many token requests were made. Try again ${laterThan(retryAfterMs)}.`
  if (status === 408 || status >= 500) {
    return `The token endpoint is in trouble, not this set-up. Try again ${laterThan(retryAfterMs)}.`
  }
  return 'Check MERCHANT_AUTH_URL, MERCHANT_AUTH_CLIENT_ID and MERCHANT_AUTH_AUDIENCE.'
}

const CLIENT =
  'The client id or the client secret is wrong. Check that both belong to this environment (production and test have ' +
  'their own), that the secret is the newest one, and that no quote or blank slipped in.'
const AUDIENCE =
  'This client may not have a token for this audience. Check MERCHANT_AUTH_AUDIENCE letter by letter, its slash at the ' +
  'end too, and that it belongs to the same environment as MERCHANT_AUTH_URL.'

function laterThan(retryAfterMs: number | undefined): string {
  return retryAfterMs === undefined ? 'later' : `in ${Math.ceil(retryAfterMs / 1000)} s`
}

/** What to do about an answer that is a success, but no token. */
export function adviceForAnswer({ issues }: TokenResponseError): string {
  return issues.some(({ field }) => field === 'body')
    ? 'Something else answers at this URL: a web page, a login, a proxy. Check MERCHANT_AUTH_URL: /oauth/token is added to it.'
    : 'The token endpoint answers otherwise than RFC 6749 §5.1 has it. Check MERCHANT_AUTH_URL; else tell the service.'
}

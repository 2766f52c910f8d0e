/** What the attributes are called and which values they may have: few, whatever a server or a store says. */
import type { Attributes } from '@opentelemetry/api'
import type { StoreFailedEvent, TokenRequestFailedEvent } from '../events.ts'

/** OpenTelemetry's own word for a value that is not on the list. */
const OTHER = '_OTHER'

/** The error codes of RFC 6749 (§4.1.2.1, §5.2). */
const OAUTH_ERRORS = new Set([
  'access_denied',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'server_error',
  'temporarily_unavailable',
  'unauthorized_client',
  'unsupported_grant_type',
  'unsupported_response_type',
])

const STORE_CODE = /^[A-Z][A-Z0-9_]{1,39}$/
const MOST_STORE_CODES = 30

/** Where the token endpoint is. */
export function serverOf(url: string): Attributes {
  const { hostname, port, protocol } = new URL(url)
  return {
    'server.address': hostname.replace(/^\[(.*)\]$/, '$1'),
    'server.port': port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
  }
}

/** What an attempt failed with. */
export function failureOf({ code, status }: TokenRequestFailedEvent): Attributes {
  return {
    'error.type': code.startsWith('ERR_') ? code : OTHER,
    ...(status !== undefined && { 'http.response.status_code': status }),
  }
}

/** The OAuth error of the answer, where it had one. */
export function oauthErrorOf({ error }: TokenRequestFailedEvent): Attributes {
  return error === undefined ? {} : { 'merchant_auth.oauth.error': OAUTH_ERRORS.has(error) ? error : OTHER }
}

const storeCodes = new Set<string>()

/** What a store failed with. A store may make up its codes, so only so many different ones are told apart. */
export function storeFailureOf({ operation, code = '' }: StoreFailedEvent): Attributes {
  const known = STORE_CODE.test(code) && (storeCodes.has(code) || storeCodes.size < MOST_STORE_CODES)
  if (known) storeCodes.add(code)
  return { 'merchant_auth.store.operation': operation, 'error.type': known ? code : OTHER }
}

/** Words of standards, of Node.js and of Redis. They are shown as they are, whatever the secret is. */
import { constants } from 'node:os'

/** The error codes of a token endpoint: RFC 6749 (§4.1.2.1, §5.2), RFC 6750 §3.1, RFC 8628 §3.5, RFC 8707 §2, and Auth0's. */
export const OAUTH_ERRORS: ReadonlySet<string> = /* @__PURE__ */ setOf(
  'access_denied insufficient_scope invalid_audience invalid_client invalid_grant invalid_request invalid_scope ' +
    'invalid_target invalid_token server_error slow_down temporarily_unavailable too_many_requests ' +
    'unauthorized_client unsupported_grant_type unsupported_response_type',
)

/** The codes of failures: of the system, of TLS, of Node.js' fetch, and what the errors of Redis begin with. */
export const ERROR_CODES: ReadonlySet<string> = /* @__PURE__ */ setOf(
  `${Object.keys(constants.errno).join(' ')} EAI_AGAIN ENOTFOUND ` +
    'CERT_HAS_EXPIRED CERT_NOT_YET_VALID CERT_REVOKED DEPTH_ZERO_SELF_SIGNED_CERT ERR_SSL_WRONG_VERSION_NUMBER ' +
    'ERR_TLS_CERT_ALTNAME_INVALID SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT ' +
    'UNABLE_TO_GET_ISSUER_CERT_LOCALLY UNABLE_TO_VERIFY_LEAF_SIGNATURE ' +
    'UND_ERR_ABORTED UND_ERR_BODY_TIMEOUT UND_ERR_CLOSED UND_ERR_CONNECT_TIMEOUT UND_ERR_DESTROYED ' +
    'UND_ERR_HEADERS_TIMEOUT UND_ERR_SOCKET ' +
    'BUSY CLUSTERDOWN ERR LOADING MASTERDOWN MISCONF NOAUTH NOPERM NOREPLICAS OOM READONLY WRONGPASS WRONGTYPE',
)

/** The names of errors. */
export const ERROR_NAMES: ReadonlySet<string> = /* @__PURE__ */ setOf(
  'AbortError AggregateError ConnectTimeoutError DOMException Error RangeError SocketError SyntaxError TimeoutError TypeError',
)

/** What Node.js' fetch says itself, and without a code. */
export const ERROR_MESSAGES: ReadonlySet<string> = new Set([
  'fetch failed',
  'bad port',
  'terminated',
  'other side closed',
])

/** Each call is marked as pure, so that entries leave out what they do not use. */
function setOf(words: string): Set<string> {
  return new Set(words.split(' '))
}

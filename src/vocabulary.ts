/** Words of standards, of Node.js and of Redis. They are shown as they are, whatever the secret is. */
import { constants } from 'node:os'

/** The error codes of a token endpoint: RFC 6749 (§4.1.2.1, §5.2), RFC 6750 §3.1, RFC 8628 §3.5, RFC 8707 §2, and Auth0's. */
export const OAUTH_ERRORS: ReadonlySet<string> = new Set([
  'access_denied',
  'insufficient_scope',
  'invalid_audience',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'invalid_token',
  'server_error',
  'slow_down',
  'temporarily_unavailable',
  'too_many_requests',
  'unauthorized_client',
  'unsupported_grant_type',
  'unsupported_response_type',
])

const NETWORK = 'EAI_AGAIN EAI_FAIL EAI_NODATA EAI_NONAME ENOTFOUND ESERVFAIL ETIMEOUT'
const UNDICI =
  'ABORTED BODY_TIMEOUT CLOSED CONNECT_TIMEOUT DESTROYED HEADERS_OVERFLOW HEADERS_TIMEOUT INFO INVALID_ARG ' +
  'NOT_SUPPORTED REQ_CONTENT_LENGTH_MISMATCH RESPONSE RES_CONTENT_LENGTH_MISMATCH RES_EXCEEDED_MAX_SIZE SOCKET'
const TLS =
  'CERT_CHAIN_TOO_LONG CERT_HAS_EXPIRED CERT_NOT_YET_VALID CERT_REJECTED CERT_REVOKED CERT_SIGNATURE_FAILURE ' +
  'CERT_UNTRUSTED DEPTH_ZERO_SELF_SIGNED_CERT ERR_SSL_WRONG_VERSION_NUMBER ERR_TLS_CERT_ALTNAME_INVALID ' +
  'HOSTNAME_MISMATCH INVALID_CA INVALID_PURPOSE SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT ' +
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY UNABLE_TO_VERIFY_LEAF_SIGNATURE'
const REDIS =
  'ASK BUSY CLUSTERDOWN CROSSSLOT ERR EXECABORT LOADING MASTERDOWN MISCONF MOVED NOAUTH NOPERM NOREPLICAS NOSCRIPT ' +
  'OOM READONLY TRYAGAIN UNKILLABLE WRONGPASS WRONGTYPE'

/** The codes of failures: of the system, of Node.js and its fetch, of TLS, and what the errors of Redis begin with. */
export const ERROR_CODES: ReadonlySet<string> = new Set([
  ...Object.keys(constants.errno),
  ...`${NETWORK} ${TLS} ${REDIS}`.split(' '),
  ...UNDICI.split(' ').map((code) => `UND_ERR_${code}`),
])

/** The names of errors: of the language, of the web platform, and of Node.js' fetch. */
export const ERROR_NAMES: ReadonlySet<string> = new Set(
  (
    'Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError AbortError DOMException ' +
    'TimeoutError BodyTimeoutError ClientClosedError ClientDestroyedError ConnectTimeoutError HeadersTimeoutError ' +
    'RequestAbortedError SocketError'
  ).split(' '),
)

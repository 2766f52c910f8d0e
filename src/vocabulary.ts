/** Words of standards, of Node.js and of Redis. They are shown as they are, whatever the secret is. */
import { constants } from 'node:os'

/** The error codes of a token endpoint: RFC 6749 (§4.1.2.1, §5.2), RFC 6750 §3.1, RFC 8628 §3.5, RFC 8707 §2, and Auth0's. */
export const OAUTH_ERRORS: ReadonlySet<string> = /* @__PURE__ */ setOf(
  'access_denied insufficient_scope invalid_audience invalid_client invalid_grant invalid_request invalid_scope ' +
    'invalid_target invalid_token server_error slow_down temporarily_unavailable too_many_requests ' +
    'unauthorized_client unsupported_grant_type unsupported_response_type',
)

/** Words that are known, by a list or by their form. */
export interface KnownWords {
  has(word: string): boolean
}

/** The codes of the system, and what the errors of Redis begin with. */
const CODES = /* @__PURE__ */ setOf(
  `${Object.keys(constants.errno).join(' ')} EAI_AGAIN ENOTFOUND ` +
    'ASK BUSY CLUSTERDOWN CROSSSLOT DENIED ERR EXECABORT IOERR LOADING MASTERDOWN MISCONF MOVED NOAUTH NOPERM ' +
    'NOREPLICAS NOSCRIPT OOM READONLY TRYAGAIN WRONGPASS WRONGTYPE',
)

/** Families of codes that Node.js makes up, and nobody on the other side: of TLS, of compression, of HTTP. */
const CODE_FAMILIES =
  /^(?:CERT|DEPTH_ZERO|ERR_(?:OSSL|SSL|TLS)|ERR__ERROR_FORMAT|HPE|SELF_SIGNED|UNABLE_TO|UND_ERR|ZSTD_error|Z)_\w{1,60}$/

/** The codes of failures. */
export const ERROR_CODES: KnownWords = {
  has: (code) => CODES.has(code) || CODE_FAMILIES.test(code),
}

/** The names of errors. */
export const ERROR_NAMES: ReadonlySet<string> = /* @__PURE__ */ setOf(
  'AbortError AggregateError ConnectTimeoutError DOMException Error RangeError SocketError SyntaxError TimeoutError TypeError',
)

/** What Node.js' fetch says itself, and without a code. */
export const ERROR_MESSAGES: KnownWords = {
  has: (message) =>
    /^(?:fetch failed|bad port|terminated|other side closed|Proxy response \(\d{3}\) !== 200 when HTTP Tunneling)$/.test(
      message,
    ),
}

/** Each call is marked as pure, so that entries leave out what they do not use. */
function setOf(words: string): Set<string> {
  return new Set(words.split(' '))
}

const CODE = /^[A-Z][A-Z0-9_]{1,39}(?![^ ])/

/** The code of a store's failure (ECONNREFUSED), or the word in capitals that a Redis error begins with (READONLY, OOM). */
export function storeErrorCode(error: unknown): string | undefined {
  try {
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
    return [code, message].map((text) => CODE.exec(String(text))?.[0]).find(Boolean)
  } catch {
    return undefined // a foreign object may throw when it is read
  }
}

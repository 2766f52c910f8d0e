/** Known words of standards, Node.js and Redis. They are never redacted, even if a secret contains them. */
import { constants } from 'node:os'

/** Error codes of token endpoints: RFC 6749 (§4.1.2.1, §5.2), RFC 6750 §3.1, RFC 8628 §3.5, RFC 8707 §2, and Auth0. */
export const OAUTH_ERRORS: ReadonlySet<string> = /* @__PURE__ */ setOf(
  'access_denied insufficient_scope invalid_audience invalid_client invalid_grant invalid_request invalid_scope ' +
    'invalid_target invalid_token server_error slow_down temporarily_unavailable too_many_requests ' +
    'unauthorized_client unsupported_grant_type unsupported_response_type',
)

/** A set of known words, by list or by pattern. */
export interface KnownWords {
  has(word: string): boolean
}

/** System error codes, and the first words of Redis errors. */
const CODES = /* @__PURE__ */ setOf(
  `${Object.keys(constants.errno).join(' ')} EAI_AGAIN ENOTFOUND ` +
    'ASK BUSY CLUSTERDOWN CROSSSLOT DENIED ERR EXECABORT IOERR LOADING MASTERDOWN MISCONF MOVED NOAUTH NOPERM ' +
    'NOREPLICAS NOSCRIPT OOM READONLY TRYAGAIN WRONGPASS WRONGTYPE',
)

/** Code families that only Node.js itself creates, for TLS, compression and HTTP. A server cannot choose them. */
const CODE_FAMILIES =
  /^(?:CERT|DEPTH_ZERO|ERR_(?:OSSL|SSL|TLS)|ERR__ERROR_FORMAT|HPE|SELF_SIGNED|UNABLE_TO|UND_ERR|ZSTD_error|Z)_\w{1,60}$/

/** Error codes. */
export const ERROR_CODES: KnownWords = {
  has: (code) => CODES.has(code) || CODE_FAMILIES.test(code),
}

/** Error names. */
export const ERROR_NAMES: ReadonlySet<string> = /* @__PURE__ */ setOf(
  'AbortError AggregateError ConnectTimeoutError DOMException Error RangeError SocketError SyntaxError TimeoutError TypeError',
)

/** Messages of Node.js' fetch that come without a code. */
export const ERROR_MESSAGES: KnownWords = {
  has: (message) =>
    /^(?:fetch failed|bad port|terminated|other side closed|Proxy response \(\d{3}\) !== 200 when HTTP Tunneling)$/.test(
      message,
    ),
}

/** Each call is marked as pure, so that bundles omit unused sets. */
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

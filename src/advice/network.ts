/** What the errors of fetch mean: why a request got no response, or none that can be read. */
import { printable } from '../base/redact.ts'
import type { Failure } from './failure.ts'

/** A kind of failure of fetch. */
export interface NetworkFailure extends Failure {
  /** What matches them is the code, the name or the message of an error. Where several kinds match, the first one counts. */
  readonly signs: RegExp
  /** The signs, as the manual shows them. */
  readonly shown: string
}

const KEEP_VERIFYING = 'Do not turn verification off.'
const CERTIFICATE_AUTHORITY =
  'If your company has an authority of its own, add its certificate: NODE_EXTRA_CA_CERTS=ca.pem in the environment (PEM, not ' +
  'DER; Node.js ignores it in a file of --env-file), or NODE_OPTIONS=--use-system-ca. ' +
  KEEP_VERIFYING
const COMPANY_AUTHORITY =
  'Add the certificate of the authority, if it is one of your company: NODE_EXTRA_CA_CERTS=ca.pem.'
const MUTUAL_TLS =
  'Ask the operator whether the server requires a client certificate (mutual TLS), accepts the one that it got, and shares a ' +
  'TLS version with this program. "legacy renegotiation" and "key too small" are for the operator to correct.'
const RETURN_IT =
  'Let the fetch function return every response, whatever its status: with axios validateStatus: () => true, with got and ky ' +
  'throwHttpErrors: false.'

/** What the errors of fetch mean. */
export const NETWORK_FAILURES: readonly NetworkFailure[] = [
  {
    kind: 'headers-too-large',
    step: 'response',
    signs: /^(?:UND_ERR_HEADERS_OVERFLOW|HPE_HEADER_OVERFLOW)$/,
    shown: '`UND_ERR_HEADERS_OVERFLOW`, `HPE_HEADER_OVERFLOW`',
    isLasting: true,
    advice:
      'Ask the operator to send smaller headers, or set NODE_OPTIONS=--max-http-header-size=65536: Node.js accepts 16 KiB.',
  },
  {
    // Fewer bytes than announced, too: a connection that is not kept ends with its response. Before the body, fetch has the code
    // for two different Content-Lengths: these are the same each time.
    kind: 'broken-off',
    step: 'connection',
    signs:
      /^(?:UND_ERR_SOCKET|UND_ERR_RES_CONTENT_LENGTH_MISMATCH in the body|HPE_INVALID_EOF_STATE|Z_BUF_ERROR)$|\(Invalid EOF state\)/,
    shown:
      '`other side closed`, `UND_ERR_RES_CONTENT_LENGTH_MISMATCH` in the body, `HPE_INVALID_EOF_STATE`, `Z_BUF_ERROR`, `The body is empty`',
    advice:
      'Try again. If it happens each time, check whether {authUrl} should begin with https:, whether the server requires a ' +
      'client certificate (mutual TLS), and what firewalls, proxies and mocks do.',
  },
  {
    kind: 'not-http',
    step: 'response',
    signs: /^(?:HTTPParserError$|HPE_|UND_ERR_RES_)/, // some versions of undici have no code
    shown: '`HPE_…`, `UND_ERR_RES_…`, `Response does not match the HTTP/1.1 protocol`',
    isLasting: true,
  },
  {
    kind: 'encoding',
    step: 'response',
    signs:
      /^(?:Z_[A-Z_]+|ERR_BROTLI_[A-Z_]+|ERR__ERROR_[A-Z_\d]+|ZSTD_error_[a-z_]+)$|^too many content-encodings/,
    shown: '`Z_…`, `ERR__ERROR_…`, `ZSTD_…`, `too many content-encodings`',
    isLasting: true,
    advice:
      'Ask the operator to correct the response: its body is not in the encoding that Content-Encoding names.',
  },
  {
    kind: 'certificate-expired',
    step: 'tls',
    signs: /^CERT_HAS_EXPIRED$|invalid peer certificate: (?:certificate )?expired/i, // Deno has no codes
    shown: '`CERT_HAS_EXPIRED`',
    isLasting: true,
    inCheck:
      "Ask the operator of the server to renew its certificate, or that of its authority. Also check this machine's clock.",
  },
  {
    kind: 'certificate-not-yet-valid',
    step: 'tls',
    signs: /^CERT_NOT_YET_VALID$/,
    shown: '`CERT_NOT_YET_VALID`',
    isLasting: true,
    inCheck: "Check this machine's clock: the certificate is not valid yet.",
  },
  {
    kind: 'certificate-of-another-host',
    step: 'tls',
    signs:
      /^(?:ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$|invalid peer certificate: .*not ?valid ?for ?name/i,
    shown: '`ERR_TLS_CERT_ALTNAME_INVALID`',
    isLasting: true,
    inCheck:
      'Check the host name in {authUrl}, and the address that it resolves to. In Kubernetes, a search domain with a wildcard ' +
      'record can redirect each name (ndots).',
  },
  {
    kind: 'client-certificate',
    step: 'tls',
    signs: /^ERR_SSL_[\w/]*_ALERT_\w*(?:CERT|UNKNOWN_CA)|received fatal alert: (?:\w*Certificate|UnknownCA)/,
    shown: '`ERR_SSL_…_ALERT_…CERT…`',
    isLasting: true,
    advice:
      'Ask the operator whether the server requires a client certificate (mutual TLS), or refuses yours, which may have expired.{check}',
    inCheck: MUTUAL_TLS,
  },
  {
    kind: 'no-intermediate-certificate',
    step: 'tls',
    signs:
      /^(?:UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?)$|invalid peer certificate: UnknownIssuer/,
    shown: '`UNABLE_TO_VERIFY_LEAF_SIGNATURE`, `UNABLE_TO_GET_ISSUER_CERT…`',
    isLasting: true,
    advice: `${COMPANY_AUTHORITY} Otherwise the operator has to send the intermediate certificate, which browsers find by themselves.`,
    inCheck:
      'Ask the operator of the server whether it sends its intermediate certificate: browsers find it by themselves, Node.js ' +
      `does not. ${CERTIFICATE_AUTHORITY}`,
  },
  {
    // UNSPECIFIED: the message has the reason, such as a weak key.
    kind: 'weak-certificate',
    step: 'tls',
    signs: /^(?:UNSPECIFIED|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED)$/,
    shown: '`UNSPECIFIED` (`too weak`), `INVALID_PURPOSE`',
    isLasting: true,
    inCheck:
      'Ask the operator of the server, or of a proxy that intercepts TLS, to replace the certificate: its key or its ' +
      'signature (SHA-1) is too weak, or it is not for servers.',
  },
  {
    // Deno has no codes.
    kind: 'unknown-authority',
    step: 'tls',
    signs: /^(?:[A-Z_]*CERT[A-Z_]*|INVALID_CA)$|invalid peer certificate/,
    shown: '`CERT_…`, `…_CERT_…`',
    isLasting: true,
    advice: `${COMPANY_AUTHORITY} ${KEEP_VERIFYING}`,
    inCheck: `Check who has signed the certificate: no authority that Node.js trusts. ${CERTIFICATE_AUTHORITY}`,
  },
  {
    // Of node:https, EPROTO says no more than that TLS failed; the message has the reason.
    kind: 'no-tls',
    step: 'tls',
    signs:
      /wrong version number|packet length too long|^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/,
    shown: '`wrong version number`, `packet length too long`',
    advice:
      'Check the port in {authUrl}, and whether {authUrl}, or the proxy in HTTPS_PROXY, should begin with http:. This port does ' +
      'not speak TLS.',
  },
  {
    kind: 'tls',
    step: 'tls',
    signs: /^(?:ERR_(?:SSL|TLS)_|EPROTO$)|received fatal alert|before secure TLS connection was established/,
    shown: 'other `ERR_SSL_…`, `ERR_TLS_…`, `EPROTO`',
    advice:
      'Check the port in {authUrl}, what firewalls and proxies do, and whether the server requires a client certificate (mutual ' +
      'TLS) or another TLS version.{check}',
    inCheck: `Check the port in {authUrl}, and what firewalls and proxies do. ${MUTUAL_TLS}`,
  },
  {
    kind: 'unreadable-key',
    step: 'program',
    signs: /^(?:ERR_OSSL_[A-Z\d_]+|ERR_CRYPTO_UNSUPPORTED_OPERATION|mac verify failure)$/,
    shown: '`ERR_OSSL_…`, `ERR_CRYPTO_UNSUPPORTED_OPERATION`, `mac verify failure`',
    isLasting: true,
    advice:
      'Check the private key and the certificate that this program reads: line breaks written as \\n, the passphrase, whether ' +
      'both belong together. A PFX file in the old RC2 format is converted by openssl pkcs12 -legacy.',
  },
  {
    kind: 'permission',
    step: 'program',
    signs: /^ERR_ACCESS_DENIED$/,
    shown: '`ERR_ACCESS_DENIED`',
    isLasting: true,
    advice: 'Start the program with the flag that the reason names; for the network it is --allow-net.',
  },
  {
    kind: 'bad-port',
    step: 'program',
    signs: /^bad port$/,
    shown: '`bad port`',
    isLasting: true,
    advice: 'Change the port in {authUrl}: fetch refuses this one, which belongs to another protocol.',
  },
  {
    // Before UND_ERR_INVALID_ARG, the code that undici 8 has for it. Otherwise its code is that of a request that was aborted.
    kind: 'proxy-refuses',
    step: 'connection',
    signs: /^Proxy response \((?:403|407)\)|^Proxy Authentication Required/,
    shown: '`Proxy response (407) …`, or 403; `Proxy Authentication Required`',
    isLasting: true,
    advice:
      'Check the user name and the password in HTTPS_PROXY (407), or ask the operator of the proxy to allow this host, unless it belongs in ' +
      'NO_PROXY (403).',
  },
  {
    kind: 'bad-url',
    step: 'program',
    signs: /^(?:ERR_INVALID_URL|unknown scheme)$/,
    shown: '`ERR_INVALID_URL`, `unknown scheme`',
    isLasting: true,
    advice:
      'Correct the URL that the fetch function calls: it must be absolute. With axios, also check HTTPS_PROXY, in which the ' +
      'special characters of a password are percent-encoded.',
  },
  {
    kind: 'thrown-4xx',
    step: 'response',
    signs: /^(?:Request failed with|Response) (?:status )?code 4(?!08|29)\d\d\b/,
    shown: '`Request failed with status code 4…`, `Response code 4…`',
    isLasting: true,
    advice: RETURN_IT,
  },
  {
    kind: 'thrown-status',
    step: 'response',
    signs: /^(?:Request failed with|Response) (?:status )?code \d{3}\b/,
    shown: 'the same with 408, 429 and 5xx',
    advice: RETURN_IT,
  },
  {
    kind: 'not-json',
    step: 'connection',
    signs: /^SyntaxError$/,
    shown: '`… is not valid JSON`, `Unexpected end of JSON input`',
    advice:
      "Log once what the fetch function parses, and check the URL that it calls: it is not JSON. With bodyFormat: 'form', the " +
      'body of the request is not JSON, either.',
  },
  {
    // Before the next one, and before ERR_HTTP2_: undici has the same codes for them.
    kind: 'bad-header',
    step: 'program',
    signs:
      /^ERR_HTTP2_INVALID_CONNECTION_HEADERS$|^invalid [\w-]+ header$|^Headers\.(?:append|set): |^Cannot convert argument to a ByteString|^UND_ERR_(?:NOT_SUPPORTED|REQ_CONTENT_LENGTH_MISMATCH)$/,
    shown:
      '`invalid … header`, `Headers.set: …`, `Cannot convert argument to a ByteString`, `UND_ERR_NOT_SUPPORTED`, `UND_ERR_REQ_CONTENT_LENGTH_MISMATCH`, `ERR_HTTP2_INVALID_CONNECTION_HEADERS`',
    isLasting: true,
    advice:
      'Correct or remove the header that the fetch function sets: fetch itself sets Connection, Content-Length and ' +
      'Transfer-Encoding.',
  },
  {
    kind: 'other-undici',
    step: 'program',
    signs: /^UND_ERR_INVALID_ARG$|^agent\.dispatch is not a function$/,
    shown: '`UND_ERR_INVALID_ARG`, `agent.dispatch is not a function`',
    isLasting: true,
    advice: 'Import fetch and the dispatcher from the same package undici: each works with its own only.',
  },
  {
    kind: 'dispatcher-closed',
    step: 'connection',
    signs: /^UND_ERR_(?:DESTROYED|CLOSED)$/,
    shown: '`UND_ERR_DESTROYED`, `UND_ERR_CLOSED`',
    advice:
      'Close the dispatcher of undici (Agent, ProxyAgent, MockAgent, or the global one) after tokens.close(), or create a new one.',
  },
  {
    kind: 'no-fetch',
    step: 'program',
    signs:
      /\bExpected signal .*AbortSignal|cannot be properly polyfilled|^Cross-Origin Request Blocked|^fetch is not a function$/,
    shown: '`Expected signal … to be an instance of AbortSignal`, `fetch is not a function`',
    isLasting: true,
    advice:
      'Run the test in the environment "node" (Jest 28 or newer), and a program with the fetch of Node.js: ' +
      'merchant-auth/docs/troubleshooting.md#test-environments.',
  },
  {
    kind: 'program-error',
    step: 'program',
    signs: /^ReferenceError$/,
    shown: '`ReferenceError`',
    isLasting: true,
    advice: 'Correct the fetch function.',
  },
  {
    kind: 'proxy-failed',
    step: 'connection',
    signs: /^Proxy response \(\d+\)/,
    shown: '`Proxy response (…)` otherwise',
    advice:
      'Check the address of the proxy (HTTPS_PROXY), and for 502 to 504 {authUrl}, whose host it cannot reach.',
  },
  {
    // The fetch of Node.js 26, and undici 8, use HTTP/2 where the server offers it.
    kind: 'http2',
    step: 'connection',
    signs: /^ERR_HTTP2_|^HTTP\/2: /,
    shown: 'other `ERR_HTTP2_…`, `NGHTTP2_…`, `HTTP/2: …`',
    advice:
      'Try again. If it happens each time, use HTTP/1.1: the option fetch with the Agent of undici and allowH2: false.',
  },
  {
    kind: 'unknown-host',
    step: 'name',
    signs: /^ENOTFOUND$/,
    shown: '`ENOTFOUND`',
    advice:
      'Check the spelling of the host name in {authUrl}, or in HTTPS_PROXY, and the DNS settings of this machine or container. ' +
      'Behind a proxy, fetch needs NODE_USE_ENV_PROXY=1 besides HTTPS_PROXY (Node.js 22.21).',
  },
  {
    kind: 'no-dns',
    step: 'name',
    signs: /^EAI_AGAIN$/,
    shown: '`EAI_AGAIN`',
    advice:
      'Try again, and check the DNS settings of this machine or container: the DNS server did not respond (in Docker, check the ' +
      'name of the other service, and whether both are in one network).',
  },
  {
    kind: 'nothing-listens-here',
    step: 'connection',
    signs: /^ECONNREFUSED on this machine$/,
    shown: '`ECONNREFUSED` on this machine',
    advice:
      'Start the service, or the sandbox, and write the output of its start to .env again: each start has a new port and a new ' +
      'secret. In a container, localhost is the container itself.',
  },
  {
    kind: 'nothing-listens',
    step: 'connection',
    signs: /^ECONNREFUSED$/,
    shown: '`ECONNREFUSED`',
    advice:
      'Check the port in {authUrl}, or in HTTPS_PROXY, and whether the service is running: nothing listens there, or a firewall ' +
      'rejects the connection.',
  },
  {
    kind: 'too-many-files',
    step: 'program',
    signs: /^(?:EMFILE|ENFILE)$/,
    shown: '`EMFILE`, `ENFILE`',
    advice:
      'Raise the limit of open files (ulimit -n), or find what does not close its files or connections.',
  },
  {
    kind: 'one-of-several-addresses',
    step: 'connection',
    signs: /^ETIMEDOUT of several addresses$/,
    shown: '`ETIMEDOUT`, for one of several addresses',
    advice:
      'Check the network, the firewall and the proxy; for a distant host, set ' +
      'NODE_OPTIONS=--network-family-autoselection-attempt-timeout=2000. Node.js allows each of several addresses a fraction of a second.',
  },
  {
    kind: 'no-connection',
    step: 'connection',
    signs:
      /^(?:ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH|ECONNRESET)$|Connection reset by peer/,
    shown: '`ETIMEDOUT`, `UND_ERR_CONNECT_TIMEOUT`, `EHOSTUNREACH`, `ENETUNREACH`, `ECONNRESET`',
  },
]

function kindOf(name: string): Failure {
  return NETWORK_FAILURES.find(({ kind }) => kind === name) as Failure
}

/** A response that ended before its end. */
export const BROKEN_OFF: Failure = kindOf('broken-off')
/** A DNS server that does not respond. */
export const NO_DNS: Failure = kindOf('no-dns')

/** Where no kind matches. */
export const UNKNOWN_FAILURE: Failure = {
  kind: 'unknown',
  step: 'connection',
  advice:
    'Check {authUrl}, the network, firewalls and proxies, and the fetch function, if the program has one of its own.{check}',
}

/** What the error of fetch means. */
export interface FoundFailure {
  readonly failure: Failure
  /** The code that says most, such as ECONNREFUSED; undefined if there is none. */
  readonly code: string | undefined
  /** The innermost reason, and of several addresses the reason for each. Fit to be shown. */
  readonly reason: string
}

type Failed = Error & { readonly code?: unknown; readonly errors?: readonly Error[] }

/**
 * What an error of fetch means. It must be free of secrets.
 *
 * @param isLoopback whether the request was for this machine
 */
export function networkFailureOf(
  error: Error | undefined,
  { isLoopback }: { readonly isLoopback: boolean },
): FoundFailure {
  const errors = withCauses(error)
  const codes = errors.flatMap(({ code }) =>
    typeof code === 'string' ? [printable(code, { length: 60 })] : [],
  )
  const innermost = errors.filter((one) => causesOf(one).length === 0)
  const isBeforeBody = errors.some(({ message }) => message === 'fetch failed')
  const circumstances = codes.flatMap((code) => [
    ...(isBeforeBody ? [] : [`${code} in the body`]),
    ...(isLoopback ? [`${code} on this machine`] : []),
    ...(innermost.length > 1 ? [`${code} of several addresses`] : []),
  ])
  const signs = [...circumstances, ...codes, ...errors.flatMap(({ name, message }) => [name, message])]
  const reason = printable([...new Set(innermost.map(textOf))].join('; ')) || 'what was thrown is no Error'
  const failure = NETWORK_FAILURES.find((kind) => signs.some((sign) => kind.signs.test(sign)))
  const code = codes.find((one) => failure?.signs.test(one)) ?? codes[0]
  return { failure: failure ?? UNKNOWN_FAILURE, code, reason }
}

function causesOf({ cause, errors }: Failed): readonly Failed[] {
  const isEmpty = cause instanceof Error && cause.message === '' && !('code' in cause) && !('errors' in cause) // of got
  return errors ?? (cause instanceof Error && !isEmpty ? [cause] : [])
}

function withCauses(error: Failed | undefined): readonly Failed[] {
  return error === undefined ? [] : [error, ...causesOf(error).flatMap(withCauses)]
}

/** The message of an error, with what it does not say by itself: the code, or that it is a slip of a program. */
function textOf({ code, name, message }: Failed): string {
  const sign = typeof code === 'string' ? code : name === 'ReferenceError' ? name : ''
  if (message === '') return sign || name
  return message.includes(sign) ? message : `${sign}: ${message}`
}

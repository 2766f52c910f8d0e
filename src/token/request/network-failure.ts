/** Why a request got no response, or none that can be read: the codes of fetch, its connection and TLS, and what to do. */
import { inManual } from '../../base/manual-link.ts'
import { printable } from '../../base/redact.ts'

/** Where a request fails: in the program that sends it, on the way, or at its response. */
export type FailedStep = 'program' | 'name' | 'connection' | 'tls' | 'response'

/** What the error of fetch means. */
export interface NetworkFailure {
  readonly step: FailedStep
  /** The code that says most, such as ECONNREFUSED; undefined if there is none. */
  readonly code: string | undefined
  /** The innermost reason, and of several addresses the reason for each. Fit to be shown. */
  readonly reason: string
  readonly advice: string
  /** Whether every request fails in this way, until something is changed. */
  readonly isLasting: boolean
}

/** A kind of failure: what matches its `pattern` is the code, the name or the message of one of the errors. */
interface Kind {
  readonly pattern: RegExp
  readonly step: FailedStep
  readonly advice: string
  readonly isLasting?: true
}

const NO_INTERMEDIATE =
  'The server may not send its intermediate certificate, which browsers find by themselves: then its operator has to add it. '
const UNKNOWN_AUTHORITY =
  'No certificate authority that Node.js trusts has signed the certificate. If your company has its own authority, add ' +
  'its certificate: NODE_EXTRA_CA_CERTS=ca.pem in the environment (Node.js silently ignores a file that does not contain ' +
  '-----BEGIN CERTIFICATE-----, such as DER, and the variable in a file of --env-file), or ' +
  'NODE_OPTIONS=--use-system-ca (Node.js 22.15). Do not turn verification off.'
const MUTUAL_TLS =
  'The server may require a client certificate (mutual TLS), refuse the one that it got (has it expired?), not know this host ' +
  'name, or share no TLS version with this program. For "legacy renegotiation" or "key too small", its operator has to update it.'
const SEVERAL_ADDRESSES =
  ' Node.js allows each of several addresses a fraction of a second to connect: for a distant one, set ' +
  'NODE_OPTIONS=--network-family-autoselection-attempt-timeout=2000.'
const NO_SANDBOX =
  'Nothing listens on this port. If it is the sandbox, is it running? Each start has a new port and a new secret: write ' +
  'its output to .env again. In a container, localhost is the container itself. Otherwise check the port in the URL, and ' +
  'whether the service is running.'
const THROWN_STATUS =
  'The fetch function throws where the status of a response is an error, be it of this or of another URL that it calls. ' +
  'Let it return that response, too: with axios validateStatus: () => true, with got and ky throwHttpErrors: false.'
const UNKNOWN =
  'Unless the reason says more, check the URL, the network, the firewall, the proxy, and your own fetch function, if there ' +
  'is one.'

/** What to do about a DNS server that does not respond. */
export const NO_DNS: string =
  'The DNS server did not respond, or cannot answer now. Check the network and the DNS settings of this machine or container ' +
  '(in Docker, the name of the other service, and whether both are in one network), and try again.'

/** What to do about a connection that ends before the response does. */
export const BROKEN_OFF: string =
  'Try again. If it happens again, check whether the URL should begin with https:, whether the server requires a client ' +
  'certificate (mutual TLS), and what firewalls and proxies do; in a test, what it mocks.'

/** The kinds; where several match, the first one counts. */
const KINDS: readonly Kind[] = [
  {
    pattern: /^UND_ERR_HEADERS_OVERFLOW$/,
    step: 'response',
    advice:
      'Its headers are larger than Node.js accepts (16 KiB). Ask the operator to send fewer, or set ' +
      'NODE_OPTIONS=--max-http-header-size=65536.',
    isLasting: true,
  },
  {
    // Fewer bytes than announced, too: a connection that is not kept ends with its response.
    pattern:
      /^(?:UND_ERR_SOCKET|UND_ERR_RES_CONTENT_LENGTH_MISMATCH|HPE_INVALID_EOF_STATE|Z_BUF_ERROR)$|\(Invalid EOF state\)/,
    step: 'connection',
    advice: BROKEN_OFF,
  },
  {
    pattern: /^(?:HTTPParserError$|HPE_|UND_ERR_RES_)/, // some versions of undici have no code
    step: 'response',
    advice:
      'It is not valid HTTP. Check the port in the URL, and whether the URL should begin with https:. If it is correct, ' +
      'the operator of the server, or of a proxy in front of it, has to correct the response.',
    isLasting: true,
  },
  {
    pattern:
      /^(?:Z_[A-Z_]+|ERR_BROTLI_[A-Z_]+|ERR__ERROR_[A-Z_\d]+|ZSTD_error_[a-z_]+)$|^too many content-encodings/,
    step: 'response',
    advice:
      'Its body is not in the encoding that its Content-Encoding header names, or that names too many. The operator of the ' +
      'server, or of a proxy in front of it, has to correct that.',
    isLasting: true,
  },
  {
    pattern: /^CERT_HAS_EXPIRED$|invalid peer certificate: (?:certificate )?expired/i, // Deno has no codes
    step: 'tls',
    advice:
      "The server's certificate, or that of one of its authorities, has expired, and its operator must renew it. Also check " +
      "this machine's clock.",
    isLasting: true,
  },
  {
    pattern: /^CERT_NOT_YET_VALID$/,
    step: 'tls',
    advice: "The server's certificate is not valid yet. Check this machine's clock.",
    isLasting: true,
  },
  {
    pattern:
      /^(?:ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$|invalid peer certificate: .*not ?valid ?for ?name/i,
    step: 'tls',
    advice:
      'The certificate is for another host name. Check the host name in the URL, and the address that it resolves to (in ' +
      'Kubernetes, a search domain with a wildcard record can redirect each name: see ndots).',
    isLasting: true,
  },
  {
    pattern:
      /^ERR_SSL_[\w/]*_ALERT_\w*(?:CERT|UNKNOWN_CA)|received fatal alert: (?:\w*Certificate|UnknownCA)/,
    step: 'tls',
    advice: MUTUAL_TLS,
    isLasting: true,
  },
  {
    pattern:
      /^(?:UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?)$|invalid peer certificate: UnknownIssuer/,
    step: 'tls',
    advice: NO_INTERMEDIATE + UNKNOWN_AUTHORITY,
    isLasting: true,
  },
  {
    // UNSPECIFIED: the message has the reason, such as a weak key.
    pattern: /^(?:UNSPECIFIED|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED)$/,
    step: 'tls',
    advice:
      'Node.js refuses the certificate, or one of its authorities: the key or the signature (SHA-1) is too weak, or it ' +
      'is not for servers. Its operator, or that of a proxy that intercepts TLS, has to replace it.',
    isLasting: true,
  },
  {
    // Deno has no codes.
    pattern: /^(?:[A-Z_]*CERT[A-Z_]*|INVALID_CA)$|invalid peer certificate/,
    step: 'tls',
    advice: UNKNOWN_AUTHORITY,
    isLasting: true,
  },
  {
    // Of node:https, EPROTO says no more than that TLS failed; the message has the reason.
    pattern:
      /wrong version number|packet length too long|^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/,
    step: 'tls',
    advice:
      'This port does not speak TLS. Check the port in the URL, and whether the URL, or that of a proxy in HTTPS_PROXY, should ' +
      'begin with http:.',
  },
  { pattern: /^(?:ERR_(?:SSL|TLS)_|EPROTO$)|received fatal alert/, step: 'tls', advice: MUTUAL_TLS },
  {
    pattern: /^(?:ERR_OSSL_[A-Z\d_]+|ERR_CRYPTO_UNSUPPORTED_OPERATION|mac verify failure)$/,
    step: 'program',
    advice:
      'A private key or a certificate cannot be read. In a variable, its line breaks may be the letters \\n: then ' +
      "key.replaceAll('\\\\n', '\\n'). Also check the passphrase, whether key and certificate belong together, and that a " +
      'PFX file is not in the old RC2 format.',
    isLasting: true,
  },
  {
    pattern: /^ERR_ACCESS_DENIED$/,
    step: 'program',
    advice:
      'The permission model of Node.js does not allow this. Start the program with the flag that the reason names; for ' +
      'the network it is --allow-net.',
    isLasting: true,
  },
  {
    pattern: /^bad port$/,
    step: 'program',
    advice: 'fetch refuses this port, which belongs to another protocol. Change the port in the URL.',
    isLasting: true,
  },
  {
    // Before UND_ERR_INVALID_ARG, the code that undici 8 has for it. Otherwise its code is that of a request that was aborted.
    pattern: /^Proxy response \((?:403|407)\)|^Proxy Authentication Required/,
    step: 'connection',
    advice:
      'The proxy refuses. For 407 check the user name and the password in its URL (HTTPS_PROXY, HTTP_PROXY for http: ' +
      'URLs); for 403 ask its operator to allow this host, or add a host of your own network to NO_PROXY.',
    isLasting: true,
  },
  {
    pattern: /^(?:ERR_INVALID_URL|unknown scheme)$/,
    step: 'program',
    advice:
      'Correct the URL that the fetch function calls: it must be absolute. With axios, also check HTTPS_PROXY (special ' +
      'characters of a password are percent-encoded).',
    isLasting: true,
  },
  {
    pattern: /^(?:Request failed with|Response) (?:status )?code 4(?!08|29)\d\d\b/,
    step: 'response',
    advice: THROWN_STATUS,
    isLasting: true,
  },
  {
    pattern: /^(?:Request failed with|Response) (?:status )?code \d{3}\b/,
    step: 'response',
    advice: THROWN_STATUS,
  },
  {
    pattern: /^SyntaxError$/,
    step: 'connection',
    advice:
      "The fetch function parsed text that is not JSON. With bodyFormat: 'form', the body of the request is not JSON. " +
      'Otherwise, something other than the token endpoint may respond, such as a maintenance page, a login, a proxy or a ' +
      'firewall: check the URL that the function calls, and log the text once.',
  },
  {
    // Before ERR_HTTP2_, which may succeed later.
    pattern: /^ERR_HTTP2_INVALID_CONNECTION_HEADERS$/,
    step: 'program',
    advice: 'HTTP/2 has no such header. Remove it in the fetch function.',
    isLasting: true,
  },
  {
    // Before the next one: undici has the same code for them.
    pattern:
      /^invalid [\w-]+ header$|^Headers\.(?:append|set): |^Cannot convert argument to a ByteString|^UND_ERR_(?:NOT_SUPPORTED|REQ_CONTENT_LENGTH_MISMATCH)$/,
    step: 'program',
    advice:
      'fetch refuses a header of the request. Correct or remove it in the fetch function: fetch itself sets Connection, ' +
      'Content-Length and Transfer-Encoding.',
    isLasting: true,
  },
  {
    pattern: /^UND_ERR_INVALID_ARG$|^agent\.dispatch is not a function$/,
    step: 'program',
    advice: 'A dispatcher works with the fetch of its own undici only: import both from the package undici.',
    isLasting: true,
  },
  {
    pattern: /^UND_ERR_(?:DESTROYED|CLOSED)$/,
    step: 'connection',
    advice:
      'This program has closed the dispatcher of undici (Agent, ProxyAgent, MockAgent, or the global one) that sends ' +
      'token requests. Close it after tokens.close(), or create a new one.',
  },
  {
    pattern:
      /\bExpected signal .*AbortSignal|cannot be properly polyfilled|^Cross-Origin Request Blocked|^fetch is not a function$/,
    step: 'program',
    advice:
      'fetch or AbortSignal is missing or replaced. In a test (jsdom, happy-dom), run it in the environment "node" (Jest ' +
      `28 or newer): ${inManual('test-environments')}. In a program, use the fetch of Node.js.`,
    isLasting: true,
  },
  { pattern: /^ReferenceError$/, step: 'program', advice: 'Correct the fetch function.', isLasting: true },
  {
    pattern: /^Proxy response \(\d+\)/,
    step: 'connection',
    advice:
      'The proxy did not open a tunnel to this host. For 502 to 504 it cannot reach the host: check the URL. For others, ' +
      'check the address of the proxy (HTTPS_PROXY).',
  },
  {
    // The fetch of Node.js 26, and undici 8, use HTTP/2 where the server offers it.
    pattern: /^ERR_HTTP2_|^HTTP\/2: /,
    step: 'connection',
    advice:
      'The server, or a gateway in front of it, ended the HTTP/2 stream. Try again. If it happens each time ' +
      '(HTTP_1_1_REQUIRED), use HTTP/1.1: the option fetch with the Agent of undici and allowH2: false.',
  },
  {
    pattern: /^ENOTFOUND$/,
    step: 'name',
    advice:
      'Check the spelling of the host name in the URL, or, if this is the name of a proxy, in HTTPS_PROXY. In a ' +
      'container or a private network, check the DNS settings. Behind a proxy, fetch needs NODE_USE_ENV_PROXY=1 besides ' +
      'HTTPS_PROXY, and Node.js 22.21.',
  },
  {
    pattern: /^EAI_AGAIN$/,
    step: 'name',
    advice: NO_DNS,
  },
  {
    pattern: /^(?:ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/,
    step: 'connection',
    advice: 'The host does not respond. Check the network, the firewall, the proxy and the port in the URL.',
  },
  {
    pattern: /^ECONNREFUSED$/,
    step: 'connection',
    advice:
      'Nothing listens on this port, or a firewall rejects the connection. Check the port in the URL, or, if this is the ' +
      'address of a proxy, in HTTPS_PROXY, and whether the service is running.',
  },
  {
    pattern: /^(?:EMFILE|ENFILE)$/,
    step: 'program',
    advice:
      'This process has too many open files or connections. Raise the limit (ulimit -n), or find what does not close them.',
  },
  {
    pattern: /^(?:EHOSTUNREACH|ENETUNREACH)$/,
    step: 'connection',
    advice:
      'There is no route to this host. Check the network, the VPN, the proxy, the firewall, and whether IPv6 works; in a test, ' +
      'what it mocks.',
  },
  {
    pattern: /before secure TLS connection was established/,
    step: 'tls',
    advice:
      'The connection was closed during the TLS handshake. A firewall or a proxy, a port that does not speak TLS, a ' +
      'missing client certificate (mutual TLS), or no common TLS version may do that. Check the URL, and try again.',
  },
  {
    pattern: /^ECONNRESET$|Connection reset by peer/,
    step: 'connection',
    advice:
      'The connection was reset. A firewall, a proxy, or a port that does not speak TLS may do that. Check the URL, and ' +
      'try again.',
  },
]

type Failed = Error & { readonly code?: unknown; readonly errors?: readonly Error[] }

/**
 * What an error of fetch means. It must be free of secrets.
 *
 * @param isLoopback whether the request was for this machine
 */
export function networkFailureOf(
  error: Error | undefined,
  { isLoopback }: { readonly isLoopback: boolean },
): NetworkFailure {
  const errors = withCauses(error)
  const codes = errors.flatMap(({ code }) =>
    typeof code === 'string' ? [printable(code, { length: 60 })] : [],
  )
  const signs = [...codes, ...errors.flatMap(({ name, message }) => [name, message])]
  const innermost = errors.filter((one) => causesOf(one).length === 0)
  const reason = printable([...new Set(innermost.map(textOf))].join('; ')) || 'what was thrown is no Error'
  const kind = KINDS.find(({ pattern }) => signs.some((sign) => pattern.test(sign)))
  const code = codes.find((one) => kind?.pattern.test(one)) ?? codes[0]
  const { step, isLasting = false } = kind ?? { step: 'connection' }
  let advice = kind?.advice ?? UNKNOWN
  if (code === 'ECONNREFUSED' && isLoopback) advice = NO_SANDBOX
  if (code === 'ETIMEDOUT' && innermost.length > 1) advice += SEVERAL_ADDRESSES
  return { step, code, reason, advice, isLasting }
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

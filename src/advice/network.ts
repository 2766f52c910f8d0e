/** What the errors of fetch mean: why a request got no response, or none that can be read. */
import { printable } from '../base/redact.ts'
import { type Advice, isSignOf, type Signs } from './failure.ts'

/** Where a token request fails: in the program that sends it, on the way, or at its response. */
export type FailedStep = 'program' | 'name' | 'connection' | 'tls' | 'response'

/** A kind of failure of fetch. */
export interface NetworkRow extends Partial<Advice>, Signs {
  readonly step: FailedStep
  /** Whether every request fails in this way, until something is changed. */
  readonly isLasting?: true
  /** The words, as the manual shows them. */
  readonly shown?: string
}

/** A row with its kind. Without an advice of its own it has that of its step. */
export type NetworkFailure = NetworkRow & Advice & { readonly kind: string }

/** What to do where a failure has no words of its own. */
export const BY_STEP: Readonly<Record<FailedStep, string>> = {
  program:
    'Correct what the reason names: {authUrl}, this program, its fetch function, its proxy or its environment.',
  name: 'Check the host name in {authUrl}, and the DNS settings of this machine or container.{check}',
  connection: 'Check {authUrl}, the network, firewalls and proxies, and try again.{check}',
  tls: "Check the certificate, its authority and this machine's clock.{check}",
  response:
    'Check the scheme and the port of {authUrl}, or ask the operator of the server, or of a proxy in front of it.{check}',
}

const RETURN_IT =
  'Let the fetch function return every response: with axios validateStatus: () => true, with got and ky throwHttpErrors: false.'

/** What the errors of fetch mean. */
export const NETWORK_FAILURES: Readonly<Record<string, NetworkRow>> = {
  'headers-too-large': {
    step: 'response',
    codes: ['UND_ERR_HEADERS_OVERFLOW', 'HPE_HEADER_OVERFLOW'],
    isLasting: true,
    advice:
      'Ask the operator to send smaller headers, or set NODE_OPTIONS=--max-http-header-size=65536: Node.js accepts 16 KiB.',
  },
  // Fewer bytes than announced, too: a connection that is not kept ends with its response. Before the body, fetch has the code
  // for two different Content-Lengths: these are the same each time.
  'broken-off': {
    step: 'connection',
    codes: [
      'UND_ERR_SOCKET',
      'UND_ERR_RES_CONTENT_LENGTH_MISMATCH in the body',
      'HPE_INVALID_EOF_STATE',
      'Z_BUF_ERROR',
      '*(Invalid EOF state)*',
    ],
    advice:
      'Try again. If it fails each time, check whether {authUrl} should begin with https: or wants a client certificate ' +
      '(mutual TLS), and what firewalls, proxies and mocks do.',
  },
  'not-http': {
    step: 'response',
    codes: ['HPE_*', 'UND_ERR_RES_*', 'HTTPParserError'], // some versions of undici have no code
    isLasting: true,
  },
  encoding: {
    step: 'response',
    codes: ['Z_*', 'ERR_BROTLI_*', 'ERR__ERROR_*', 'ZSTD_error_*', 'too many content-encodings*'],
    isLasting: true,
    advice:
      'Ask the operator to correct the response: its body is not in the encoding that Content-Encoding names.',
  },
  // UNSPECIFIED: the message has the reason, such as a weak key. Deno has no codes.
  certificate: {
    step: 'tls',
    codes: [
      'CERT_HAS_EXPIRED',
      'CERT_NOT_YET_VALID',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'HOSTNAME_MISMATCH',
      'UNSPECIFIED',
      'INVALID_PURPOSE',
      'PATH_LENGTH_EXCEEDED',
    ],
    words: /invalid peer certificate: (?:certificate )?(?:expired|.*not ?valid ?for ?name)/i,
    isLasting: true,
    inCheck:
      'Ask the operator of the server, or of a proxy that intercepts TLS, for a certificate that has not expired, is not too ' +
      "weak (SHA-1), and is for the host name in {authUrl}. Also check this machine's clock, and the address of that name: in " +
      'Kubernetes, a wildcard record can redirect each name (ndots).',
  },
  'client-certificate': {
    step: 'tls',
    codes: ['ERR_SSL_*_ALERT_*CERT*', 'ERR_SSL_*_ALERT_UNKNOWN_CA'],
    words: /received fatal alert: (?:\w*Certificate|UnknownCA)/,
    isLasting: true,
    advice:
      'Ask the operator whether the server requires a client certificate (mutual TLS), or refuses yours.{check}',
    inCheck:
      'Ask the operator whether the server requires a client certificate (mutual TLS), or whether yours has expired.',
  },
  'unreadable-key': {
    step: 'program',
    codes: ['ERR_OSSL_*', 'ERR_CRYPTO_UNSUPPORTED_OPERATION', 'mac verify failure'],
    isLasting: true,
    advice:
      'Check the private key and the certificate that this program reads: line breaks written as \\n, the passphrase, whether ' +
      'both match. A PFX file in the old RC2 format is converted by openssl pkcs12 -legacy.',
  },
  'unknown-authority': {
    step: 'tls',
    codes: ['*CERT*', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'INVALID_CA'],
    words: /invalid peer certificate/,
    isLasting: true,
    advice:
      'Add the authority of your company, if it is one: NODE_EXTRA_CA_CERTS=ca.pem; do not turn verification off. Otherwise ' +
      'the operator has to send the intermediate certificate, which browsers find by themselves.{check}',
    inCheck:
      'If your company has an authority of its own, add its certificate: NODE_EXTRA_CA_CERTS=ca.pem in the environment (PEM, ' +
      'not DER; Node.js ignores it in a file of --env-file), or NODE_OPTIONS=--use-system-ca. Otherwise the operator has to ' +
      'send the intermediate certificate: browsers find it, Node.js does not. Never disable verification.',
  },
  // Of node:https, EPROTO says no more than that TLS failed; the message has the reason.
  'no-tls': {
    step: 'tls',
    codes: [
      '*wrong version number*',
      '*packet length too long*',
      'ERR_SSL_WRONG_VERSION_NUMBER',
      'ERR_SSL_PACKET_LENGTH_TOO_LONG',
    ],
    advice:
      'Check the port in {authUrl}, which does not speak TLS, and whether the URL, or that in HTTPS_PROXY, should begin with ' +
      'http:.',
  },
  tls: {
    step: 'tls',
    codes: ['ERR_SSL_*', 'ERR_TLS_*', 'EPROTO'],
    words: /received fatal alert|before secure TLS connection was established/,
    advice:
      'Check the port in {authUrl}, what firewalls and proxies do, and whether the server requires a client certificate ' +
      '(mutual TLS) or another TLS version.{check}',
    inCheck:
      'Check the port in {authUrl}, firewalls and proxies. Ask the operator whether the server requires a client certificate ' +
      '(mutual TLS) or another TLS version: "legacy renegotiation" and "key too small" are for the operator to correct.',
  },
  program: {
    step: 'program',
    codes: [
      'ERR_ACCESS_DENIED',
      'ERR_INVALID_URL',
      'ReferenceError',
      'bad port',
      'unknown scheme',
      'invalid * header',
      'Headers.append: *',
      'Headers.set: *',
      'Cannot convert argument to a ByteString*',
      'UND_ERR_NOT_SUPPORTED',
      'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
      'ERR_HTTP2_INVALID_CONNECTION_HEADERS',
    ],
    isLasting: true,
  },
  // Of the option fetch, which translates requests and responses.
  'not-json': {
    step: 'connection',
    codes: ['SyntaxError'],
    advice:
      'Log what the fetch function parses: it is not JSON, but perhaps a page of a login or a firewall. With bodyFormat: ' +
      "'form', the request is not JSON, either.",
  },
  // Before UND_ERR_INVALID_ARG, the code that undici 8 has for it. Otherwise its code is that of a request that was aborted.
  'proxy-refuses': {
    step: 'connection',
    codes: ['Proxy response (403)*', 'Proxy response (407)*', 'Proxy Authentication Required*'],
    isLasting: true,
    advice:
      'Check the user and the password in HTTPS_PROXY (407), or ask its operator to allow this host, or add it to NO_PROXY ' +
      '(403).',
  },
  'thrown-status': {
    step: 'response',
    words: /^(?:Request failed with|Response) (?:status )?code (?:408|429|[^4]\d\d)\b/,
    shown: 'the next ones with 408, 429 and 5xx',
    advice: RETURN_IT,
  },
  'thrown-4xx': {
    step: 'response',
    codes: ['Request failed with status code 4*', 'Response code 4*', 'Response status code 4*'],
    isLasting: true,
    advice: RETURN_IT,
  },
  'other-undici': {
    step: 'program',
    codes: ['UND_ERR_INVALID_ARG', 'agent.dispatch is not a function'],
    isLasting: true,
    advice: 'Import fetch and the dispatcher from the same package undici: each works with its own only.',
  },
  'dispatcher-closed': {
    step: 'connection',
    codes: ['UND_ERR_DESTROYED', 'UND_ERR_CLOSED'],
    advice:
      'Close the dispatcher of undici (an Agent, or the global one) after tokens.close(), or create a new one.',
  },
  'no-fetch': {
    step: 'program',
    codes: [
      '*Expected signal *AbortSignal*',
      '*cannot be properly polyfilled*',
      'Cross-Origin Request Blocked*',
      'fetch is not a function',
    ],
    isLasting: true,
    advice:
      'Run the test in the environment "node", with the fetch of Node.js: ' +
      'merchant-auth/docs/troubleshooting.md#test-environments.',
  },
  // The fetch of Node.js 26, and undici 8, use HTTP/2 where the server offers it.
  http2: {
    step: 'connection',
    codes: ['ERR_HTTP2_*', 'HTTP/2: *'],
    advice:
      'Try again. If it happens each time, use HTTP/1.1: the option fetch with the Agent of undici and allowH2: false.',
  },
  'unknown-host': {
    step: 'name',
    codes: ['ENOTFOUND'],
    advice:
      'Check the host name in {authUrl}, or in HTTPS_PROXY, and the DNS settings of this machine or container. Behind a proxy, ' +
      'fetch needs NODE_USE_ENV_PROXY=1 besides HTTPS_PROXY (Node.js 22.21).',
  },
  'no-dns': {
    step: 'name',
    codes: ['EAI_AGAIN'],
    advice:
      'Try again, and check the DNS settings of this machine or container: its DNS server is silent. In Docker, check the ' +
      'name of the other service, and whether both are in one network.',
  },
  'nothing-listens-here': {
    step: 'connection',
    codes: ['ECONNREFUSED on this machine'],
    advice:
      'Start the service, or the sandbox, and write the output of its start to .env again: each start has a new port and ' +
      'secret. In a container, localhost is the container itself.',
  },
  'nothing-listens': {
    step: 'connection',
    codes: ['ECONNREFUSED'],
    advice:
      'Check the port in {authUrl}, or in HTTPS_PROXY, whether the service is running, and what firewalls reject.',
  },
  'too-many-files': { step: 'program', codes: ['EMFILE', 'ENFILE'] },
  'not-mocked': {
    step: 'connection',
    codes: ['ERR_NOCK_NO_MATCH', 'Nock: *'],
    advice:
      'Mock the token request, too, as often as it is sent, or use createStaticTokenProvider: ' +
      'merchant-auth/docs/troubleshooting.md#test-environments.',
  },
  'one-of-several-addresses': {
    step: 'connection',
    codes: ['ETIMEDOUT of several addresses'],
    advice:
      'Check the network, the firewall and the proxy. For a distant host with several addresses, set ' +
      'NODE_OPTIONS=--network-family-autoselection-attempt-timeout=2000.',
  },
  'no-connection': {
    step: 'connection',
    codes: [
      'ETIMEDOUT',
      'UND_ERR_CONNECT_TIMEOUT',
      'EHOSTUNREACH',
      'ENETUNREACH',
      'ECONNRESET',
      'Proxy response (*)*',
    ],
    words: /Connection reset by peer/,
  },
}

/** Where no kind matches. */
export const UNKNOWN_FAILURE: NetworkRow = {
  step: 'connection',
  advice:
    'Check {authUrl}, the network, firewalls and proxies, and the fetch function, if the program has one of its own.{check}',
}

function failureWith(isIts: (row: NetworkRow, kind: string) => boolean): NetworkFailure {
  const rows = Object.entries<NetworkRow>(NETWORK_FAILURES)
  const [kind, row] = rows.find(([kind, row]) => isIts(row, kind)) ?? ['unknown', UNKNOWN_FAILURE]
  return { kind, advice: BY_STEP[row.step], ...row }
}

/** A response that ended before its end. */
export const BROKEN_OFF: NetworkFailure = failureWith((_, kind) => kind === 'broken-off')
/** A DNS server that does not respond. */
export const NO_DNS: NetworkFailure = failureWith((_, kind) => kind === 'no-dns')

/** What the error of fetch means. */
export interface FoundFailure {
  readonly failure: NetworkFailure
  /** The code that says most, such as ECONNREFUSED; undefined if there is none. */
  readonly code: string | undefined
  /** The innermost reason, and of several addresses the reason for each. Fit to be shown. */
  readonly reason: string
}

type Failed = Error & { readonly code?: unknown; readonly errors?: readonly Error[] }

/** What an error of fetch means. It must be free of secrets. `isLoopback`: whether the request was for this machine. */
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
  const failure = failureWith((row) => signs.some((sign) => isSignOf(row, sign)))
  const code = codes.find((one) => isSignOf(failure, one)) ?? codes[0]
  return { failure, code, reason }
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

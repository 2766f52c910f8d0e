/** What to do about a request without an answer, in words for each code of the network and of TLS. */

import type { Cause } from './diagnosis.ts'

/** What advice depends on. */
export interface AdviceContext {
  /** Host and port of the token endpoint, or of the API that is called. */
  readonly host: string
  /** Whether a connection came about, TLS included. */
  readonly connected: boolean
  /** The proxy that was asked for one, and whether there was a connection to itself. */
  readonly proxy?: { readonly host: string; readonly connected: boolean } | undefined
  /** What to say of a proxy that is named by a variable, and not used. */
  readonly proxyHint?: string | undefined
}

/** How far a request came that got no answer, and what to do about it. */
export interface NetworkAdvice {
  readonly step: 'name' | 'connection' | 'tls' | 'answer'
  readonly text: string
  readonly advice: string
}

type Sentence = (host: string) => string

const NAME: Readonly<Record<string, Sentence>> = {
  ENOTFOUND: (host) =>
    `Check the spelling of ${host} in the URL. In a container or a private network, check its DNS settings.`,
  EAI_AGAIN: () =>
    'The name server gave no answer. Check the network and the DNS settings of this machine or container, and try again.',
}

const CONNECTION: Readonly<Record<string, Sentence>> = {
  ECONNREFUSED: (host) =>
    `Nothing listens on ${host}, or a firewall refuses. Check the port in the URL, and whether the service is up.`,
  ECONNRESET: () =>
    'The connection was cut. A firewall, a proxy, or a port that does not speak TLS does that: check the URL, and try again.',
  EHOSTUNREACH: () => 'There is no way to this host. Check the network, the VPN and the firewall.',
  ENETUNREACH: () =>
    'There is no way to this network. Check the network, the VPN, and whether it needs IPv6.',
  ETIMEDOUT: () => 'The host does not answer. Check the network, the firewall, and the port in the URL.',
  UND_ERR_CONNECT_TIMEOUT: () => CONNECTION['ETIMEDOUT']?.('') ?? '',
}

const OWN_AUTHORITY =
  'No authority that Node.js knows has signed the certificate. If your company has an authority of its own, name its ' +
  'certificate: NODE_EXTRA_CA_CERTS=ca.pem, or NODE_OPTIONS=--use-system-ca. Do not switch the check off.'
const NOT_TLS =
  'This port does not speak TLS. Check the port in the URL, and whether it should begin with http:.'
const MUTUAL =
  'The server may demand a client certificate (mutual TLS), or none of the versions of TLS suits both.'

const TLS: Readonly<Record<string, Sentence>> = {
  CERT_HAS_EXPIRED: () =>
    "The server's certificate has expired, and its operator must renew it. Check this machine's clock as well.",
  CERT_NOT_YET_VALID: () => "The server's certificate is not valid yet. Check this machine's clock.",
  CERT_REVOKED: () => "The server's certificate was revoked: ask its operator.",
  ERR_TLS_CERT_ALTNAME_INVALID: (host) =>
    `The certificate is for other names than ${host}. Check the host name in the URL.`,
  DEPTH_ZERO_SELF_SIGNED_CERT: () => OWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: () => OWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: () => OWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: () => OWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: () => OWN_AUTHORITY,
  ERR_SSL_WRONG_VERSION_NUMBER: () => NOT_TLS,
  EPROTO: () => NOT_TLS,
}

/** What lies below a request that got no answer. */
export function adviceForNetwork(cause: Cause | undefined, context: AdviceContext): NetworkAdvice {
  const code = cause?.code ?? ''
  const { host, connected, proxy } = context
  const reason = cause?.shown === undefined ? '' : ` (${cause.shown})`
  const known = (table: Readonly<Record<string, Sentence>>): string | undefined =>
    Object.hasOwn(table, code) ? table[code]?.(host) : undefined

  const tls = known(TLS) ?? (/^(?:ERR_SSL_|ERR_TLS_|CERT_)/.test(code) ? MUTUAL : undefined)
  if (tls !== undefined) return { step: 'tls', text: `no TLS with ${host}${reason}`, advice: tls }
  if (!connected && proxy !== undefined) return adviceForProxy(proxy, host, reason)
  const name = known(NAME)
  if (name !== undefined) {
    return { step: 'name', text: `no address for ${host}${reason}`, advice: name + proxyHint(context) }
  }
  if (connected) {
    const text = `${host} closed the connection without an answer that makes sense${reason}`
    const advice =
      'Try again. If it stays: check whether the URL should begin with https:, whether the server demands a client ' +
      'certificate (mutual TLS), and what firewalls and proxies do.'
    return { step: 'answer', text, advice }
  }
  if (cause?.shown === 'bad port') {
    const advice = 'fetch calls no such port, which belongs to another protocol. Check the port in the URL.'
    return { step: 'connection', text: `no connection to ${host}${reason}`, advice }
  }
  const advice = known(CONNECTION) ?? 'Check the URL, the network, the firewall and the proxy.'
  return {
    step: 'connection',
    text: `no connection to ${host}${reason}`,
    advice: advice + proxyHint(context),
  }
}

function adviceForProxy(
  proxy: NonNullable<AdviceContext['proxy']>,
  host: string,
  reason: string,
): NetworkAdvice {
  const step = 'connection'
  if (!proxy.connected) {
    const advice =
      'Check HTTPS_PROXY (for http: HTTP_PROXY), and whether the proxy is up. Hosts in NO_PROXY are called without it.'
    return { step, text: `no connection to the proxy ${proxy.host}${reason}`, advice }
  }
  const [, status = ''] = /response \((\d{3})\)/.exec(reason) ?? []
  const advice = PROXY_ANSWERS[status] ?? 'Check whether the proxy allows and reaches this host.'
  return { step, text: `the proxy ${proxy.host} made no connection to ${host}${reason}`, advice }
}

const FAR_SIDE =
  'The proxy does not reach this host. Check its name and its port in the URL, and whether the service is up.'
const PROXY_ANSWERS: Readonly<Record<string, string>> = {
  403: 'The proxy does not allow this host. Ask whoever runs it.',
  407: 'Check the user name and the password in HTTPS_PROXY (for http: HTTP_PROXY).',
  502: FAR_SIDE,
  503: FAR_SIDE,
  504: FAR_SIDE,
}

function proxyHint({ proxyHint: hint }: AdviceContext): string {
  return hint === undefined ? '' : ` ${hint}`
}

/** What lies below a request that was not answered in time. */
export function adviceForTimeout(context: AdviceContext): NetworkAdvice {
  const { host, connected, proxy } = context
  if (connected) {
    const advice = `${host} takes connections, but hangs or is slow: try again later, or give it more time by --timeout-ms.`
    return { step: 'answer', text: 'no answer in time', advice }
  }
  if (proxy !== undefined) return adviceForProxy(proxy, host, ', in time')
  const advice =
    'A firewall drops what is sent there, the address or the port in the URL is wrong, or what listens there does not ' +
    'speak TLS.'
  const general = ' Where a proxy leads out of this network, set HTTPS_PROXY and NODE_USE_ENV_PROXY=1.'
  return {
    step: 'connection',
    text: `no connection to ${host} in time`,
    advice: advice + (proxyHint(context) || general),
  }
}

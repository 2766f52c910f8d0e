/** How far the connection for a request came, as undici tells on its diagnostics channels. Node.js' fetch is undici. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { AdviceContext } from './advice-network.ts'
import type { Surroundings } from './terminal.ts'

/** What is known of a connection. */
export interface ConnectionFacts {
  /** The address, as `203.0.113.7:443`. */
  readonly address: string
  /** The version of TLS; undefined without TLS. */
  readonly tls: string | undefined
  /** The end of the server's certificate (epoch ms). */
  readonly certificateEndsAt: number | undefined
  /** The host that was connected to, where it is another: a proxy. */
  readonly proxy: string | undefined
}

type Message = {
  readonly connectParams?: { readonly host?: string }
  readonly request?: { readonly origin?: unknown }
  readonly socket: Socket | TLSSocket
}

/** A connection is there, or is not; a request goes out, perhaps on one that was there before. */
const CONNECTED = 'undici:client:connected'
const FAILED = 'undici:client:connectError'
const SENT = 'undici:client:sendHeaders'

/** What is seen of the connection for a request. */
export interface WatchedConnection {
  /** The connection on which the request went out; undefined where it did not. */
  facts(): ConnectionFacts | undefined
  /** What advice depends on. */
  context(): AdviceContext
  stop(): void
}

/**
 * Watches for the connection of a request to a URL, until it is told to stop.
 *
 * @param shown makes the names of hosts fit to be shown
 */
export function watchConnection(
  url: string,
  env: Surroundings['env'],
  shown: (text: string) => string,
): WatchedConnection {
  const { origin, host } = new URL(url)
  const usesProxies = isToldToUseProxies(env) && canUseProxies()
  let proxy: { readonly host: string; readonly connected: boolean } | undefined
  let facts: ConnectionFacts | undefined
  const noteProxy = (message: unknown, connected: boolean): void => {
    const to = (message as Message).connectParams?.host
    if (usesProxies && to !== undefined && to !== host) proxy = { host: to, connected }
  }
  const listeners = {
    [CONNECTED]: (message: unknown) => noteProxy(message, true),
    [FAILED]: (message: unknown) => noteProxy(message, false),
    [SENT]: (message: unknown) => {
      const { request, socket } = message as Message
      if (String(request?.origin) === origin) facts ??= factsOf(socket, proxy?.host)
    },
  }
  for (const [channel, listener] of Object.entries(listeners)) subscribe(channel, listener)
  return {
    facts: () => facts,
    context: () => ({
      host: shown(host),
      connected: facts !== undefined,
      proxy: proxy && { ...proxy, host: shown(proxy.host) },
      proxyHint: proxyHint(env),
    }),
    stop() {
      for (const [channel, listener] of Object.entries(listeners)) unsubscribe(channel, listener)
    },
  }
}

/** Whether Node.js was told to go by the variables that name proxies. */
function isToldToUseProxies(env: Surroundings['env']): boolean {
  const flags = [...process.execArgv, ...(env['NODE_OPTIONS'] ?? '').split(' ')]
  return env['NODE_USE_ENV_PROXY'] === '1' || flags.includes('--use-env-proxy')
}

/** Whether this Node.js can: 22.21 and 24.0 were the first. */
function canUseProxies(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major >= 24 || (major === 22 && minor >= 21)
}

/** What to say of a proxy that is named by a variable, and not used. */
function proxyHint(env: Surroundings['env']): string | undefined {
  const name = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'].find((variable) => env[variable])
  if (name === undefined || (isToldToUseProxies(env) && canUseProxies())) return undefined
  return canUseProxies()
    ? `${name} is set, but Node.js goes by it only with NODE_USE_ENV_PROXY=1.`
    : `${name} is set, but this Node.js does not go by it: 22.21 and 24 do, with NODE_USE_ENV_PROXY=1.`
}

function factsOf(socket: Socket | TLSSocket, proxy: string | undefined): ConnectionFacts {
  const { remoteAddress = '', remotePort = '', remoteFamily } = socket
  const isTls = 'getPeerCertificate' in socket
  const end = isTls ? Date.parse(socket.getPeerCertificate().valid_to) : Number.NaN
  return {
    address: `${remoteFamily === 'IPv6' ? `[${remoteAddress}]` : remoteAddress}:${remotePort}`,
    tls: isTls ? (socket.getProtocol() ?? undefined) : undefined,
    certificateEndsAt: Number.isNaN(end) ? undefined : end,
    proxy,
  }
}

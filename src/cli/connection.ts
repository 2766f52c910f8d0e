/** How far the connection for a request got, as undici, which is Node.js' fetch, reports on diagnostics channels. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import dns from 'node:dns'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { isLoopback } from '../environment/environment.ts'
import type { CommandContext } from './command.ts'

/** What is known about the connection for a request. The names of hosts are fit to be shown. */
export interface Connection {
  /** Host and port of the URL. */
  readonly host: string
  /** Whether that host is this machine. */
  readonly isLoopback: boolean
  /** The addresses that its name was resolved to so far. */
  resolvedTo?: string | undefined
  /** The proxy that was used, and whether it was reached. */
  proxy?: { readonly host: string; readonly connected: boolean }
  /** The connection on which the request was sent: its address, such as `203.0.113.7:443`, and what is known of its TLS. */
  socket?: { readonly address: string; readonly tls: string | undefined }
  /** A hint about a proxy that a variable names, but that is not used. */
  readonly proxyHint?: string | undefined
}

interface Message {
  readonly connectParams?: { readonly host?: string }
  readonly request?: { readonly origin?: unknown }
  readonly socket: Socket | TLSSocket
}

/**
 * Watches the connection for a request to a URL until it is stopped. The connection that it returns is up to date.
 *
 * @param show makes the names of hosts fit to be shown
 */
export function watchConnection(
  url: string,
  env: CommandContext['env'],
  show: (text: string) => string,
): { readonly connection: Connection; readonly stop: () => void } {
  const { origin, host, hostname } = new URL(url)
  const options = [...process.execArgv, env['NODE_OPTIONS']].join(' ')
  const isTooOld = /^22\.(?:1\d|20)\./.test(process.versions.node)
  const isUsed = !isTooOld && (env['NODE_USE_ENV_PROXY'] === '1' || options.includes('--use-env-proxy'))
  const connection: Connection = {
    host: show(host),
    isLoopback: isLoopback(hostname),
    proxyHint: isUsed || isLoopback(hostname) ? undefined : proxyHintFor(env),
  }
  dns.lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }, (error, addresses) => {
    if (error === null) connection.resolvedTo = addresses.map(({ address }) => address).join(', ')
  })
  const onConnect = ({ connectParams }: Message, connected: boolean): void => {
    const to = connectParams?.host
    if (isUsed && to !== undefined && to !== host) connection.proxy = { host: show(to), connected }
  }
  const listeners = Object.entries({
    'undici:client:connected': (message: unknown) => onConnect(message as Message, true),
    'undici:client:connectError': (message: unknown) => onConnect(message as Message, false),
    // The connection may have existed before.
    'undici:client:sendHeaders': (message: unknown) => {
      const { request, socket } = message as Message
      if (String(request?.origin) === origin) connection.socket ??= factsOf(socket)
    },
  })
  for (const [channel, listener] of listeners) subscribe(channel, listener)
  const stop = (): void => {
    for (const [channel, listener] of listeners) unsubscribe(channel, listener)
  }
  return { connection, stop }
}

function proxyHintFor(env: CommandContext['env']): string | undefined {
  const name = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'].find((variable) => env[variable])
  return (
    name &&
    `${name} is set, but Node.js before 22.21 cannot use it, and newer versions need NODE_USE_ENV_PROXY=1 in the ` +
      `environment. It does not matter for a host in NO_PROXY.`
  )
}

function factsOf(socket: Socket | TLSSocket): NonNullable<Connection['socket']> {
  const { remoteAddress = '', remotePort = '', remoteFamily } = socket
  const address = `${remoteFamily === 'IPv6' ? `[${remoteAddress}]` : remoteAddress}:${remotePort}`
  if (!('getPeerCertificate' in socket)) return { address, tls: undefined }
  const end = new Date(socket.getPeerCertificate().valid_to)
  const until = Number.isNaN(end.getTime()) ? undefined : end.toISOString().slice(0, 10)
  const validity = until === undefined ? '' : `, certificate valid until ${until}`
  return { address, tls: `${socket.getProtocol()}${validity}` }
}

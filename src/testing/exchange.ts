/** HTTP: the server, and one request with its response, whatever its client does meanwhile. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { ConfigurationError } from '../base/errors.ts'

/** How many connections may wait to be accepted: a test may start thousands of calls at once. */
const BACKLOG = 4096

/** A server that listens. */
export interface SandboxServer {
  /** `http://HOST:PORT`, as clients call it. */
  readonly origin: string
  /** Handles each request from now on. */
  handle(handler: (request: IncomingMessage, response: ServerResponse) => Promise<void>): void
  /** Ends all connections, even those in use. Resolves when all are closed, and all requests are handled. */
  stop(): Promise<void>
}

/** Where a server listens. */
interface Address {
  readonly host: string
  readonly port: number
  /** The name of the port's option, for the error. */
  readonly option: string
}

/**
 * Starts a server that handles no requests yet.
 *
 * @throws {@link ConfigurationError} if the host or the port is not available
 */
export async function startServer({ host, port, option }: Address): Promise<SandboxServer> {
  // With a keep-alive timeout, a connection could close just when its client sends the next request.
  const server = createServer({ keepAliveTimeout: 0 })
  const pending = new Set<Promise<void>>()
  const handle: SandboxServer['handle'] = (handler) => {
    server.on('request', (request, response) => {
      const handled = handler(request, response).finally(() => pending.delete(handled))
      pending.add(handled)
    })
  }
  const stop = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await Promise.all([closed, ...pending])
  }
  try {
    await once(server.listen({ port, host, backlog: BACKLOG }), 'listening')
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    const problem = PORT_CODES.includes(code)
      ? { option, reason: `cannot be listened on (${code}). Take another port, or 0 for a free one` }
      : {
          option: 'host',
          reason: `cannot be listened on (${code}). Take an address or a name of this machine`,
        }
    throw new ConfigurationError('The sandbox cannot start', [{ ...problem, kind: 'unavailable' }])
  }
  return { origin: `http://${callable(host)}:${(server.address() as AddressInfo).port}`, handle, stop }
}

/** The codes of errors that another port may avoid. */
const PORT_CODES = ['EADDRINUSE', 'EACCES']

/** The host in a URL. Nobody can call an address that stands for all of a machine: its first one in a network is taken. */
function callable(host: string): string {
  if (host === '0.0.0.0' || host === '::') {
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
    return addresses.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1'
  }
  return host.includes(':') ? `[${host}]` : host
}

/** A response, ready to be sent. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The error that it contains. */
  readonly error?: { readonly code: string; readonly description?: string }
}

export function jsonAnswer(status: number, json: unknown, more: Answer['headers'] = {}): Answer {
  const headers = { 'content-type': 'application/json', ...more }
  return { status, headers, body: Buffer.from(JSON.stringify(json)) }
}

/** Called just before a response's status and headers are sent. Returns headers to add. */
type OnBegin = (status: number, error: Answer['error']) => Answer['headers']

/** One request and its response. The client may leave at any time. */
export class Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Resolves when the response is sent, or when the connection closes before. */
  readonly over: Promise<void>
  readonly #onBegin: OnBegin

  constructor(request: IncomingMessage, response: ServerResponse, onBegin: OnBegin) {
    this.request = request
    this.response = response
    this.#onBegin = onBegin
    this.over = new Promise((resolve) => response.on('close', resolve))
    response.on('error', () => {}) // a write after the client has left
  }

  /** Whether the client has left. */
  get gone(): boolean {
    return this.request.socket.destroyed
  }

  /** Reads the body. Resolves with the part that arrived if the client leaves. */
  readBody(): Promise<Buffer> {
    const chunks: Buffer[] = []
    return new Promise((resolve) => {
      const end = (): void => resolve(Buffer.concat(chunks))
      this.request.on('data', (chunk: Buffer) => chunks.push(chunk))
      this.request.on('end', end)
      this.request.on('close', end) // the only event if the client leaves
    })
  }

  /** Resolves after `ms`, or as soon as the client leaves. */
  async wait(ms: number): Promise<void> {
    if (ms <= 0 || this.gone) return
    let timer: NodeJS.Timeout | undefined
    const waited = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.ceil(ms)) // setTimeout drops a fraction
    })
    await Promise.race([waited, this.over])
    clearTimeout(timer)
  }

  /** Sends status and headers; the caller sends the body. Returns false, and sends nothing, if the client has left. */
  begin({ status, headers, body, error }: Omit<Answer, 'body'> & { readonly body?: Buffer }): boolean {
    if (this.gone) return false
    const hasLength = body !== undefined && status !== 204 && status !== 304
    const length = hasLength ? { 'content-length': String(body.length) } : {}
    this.response.writeHead(status, { ...length, ...this.#onBegin(status, error), ...headers })
    return true
  }

  send(answer: Answer): void {
    if (this.begin(answer)) this.response.end(answer.body)
  }
}

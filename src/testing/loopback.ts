/** A server on 127.0.0.1: it listens, and it goes without leaving anything behind. */
import { createServer, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { ConfigurationError } from '../errors.ts'

/** So many connections may wait to be accepted: thousands of calls at once are a test, too. */
const BACKLOG = 4096

/** A server that listens. */
export interface LoopbackServer {
  readonly server: Server
  /** Ends all connections, those in use too, and resolves when nothing is left of them. */
  stop(): Promise<void>
}

/**
 * A server that listens on 127.0.0.1. It takes no requests yet.
 *
 * @param option the name of the option that the port comes from
 * @throws ConfigurationError where the port cannot be had
 */
export function listenOnLoopback(port: number, option: string): Promise<LoopbackServer> {
  // Without a keep-alive time-out no connection is closed just when its client sends the next request.
  const server = createServer({ keepAliveTimeout: 0 })
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.setMaxListeners(0) // every request that waits on it (HTTP/1.1 pipelining) listens for its end
    socket.on('close', () => sockets.delete(socket))
  })
  return new Promise((resolve, reject) => {
    server.once('error', ({ code }: NodeJS.ErrnoException) => {
      const reason = `cannot be listened on (${code}). Take another port, or 0 for a free one`
      reject(new ConfigurationError('The sandbox cannot start', [{ option, reason }]))
    })
    server.listen({ port, host: '127.0.0.1', backlog: BACKLOG }, () => {
      resolve({ server, stop: () => stop(server, sockets) })
    })
  })
}

async function stop(server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  // The server may say that it is closed before its sockets do, and their waits end with them.
  const closed = [server, ...sockets].map(
    (emitter) => new Promise((resolve) => emitter.once('close', resolve)),
  )
  server.close()
  for (const socket of sockets) socket.destroy()
  await Promise.all(closed)
}

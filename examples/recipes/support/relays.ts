/** Servers on loopback that pass bytes on: one that speaks TLS in front of a plain server, and one that listens in. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

/** A server that passes bytes on. */
export interface Relay extends AsyncDisposable {
  readonly port: number
  /** How many connections it has passed on. */
  readonly connections: number
}

/** Starts TLS in front of a plain server. With `requestCert` only clients with a certificate of `ca` get through. */
export function startTlsFront(targetPort: number, options: TlsOptions): Promise<Relay> {
  return listen((onSocket) => createTlsServer(options, onSocket), { targetPort })
}

/** Starts a relay that reports every byte that passes, in both directions. */
export function startTap(targetPort: number, onBytes: (bytes: Buffer) => void): Promise<Relay> {
  return listen((onSocket) => createServer(onSocket), { targetPort, onBytes })
}

async function listen(
  create: (onSocket: (socket: Socket) => void) => Server,
  { targetPort, onBytes }: { targetPort: number; onBytes?: (bytes: Buffer) => void },
): Promise<Relay> {
  let connections = 0
  const open = new Set<Socket>()
  const server = create((outer) => {
    connections += 1
    const inner = connect(targetPort, '127.0.0.1')
    for (const [one, other] of [
      [outer, inner],
      [inner, outer],
    ] as const) {
      open.add(one)
      if (onBytes !== undefined) one.on('data', onBytes)
      one.pipe(other)
      one.on('error', () => {}) // it closes, too
      one.on('close', () => {
        open.delete(one)
        other.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    async [Symbol.asyncDispose]() {
      server.close()
      for (const socket of open) socket.destroy()
      await once(server, 'close')
    },
  }
}

/** A TCP proxy that can lose an answer of the server, together with its connection. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'

export interface LossyProxy extends AsyncDisposable {
  readonly port: number
  /** Loses the next answer. */
  loseOne(): void
}

export async function openLossyProxy(to: number): Promise<LossyProxy> {
  let losing = false
  const sockets = new Set<{ destroy(): unknown }>()
  const server = createServer((near) => {
    const far = connect(to, '127.0.0.1')
    far.on('data', (answer) => {
      if (losing) near.destroy()
      else near.write(answer)
      losing = false
    })
    near.on('data', (command) => far.write(command))
    for (const [one, other] of [[near, far] as const, [far, near] as const]) {
      sockets.add(one)
      one.on('error', () => {})
      one.on('close', () => other.destroy())
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    loseOne: () => {
      losing = true
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

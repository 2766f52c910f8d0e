/** A way to a server on which an answer can get lost, with the connection that it came by. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'

export interface LossyPassage extends AsyncDisposable {
  readonly port: number
  /** The next answer is lost. */
  loseOne(): void
}

export async function openPassage(to: number): Promise<LossyPassage> {
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

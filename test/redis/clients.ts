/** The supported Redis clients, configured with nothing but an address. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import type { IORedisLike, NodeRedisLike } from 'merchant-auth/redis'
import { createClient, createCluster } from 'redis'

export const CLIENTS = ['node-redis', 'ioredis'] as const
export const LAYOUTS = ['single node', 'cluster'] as const
export type Client = (typeof CLIENTS)[number]
export type Layout = (typeof LAYOUTS)[number]

/** A client that connects and reconnects by itself. */
export interface Connection {
  readonly client: NodeRedisLike | IORedisLike
  /** Resolves when it is connected for the first time. */
  readonly ready: Promise<unknown>
  /** Closes it at once. */
  close(): void
  /** Closes it gracefully, which requires a Redis that answers. */
  quit(): Promise<unknown>
}

export function connect(client: Client, layout: Layout, ports: readonly number[]): Connection {
  return CONNECT[client][layout](ports)
}

const CONNECT: Record<Client, Record<Layout, (ports: readonly number[]) => Connection>> = {
  'node-redis': {
    'single node': ([port]) => {
      const client = createClient({ url: `redis://127.0.0.1:${port}` })
      const ready = client.connect().catch(() => {})
      return { client, ready, close: () => client.destroy(), quit: () => client.close() }
    },
    cluster: (ports) => {
      const client = createCluster({ rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })) })
      let closed = false
      // Unlike the other clients, it gives up if no node answers.
      const connected = async (): Promise<void> => {
        while (!closed && !client.isOpen) await client.connect().catch(() => sleep(50))
      }
      const close = (): void => {
        closed = true
        client.destroy()
      }
      return { client, ready: connected(), close, quit: () => client.close() }
    },
  },
  ioredis: {
    'single node': ([port = 0]) => withEvents(new Redis(port, '127.0.0.1')),
    cluster: (ports) => withEvents(new Cluster(ports.map((port) => ({ host: '127.0.0.1', port })))),
  },
}

function withEvents(client: Redis | Cluster): Connection {
  client.on('error', () => {}) // otherwise it logs them
  const ready = new Promise((resolve) => client.once('ready', () => resolve(undefined)))
  return { client, ready, close: () => client.disconnect(), quit: () => client.quit() }
}

/** Connections to Redis that are not open yet, cut, closed, or moved to another server. */
import { Cluster, Redis } from 'ioredis'
import type { AuthEvent } from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createClient, createCluster } from 'redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { eventually, failuresOf, onEachRedis } from './rig.ts'

/** The look failed, and the write, for which nobody waited: at once, and not by ETIMEDOUT. */
async function expectFailures(events: readonly AuthEvent[], code: string | undefined): Promise<void> {
  await eventually('the write to fail', async () => failuresOf(events).length > 1)
  expect(failuresOf(events)).toEqual([`get ${code}`, `set ${code}`])
}

onEachRedis((rig) => {
  describe('a client', () => {
    it.runIf(rig.client === 'node-redis')(
      'that is not connected yet fails no call and delays none',
      async () => {
        const urls = rig.redis.ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }))
        const [url] = urls
        const client = rig.layout === 'cluster' ? createCluster({ rootNodes: urls }) : createClient(url ?? {})
        const store = createRedisTokenStore(client)
        const { provider, events } = rig.start(store)
        await provider.getToken()
        await expectFailures(events, 'ClientClosedError')
        await client.connect()
        await rig.sharing(store, await rig.store())
        client.destroy()
      },
    )

    it.runIf(rig.client === 'ioredis')(
      'that connects with its first command works from the first call',
      // On a busy machine, connecting to a cluster may take longer than a store is waited for.
      { retry: rig.layout === 'cluster' ? 3 : 0 },
      async () => {
        const options = { lazyConnect: true }
        const [port = 0, ...others] = rig.redis.ports
        const nodes = [port, ...others].map((each) => ({ host: '127.0.0.1', port: each }))
        const client =
          rig.layout === 'cluster' ? new Cluster(nodes, options) : new Redis(port, '127.0.0.1', options)
        onTestFinished(() => client.disconnect())
        const { provider, events } = rig.start(createRedisTokenStore(client))
        await provider.getToken()
        expect(failuresOf(events)).toEqual([])
        await rig.written()
      },
    )

    it('whose connections are cut fails no call and reconnects', async () => {
      const stores = [await rig.store(), await rig.store()] as const
      await rig.sharing(...stores)
      await rig.every((server) => server.command('client', 'kill', 'type', 'normal'))
      await Promise.all(stores.map((store) => rig.start(store).provider.getToken()))
      await rig.sharing(...stores)
    })

    it('that its owner has closed fails no call and delays none', async () => {
      const { client, ready, close } = rig.connect()
      const store = createRedisTokenStore(client)
      await ready
      close()
      const { provider, events } = rig.start(store)
      await provider.getToken()
      await expectFailures(events, rig.client === 'node-redis' ? 'ClientClosedError' : undefined)
    })
  })
})

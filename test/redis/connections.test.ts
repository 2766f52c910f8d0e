/** Connections to Redis that are not open yet, cut, closed, or moved to another server. */
import { Cluster, Redis } from 'ioredis'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createClient, createCluster } from 'redis'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../support/redis-server.ts'
import { eventually, failuresOf, type Member, onEachRedis, sourcesOf } from './rig.ts'

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
        expect(failuresOf(events)).toEqual(['get undefined']) // not ETIMEDOUT
        await client.connect()
        await rig.sharing(store, await rig.store())
        client.destroy()
      },
    )

    it.runIf(rig.client === 'ioredis')(
      'that connects with its first command works from the first call',
      async () => {
        const options = { lazyConnect: true }
        const [port = 0, ...others] = rig.redis.ports
        const nodes = [port, ...others].map((each) => ({ host: '127.0.0.1', port: each }))
        const client =
          rig.layout === 'cluster' ? new Cluster(nodes, options) : new Redis(port, '127.0.0.1', options)
        const { provider, events } = rig.start(createRedisTokenStore(client))
        await provider.getToken()
        expect(failuresOf(events)).toEqual([])
        await rig.written()
        client.disconnect()
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
      expect(failuresOf(events)).toEqual(['get undefined']) // not ETIMEDOUT
    })
  })

  it.runIf(rig.layout === 'single node')('a replica that replaces its master serves the token', async () => {
    const [master] = rig.redis.servers
    if (master === undefined) throw new Error('There is no master')
    await master.command('config', 'set', 'repl-diskless-sync-delay', '0')
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] })
    try {
      const stores = [await rig.store(), await rig.store()] as const
      const during = rig.start(await rig.store())
      const [before, after] = stores.map((store) => rig.start(store)) as [Member, Member]
      const { value } = await before.provider.getToken()
      await rig.written()
      const { key } = await rig.tokenEntry()
      await eventually('the replica', async () => (await replica.command('exists', key)) === '1')
      await master.kill()
      await during.provider.getToken()
      await replica.command('replicaof', 'no', 'one')
      await replica.command('config', 'set', 'port', String(master.port)) // it takes over the address
      await eventually(
        'Redis',
        async () =>
          await stores[1].get('key').then(
            () => true,
            () => false,
          ),
      )
      expect((await after.provider.getToken()).value).toBe(value)
      expect(sourcesOf(after.events)).toEqual(['store'])
      await rig.sharing(...stores)
    } finally {
      await replica[Symbol.asyncDispose]()
      await master.restart()
    }
  })
})

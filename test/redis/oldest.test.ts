/** The oldest node-redis that is supported. Its cluster looks for the key of a script elsewhere than the later ones. */
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createCluster } from 'redis-4'
import { it } from 'vitest'
import { startRedisCluster } from '../support/redis-server.ts'
import { SKIPPED } from './rig.ts'

it.skipIf(SKIPPED)('a cluster of node-redis 4 asks the node that has the key', async ({ expect }) => {
  await using redis = await startRedisCluster()
  const client = createCluster({
    rootNodes: redis.ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })),
  })
  await client.connect()
  try {
    const store = createRedisTokenStore(client)
    for (let n = 0; n < 20; n += 1) {
      const release = await store.lease?.(`shop-${n}`, 10_000)
      await store.set(`shop-${n}`, String(n), 10_000)
      expect(await store.get(`shop-${n}`)).toMatchObject({ value: String(n) })
      await release?.()
    }
    const errors = await Promise.all(redis.servers.map((server) => server.command('info', 'errorstats')))
    expect(errors.join('')).not.toContain('MOVED')
  } finally {
    await client.disconnect()
  }
})

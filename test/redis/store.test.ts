/** The contract of a token store, on a real Redis. */
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { createRedisTokenStore, type IORedisLike, type NodeRedisLike } from 'merchant-auth/redis'
import { createClient, RESP_TYPES } from 'redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { describeTokenStore } from '../store/contract.ts'
import { startRedis } from '../support/redis-server.ts'
import { onEachRedis, SKIPPED } from './rig.ts'

const LONG_MS = 60_000

onEachRedis((rig) => {
  describeTokenStore(() => rig.store())

  describe('in Redis', () => {
    it('every key begins with the prefix, and stores with different prefixes share nothing', async () => {
      const { client, ready } = rig.connect()
      const [usual, own] = [
        createRedisTokenStore(client),
        createRedisTokenStore(client, { keyPrefix: 'shop:' }),
      ]
      await ready
      await usual.set('key', 'usual', LONG_MS)
      await own.set('key', 'own', LONG_MS)
      await usual.lease?.('key', LONG_MS)
      expect(await own.lease?.('key', LONG_MS)).toBeTypeOf('function')
      expect(await usual.get('key')).toMatchObject({ value: 'usual' })
      const keys = (await rig.entries()).map(({ key }) => key)
      const names = ['key', 'key:lease']
      const expected = ['merchant-auth:', 'shop:'].flatMap((prefix) => names.map((name) => prefix + name))
      expect(keys.sort()).toEqual(expected)
    })
  })
})

/** Clients that reply with other types, as a service sets it for its own use. */
const TYPED: Readonly<Record<string, (url: string) => Promise<NodeRedisLike | IORedisLike>>> = {
  'commandOptions of node-redis': async (url) => await opened(createClient({ url, commandOptions: TYPES })),
  'withTypeMapping of node-redis': async (url) =>
    (await opened(createClient({ url }))).withTypeMapping(TYPES.typeMapping),
  'stringNumbers of ioredis': async (url) => {
    const client = new Redis(url, { stringNumbers: true })
    onTestFinished(() => client.disconnect())
    await once(client, 'ready')
    return client
  },
}

const TYPES = {
  typeMapping: {
    [RESP_TYPES.BLOB_STRING]: Buffer,
    [RESP_TYPES.SIMPLE_STRING]: Buffer,
    [RESP_TYPES.NUMBER]: String,
  },
}

async function opened<C extends { connect(): Promise<unknown>; destroy(): void }>(client: C): Promise<C> {
  onTestFinished(() => client.destroy())
  await client.connect()
  return client
}

describe.skipIf(SKIPPED)('replies in other types', () => {
  it.each(Object.entries(TYPED))('are read: %s', async (_, open) => {
    await using redis = await startRedis()
    const store = createRedisTokenStore(await open(redis.url))
    expect(await store.get('key')).toBeUndefined()
    await store.set('key', 'value', LONG_MS)
    const found = await store.get('key')
    expect(found).toEqual({ value: 'value', ttlMs: expect.any(Number) })
    expect(found?.ttlMs).toBeGreaterThan(LONG_MS / 2)
    const release = await store.lease?.('key', LONG_MS)
    expect(await store.lease?.('key', LONG_MS)).toBeUndefined()
    await release?.()
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
  })
})

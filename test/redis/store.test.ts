/** The contract of a token store, on a real Redis. */
import { createRedisTokenStore } from 'merchant-auth/redis'
import { describe, expect, it } from 'vitest'
import { eventually, onEachRedis } from './rig.ts'

const LONG_MS = 60_000

onEachRedis((rig) => {
  describe('a value', () => {
    it('is visible to other stores with its remaining TTL, and can be replaced', async () => {
      const [one, other] = [await rig.store(), await rig.store()]
      expect(await one.get('key')).toBeUndefined()
      await one.set('key', 'value', LONG_MS)
      const found = await other.get('key')
      expect(found).toEqual({ value: 'value', ttlMs: expect.any(Number) })
      expect(found?.ttlMs).toBeLessThanOrEqual(LONG_MS)
      expect(found?.ttlMs).toBeGreaterThan(LONG_MS / 2)
      await other.set('key', 'newer', LONG_MS)
      expect(await one.get('key')).toMatchObject({ value: 'newer' })
    })

    it('is gone when its TTL is over', async () => {
      const store = await rig.store()
      await store.set('key', 'value', 30)
      await eventually('its end', async () => (await store.get('key')) === undefined)
    })
  })

  describe('a lease', () => {
    it('has a single holder until it is released', async () => {
      const [one, other] = [await rig.store(), await rig.store()]
      const release = await one.lease?.('key', LONG_MS)
      expect(await other.lease?.('key', LONG_MS)).toBeUndefined()
      expect(await one.lease?.('key', LONG_MS)).toBeUndefined()
      expect(await other.lease?.('another key', LONG_MS)).toBeTypeOf('function')
      await release?.()
      expect(await other.lease?.('key', LONG_MS)).toBeTypeOf('function')
    })

    it('is granted to one of many concurrent requests', async () => {
      const stores = await Promise.all(Array.from({ length: 8 }, () => rig.store()))
      const leases = await Promise.all(stores.map((store) => store.lease?.('key', LONG_MS)))
      expect(leases.filter((lease) => lease !== undefined)).toHaveLength(1)
    })

    it('expires by itself', async () => {
      const [one, other] = [await rig.store(), await rig.store()]
      await one.lease?.('key', 100)
      await eventually('its end', async () => (await other.lease?.('key', LONG_MS)) !== undefined)
    })

    it('is not released by a former holder', async () => {
      const [one, other, third] = [await rig.store(), await rig.store(), await rig.store()]
      const release = await one.lease?.('key', 1)
      await eventually('its end', async () => (await other.lease?.('key', LONG_MS)) !== undefined)
      await release?.()
      expect(await third.lease?.('key', LONG_MS)).toBeUndefined()
    })
  })

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

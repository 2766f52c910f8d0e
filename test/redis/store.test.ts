/** The contract of a token store, on a real Redis. */
import { createRedisTokenStore } from 'merchant-auth/redis'
import { describe, expect, it } from 'vitest'
import type { Release } from '../../src/store/token-store.ts'
import { type Entry, eventually, onEachRedis } from './rig.ts'

const LONG_MS = 60_000

onEachRedis((rig) => {
  describe('a value', () => {
    it('is visible to other stores with its remaining TTL until it is deleted', async () => {
      const [one, other] = [await rig.store(), await rig.store()]
      expect(await one.get('key')).toBeUndefined()
      await one.set('key', 'value', LONG_MS)
      const found = await other.get('key')
      expect(found).toEqual({ value: 'value', ttlMs: expect.any(Number) })
      expect(found?.ttlMs).toBeLessThanOrEqual(LONG_MS)
      expect(found?.ttlMs).toBeGreaterThan(LONG_MS / 2)
      await other.delete('key')
      expect(await one.get('key')).toBeUndefined()
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

  describe('a former lease holder', () => {
    it.each([
      ['acquired by another store', true],
      ['free', false],
    ])('writes nothing and deletes nothing: the lease is %s', async (_, isAcquired) => {
      const [one, other] = [await rig.store(), await rig.store()]
      await other.set('key', 'newer', LONG_MS)
      const lost: Release | undefined = await one.lease?.('key', 1)
      await eventually(
        'its end',
        async () => (await other.lease?.('key', isAcquired ? LONG_MS : 1)) !== undefined,
      )
      if (!isAcquired) await eventually('that end', async () => (await rig.entries()).length === 1)
      await lost?.set?.('older', LONG_MS, 0)
      expect(await other.get('key')).toMatchObject({ value: 'newer' })
      await lost?.delete?.()
      expect(await other.get('key')).toMatchObject({ value: 'newer' })
    })
  })

  it('the time that a write waited for Redis is subtracted from its TTL', async () => {
    const store = await rig.store()
    const lease: Release | undefined = await store.lease?.('key', LONG_MS)
    rig.every((server) => server.freeze())
    const written = lease?.set?.('value', LONG_MS, LONG_MS)
    await new Promise((resolve) => setImmediate(resolve))
    const from = performance.now() // the write has been sent
    await new Promise((resolve) => setTimeout(resolve, 300))
    const frozenMs = performance.now() - from
    rig.every((server) => server.thaw())
    await written
    const ttlMs = (await store.get('key'))?.ttlMs ?? 0
    expect(ttlMs).toBeLessThanOrEqual(LONG_MS - Math.floor(frozenMs) + 2) // whole milliseconds
    expect(ttlMs).toBeGreaterThan(LONG_MS / 2)
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
      const keys = (await rig.entries()).map(({ key }) => key.split('{')[0])
      expect(keys.sort()).toEqual(['merchant-auth:', 'merchant-auth:', 'shop:', 'shop:'])
    })

    it.runIf(rig.layout === 'cluster')('a token and its lease are in one slot', async () => {
      const store = await rig.store()
      for (const name of ['one', 'two', 'three']) {
        await store.set(name, 'value', LONG_MS)
        await store.lease?.(name, LONG_MS)
        const ofName = (await rig.entries()).filter(({ key }) => key.includes(name))
        const slotOf = ({ key, server }: Entry) => server.command('cluster', 'keyslot', key)
        expect(ofName).toHaveLength(2)
        expect(new Set(await Promise.all(ofName.map(slotOf))).size).toBe(1)
      }
    })
  })
})

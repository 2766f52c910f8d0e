/** The contract of a token store, on a real Redis. */
import { createRedisTokenStore } from 'merchant-auth/redis'
import { describe, expect, it } from 'vitest'
import { describeTokenStore } from '../store/contract.ts'
import { onEachRedis } from './rig.ts'

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

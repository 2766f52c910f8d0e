/** One token for processes that have a Redis in common: at the start, after a death, and after a rejection. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AccessToken, TokenStore } from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { describe, expect, inject, it } from 'vitest'
import { type Answer, granted, hang, MERCHANT_URL } from '../token/harness.ts'
import { type Entry, eventually, type Member, onEachRedis, PATIENT, sourcesOf } from './rig.ts'

const MEMBERS = 6
const LEASE_MS = 60_000

onEachRedis((rig) => {
  const tokensOf = async (members: readonly Member[]): Promise<Set<string>> => {
    const tokens = await Promise.all(members.map(({ provider }) => provider.getToken()))
    return new Set(tokens.map(({ value }) => value))
  }

  /** What the store calls the token that these tests have in common. */
  const nameOfToken = async (): Promise<string> => {
    const [first] = await rig.startAll(1)
    await first?.provider.getToken()
    await rig.written()
    const { key } = await rig.tokenEntry()
    await rig.begin()
    return key.slice(key.indexOf('{') + 1, -1)
  }

  describe('processes that start together', () => {
    it('make one token request, and have the token soon after it is there', async () => {
      const name = await nameOfToken()
      const observer = await rig.store()
      const members = await rig.startAll(MEMBERS)
      rig.endpoint.otherwise = late(400)
      const arrivals = members.map(async ({ provider }, n) => {
        await sleep(35 * n) // so that they do not look all at the same time
        await provider.getToken()
        return performance.now()
      })
      const all = Promise.all(arrivals)
      all.catch(() => {}) // where the test ends before them
      await eventually('the token', async () => (await observer.get(name)) !== undefined, 1)
      const appearedAt = performance.now()
      const waitsMs = (await all).map((at) => at - appearedAt)
      if (inject('quiet')) expect(Math.max(...waitsMs)).toBeLessThan(100)
      expect(rig.endpoint.count).toBe(1)
      expect((await tokensOf(members)).size).toBe(1)
      expect(members.flatMap(({ events }) => sourcesOf(events)).sort()).toEqual([
        'endpoint',
        ...Array.from({ length: MEMBERS - 1 }, () => 'store'),
      ])
    })

    /** One of them takes the lease, and dies. Resolves with the entry of the lease. */
    const dieAsking = async (): Promise<Entry> => {
      rig.endpoint.answers.push(hang)
      const { client, ready, close } = rig.connect()
      const limit = { ...PATIENT }
      const store = watching(createRedisTokenStore(client, PATIENT), () => {}, limit)
      const holder = rig.start(store, { timeoutMs: LEASE_MS, retries: 0 })
      await ready
      holder.provider.getToken().catch(() => {})
      await eventually('the request', async () => rig.endpoint.count === 1, 1)
      close()
      limit.operationTimeoutMs = 1 // the dead give nothing back
      const [lease] = (await rig.entries()).filter(({ key }) => key.endsWith(':lease'))
      if (lease === undefined) throw new Error('There is no lease')
      return lease
    }

    it('go on when the one that asks has died, once its lease is over: one of them asks', async () => {
      let looks = 0
      const stores = await Promise.all(Array.from({ length: MEMBERS }, () => rig.store()))
      const members = stores.map((store) =>
        rig.start(
          watching(store, () => {
            looks += 1
          }),
          { timeoutMs: LEASE_MS },
        ),
      )
      const { key, server } = await dieAsking()
      const leftMs = Number(await server.command('pttl', key))
      expect([leftMs > 0, leftMs <= LEASE_MS]).toEqual([true, true])
      const tokens = tokensOf(members)
      await eventually('all to wait', async () => looks >= 3 * MEMBERS)
      expect(rig.endpoint.count).toBe(1)
      await server.command('pexpire', key, '1')
      expect((await tokens).size).toBe(1)
      expect(rig.endpoint.count).toBe(2)
    })
  })

  describe('a token that an API rejected', () => {
    const renew = ({ provider }: Member, token: string) => provider.renewToken(token, { url: MERCHANT_URL })

    it.each(['at once', 'one after the other'])('is renewed once for all who ask %s', async (when) => {
      const members = await rig.startAll(MEMBERS)
      const [rejected = ''] = await tokensOf(members)
      const renewals: Promise<AccessToken | undefined>[] = []
      for (const member of members) {
        renewals.push(renew(member, rejected))
        if (when !== 'at once') await renewals.at(-1)
      }
      const renewed = await Promise.all(renewals)
      expect(new Set(renewed.map((token) => token?.value)).size).toBe(1)
      expect(renewed[0]?.value).toEqual(expect.not.stringMatching(rejected))
      expect(rig.endpoint.count).toBe(2)
      expect(await tokensOf(await rig.startAll(1))).toEqual(new Set([renewed[0]?.value]))
    })
  })
})

function late(ms: number): Answer {
  return async (init) => {
    await sleep(ms)
    return await granted()(init)
  }
}

/** The same store; before each look at an entry something is done. */
function watching(store: TokenStore, onLook: (key: string) => unknown, limit = PATIENT): TokenStore {
  return {
    get: async (key) => {
      await onLook(key)
      return await store.get(key)
    },
    set: (...entry) => store.set(...entry),
    delete: (key) => store.delete(key),
    lease: async (...lease) => await store.lease?.(...lease),
    get operationTimeoutMs() {
      return limit.operationTimeoutMs
    },
  }
}

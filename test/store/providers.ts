/** One token for processes that share a store: at the start, and after a rejection. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AccessToken, TokenStore } from 'merchant-auth'
import { describe, expect, inject, it } from 'vitest'
import { type Answer, granted, MERCHANT_URL, type ScriptedEndpoint } from '../token/harness.ts'
import { eventually } from './contract.ts'
import { type Process as Member, sourcesOf } from './fleet.ts'

const MEMBERS = 6

/** A store that processes share, and their token endpoint. */
export interface SharedStore {
  readonly endpoint: ScriptedEndpoint
  /** Empties the store. */
  begin(): Promise<void>
  /** Opens the store anew, as another process does. */
  store(): Promise<TokenStore>
  /** Starts a process. */
  start(store: TokenStore): Member
  startAll(count: number): Promise<Member[]>
}

export function describeProviders(rig: SharedStore): void {
  const tokensOf = async (members: readonly Member[]): Promise<Set<string>> => {
    const tokens = await Promise.all(members.map(({ provider }) => provider.getToken()))
    return new Set(tokens.map(({ value }) => value))
  }

  /** The store key of the token, which is the same in all these tests. */
  const tokenKey = async (): Promise<string> => {
    const store = await rig.store()
    let tokenKey = ''
    const set: TokenStore['set'] = async (key, ...entry) => {
      if (key.startsWith('v2.token')) tokenKey = key
      await store.set(key, ...entry)
    }
    const { provider } = rig.start({ ...store, set })
    await provider.getToken()
    await provider.close() // when it is written
    await rig.begin()
    return tokenKey
  }

  describe('processes that start together', () => {
    it('make one token request, and all have its token soon after it is written', async () => {
      const name = await tokenKey()
      const observer = await rig.store()
      const members = await rig.startAll(MEMBERS)
      rig.endpoint.otherwise = late(400)
      const arrivals = members.map(async ({ provider }, n) => {
        await sleep(35 * n) // so that they do not all poll at the same time
        await provider.getToken()
        return performance.now()
      })
      const all = Promise.all(arrivals)
      all.catch(() => {}) // if the test fails before they settle
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
  })

  describe('a token that an API rejected', () => {
    const renew = ({ provider }: Member, token: string) => provider.renewToken(token, { url: MERCHANT_URL })

    it.each(['at once', 'one after the other'])(
      'is renewed once for all processes that report it %s',
      async (when) => {
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
      },
    )
  })
}

function late(ms: number): Answer {
  return async (init) => {
    await sleep(ms)
    return await granted()(init)
  }
}

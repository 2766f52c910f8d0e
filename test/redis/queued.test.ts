/** What clients keep for a Redis that is away, and send when it is back, leaves nothing behind that nobody wants. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { expect, it } from 'vitest'
import * as z from 'zod/mini'
import type { Lease } from '../../src/store/safe-store.ts'
import { connect } from './clients.ts'
import { openPassage } from './lossy-passage.ts'
import { DEFAULTS, eventually, onEachRedis, type Rig } from './rig.ts'

const LONG_MS = 60_000

interface Absence {
  readonly name: string
  readonly leave: (rig: Rig) => Promise<unknown>
  readonly comeBack: (rig: Rig) => Promise<unknown>
}

const freeze = (rig: Rig) => rig.every((server) => server.freeze())
const restart = async (rig: Rig): Promise<void> => {
  await rig.every((server) => server.restart())
  await rig.redis.whole()
}

const ABSENCES: readonly Absence[] = [
  { name: 'hangs for a while', leave: freeze, comeBack: (rig) => rig.every((server) => server.thaw()) },
  { name: 'is away for a while', leave: (rig) => rig.every((server) => server.kill()), comeBack: restart },
  { name: 'dies with the commands received', leave: freeze, comeBack: restart },
]

onEachRedis((rig) => {
  it.each(ABSENCES)(
    'a Redis that $name has neither a lease nor a value left over',
    async ({ leave, comeBack }) => {
      const store = rig.safe(await rig.store(DEFAULTS))
      const leased = async (name: string): Promise<Lease> => {
        let lease: Lease | undefined
        await eventually('a lease', async () => {
          lease = await store.lease(name, LONG_MS).catch(() => undefined)
          return lease !== undefined
        })
        return lease as Lease
      }
      const released = await leased('released')
      const written = await leased('written')
      await leave(rig)
      const content = 'value'
      await Promise.all([
        expect(store.lease('acquired', LONG_MS)).rejects.toThrow(),
        expect(released.release()).rejects.toThrow(),
        // its time is over when Redis comes back
        expect(store.write('written', { content, ttlMs: () => 200, lease: written })).rejects.toThrow(),
      ])
      await sleep(200)
      await comeBack(rig)
      for (const name of ['written', 'acquired', 'released']) {
        await eventually('Redis', async () => {
          const [place] = store.placesOf(name)
          return (await store.read(place, z.string()).catch(() => 'away')) === undefined
        })
      }
      await eventually('the end of the leases', async () => {
        const keys = (await rig.entries()).map(({ key }) => key)
        return keys.every((key) => key.includes('written') && key.endsWith(':lease'))
      })
    },
  )

  it.runIf(rig.layout === 'single node')(
    'a lease whose answer is lost is had, or is free again',
    async () => {
      await using passage = await openPassage(rig.redis.ports[0] ?? 0)
      const { client, ready, close } = connect(rig.client, rig.layout, [passage.port])
      const store = createRedisTokenStore(client, { operationTimeoutMs: LONG_MS })
      await ready
      await store.get('key')
      passage.loseOne()
      const giveBack = await store.lease?.('key', LONG_MS).catch(() => undefined)
      if (giveBack !== undefined) {
        await store.set('key', 'value', LONG_MS)
        expect(await store.get('key')).toMatchObject({ value: 'value' })
        await giveBack()
      }
      await eventually('the end of the lease', async () =>
        (await rig.entries()).every(({ key }) => !key.endsWith(':lease')),
      )
      close()
    },
  )
})

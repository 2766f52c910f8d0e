/** Commands that clients queue during an outage of Redis, and send afterwards, leave no stale lease or value. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { expect, it } from 'vitest'
import * as z from 'zod/mini'
import type { Lease } from '../../src/store/safe-store.ts'
import { connect } from './clients.ts'
import { openLossyProxy } from './lossy-proxy.ts'
import { DEFAULTS, eventually, onEachRedis, type Rig } from './rig.ts'

const LONG_MS = 60_000

interface Outage {
  readonly name: string
  readonly begin: (rig: Rig) => Promise<unknown>
  readonly end: (rig: Rig) => Promise<unknown>
}

const freeze = (rig: Rig) => rig.every((server) => server.freeze())
const restart = async (rig: Rig): Promise<void> => {
  await rig.every((server) => server.restart())
  await rig.redis.whole()
}

const OUTAGES: readonly Outage[] = [
  { name: 'hangs for a while', begin: freeze, end: (rig) => rig.every((server) => server.thaw()) },
  { name: 'is down for a while', begin: (rig) => rig.every((server) => server.kill()), end: restart },
  { name: 'is killed with received commands pending', begin: freeze, end: restart },
]

onEachRedis((rig) => {
  it.each(OUTAGES)('a Redis server that $name keeps no stale lease or value', async ({ begin, end }) => {
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
    await begin(rig)
    const content = 'value'
    await Promise.all([
      expect(store.lease('acquired', LONG_MS)).rejects.toThrow(),
      expect(released.release()).rejects.toThrow(),
      // its TTL is over when Redis comes back
      expect(store.write('written', { content, ttlMs: () => 200, lease: written })).rejects.toThrow(),
    ])
    await sleep(200)
    await end(rig)
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
  })

  it.runIf(rig.layout === 'single node')('a lease whose answer is lost is usable or free again', async () => {
    await using proxy = await openLossyProxy(rig.redis.ports[0] ?? 0)
    const { client, ready, close } = connect(rig.client, rig.layout, [proxy.port])
    const store = createRedisTokenStore(client, { operationTimeoutMs: LONG_MS })
    await ready
    await store.get('key')
    proxy.loseOne()
    const release = await store.lease?.('key', LONG_MS).catch(() => undefined)
    if (release !== undefined) {
      await store.set('key', 'value', LONG_MS)
      expect(await store.get('key')).toMatchObject({ value: 'value' })
      await release()
    }
    await eventually('the end of the lease', async () =>
      (await rig.entries()).every(({ key }) => !key.endsWith(':lease')),
    )
    close()
  })
})

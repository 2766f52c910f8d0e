/** What the store on Redis does as the owner of a lease, and as one who has lost it. */
import { describe, expect, it } from 'vitest'
import type { RunScript } from '../../src/store/redis-client.ts'
import { RedisTokenStore } from '../../src/store/redis-token-store.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { SimulatedRedis } from '../support/simulated-redis.ts'
import { rejection } from '../token/harness.ts'

describe('the store on Redis', () => {
  function made() {
    const clock = new ManualClock()
    const redis = new SimulatedRedis(() => clock.monotonicMs())
    const sent: (readonly (string | number)[])[] = []
    let fault: undefined | (() => Promise<unknown>)
    const run: RunScript = async (script, keys, args) => {
      sent.push(args)
      return fault === undefined ? redis.execute(script, keys, args) : await fault()
    }
    const options = { keyPrefix: 'p:', operationTimeoutMs: 250, clock }
    return {
      clock,
      redis,
      sent,
      store: new RedisTokenStore(run, options),
      other: new RedisTokenStore(run, options),
      fail: (how: typeof fault) => {
        fault = how
      },
    }
  }

  it('writes as the owner of the lease, and not when it has lost it', async () => {
    const { clock, store, other } = made()
    await store.lease('k', 1_000)
    await clock.advance(999)
    await store.set('k', 'mine', 5_000)
    expect(await store.get('k')).toMatchObject({ value: 'mine' })
    await clock.advance(1)
    await other.lease('k', 1_000)
    await other.set('k', 'newer', 5_000)
    await store.set('k', 'older', 5_000)
    expect(await store.get('k')).toMatchObject({ value: 'newer' })
    await store.delete('k')
    expect(await store.get('k')).toMatchObject({ value: 'newer' })
  })

  it('removes as the owner of the lease', async () => {
    const { sent, store } = made()
    await store.set('k', 'v', 5_000)
    await store.lease('k', 1_000)
    sent.length = 0
    await store.delete('k')
    expect(await store.get('k')).toBeUndefined()
    expect(sent[0]).toEqual([expect.any(String)]) // its name as the owner
  })

  it('writes nothing once its lease has run out, though nobody has another', async () => {
    const { clock, store } = made()
    await store.lease('k', 1_000)
    await clock.advance(1_000)
    await store.set('k', 'late', 5_000)
    expect(await store.get('k')).toBeUndefined()
  })

  it('gives back its own lease alone, and then writes as anybody', async () => {
    const { clock, redis, store, other } = made()
    const release = await store.lease('k', 1_000)
    await clock.advance(1_000)
    await other.lease('k', 1_000)
    await release?.()
    expect(redis.keys()).toEqual(['p:{k}:lease'])
    await store.set('k', 'v', 5_000)
    expect(await store.get('k')).toMatchObject({ value: 'v' })
  })

  it('does not forget a lease for the sake of an older one that is given back late', async () => {
    const { clock, store } = made()
    const release = await store.lease('k', 1_000)
    await clock.advance(1_000)
    await store.lease('k', 1_000)
    await release?.()
    await clock.advance(1_000)
    await store.set('k', 'late', 5_000)
    expect(await store.get('k')).toBeUndefined()
  })

  it('gives an entry that is written late as much less time', async () => {
    const { clock, redis, store } = made()
    await store.lease('k', 10_000)
    await clock.advance(2_000)
    const late = new RedisTokenStore(
      async (script, keys, args) => {
        await clock.sleep(400)
        return redis.execute(script, keys, args)
      },
      { keyPrefix: 'p:', operationTimeoutMs: 250, clock },
    )
    const leasing = late.lease('l', 10_000)
    await clock.advance(400)
    await leasing
    await clock.advance(1_000)
    const writing = late.set('l', 'v', 5_000)
    await clock.advance(400)
    await writing
    expect((await store.get('l'))?.ttlMs).toBe(4_600)
  })

  it('gives back a lease whose answer was lost, and tells of that failure alone', async () => {
    const { redis, sent, store, fail } = made()
    fail(async () => {
      throw new Error('lost')
    })
    expect(await rejection(store.lease('k', 1_000))).toMatchObject({ message: 'lost' })
    await settled()
    expect(sent).toEqual([[expect.any(String), 1_000, ''], [sent[0]?.[0]]])
    fail(undefined)
    expect(redis.keys()).toEqual([])
  })

  it('has another name for itself in each lease', async () => {
    const { sent, store } = made()
    await store.lease('k', 1_000)
    await store.lease('l', 1_000)
    expect(new Set(sent.map(([owner]) => owner)).size).toBe(2)
  })

  it.each([
    ['nothing', [null, -2], undefined],
    ['nothing at all', [undefined, -2], undefined],
    ['a value as bytes', [Buffer.from('v'), 500], { value: 'v', ttlMs: 500 }],
    ['a time as text', ['v', '500'], { value: 'v', ttlMs: 500 }],
    ['an entry without an end', ['v', -1], { value: 'v', ttlMs: -1 }],
  ])('reads %s', async (_, answer, found) => {
    const { store, fail } = made()
    fail(async () => answer)
    expect(await store.get('k')).toEqual(found)
  })

  it('sends whole milliseconds', async () => {
    const { sent, store } = made()
    await store.set('k', 'v', 999.7)
    await store.lease('k', 0.5)
    expect(sent.map(([, ms]) => ms)).toEqual([999, 1])
  })
})

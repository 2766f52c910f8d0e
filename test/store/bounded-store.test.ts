import { MessageChannel } from 'node:worker_threads'
import type { TokenStore } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { BoundedStore } from '../../src/store/bounded-store.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { FAILURES, MemoryStore, slow } from './memory-store.ts'

const OPERATIONS = {
  get: (store: TokenStore) => store.get('k'),
  set: (store: TokenStore) => store.set('k', 'v', 1),
  delete: (store: TokenStore) => store.delete('k'),
  lease: (store: TokenStore) => Promise.resolve(store.lease?.('k', 1_000)),
}
const names = Object.keys(OPERATIONS) as (keyof typeof OPERATIONS)[]

function made({ leases = true } = {}) {
  const clock = new ManualClock()
  const inner = new MemoryStore(clock, { leases })
  return { clock, inner, store: new BoundedStore(inner, clock) }
}

describe('a bounded store', () => {
  it('does not take a store for a slow one where the process stood still', async () => {
    const get = async () => {
      await new Promise((resolve) => setImmediate(resolve)) // as node-redis does before it sends
      await new Promise((resolve) => setTimeout(resolve, 2))
      return undefined
    }
    const store = new BoundedStore({ get, set: async () => {}, delete: async () => {} }, systemClock)
    const answer = store.get('k')
    const until = performance.now() + 300
    while (performance.now() < until);
    await expect(answer).resolves.toBeUndefined()
  })

  it('does what the store does, with the same arguments', async () => {
    const { clock, inner, store } = made()
    await store.set('k', 'v', 500)
    await clock.advance(200)
    expect(await store.get('k')).toEqual({ value: 'v', ttlMs: 300 })
    const release = await store.lease?.('k', 700)
    expect([release, await store.lease?.('k', 700)]).toEqual([expect.any(Function), undefined])
    expect(await release?.()).toBeUndefined()
    await store.delete('k')
    expect(await store.get('k')).toBeUndefined()
    expect(inner.asked).toEqual([
      { operation: 'set', key: 'k', ttlMs: 500 },
      { operation: 'get', key: 'k' },
      { operation: 'lease', key: 'k', ttlMs: 700 },
      { operation: 'lease', key: 'k', ttlMs: 700 },
      { operation: 'release', key: 'k' },
      { operation: 'delete', key: 'k' },
      { operation: 'get', key: 'k' },
    ])
    expect(clock.sleeping).toBe(0)
  })

  it('has a lease where the store has one', () => {
    expect(made({ leases: false }).store.lease).toBeUndefined()
    expect(made().store.lease).toBeTypeOf('function')
  })

  it.each(names)('takes what %s throws for a rejection', async (name) => {
    const { clock, inner, store } = made()
    inner.faults[name] = FAILURES.throws
    expect(await rejection(OPERATIONS[name](store))).toMatchObject({ code: 'ECONNREFUSED' })
    expect(clock.sleeping).toBe(0)
  })

  it.each(names)('ends an operation that hangs after 250 ms: %s', async (name) => {
    const { clock, inner, store } = made()
    inner.faults[name] = FAILURES.hangs
    let error: unknown
    const ended = rejection(OPERATIONS[name](store)).then((reason) => {
      error = reason
    })
    await clock.advance(249)
    expect(error).toBeUndefined()
    await clock.advance(1)
    await ended
    expect(error).toMatchObject({ code: 'ETIMEDOUT', message: 'The token store did not answer in time' })
    expect(clock.sleeping).toBe(0)
  })

  it('ends giving back a lease in the same way', async () => {
    const { clock, inner, store } = made()
    inner.faults.release = FAILURES.hangs
    const release = await store.lease?.('k', 1_000)
    const ended = rejection(Promise.resolve(release?.()))
    await clock.advance(250)
    expect(await ended).toMatchObject({ code: 'ETIMEDOUT' })
  })

  it("goes by the store's own limit, as it is at the time", async () => {
    const { clock, inner, store } = made()
    expect(store.operationTimeoutMs).toBe(250)
    for (const ms of [40, 3_000]) {
      inner.operationTimeoutMs = ms
      inner.faults.get = FAILURES.hangs
      expect(store.operationTimeoutMs).toBe(ms)
      const ended = rejection(store.get('k'))
      const from = clock.monotonicMs()
      await clock.advance(ms)
      await ended
      expect(clock.monotonicMs() - from).toBe(ms)
    }
  })

  it('gives a lease back that comes too late, and raises nothing where that fails', async () => {
    for (const release of [undefined, FAILURES.throws, FAILURES.rejects, FAILURES.hangs]) {
      const { clock, inner, store } = made()
      inner.faults.lease = slow(clock, 400)
      inner.faults.release = release
      const ended = rejection(OPERATIONS.lease(store))
      await clock.advance(250)
      await ended
      await clock.advance(1_000)
      expect(inner.operations).toEqual(['lease', 'release'])
      expect(clock.sleeping).toBe(0)
    }
  })

  it('has nothing to give back where the late answer is that another holds the lease', async () => {
    const { clock, inner, store } = made()
    inner.hold('k', 60_000)
    inner.faults.lease = slow(clock, 400)
    const ended = rejection(OPERATIONS.lease(store))
    await clock.advance(1_000)
    await ended
    expect(inner.operations).toEqual(['lease'])
  })

  it('hears an answer that arrived while the process stood still, past the limit', async () => {
    const { inner } = made()
    const { port1, port2 } = new MessageChannel()
    inner.operationTimeoutMs = 5
    inner.faults.get = () =>
      new Promise((resolve) => {
        port2.once('message', resolve)
        port1.postMessage({ value: 'v', ttlMs: 1 })
      })
    await new Promise((go) => setImmediate(go)) // then come the timers, and then what has arrived
    const waiting = new BoundedStore(inner, systemClock).get('k')
    const until = performance.now() + 20
    while (performance.now() < until); // nothing else of this process runs
    expect(await waiting).toEqual({ value: 'v', ttlMs: 1 })
    port1.close()
  })

  it('leaves nothing behind that could be heard of later', async () => {
    const { clock, inner, store } = made()
    inner.faults.get = async () => {
      await clock.sleep(300)
      throw new Error('late')
    }
    const ended = rejection(store.get('k'))
    await clock.advance(250)
    await ended
    await clock.advance(50) // an unhandled rejection would end this run
    await settled()
    expect(clock.sleeping).toBe(0)
  })
})

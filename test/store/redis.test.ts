/** The Redis store: the clients that it accepts, its options, and what it does as the owner of a lease. */
import { EventEmitter } from 'node:events'
import { Cluster, Redis } from 'ioredis'
import {
  createRedisTokenStore,
  type IORedisLike,
  type NodeRedisLike,
  type TokenStore,
} from 'merchant-auth/redis'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import type { RunScript } from '../../src/store/redis-scripts.ts'
import { SafeStore } from '../../src/store/safe-store.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { problemsIn, thrownBy } from '../support/problems.ts'
import { redisClient, SimulatedRedis } from '../support/simulated-redis.ts'
import { rejection } from '../token/harness.ts'
import { Fleet, quiet } from './fleet.ts'

/** The part of a node-redis client that the store uses. */
class NodeRedis extends EventEmitter implements NodeRedisLike {
  readonly isOpen = true
  readonly #redis: SimulatedRedis
  constructor(redis: SimulatedRedis) {
    super()
    this.#redis = redis
  }
  async eval(script: string, { keys, arguments: args }: { keys: string[]; arguments: string[] }) {
    return this.#redis.execute(script, keys, args)
  }
  sendCommand(): void {}
}

/** The part of an ioredis client that the store uses. */
const ioRedis = (redis: SimulatedRedis): IORedisLike =>
  redisClient(async (script, keys, args) => redis.execute(script, keys, args))

const CLIENTS = [
  ['redis', (redis: SimulatedRedis) => new NodeRedis(redis)],
  ['ioredis', ioRedis],
] as const

describe.each(CLIENTS)('a store on a client from %s', (_, clientOf) => {
  it.each(['', 'shop:'])('uses the key prefix "%s"', async (keyPrefix) => {
    const redis = new SimulatedRedis(() => 0)
    await createRedisTokenStore(clientOf(redis), { keyPrefix }).set('k', 'v', 1)
    expect(redis.keys()).toEqual([`${keyPrefix}{k}`])
  })
})

describe('createRedisTokenStore', () => {
  const client = ioRedis(new SimulatedRedis(() => 0))
  const problemsOf = (given: unknown, options?: unknown): string[] => {
    const make = () => createRedisTokenStore(given as IORedisLike, options as object)
    const error = thrownBy(make)
    if (error !== undefined) expect(String(error)).toMatch(/: The .*Redis token store cannot be used:/)
    return problemsIn(make).map(({ option, reason }) => {
      expect(reason, option).toMatch(/^(?:must be|is not an option)/)
      return option
    })
  }

  it.each([
    ['a node-redis client', () => createClient()],
    ['a node-redis pool', () => createClientPool()],
    ['a node-redis cluster', () => createCluster({ rootNodes: [] })],
    ['a node-redis sentinel', () => createSentinel({ name: 'main', sentinelRootNodes: [] })],
    ['an ioredis client', () => new Redis({ lazyConnect: true })],
    ['an ioredis cluster', () => new Cluster([{ port: 1 }], { lazyConnect: true })],
  ])('accepts %s before it is connected', (_, make) => {
    expect(problemsOf(make())).toEqual([])
  })

  it.each([
    [undefined],
    [null],
    ['redis://localhost'],
    [{}],
    [{ eval: () => {} }],
    [{ eval: () => {}, call: () => {} }],
    [{ eval: () => {}, sendCommand: () => {} }],
    [{ eval: () => {}, status: 'ready', isOpen: true }],
    [{ eval: 'eval', call: () => {}, status: 'ready' }],
    [Redis], // the class, whose prototype alone has the methods
  ])('rejects a value that is not a supported client: %j', (given) => {
    expect(problemsOf(given)).toEqual(['client'])
  })

  it.each([
    [{ keyPrefix: 5 }, ['keyPrefix']],
    [{ keyPrefix: 'a{b}' }, ['keyPrefix']],
    [{ keyPrefix: 'a}' }, ['keyPrefix']],
    [{ operationTimeoutMs: 0 }, ['operationTimeoutMs']],
    [{ operationTimeoutMs: 2 ** 31 }, ['operationTimeoutMs']],
    [{ operationTimeoutMs: Number.NaN }, ['operationTimeoutMs']],
    [{ operationTimeoutMs: '250' }, ['operationTimeoutMs']],
    [{ prefix: 'a' }, ['prefix']],
    [null, ['options']],
    [{ keyPrefix: '{', operationTimeoutMs: -1 }, ['keyPrefix', 'operationTimeoutMs']],
  ])('reports all problems of client and options at once: %j', (options, names) => {
    expect(problemsOf(client, options)).toEqual(names)
    expect(problemsOf({}, options).sort()).toEqual(['client', ...names].sort())
  })

  it('has an operationTimeoutMs of 250 ms unless the options set one', () => {
    expect(createRedisTokenStore(client).operationTimeoutMs).toBe(250)
    expect(createRedisTokenStore(client, { operationTimeoutMs: 40 }).operationTimeoutMs).toBe(40)
  })

  it.each([0, 1])('adds one error listener to a node-redis client that has none (it has %i)', (count) => {
    const nodeRedis = new NodeRedis(new SimulatedRedis(() => 0))
    if (count === 1) nodeRedis.on('error', () => {})
    for (let time = 0; time < 3; time += 1) createRedisTokenStore(nodeRedis)
    expect(nodeRedis.listenerCount('error')).toBe(1)
    expect(() => nodeRedis.emit('error', new Error('lost'))).not.toThrow()
  })

  it.each([{}, { listenerCount: () => 0 }])(
    'accepts a client without methods for listeners: %j',
    (listeners) => {
      const { isOpen, eval: run } = new NodeRedis(new SimulatedRedis(() => 0))
      expect(problemsOf({ isOpen, eval: run, sendCommand: () => {}, ...listeners })).toEqual([])
    },
  )
})

describe('the Redis store', () => {
  const lost: RunScript = () => Promise.reject(new Error('lost'))

  function made() {
    const clock = new ManualClock()
    const redis = new SimulatedRedis(() => clock.monotonicMs())
    const sent: (readonly (string | number)[])[] = []
    const execute: RunScript = async (script, keys, args) => redis.execute(script, keys, args)
    let answer = execute
    const run: RunScript = (script, keys, args) => {
      sent.push(args)
      return answer(script, keys, args)
    }
    const context = { client: '', encryptionKeys: ['swordfish'], clock, emit: () => {}, secrets: [] }
    const start = () => {
      const store = createRedisTokenStore(redisClient(run), { keyPrefix: 'p:', operationTimeoutMs: 5_000 })
      return Object.assign(new SafeStore(store, context), { raw: store })
    }
    const [one, other] = [start(), start()]
    const [place] = one.placesOf('token')
    const found = async (): Promise<{ content?: string; ttlMs?: number }> =>
      (await one.read(place, z.string())) ?? {}
    const answerWith = (how: RunScript): void => {
      answer = how
    }
    return { clock, redis, sent, one, other, place, found, execute, answerWith }
  }

  it('writes and deletes as the owner of the lease, and not while another process holds it', async () => {
    const { clock, one, other, place, found } = made()
    const lease = await one.lease('token', 1_000)
    await clock.advance(999)
    await one.write('token', { content: 'mine', ttlMs: () => 5_000, lease })
    expect(await found()).toMatchObject({ content: 'mine' })
    await clock.advance(1)
    const newer = await other.lease('token', 1_000)
    await other.write('token', { content: 'newer', ttlMs: () => 5_000, lease: newer })
    await one.write('token', { content: 'older', ttlMs: () => 5_000, lease })
    await one.delete(place, lease)
    expect(await found()).toMatchObject({ content: 'newer' })
    await other.delete(place, newer)
    expect(await found()).toEqual({})
  })

  it('writes as the owner of the lease through set() and delete(), which a wrapping store calls', async () => {
    const { clock, one, other } = made()
    const release = await one.raw.lease?.('k', 1_000)
    await one.raw.set('k', 'mine', 5_000)
    expect(await one.raw.get('k')).toMatchObject({ value: 'mine' })
    await clock.advance(1_000)
    await other.raw.lease?.('k', 1_000)
    await other.raw.set('k', 'newer', 5_000)
    await one.raw.set('k', 'older', 5_000)
    await one.raw.delete('k')
    expect(await other.raw.get('k')).toMatchObject({ value: 'newer' })
    await release?.()
    await one.raw.delete('k') // without a lease any process may
    expect(await other.raw.get('k')).toBeUndefined()
  })

  it('does not bypass the set() of a store that wraps it', async () => {
    const { one, redis } = made()
    const written: string[] = []
    const wrapper: TokenStore = {
      get: (key) => one.raw.get(key),
      set: (key, value, ttlMs) => {
        written.push(value)
        return one.raw.set(key, value, ttlMs)
      },
      delete: (key) => one.raw.delete(key),
      lease: async (key, ttlMs) => await one.raw.lease?.(key, ttlMs),
    }
    const fleet = new Fleet()
    await fleet.start({ store: wrapper }).provider.getToken()
    await quiet()
    expect([written.length, redis.keys().length]).toEqual([1, 1])
  })

  it('writes nothing with an expired lease while the same process holds a newer one', async () => {
    const { clock, one, found } = made()
    const first = await one.lease('token', 1_000)
    await clock.advance(1_000)
    const second = await one.lease('token', 1_000)
    await one.write('token', { content: 'older', ttlMs: () => 5_000, lease: first })
    expect(await found()).toEqual({})
    await first?.release()
    await one.write('token', { content: 'newer', ttlMs: () => 5_000, lease: second })
    expect(await found()).toMatchObject({ content: 'newer' })
  })

  it('subtracts the delay of a write from the TTL of its entry', async () => {
    const { clock, one, found, execute, answerWith } = made()
    answerWith((...script) => clock.sleep(400).then(() => execute(...script)))
    const leasing = one.lease('token', 10_000)
    await clock.advance(400)
    const lease = await leasing
    await clock.advance(1_000)
    const writing = one.write('token', { content: 'v', ttlMs: () => 5_000, lease })
    await quiet()
    await clock.advance(400)
    await writing
    answerWith(execute)
    expect(await found()).toMatchObject({ ttlMs: 4_600 })
  })

  it('releases a lease whose answer was lost, and rejects with the error of that answer', async () => {
    const { redis, sent, one, answerWith } = made()
    answerWith(lost)
    expect(await rejection(Promise.resolve(one.raw.lease?.('k', 1_000)))).toMatchObject({ message: 'lost' })
    await settled()
    expect(sent).toEqual([[expect.any(String), '1000', ''], [sent[0]?.[0]]])
    expect(redis.keys()).toEqual([])
  })

  it('acquires a lease again that it could not release', async () => {
    const { one, other, execute, answerWith } = made()
    const release = await one.raw.lease?.('k', 1_000)
    answerWith(lost)
    await rejection(Promise.resolve(release?.()))
    answerWith(execute)
    expect(await other.raw.lease?.('k', 1_000)).toBeUndefined()
    expect(await one.raw.lease?.('k', 1_000)).toBeTypeOf('function')
    expect(await one.raw.lease?.('k', 1_000)).toBeUndefined()
  })

  it('uses a different owner ID for each lease', async () => {
    const { sent, one } = made()
    await one.raw.lease?.('k', 1_000)
    await one.raw.lease?.('l', 1_000)
    expect(new Set(sent.map(([owner]) => owner)).size).toBe(2)
  })

  it.each([
    ['null as no entry', [null, -2], undefined],
    ['undefined as no entry', [undefined, -2], undefined],
    ['a value in bytes', [Buffer.from('v'), 500], { value: 'v', ttlMs: 500 }],
    ['a TTL as a string', ['v', '500'], { value: 'v', ttlMs: 500 }],
    ['an entry without a TTL', ['v', -1], { value: 'v', ttlMs: -1 }],
  ])('reads %s', async (_, answer, found) => {
    const { one, answerWith } = made()
    answerWith(async () => answer)
    expect(await one.raw.get('k')).toEqual(found)
  })

  it('sends whole milliseconds', async () => {
    const { sent, one } = made()
    await one.raw.set('k', 'v', 999.7)
    await one.raw.lease?.('k', 0.5)
    expect(sent.map(([, ms]) => ms)).toEqual(['999', '1'])
  })
})

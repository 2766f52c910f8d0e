/** The store on Redis, by clients that are no more than the shape that it asks for. */
import { EventEmitter } from 'node:events'
import { Cluster, Redis } from 'ioredis'
import { ConfigurationError } from 'merchant-auth'
import { createRedisTokenStore, type IORedisLike, type NodeRedisLike } from 'merchant-auth/redis'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { describe, expect, it } from 'vitest'
import { SimulatedRedis } from '../support/simulated-redis.ts'
import { rejection } from '../token/harness.ts'
import { Fleet, sourcesOf } from './fleet.ts'

/** A client of node-redis, as far as it is needed. */
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

/** A client of ioredis, as far as it is needed. */
class IORedis implements IORedisLike {
  readonly status = 'ready'
  readonly #redis: SimulatedRedis
  constructor(redis: SimulatedRedis) {
    this.#redis = redis
  }
  async eval(script: string, count: number, ...rest: string[]) {
    return this.#redis.execute(script, rest.slice(0, count), rest.slice(count))
  }
  call(): void {}
}

const CLIENTS = [
  ['redis', (redis: SimulatedRedis) => new NodeRedis(redis)],
  ['ioredis', (redis: SimulatedRedis) => new IORedis(redis)],
] as const

describe.each(CLIENTS)('a store on a client of %s', (_, clientOf) => {
  it('keeps, yields, forgets and leases', async () => {
    let now = 0
    const redis = new SimulatedRedis(() => now)
    const store = createRedisTokenStore(clientOf(redis))
    await store.set('k', 'v', 1_000)
    now += 300
    expect(await store.get('k')).toEqual({ value: 'v', ttlMs: 700 })
    expect(redis.keys()).toEqual(['merchant-auth:{k}'])
    await store.delete('k')
    expect(await store.get('k')).toBeUndefined()
    const release = await store.lease?.('k', 1_000)
    expect(await store.lease?.('k', 1_000)).toBeUndefined()
    expect(redis.keys()).toEqual(['merchant-auth:{k}:lease'])
    await release?.()
    expect(redis.keys()).toEqual([])
  })

  it('is shared by providers', async () => {
    const fleet = new Fleet()
    const redis = new SimulatedRedis(() => fleet.clock.monotonicMs())
    const [one, other] = [1, 2].map(() => fleet.start({ store: createRedisTokenStore(clientOf(redis)) }))
    const waiting = Promise.all([one?.provider.getToken(), other?.provider.getToken()])
    await fleet.pass(100)
    const [first, second] = await waiting
    expect(first?.value).toBe(second?.value)
    expect([fleet.endpoint.count, ...sourcesOf(other?.events ?? [])]).toEqual([1, 'store'])
  })

  it('takes a prefix', async () => {
    const redis = new SimulatedRedis(() => 0)
    await createRedisTokenStore(clientOf(redis), { keyPrefix: '' }).set('k', 'v', 1)
    await createRedisTokenStore(clientOf(redis), { keyPrefix: 'shop:' }).set('k', 'v', 1)
    expect(redis.keys()).toEqual(['{k}', 'shop:{k}'])
  })
})

describe('createRedisTokenStore', () => {
  const client = new IORedis(new SimulatedRedis(() => 0))
  const problemsOf = (given: unknown, options?: unknown): string[] => {
    try {
      createRedisTokenStore(given as IORedisLike, options as object)
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigurationError)
      const { message, problems } = error as ConfigurationError
      expect(message).toMatch(/^The .*Redis token store cannot be used:/)
      for (const { option, reason } of problems)
        expect(reason, option).toMatch(/^(?:must be|is not an option)/)
      return problems.map(({ option }) => option)
    }
    return []
  }

  it.each([
    ['a client', () => createClient()],
    ['a pool', () => createClientPool()],
    ['a cluster', () => createCluster({ rootNodes: [] })],
    ['a sentinel', () => createSentinel({ name: 'main', sentinelRootNodes: [] })],
    ['a client of ioredis', () => new Redis({ lazyConnect: true })],
    ['a cluster of ioredis', () => new Cluster([{ port: 1 }], { lazyConnect: true })],
  ])('takes %s as the package makes it, before it is connected', (_, make) => {
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
  ])('refuses what is neither client: %j', (given) => {
    expect(problemsOf(given)).toEqual(['client'])
  })

  it.each([
    [{ keyPrefix: 5 }, 'keyPrefix'],
    [{ keyPrefix: 'a{b}' }, 'keyPrefix'],
    [{ keyPrefix: 'a}' }, 'keyPrefix'],
    [{ operationTimeoutMs: 0 }, 'operationTimeoutMs'],
    [{ operationTimeoutMs: 2 ** 31 }, 'operationTimeoutMs'],
    [{ operationTimeoutMs: Number.NaN }, 'operationTimeoutMs'],
    [{ operationTimeoutMs: '250' }, 'operationTimeoutMs'],
    [{ prefix: 'a' }, 'prefix'],
    [null, 'options'],
  ])('names what is wrong with the options %j', (options, option) => {
    expect(problemsOf(client, options)).toEqual([option])
  })

  it('names all that is wrong with the options at once', () => {
    expect(problemsOf(client, { keyPrefix: '{', operationTimeoutMs: -1 })).toEqual([
      'keyPrefix',
      'operationTimeoutMs',
    ])
  })

  it('takes no client whose class has the names alone', () => {
    expect(problemsOf(Redis)).toEqual(['client'])
  })

  it('names all that is wrong with client and options at once', () => {
    expect(problemsOf({}, { keyPrefix: '{' }).sort()).toEqual(['client', 'keyPrefix'])
  })

  it('allows Redis 250 ms for an operation, or what it is told', () => {
    expect(createRedisTokenStore(client).operationTimeoutMs).toBe(250)
    expect(createRedisTokenStore(client, { operationTimeoutMs: 40 }).operationTimeoutMs).toBe(40)
  })

  it('ends an operation that hangs in that time', async () => {
    const hung = Object.assign(new IORedis(new SimulatedRedis(() => 0)), {
      eval: () => new Promise(() => {}),
    })
    const store = createRedisTokenStore(hung, { operationTimeoutMs: 20 })
    expect(await rejection(store.get('k'))).toMatchObject({ code: 'ETIMEDOUT' })
  })

  it('listens to errors of a node-redis client to which nobody does, once', () => {
    const nodeRedis = new NodeRedis(new SimulatedRedis(() => 0))
    for (let time = 0; time < 3; time += 1) createRedisTokenStore(nodeRedis)
    expect(nodeRedis.listenerCount('error')).toBe(1)
    expect(() => nodeRedis.emit('error', new Error('lost'))).not.toThrow()
  })

  it('takes a client that knows no listeners', async () => {
    const { isOpen, eval: run } = new NodeRedis(new SimulatedRedis(() => 0))
    expect(problemsOf({ isOpen, eval: run, sendCommand: () => {} })).toEqual([])
    expect(problemsOf({ isOpen, eval: run, sendCommand: () => {}, listenerCount: () => 0 })).toEqual([])
  })

  it('adds nothing to a node-redis client that has a listener', () => {
    const nodeRedis = new NodeRedis(new SimulatedRedis(() => 0))
    nodeRedis.on('error', () => {})
    createRedisTokenStore(nodeRedis)
    expect(nodeRedis.listenerCount('error')).toBe(1)
  })
})

/** The Redis store: the clients and options that it accepts. What it does in Redis: test/redis. */
import { EventEmitter } from 'node:events'
import { Cluster, Redis } from 'ioredis'
import { createRedisTokenStore, type IORedisLike, type NodeRedisLike } from 'merchant-auth/redis'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { describe, expect, it } from 'vitest'
import { ManualClock, settled } from '../support/clock.ts'
import { problemsIn } from '../support/problems.ts'
import { rig } from '../token/harness.ts'

/** The names of the options with problems. */
const problemsOf = (client: unknown, options?: unknown): string[] =>
  problemsIn(() => createRedisTokenStore(client as IORedisLike, options as object)).map(
    ({ option }) => option,
  )

const ioredis = () => new Redis({ lazyConnect: true })

it.each([
  ['a node-redis client', () => createClient()],
  ['a node-redis pool', () => createClientPool()],
  ['a node-redis cluster', () => createCluster({ rootNodes: [] })],
  ['a node-redis sentinel', () => createSentinel({ name: 'main', sentinelRootNodes: [] })],
  ['an ioredis client', ioredis],
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
  [Redis],
])('rejects a value that is not a supported client: %j', (given) => {
  expect(problemsOf(given)).toEqual(['client'])
})

it.each([
  [{ keyPrefix: 5 }, ['keyPrefix']],
  [{ prefix: 'a' }, ['prefix']],
  [null, ['options']],
])('reports all problems of client and options at once: %j', (options, names) => {
  expect(problemsOf(ioredis(), options)).toEqual(names)
  expect(problemsOf({}, options)).toEqual(['client', ...names])
})

describe('a node-redis client', () => {
  class NodeRedis extends EventEmitter implements NodeRedisLike {
    readonly isOpen = true
    async eval(): Promise<void> {}
    sendCommand(): void {}
  }

  it.each([0, 1])(
    'has one error listener, so that a lost connection does not end the process: it had %i',
    (had) => {
      const client = new NodeRedis()
      if (had === 1) client.on('error', () => {})
      for (let time = 0; time < 3; time += 1) createRedisTokenStore(client)
      expect(client.listenerCount('error')).toBe(1)
    },
  )
})

it('the stores of one client have 100 operations under way together', async () => {
  const clock = new ManualClock()
  let underWay = 0
  const client = {
    isOpen: true,
    sendCommand: () => {},
    eval: async () => {
      underWay += 1
      await new Promise(() => {})
    },
  }
  const providers = Array.from(
    { length: 120 },
    (_, n) => rig([], { clock, store: createRedisTokenStore(client), clientId: `client-${n}` }).provider,
  )
  const waiting = Promise.allSettled(providers.map((provider) => provider.getToken()))
  await settled()
  expect(underWay).toBe(100)
  await Promise.all(providers.map((provider) => provider.close()))
  await waiting
})

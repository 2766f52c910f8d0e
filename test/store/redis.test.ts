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
  [{ eval: () => {}, status: 'ready' }],
  [{ call: () => {}, status: 'ready' }],
  [{ eval: 'no function', call: () => {}, status: 'ready' }],
  [{ eval: () => {}, isOpen: true }],
  [{ sendCommand: () => {}, isOpen: true }],
  [{ eval: 'no function', sendCommand: () => {}, isOpen: true }],
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

it('an ioredis client gets no error listener, as it only logs what nobody listens to', () => {
  const client = ioredis()
  createRedisTokenStore(client)
  expect(client.listenerCount('error')).toBe(0)
})

it('says what cannot be used', () => {
  const make = () => createRedisTokenStore({} as IORedisLike, { keyPrefix: 5 } as object)
  expect(make).toThrow('The Redis token store cannot be used')
  expect(problemsIn(make)).toEqual([
    {
      option: 'client',
      kind: 'invalid',
      reason:
        'must be a client or cluster of the package redis (node-redis) or ioredis, and not a mock ' +
        '(merchant-auth/docs/testing.md#mocks-by-hand)',
    },
    { option: 'keyPrefix', kind: 'invalid', reason: 'must be a string' },
  ])
})

type Sent = readonly [script: string, key: string, ...args: string[]]

/** `eval` of node-redis, which notes what is sent. */
const evalOf =
  (sent: Sent[], answers: unknown[]) =>
  async (script: string, { keys = [], arguments: args = [] }: { keys?: string[]; arguments?: string[] }) => {
    sent.push([script, keys.join(), ...args])
    return answers.shift()
  }

/** Clients that note what is sent, and what they answer with next. */
const CLIENTS: readonly [
  name: string,
  make: (sent: Sent[], answers: unknown[]) => NodeRedisLike | IORedisLike,
][] = [
  [
    'node-redis',
    (sent, answers) => ({
      isOpen: true,
      sendCommand: () => {},
      eval: evalOf(sent, answers),
    }),
  ],
  [
    'a cluster of a later node-redis',
    (sent, answers) => ({
      isOpen: true,
      slots: [],
      withTypeMapping: () => {},
      sendCommand: () => expect.unreachable('it would send the key without the keyPrefix of the cluster'),
      eval: evalOf(sent, answers),
    }),
  ],
  [
    'a cluster of node-redis 4',
    (sent, answers) => ({
      isOpen: true,
      slots: [],
      eval: async () => expect.unreachable('it would ask any node'),
      sendCommand: async (key: string, isReadonly: boolean, [name, script, count, ...rest]: string[]) => {
        expect([isReadonly, name, count, rest[0]]).toEqual([false, 'EVAL', '1', key])
        sent.push([script, ...rest] as unknown as Sent)
        return answers.shift()
      },
    }),
  ],
  [
    'ioredis',
    (sent, answers) => ({
      status: 'ready',
      call: () => {},
      eval: async (script: string, count: number, ...keysAndArgs: string[]) => {
        expect(count).toBe(1)
        sent.push([script, ...keysAndArgs] as unknown as Sent)
        return answers.shift()
      },
    }),
  ],
]

describe.each(CLIENTS)('with %s', (_, make) => {
  it('an entry in its last moment has no time left', async () => {
    expect(await createRedisTokenStore(make([], [['value', 0]])).get('key')).toEqual({
      value: 'value',
      ttlMs: 0,
    })
  })

  it.each([
    [undefined, 'merchant-auth:'],
    ['shop:', 'shop:'],
  ])(
    'an operation is one script on the key of the entry, or of its lease: keyPrefix %j',
    async (keyPrefix, prefix) => {
      const sent: Sent[] = []
      const answers: unknown[] = [['value', 700], 'OK', 'OK', 1]
      const store = createRedisTokenStore(make(sent, answers), keyPrefix === undefined ? {} : { keyPrefix })
      expect(await store.get('key')).toEqual({ value: 'value', ttlMs: 700 })
      await store.set('key', 'newer', 500)
      await (await store.lease?.('key', 300))?.()
      const owner = sent[2]?.[2]
      expect(owner).toHaveLength(36)
      expect(sent.map(([, ...rest]) => rest)).toEqual([
        [`${prefix}key`],
        [`${prefix}key`, 'newer', '500'],
        [`${prefix}key:lease`, owner, '300'],
        [`${prefix}key:lease`, owner],
      ])
      expect(sent.map(([script]) => /GET.*PTTL|'NX'|'SET'|DEL/.exec(script)?.[0])).toEqual([
        expect.stringContaining('PTTL'),
        "'SET'",
        expect.stringContaining("'"),
        'DEL',
      ])
    },
  )

  it('an entry that is missing, or has no time to live, is absent; a lease that another one has is not acquired', async () => {
    const store = createRedisTokenStore(make([], [[null, -2], ['value', -1], null]))
    expect(await store.get('key')).toBeUndefined()
    expect(await store.get('key')).toBeUndefined()
    expect(await store.lease?.('key', 300)).toBeUndefined()
  })
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

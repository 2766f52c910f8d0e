/**
 * One token for a fleet: a token store on Redis or Valkey, a single node or a cluster.
 *
 * @module merchant-auth/redis
 */
import type { EventEmitter } from 'node:events'
import * as z from 'zod/mini'
import { nodeCrypto } from '../base/builtin-modules.ts'
import { ConfigurationError, type Problem } from '../base/errors.ts'
import { parse, strict } from '../base/schema.ts'
import { queueOf, shareQueue } from './operation-queue.ts'
import type { TokenStore } from './token-store.ts'

export type { TokenStore } from './token-store.ts'

/** A client or cluster of node-redis (the package `redis`): the parts used here. */
export interface NodeRedisLike {
  /** Runs a Lua script. */
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  /** Whether it is connected, or connecting. */
  readonly isOpen: boolean
}

/** A client or cluster of ioredis: the parts used here. */
export interface IORedisLike {
  /** Runs a Lua script. */
  eval(script: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>
  /** The state of its connection, for example `ready`. */
  readonly status: string
}

/** Options of `createRedisTokenStore`. */
export interface RedisTokenStoreOptions {
  /**
   * The prefix of all keys in Redis.
   * @default 'merchant-auth:'
   */
  readonly keyPrefix?: string | undefined
}

/** Operations under way on one connection, which answers them in order: a distant Redis takes many at a time. */
const OPERATIONS = 100

const CLIENT: Problem = {
  option: 'client',
  kind: 'invalid',
  reason:
    'must be a client or cluster of the package redis (node-redis) or ioredis, and not a mock ' +
    '(merchant-auth/docs/testing.md#mocks-by-hand)',
}

const shape = strict({ keyPrefix: z.optional(z.string('must be a string')) })

/**
 * Creates a store that all processes of a fleet share: one token request per lifetime, for any number of processes.
 * `client` is a client or cluster of `redis` (node-redis) or `ioredis`; the caller creates, connects and closes it. If
 * Redis fails, neither calls nor the process fail: a node-redis client without a listener for `error` gets one that does
 * nothing. The provider encrypts what it writes.
 *
 * @param client of `redis` 4.7 or newer, or `ioredis` 5.3 or newer; one client may serve any number of stores
 * @param options the key prefix
 * @returns a store for the option `store` of `createTokenProvider`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) if the client or an option is invalid
 * @example
 * const redis = createClient({ url: 'redis://localhost:6379' })
 * redis.connect()
 * const tokens = createTokenProvider({ ...options, store: createRedisTokenStore(redis) })
 */
export function createRedisTokenStore(
  client: NodeRedisLike | IORedisLike,
  options: RedisTokenStoreOptions = {},
): TokenStore {
  const { data, problems } = parse(shape, options)
  const run = scriptRunner(client)
  if (data === undefined || run === undefined)
    throw new ConfigurationError('The Redis token store cannot be used', [
      ...(run ? [] : [CLIENT]),
      ...problems,
    ])
  surviveErrors(client)
  const { keyPrefix = 'merchant-auth:' } = data
  const leaseOf = (key: string): string => `${keyPrefix}${key}:lease`
  const store: TokenStore = {
    async get(key) {
      // A caller's client may be set to reply with Buffers, and with numbers as text.
      const [value, ttlMs] = (await run(READ, keyPrefix + key, [])) as [unknown, unknown]
      // -2: there is no entry; -1: it has no time to live.
      return Number(ttlMs) < 0 ? undefined : { value: String(value), ttlMs: Number(ttlMs) }
    },
    async set(key, value, ttlMs) {
      await run(WRITE, keyPrefix + key, [value, String(ttlMs)])
    },
    async lease(key, ttlMs) {
      const owner = nodeCrypto().randomUUID()
      const acquired = await run(LEASE, leaseOf(key), [owner, String(ttlMs)])
      if (acquired === null) return undefined
      return async () => {
        await run(RELEASE, leaseOf(key), [owner])
      }
    },
  }
  return shareQueue(store, queueOf(client, OPERATIONS))
}

/** The entry, and what remains of its time (ms); negative if it has none. */
const READ = "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"
const WRITE = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])"
/** https://redis.io/docs/latest/commands/set/#patterns */
const LEASE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])"
/** Releases the lease only while it is the owner's: it may have expired, and belong to another process. */
const RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"

/** Runs a script, which the two clients call in different ways, on the node that has the key. */
type RunScript = (script: string, key: string, args: readonly string[]) => Promise<unknown>

/** Runs scripts with a client; undefined if it is neither of the two. They are recognized by shape: neither is imported. */
function scriptRunner(client: unknown): RunScript | undefined {
  if (isIORedis(client)) {
    return (script, key, args) => client.eval(script, 1, key, ...args)
  }
  if (isNodeRedis4Cluster(client)) {
    // Not with eval, which looks for the key in the script, finds none, and asks any node.
    return (script, key, args) => client.sendCommand(key, false, ['EVAL', script, '1', key, ...args])
  }
  if (isNodeRedis(client)) {
    return (script, key, args) => client.eval(script, { keys: [key], arguments: [...args] })
  }
  return undefined
}

function isIORedis(client: unknown): client is IORedisLike {
  return has(client, 'eval') && has(client, 'call') && typeof Reflect.get(client, 'status') === 'string'
}

function isNodeRedis(client: unknown): client is NodeRedisLike {
  return (
    has(client, 'eval') && has(client, 'sendCommand') && typeof Reflect.get(client, 'isOpen') === 'boolean'
  )
}

interface NodeRedis4Cluster {
  sendCommand(firstKey: string, isReadonly: boolean, args: readonly string[]): Promise<unknown>
}

/** A cluster of node-redis 4. Later ones have `withTypeMapping`; their eval finds the key, and gives it their `keyPrefix`. */
function isNodeRedis4Cluster(client: unknown): client is NodeRedis4Cluster {
  return isNodeRedis(client) && Array.isArray(Reflect.get(client, 'slots')) && !has(client, 'withTypeMapping')
}

function has(client: unknown, name: string): client is object {
  return typeof client === 'object' && client !== null && typeof Reflect.get(client, name) === 'function'
}

/** Without a listener, an error that node-redis emits would end the process. ioredis only logs it. */
function surviveErrors(client: object): void {
  if (isIORedis(client)) return
  const { listenerCount, on } = client as Partial<EventEmitter>
  if (listenerCount?.call(client, 'error') === 0) on?.call(client, 'error', () => {})
}

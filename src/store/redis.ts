/**
 * One token for a fleet: a token store on Redis or Valkey, a single node or a cluster.
 *
 * @module merchant-auth/redis
 */
import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import * as z from 'zod/mini'
import { ms, problemsOf, strict } from '../checks.ts'
import { ConfigurationError } from '../errors.ts'
import {
  LEASE,
  READ,
  RELEASE,
  REMOVE,
  REMOVE_AS_OWNER,
  type RunScript,
  WRITE,
  WRITE_AS_OWNER,
} from './redis-scripts.ts'
import { OPERATION_TIMEOUT_MS, type Release, type TokenStore } from './token-store.ts'

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
   * The prefix of all keys in Redis, without braces: the rest of a key is in braces, so that a token and its lease are in
   * the same slot of a cluster.
   * @default 'merchant-auth:'
   */
  readonly keyPrefix?: string | undefined
  /**
   * Time limit (ms, 1 to 2^31-1) for an operation. After it the provider continues without the store.
   * @default 250
   */
  readonly operationTimeoutMs?: number | undefined
}

const PREFIX = 'must be a string without braces'
const TIMEOUT = 'must be a number of milliseconds from 1 to 2147483647'

const CLIENT = {
  option: 'client',
  reason: 'must be a client or cluster of the package redis (node-redis) or ioredis',
}

const shape = strict({
  keyPrefix: z.optional(z.string(PREFIX).check(z.regex(/^[^{}]*$/, PREFIX))),
  operationTimeoutMs: z.optional(ms(1, TIMEOUT)),
})

/**
 * Creates a store that all processes of a fleet share: one token request per lifetime, for any number of processes.
 * `client` is a client or cluster of `redis` (node-redis) or `ioredis`; the caller creates, connects and closes it. If
 * Redis fails, neither calls nor the process fail: a node-redis client without a listener for `error` gets one that does
 * nothing. The provider encrypts what it writes.
 *
 * @param client of `redis` 4.7 or newer, or `ioredis` 5.3 or newer; one client may serve any number of stores
 * @param options the key prefix and the time limit of an operation
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
  const parsed = z.safeParse(shape, options)
  const run = scriptRunner(client)
  if (!parsed.success || run === undefined) {
    const problems = [...(run ? [] : [CLIENT]), ...(parsed.success ? [] : problemsOf(parsed.error))]
    throw new ConfigurationError('The Redis token store cannot be used', problems)
  }
  const { keyPrefix = 'merchant-auth:', operationTimeoutMs = OPERATION_TIMEOUT_MS } = parsed.data
  surviveErrors(client)
  return new RedisTokenStore(run, { keyPrefix, operationTimeoutMs })
}

/** Runs scripts with a client; undefined if it is neither of the two. They are recognized by shape: neither is imported. */
function scriptRunner(client: unknown): RunScript | undefined {
  if (isIORedis(client)) {
    return (script, keys, args) => client.eval(script, keys.length, ...keys, ...args.map(String))
  }
  if (isNodeRedis(client)) {
    return (script, keys, args) => client.eval(script, { keys: [...keys], arguments: args.map(String) })
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

function has(client: unknown, name: string): client is object {
  return typeof client === 'object' && client !== null && typeof Reflect.get(client, name) === 'function'
}

/** Without a listener, an error that node-redis emits would end the process. ioredis only logs it. */
function surviveErrors(client: object): void {
  if (isIORedis(client)) return
  const { listenerCount, on } = client as Partial<EventEmitter>
  if (listenerCount?.call(client, 'error') === 0) on?.call(client, 'error', () => {})
}

type Lease = Release & Required<Pick<Release, 'set' | 'delete'>>

/** Every operation is one Lua script. SafeStore applies the time limits. */
class RedisTokenStore implements TokenStore {
  readonly operationTimeoutMs: number
  readonly #run: RunScript
  readonly #keyPrefix: string
  /** By key, the lease that this process acquired last; it may have expired. */
  readonly #leases = new Map<string, Lease>()
  /** By key, the owner of a lease that this process released, but that may still exist. */
  readonly #stale = new Map<string, string>()

  constructor(run: RunScript, options: { keyPrefix: string; operationTimeoutMs: number }) {
    this.#run = run
    this.#keyPrefix = options.keyPrefix
    this.operationTimeoutMs = options.operationTimeoutMs
  }

  async get(key: string): Promise<{ value: string; ttlMs: number } | undefined> {
    const [value, ttlMs] = (await this.#run(READ, this.#keysOf(key), [])) as [unknown, unknown]
    if (value === null || value === undefined) return undefined
    return { value: String(value), ttlMs: Number(ttlMs) }
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const lease = this.#leases.get(key)
    if (lease === undefined) await this.#run(WRITE, this.#keysOf(key), [value, Math.floor(ttlMs)])
    else await lease.set(value, ttlMs)
  }

  async delete(key: string): Promise<void> {
    const lease = this.#leases.get(key)
    if (lease === undefined) await this.#run(REMOVE, this.#keysOf(key), [])
    else await lease.delete()
  }

  async lease(key: string, ttlMs: number): Promise<Release | undefined> {
    const owner = randomUUID()
    const keys = this.#keysOf(key)
    try {
      const acquired = await this.#run(LEASE, keys, [owner, Math.ceil(ttlMs), this.#stale.get(key) ?? ''])
      if (Number(acquired) !== 1) return undefined
    } catch (error) {
      this.#release(key, owner).catch(() => {}) // perhaps only the response was lost
      throw error
    }
    const endsAt = performance.now() + ttlMs
    const release = async (): Promise<void> => {
      if (this.#leases.get(key) === lease) this.#leases.delete(key)
      await this.#release(key, owner)
    }
    const lease: Lease = Object.assign(release, {
      store: this,
      set: async (value: string, valueMs: number, leftMs = endsAt - performance.now()) => {
        await this.#run(WRITE_AS_OWNER, keys, [owner, value, valueMs, leftMs])
      },
      delete: async () => {
        await this.#run(REMOVE_AS_OWNER, keys, [owner])
      },
    })
    this.#leases.set(key, lease)
    return lease
  }

  async #release(key: string, owner: string): Promise<void> {
    this.#stale.set(key, owner)
    await this.#run(RELEASE, this.#keysOf(key), [owner])
    if (this.#stale.get(key) === owner) this.#stale.delete(key)
  }

  /** The keys of the token and of its lease. */
  #keysOf(key: string): [string, string] {
    const entry = `${this.#keyPrefix}{${key}}`
    return [entry, `${entry}:lease`]
  }
}

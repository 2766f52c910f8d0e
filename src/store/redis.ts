/** One token for a fleet: a token store on Redis or Valkey, a single node or a cluster. */
import { randomUUID } from 'node:crypto'
import * as z from 'zod/mini'
import { type Clock, MAX_TIMER_MS, systemClock } from '../clock.ts'
import { ConfigurationError } from '../errors.ts'
import { problemsOf } from '../options.ts'
import { BoundedStore, OPERATION_TIMEOUT_MS } from './bounded-store.ts'
import { type IORedisLike, type NodeRedisLike, type RunScript, scriptRunner } from './redis-client.ts'
import { LEASE, READ, RELEASE, REMOVE, REMOVE_AS_OWNER, WRITE, WRITE_AS_OWNER } from './redis-scripts.ts'
import type { TokenStore } from './token-store.ts'

export type { IORedisLike, NodeRedisLike } from './redis-client.ts'
export type { TokenStore } from './token-store.ts'

/** Options of `createRedisTokenStore`. */
export interface RedisTokenStoreOptions {
  /**
   * What every key in Redis begins with. Without braces: what follows it stands in braces, so that a token and its
   * lease are in one slot of a cluster.
   * @default 'merchant-auth:'
   */
  readonly keyPrefix?: string | undefined
  /**
   * How long (ms, from 1 to 2^31-1) Redis may take for an operation. After it the provider goes on without.
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

const shape = z.strictObject({
  keyPrefix: z.optional(z.string(PREFIX).check(z.regex(/^[^{}]*$/, PREFIX))),
  operationTimeoutMs: z.optional(z.number(TIMEOUT).check(z.gte(1, TIMEOUT), z.lte(MAX_TIMER_MS, TIMEOUT))),
})

/**
 * Creates a store that all processes of a fleet share: one token request for each lifetime, for any number of them.
 * `client` is a client or cluster of `redis` (node-redis) or `ioredis` that the caller has made, connects and
 * closes. No call fails when Redis does, nor does the process: a client of node-redis without a listener for
 * `error` gets one that does nothing.
 *
 * @throws ConfigurationError (`ERR_CONFIGURATION`) where the client or an option cannot be used
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
  return new BoundedStore(
    new RedisTokenStore(run, { keyPrefix, operationTimeoutMs, clock: systemClock }),
    systemClock,
  )
}

interface Lease {
  readonly owner: string
  readonly ttlMs: number
  /** On the monotonic clock, at the latest. */
  readonly takenAt: number
}

/** A token store that says everything by scripts, and waits for as long as it takes. */
export class RedisTokenStore implements TokenStore {
  readonly operationTimeoutMs: number
  readonly #run: RunScript
  readonly #keyPrefix: string
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** Those that this process has, or has lost and does not know it. */
  readonly #leases = new Map<string, Lease>()
  /** Owners of leases that may still be there, although this process is through with them. */
  readonly #forsaken = new Map<string, string>()

  constructor(
    run: RunScript,
    { keyPrefix, operationTimeoutMs, clock }: { keyPrefix: string; operationTimeoutMs: number; clock: Clock },
  ) {
    this.#run = run
    this.#keyPrefix = keyPrefix
    this.operationTimeoutMs = operationTimeoutMs
    this.#clock = clock
  }

  async get(key: string): Promise<{ value: string; ttlMs: number } | undefined> {
    const [value, ttlMs] = (await this.#run(READ, this.#keysOf(key), [])) as [unknown, unknown]
    if (value === null || value === undefined) return undefined
    return { value: String(value), ttlMs: Number(ttlMs) }
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const lease = this.#leases.get(key)
    if (lease === undefined) await this.#run(WRITE, this.#keysOf(key), [value, Math.floor(ttlMs)])
    else {
      const leftMs = lease.ttlMs - (this.#clock.monotonicMs() - lease.takenAt)
      await this.#run(WRITE_AS_OWNER, this.#keysOf(key), [lease.owner, value, ttlMs, leftMs])
    }
  }

  async delete(key: string): Promise<void> {
    const lease = this.#leases.get(key)
    if (lease === undefined) await this.#run(REMOVE, this.#keysOf(key), [])
    else await this.#run(REMOVE_AS_OWNER, this.#keysOf(key), [lease.owner])
  }

  async lease(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    const owner = randomUUID()
    let taken: unknown
    try {
      const forsaken = this.#forsaken.get(key) ?? ''
      taken = await this.#run(LEASE, this.#keysOf(key), [owner, Math.ceil(ttlMs), forsaken])
    } catch (error) {
      this.#release(key, owner).catch(() => {}) // only the answer may have been lost
      throw error
    }
    if (Number(taken) !== 1) return undefined
    const lease = { owner, ttlMs, takenAt: this.#clock.monotonicMs() }
    this.#leases.set(key, lease)
    return async () => {
      if (this.#leases.get(key) === lease) this.#leases.delete(key)
      await this.#release(key, owner)
    }
  }

  async #release(key: string, owner: string): Promise<void> {
    this.#forsaken.set(key, owner)
    await this.#run(RELEASE, this.#keysOf(key), [owner])
    if (this.#forsaken.get(key) === owner) this.#forsaken.delete(key)
  }

  /** The token's key and its lease's. */
  #keysOf(key: string): [string, string] {
    const entry = `${this.#keyPrefix}{${key}}`
    return [entry, `${entry}:lease`]
  }
}

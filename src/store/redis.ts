/**
 * One token for a fleet: a token store on Redis or Valkey, a single node or a cluster.
 *
 * @module merchant-auth/redis
 */
import * as z from 'zod/mini'
import { copied, ms, problemsOf } from '../checks.ts'
import { systemClock } from '../clock.ts'
import { ConfigurationError } from '../errors.ts'
import { BoundedStore, OPERATION_TIMEOUT_MS } from './bounded-store.ts'
import { type IORedisLike, type NodeRedisLike, scriptRunner, surviveErrors } from './redis-client.ts'
import { RedisTokenStore } from './redis-token-store.ts'
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

const shape = copied(
  z.strictObject({
    keyPrefix: z.optional(z.string(PREFIX).check(z.regex(/^[^{}]*$/, PREFIX))),
    operationTimeoutMs: z.optional(ms(1, TIMEOUT)),
  }),
)

/**
 * Creates a store that all processes of a fleet share: one token request for each lifetime, for any number of them.
 * `client` is a client or cluster of `redis` (node-redis) or `ioredis` that the caller has made, connects and
 * closes. No call fails when Redis does, nor does the process: a client of node-redis without a listener for
 * `error` gets one that does nothing. What goes to Redis is encrypted by the provider.
 *
 * @param client of `redis` 4.7 or newer, or `ioredis` 5.3 or newer; one may serve any number of stores
 * @param options the prefix of the keys, and how long an operation may take
 * @returns the `store` of `createTokenProvider`
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
  const own = (): TokenStore =>
    new RedisTokenStore(run, { keyPrefix, operationTimeoutMs, clock: systemClock })
  surviveErrors(client)
  return new BoundedStore(own(), systemClock, own)
}

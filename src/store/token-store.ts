/** What keeps a token for more than one process: the interface that a store implements. */

/**
 * Keeps encrypted values, for all processes that are to share one token. Values are encrypted before they get here.
 * A store may be slow, fail or hang: no call fails for it.
 *
 * @see createRedisTokenStore in `merchant-auth/redis`
 */
export interface TokenStore {
  /**
   * The value kept under `key` and what remains of its time (ms), measured by the store's own clock; undefined
   * where there is none, or its time is over.
   *
   * @param key at most 120 characters of `A-Z a-z 0-9 - _ .`
   */
  get(key: string): Promise<
    | {
        /** What was kept. */
        readonly value: string
        /** What remains of its time (ms). */
        readonly ttlMs: number
      }
    | undefined
  >
  /**
   * Keeps `value` under `key` for `ttlMs` in the place of what was there.
   *
   * @param value a few kilobytes of ASCII at the most
   * @param ttlMs a whole number of ms, at least 1
   */
  set(key: string, value: string, ttlMs: number): Promise<void>
  /** Forgets what is kept under `key`. */
  delete(key: string): Promise<void>
  /**
   * The right to be the only one who asks for what is kept under `key`, for `ttlMs` at the most. Resolves with what
   * gives it back early, or with undefined while another holds it. A store without it shares tokens too, but
   * processes that find none at the same time each ask for one.
   *
   * @param ttlMs a whole number of ms, at least 1
   */
  lease?(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined>
  /**
   * How long (ms) an operation may take before the provider goes on without the store.
   * @default 250
   */
  readonly operationTimeoutMs?: number | undefined
}

/**
 * What releases a lease. That of `createRedisTokenStore` also writes for its owner alone, so that providers which share a
 * store object do not write by the leases of each other.
 */
export interface Release {
  (): Promise<void>
  /** The store that gave it. */
  readonly store?: TokenStore
  /** As the store's `set` for the lease's key. `leftMs` of the lease should be left when the command runs, by the caller's clock. */
  set?(value: string, ttlMs: number, leftMs?: number): Promise<void>
  /** As the store's `delete` for the lease's key. */
  delete?(): Promise<void>
}

/** How long (ms) an operation may take by default. */
export const OPERATION_TIMEOUT_MS = 250

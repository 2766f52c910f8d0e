/** The interface of a token store shared by several processes, and the codes of its failures. */

/**
 * Stores values for all processes that share a token. The provider encrypts them. A store may be slow, fail or hang
 * without failing a call.
 *
 * @see createRedisTokenStore in `merchant-auth/redis`
 */
export interface TokenStore {
  /**
   * The value of `key` and its remaining time to live (ms), measured by the store's clock; undefined if there is none or it
   * has expired.
   *
   * @param key at most 120 characters of `A-Z a-z 0-9 - _ .`
   */
  get(key: string): Promise<
    | {
        /** The value. */
        readonly value: string
        /** The remaining time to live (ms). */
        readonly ttlMs: number
      }
    | undefined
  >
  /**
   * Sets the value of `key`, with a time to live.
   *
   * @param value at most a few kilobytes of ASCII
   * @param ttlMs a whole number of ms, at least 1
   */
  set(key: string, value: string, ttlMs: number): Promise<void>
  /** Deletes `key`. */
  delete(key: string): Promise<void>
  /**
   * Acquires an exclusive lease on `key` for at most `ttlMs`. Resolves with a function that releases it, or with undefined
   * if another process holds it. Without leases, processes that find no token at the same time each request one.
   *
   * @param ttlMs a whole number of ms, at least 1
   */
  lease?(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined>
  /**
   * Time limit (ms) for an operation, after which the provider continues without the store.
   * @default 250
   */
  readonly operationTimeoutMs?: number | undefined
}

/**
 * Releases a lease. With `createRedisTokenStore` it can also write while the lease is held, so that providers that share a
 * store do not use each other's leases.
 */
export interface Release {
  (): Promise<void>
  /** The store that granted the lease. */
  readonly store?: TokenStore
  /** Like the store's `set`, for the key of the lease. `leftMs`: the rest of the lease by the caller's clock. */
  set?(value: string, ttlMs: number, leftMs?: number): Promise<void>
  /** Like the store's `delete`, for the key of the lease. */
  delete?(): Promise<void>
}

/** The default time limit (ms) of an operation. */
export const OPERATION_TIMEOUT_MS = 250

const CODE = /^[A-Z][A-Z0-9_]{1,39}(?![^ ])/

/** The code of a store's failure (ECONNREFUSED), or the word in capitals that a Redis error begins with (READONLY, OOM). */
export function storeErrorCode(error: unknown): string | undefined {
  try {
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
    return [code, message].map((text) => CODE.exec(String(text))?.[0]).find(Boolean)
  } catch {
    return undefined // a foreign object may throw when it is read
  }
}

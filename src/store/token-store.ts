/** The interface of a token store that several processes share, and the codes of its failures. */

/**
 * Stores values for all processes that share a token. The provider encrypts them. A store may be slow, fail or hang
 * without failing a call.
 *
 * @see createFileTokenStore in `merchant-auth/file`, createRedisTokenStore in `merchant-auth/redis`
 */
export interface TokenStore {
  /**
   * The value of `key` and its remaining time to live (ms), measured by the store's clock; undefined if there is none or it
   * has expired. Rejects with an error whose `code` is `UNREADABLE` if the entry is damaged: it counts as absent then, and is
   * replaced.
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
   * @param ttlMs a whole number of ms, at least 1. What is missing of it in `get` counts as the age of the entry
   */
  set(key: string, value: string, ttlMs: number): Promise<void>
  /**
   * Acquires an exclusive lease on `key` for at most `ttlMs`. Resolves with a function that releases it, or with undefined
   * if another process holds it. Without leases, processes that find no token at the same time each request one.
   *
   * @param ttlMs a whole number of ms, at least 1
   */
  lease?(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined>
}

/** The code of an entry that is damaged, or that cannot be decrypted. */
export const UNREADABLE = 'UNREADABLE'

/**
 * The code of a store's failure (ECONNREFUSED), the word in capitals that a Redis error begins with (READONLY, OOM), or the
 * name of the error's class (ClientClosedError: a client that is not connected).
 */
export function storeErrorCode(error: unknown): string | undefined {
  const { code, message, constructor: of } = (error ?? {}) as { code?: unknown; message?: unknown } & object
  // By its name: an error of another realm is an instance of nothing here.
  const name = /^\w+Error$/.exec(of?.name ?? '')?.[0]
  return (
    [code, message].map((text) => /^[A-Z][A-Z0-9_]+(?= |$)/.exec(String(text))?.[0]).find(Boolean) ?? name
  )
}

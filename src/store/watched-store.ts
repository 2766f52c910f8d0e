/** A store that may fail: its failures are told by an event, and say no more than a code. */
import { type Clock, type Instant, readClock } from '../clock.ts'
import type { Emit, StoreFailedEvent } from '../events.ts'
import { BoundedStore } from './bounded-store.ts'
import type { TokenStore } from './token-store.ts'

/** The code of an entry that is there and makes no sense. */
const UNREADABLE = 'UNREADABLE'

/** A token response has at most 64 KiB, so that no entry of this package comes near this. */
const MAX_CHARACTERS = 256 * 1024

/** The store failed, and an event has told so: go on without it. */
export class StoreFailure extends Error {}

/** What is kept under a key, and what remained of its time when it was asked for. */
export interface StoredValue {
  readonly value: string
  readonly ttlMs: number
  readonly readAt: Instant
}

/** A store whose operations end with their result, or with a `StoreFailure`. */
export class WatchedStore {
  readonly #store: TokenStore
  readonly #clock: Clock
  readonly #emit: Emit

  constructor(store: TokenStore, clock: Clock, emit: Emit) {
    this.#store = new BoundedStore(store, clock)
    this.#clock = clock
    this.#emit = emit
  }

  /** Whether `lease` means anything: a store may do without. */
  get leases(): boolean {
    return this.#store.lease !== undefined
  }

  async get(key: string): Promise<StoredValue | undefined> {
    const readAt = readClock(this.#clock) // what the answer takes on its way counts as passed
    const found = await this.#watch('get', this.#store.get(key))
    if (found === undefined || found === null) return undefined
    const { value, ttlMs } = found
    if (typeof value === 'string' && value.length <= MAX_CHARACTERS && Number.isFinite(ttlMs))
      return { value, ttlMs, readAt }
    this.unreadable()
    return undefined
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    await this.#watch('set', this.#store.set(key, value, ttlMs))
  }

  async delete(key: string): Promise<void> {
    await this.#watch('delete', this.#store.delete(key))
  }

  async lease(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    const release = await this.#watch('lease', Promise.resolve(this.#store.lease?.(key, ttlMs)))
    return release && (() => this.#watch('lease', release()))
  }

  /** Tells of an entry that is there and makes no sense. */
  unreadable(): void {
    this.#emit({ type: 'store-failed', operation: 'get', code: UNREADABLE })
  }

  async #watch<T>(operation: StoreFailedEvent['operation'], result: Promise<T>): Promise<T> {
    try {
      return await result
    } catch (error) {
      const code = codeOf(error)
      this.#emit({ type: 'store-failed', operation, ...(code === undefined ? undefined : { code }) })
      throw new StoreFailure()
    }
  }
}

/** A failure's code (ECONNREFUSED), or the word in capitals that a Redis error begins with (READONLY, OOM); no more of it. */
function codeOf(error: unknown): string | undefined {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return [code, message].map((text) => /^[A-Z][A-Z0-9_]{1,39}(?![^ ])/.exec(String(text))?.[0]).find(Boolean)
}

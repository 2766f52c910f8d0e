/** A store that may fail: its failures are told by an event, and say no more than a code. */
import { type Clock, type Instant, readClock } from '../clock.ts'
import type { Emit, StoreFailedEvent } from '../events.ts'
import { BoundedStore } from './bounded-store.ts'
import type { TokenStore } from './token-store.ts'

/** The code of an entry that is there and makes no sense. */
const UNREADABLE = 'UNREADABLE'

/** A token response has at most 64 KiB, so that no entry of this package comes near this. */
const MAX_CHARACTERS = 256 * 1024

const CODE = /^[A-Z][A-Z0-9_]{1,39}(?![^ ])/

/** The store failed, and an event has told so: go on without it. */
export class StoreFailure extends Error {}

/** What is kept under a key, and what remained of its time when it was asked for. */
export interface StoredValue {
  readonly value: string
  readonly ttlMs: number
  readonly readAt: Instant
}

/** What a store is watched by. */
export interface StoreWatch {
  readonly clock: Clock
  readonly emit: Emit
  readonly isSecret: (text: string) => boolean
}

/** A store whose operations end with their result, or with a `StoreFailure`. */
export class WatchedStore {
  readonly #store: TokenStore
  readonly #clock: Clock
  readonly #emit: Emit
  readonly #isSecret: (text: string) => boolean
  readonly #unreadable = new Map<string, string>()

  /** `isSecret` tells what may stand in no event. */
  constructor(store: TokenStore, { clock, emit, isSecret }: StoreWatch) {
    this.#store = new BoundedStore(store instanceof BoundedStore ? store.own() : store, clock)
    this.#clock = clock
    this.#emit = emit
    this.#isSecret = isSecret
  }

  /** Whether `lease` means anything: a store may do without. */
  get leases(): boolean {
    return this.#store.lease !== undefined
  }

  async get(key: string): Promise<StoredValue | undefined> {
    const readAt = readClock(this.#clock) // what the answer takes on its way counts as passed
    const found = await this.#watch('get', this.#store.get(key).then(partsOf))
    if (found === undefined) return undefined
    const { value, ttlMs } = found
    if (typeof value === 'string' && value.length <= MAX_CHARACTERS && Number.isFinite(ttlMs)) {
      return { value, ttlMs: Number(ttlMs), readAt }
    }
    this.unreadable(key, value)
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

  /** Tells of an entry that is there and makes no sense; once, however often it is seen. */
  unreadable(key: string, value: unknown): void {
    const look = typeof value === 'string' ? `${value.length} ${value.slice(-64)}` : typeof value
    if (this.#unreadable.get(key) === look) return
    this.#unreadable.set(key, look)
    this.#emit({ type: 'store-failed', operation: 'get', code: UNREADABLE })
  }

  async #watch<T>(operation: StoreFailedEvent['operation'], result: Promise<T>): Promise<T> {
    try {
      return await result
    } catch (error) {
      const code = codeOf(error)
      const told = code === undefined || this.#isSecret(code) ? undefined : { code }
      this.#emit({ type: 'store-failed', operation, ...told })
      throw new StoreFailure()
    }
  }
}

/** The parts of an answer, which may be anything. */
function partsOf(found: unknown): { value: unknown; ttlMs: unknown } | undefined {
  if (found === undefined || found === null) return undefined
  const { value, ttlMs } = found as { value: unknown; ttlMs: unknown }
  return { value, ttlMs }
}

/** A failure's code (ECONNREFUSED), or the word in capitals that a Redis error begins with (READONLY, OOM); no more of it. */
export function codeOf(error: unknown): string | undefined {
  try {
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
    return [code, message].map((text) => CODE.exec(String(text))?.[0]).find(Boolean)
  } catch {
    return undefined // it is somebody else's, and may throw when it is read
  }
}

/** The entry of one client in a token store: encrypted, with a time limit for each operation. */
import { type Clock, type Instant, limitClockOf, readClock, SECOND_MS } from '../../base/clock.ts'
import { untilAborted } from '../../base/waiting.ts'
import type { Emit } from '../../events/emit.ts'
import type { StoreFailedEvent } from '../../events/events.ts'
import { queueOf } from '../../store/operation-queue.ts'
import { storeErrorCode, type TokenStore, UNREADABLE } from '../../store/token-store.ts'
import { EncryptionKey } from './encryption.ts'

/** After it the provider continues without the store. */
export const OPERATION_MS: number = SECOND_MS
/** The first operation may have to wait for a connection: TCP, TLS and the greeting of Redis. */
export const FIRST_OPERATION_MS: number = 2 * SECOND_MS

/** An entry that was found and decrypted. */
export interface Entry<T> {
  readonly content: T
  /** The remaining time (ms) at `readAt`. */
  readonly ttlMs: number
  readonly readAt: Instant
}

/** The client of the entry, and the settings of an EncryptedStore. */
export interface EncryptedStoreContext {
  /** What the entry is: the client's `token`, or another one for tests of the store. */
  readonly name: string
  /** A hash that identifies the client. */
  readonly client: string
  /** The first one encrypts, all decrypt. */
  readonly encryptionKeys: readonly string[]
  readonly clock: Clock
  readonly emit: Emit
}

/** Releases a lease. */
export type Release = () => Promise<void>

/** Whatever fails here is a failure of the store: it emits an event, unless the signal is aborted, and rejects. */
export class EncryptedStore<T> {
  readonly #store: TokenStore
  readonly #context: EncryptedStoreContext
  #limitMs = FIRST_OPERATION_MS
  #keys: readonly EncryptionKey[] | undefined

  constructor(store: TokenStore, context: EncryptedStoreContext) {
    this.#store = store
    this.#context = context
  }

  /** Whether the store has leases. */
  get hasLeases(): boolean {
    return this.#store.lease !== undefined
  }

  /**
   * Reads the entry, once for each encryption key: it is written with the first one. One that is damaged or cannot be
   * decrypted emits an event and counts as absent.
   */
  async *read(signal?: AbortSignal): AsyncGenerator<Entry<T>> {
    const { clock, encryptionKeys } = this.#context
    for (const which of encryptionKeys.keys()) {
      const read = async (): Promise<Entry<T> | undefined> => {
        const { key, encryption } = this.#entry(which)
        const readAt = readClock(clock) // the time of the round trip counts as elapsed
        const found = await this.#store.get(key)
        if (!found || found.ttlMs <= 0) return undefined // a store may return null
        // Without its time to live (NaN, Infinity), the age of an entry is not known.
        const text = Number.isFinite(found.ttlMs) ? encryption.decrypt(key, found.value) : undefined
        if (text === undefined) throw Object.assign(new Error('not decrypted'), { code: UNREADABLE })
        // Only this package writes entries, so their content needs no further check.
        return { content: JSON.parse(text) as T, ttlMs: found.ttlMs, readAt }
      }
      const reading = this.#run('get', read, { signal })
      const entry = await untilAborted(reading, signal).catch(absentIfUnreadable)
      if (entry !== undefined) yield entry
    }
  }

  /** Writes the entry, as it is when the operation begins. */
  async write(
    create: () => { readonly content: T; readonly ttlMs: number },
    signal?: AbortSignal,
  ): Promise<void> {
    const write = async (): Promise<void> => {
      const { key, encryption } = this.#entry(0)
      const { content, ttlMs } = create()
      await this.#store.set(key, encryption.encrypt(key, JSON.stringify(content)), Math.floor(ttlMs))
    }
    await this.#run('set', write, { signal })
  }

  /**
   * Acquires the lease on the entry; undefined while another process holds it. The result releases it, whether the signal is
   * aborted or not.
   */
  async lease(ttlMs: number, signal?: AbortSignal): Promise<Release | undefined> {
    let acquired: (() => Promise<void>) | undefined
    let isUnwanted = false
    const acquire = async (): Promise<void> => {
      acquired = await this.#store.lease?.(this.#entry(0).key, ttlMs)
      if (isUnwanted) await acquired?.() // too late, and it would block other processes
    }
    try {
      // One that is under way when the signal is aborted is waited for, and released then.
      await this.#run('lease', acquire, { signal })
    } catch (error) {
      isUnwanted = true
      acquired?.().catch(() => {}) // in the same moment
      throw error
    }
    const release = acquired
    return release && (() => this.#run('lease', release, { signal, isRelease: true }))
  }

  #entry(which: number): { readonly key: string; readonly encryption: EncryptionKey } {
    const { client, encryptionKeys, name } = this.#context
    this.#keys ??= encryptionKeys.map((secret) => new EncryptionKey(secret, client))
    const encryption = this.#keys[which] as EncryptionKey
    return { encryption, key: `v2.${name}.${client}.${encryption.id}` }
  }

  /** Runs an operation. Unless it is a release, it does not begin after the signal was aborted. */
  async #run<R>(
    operation: StoreFailedEvent['operation'],
    run: () => Promise<R>,
    { signal, isRelease = false }: { readonly signal: AbortSignal | undefined; readonly isRelease?: boolean },
  ): Promise<R> {
    const { clock, emit } = this.#context
    // What is written was preceded by a look, so the connection is open.
    const limitMs = operation === 'set' ? OPERATION_MS : this.#limitMs
    // A token that was just requested is written although another operation hangs, if the store has not answered yet.
    const isUrgent = operation === 'set'
    const closed = isRelease ? undefined : signal
    try {
      return await queueOf(this.#store).run({ run, limitMs, isUrgent, closed }, limitClockOf(clock))
    } catch (error) {
      if (!signal?.aborted) emit({ type: 'store-failed', operation, code: storeErrorCode(error) })
      throw error
    } finally {
      this.#limitMs = OPERATION_MS
    }
  }
}

function absentIfUnreadable(error: unknown): undefined {
  if (storeErrorCode(error) !== UNREADABLE) throw error
}

/** The entry of one client in a token store: encrypted, with a time limit for each operation. */
import { type Clock, type Instant, readClock } from '../clock.ts'
import type { Emit, StoreFailedEvent } from '../events.ts'
import { EncryptionKey } from './encryption.ts'
import { queueOf } from './store-queue.ts'
import { storeErrorCode, type TokenStore, UNREADABLE } from './token-store.ts'

/** After it the provider continues without the store. */
const OPERATION_MS = 1_000
/** The first operation may have to wait for a connection: TCP, TLS and the greeting of Redis. */
export const FIRST_OPERATION_MS = 2_000

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
  /** Called when an operation begins, or waits for its turn, with its limit (ms). */
  readonly beginStep: (limitMs: number) => void
}

/** Whatever fails here is a failure of the store: it emits an event and rejects. */
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
  async *read(): AsyncGenerator<Entry<T>> {
    const { clock, emit, encryptionKeys } = this.#context
    for (const n of encryptionKeys.keys()) {
      const readAt = readClock(clock) // the time of the round trip counts as elapsed
      const found = await this.#run('get', ({ key }) => this.#store.get(key), { which: n }).catch(
        absentIfUnreadable,
      )
      if (!found || found.ttlMs <= 0) continue // a store may return null
      const { encryption, key } = this.#entry(n)
      const content = parsed(encryption.decrypt(key, found.value))
      if (content === undefined) emit({ type: 'store-failed', operation: 'get', code: UNREADABLE })
      else yield { content: content as T, ttlMs: found.ttlMs, readAt }
    }
  }

  /**
   * Writes the entry.
   *
   * @param isUrgent whether it may begin while another operation hangs, as long as the store has not answered yet
   * @param isSilent whether its failure is no event, and no step of a run
   */
  async write(
    content: T,
    ttlMs: number,
    { isUrgent = false, isSilent = false }: { readonly isUrgent?: boolean; readonly isSilent?: boolean } = {},
  ): Promise<void> {
    const act = ({ key, encryption }: KeyedEntry): Promise<void> =>
      this.#store.set(key, encryption.encrypt(key, JSON.stringify(content)), Math.floor(ttlMs))
    await this.#run('set', act, { isUrgent, isSilent })
  }

  /** Acquires the lease on the entry; undefined while another process holds it. The result releases it. */
  async lease(ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    let isLate = false
    try {
      const release = await this.#run('lease', async ({ key }) => {
        const acquired = await this.#store.lease?.(key, ttlMs)
        if (acquired && isLate) acquired().catch(() => {}) // unused, and it would block other processes
        return acquired
      })
      return release ? () => this.#run('lease', release) : undefined
    } catch (error) {
      isLate = true
      throw error
    }
  }

  #entry(which: number): KeyedEntry {
    const { client, encryptionKeys, name } = this.#context
    this.#keys ??= encryptionKeys.map((secret) => new EncryptionKey(secret, client))
    const encryption = this.#keys[which] as EncryptionKey
    return { encryption, key: `v2.${name}.${client}.${encryption.id}` }
  }

  async #run<R>(
    operation: StoreFailedEvent['operation'],
    act: (entry: KeyedEntry) => Promise<R>,
    { which = 0, isUrgent = false, isSilent = false } = {},
  ): Promise<R> {
    const { clock, emit, beginStep } = this.#context
    try {
      const run = (): Promise<R> => act(this.#entry(which))
      const onStep = isSilent ? () => {} : beginStep
      return await queueOf(this.#store).run({ run, limitMs: this.#limitMs, isUrgent, onStep }, clock)
    } catch (error) {
      const code = storeErrorCode(error)
      if (!isSilent) emit({ type: 'store-failed', operation, ...(code && { code }) })
      throw error
    } finally {
      this.#limitMs = OPERATION_MS
    }
  }
}

/** The entry for one encryption key. */
interface KeyedEntry {
  readonly key: string
  readonly encryption: EncryptionKey
}

function absentIfUnreadable(error: unknown): undefined {
  if (storeErrorCode(error) !== UNREADABLE) throw error
}

/** Only this package writes entries, so their content needs no further check. */
function parsed(text: string | undefined): unknown {
  return text === undefined ? undefined : JSON.parse(text)
}

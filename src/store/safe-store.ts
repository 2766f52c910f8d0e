/** The entries of one client in a caller's token store: encrypted, with a time limit for each operation. */
import { hkdfSync } from 'node:crypto'
// Only these two: all of jose takes four times as long to load.
import { compactDecrypt } from 'jose/jwe/compact/decrypt'
import { CompactEncrypt } from 'jose/jwe/compact/encrypt'
import { type Clock, type Instant, readClock } from '../clock.ts'
import type { Emit, StoreFailedEvent } from '../events.ts'
import { within } from '../waiting.ts'
import { storeErrorCode, type TokenStore, UNREADABLE } from './token-store.ts'

/** After it the provider continues without the store. */
const OPERATION_TIMEOUT_MS = 1_000
/** The first operation may have to wait for a connection: TCP, TLS and the greeting of Redis. */
const FIRST_TIMEOUT_MS = 2_000

/** An entry that was found and decrypted. */
export interface Entry<T> {
  readonly content: T
  /** The remaining time (ms) at `readAt`. */
  readonly ttlMs: number
  readonly readAt: Instant
}

/** The client of the entries, and the settings of a SafeStore. */
export interface SafeStoreContext {
  /** A hash that identifies the client. */
  readonly client: string
  /** The first one encrypts, all decrypt. */
  readonly encryptionKeys: readonly string[]
  readonly clock: Clock
  readonly emit: Emit
}

/** A failed operation emits an event and rejects. */
export class SafeStore {
  readonly #store: TokenStore
  readonly #context: SafeStoreContext
  readonly #keys: readonly [EncryptionKey, ...EncryptionKey[]]
  #timeoutMs = FIRST_TIMEOUT_MS

  constructor(store: TokenStore, context: SafeStoreContext) {
    this.#store = store
    this.#context = context
    const { client, encryptionKeys } = context
    this.#keys = encryptionKeys.map((secret) => new EncryptionKey(secret, client)) as [EncryptionKey]
  }

  /** Whether the store has leases. */
  get hasLeases(): boolean {
    return this.#store.lease !== undefined
  }

  /**
   * Reads an entry, once for each encryption key: entries are written with the first one. One that is damaged or cannot be
   * decrypted emits an event and counts as absent.
   */
  async *read<T>(name: string): AsyncGenerator<Entry<T>> {
    const { clock, emit } = this.#context
    for (const encryption of this.#keys) {
      const key = this.#keyOf(name, encryption)
      const readAt = readClock(clock) // the time of the round trip counts as elapsed
      const found = await this.#run('get', () => this.#store.get(key)).catch(absentIfUnreadable)
      if (!found || found.ttlMs <= 0) continue // a store may return null
      const content = await encryption.decrypt(key, found.value)
      if (content === undefined) emit({ type: 'store-failed', operation: 'get', code: UNREADABLE })
      else yield { content: content as T, ttlMs: found.ttlMs, readAt }
    }
  }

  /**
   * Writes an entry with the time to live `ttlMs()`, unless that is over.
   *
   * @param onBegun called when the store has been asked to write it: encryption takes time
   */
  async write(
    name: string,
    { content, ttlMs }: { readonly content: unknown; readonly ttlMs: () => number },
    onBegun?: () => void,
  ): Promise<void> {
    const key = this.#keyOf(name)
    const value = await this.#keys[0].encrypt(key, content)
    const wholeMs = Math.floor(ttlMs())
    if (wholeMs < 1) return
    const writing = this.#run('set', () => this.#store.set(key, value, wholeMs))
    onBegun?.()
    await writing
  }

  /**
   * Resolves when the store answers, however long that takes. For cold starts (a function, a container) whose connection
   * opens too late for the first look: they still share the token that they request.
   */
  async answers(): Promise<void> {
    await this.#store.get(this.#keyOf('token'))
  }

  /** Acquires the lease on an entry; undefined while another process holds it. The result releases it. */
  async lease(name: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    const key = this.#keyOf(name)
    let isLate = false
    try {
      const release = await this.#run('lease', async () => {
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

  #keyOf(name: string, { id } = this.#keys[0]): string {
    return `v1.${name}.${this.#context.client}.${id}`
  }

  async #run<T>(operation: StoreFailedEvent['operation'], act: () => Promise<T>): Promise<T> {
    const { clock, emit } = this.#context
    try {
      const endsAt = clock.monotonicMs() + this.#timeoutMs
      return await within(clock, { endsAt }, async () => act(), timedOut)
    } catch (error) {
      const code = storeErrorCode(error)
      emit({ type: 'store-failed', operation, ...(code && { code }) })
      throw error
    } finally {
      this.#timeoutMs = OPERATION_TIMEOUT_MS
    }
  }
}

function absentIfUnreadable(error: unknown): undefined {
  if (storeErrorCode(error) !== UNREADABLE) throw error
}

function timedOut(): Error {
  return Object.assign(new Error('The token store did not answer in time'), { code: 'ETIMEDOUT' })
}

/** Encrypts entries (JWE, RFC 7516), each with a key derived from a secret (HKDF-SHA-256, RFC 5869). */
class EncryptionKey {
  /** Identifies the key without revealing anything about it. */
  readonly id: string
  readonly #secret: string
  readonly #salt: string

  /** `salt` distinguishes clients that have the same secret. */
  constructor(secret: string, salt: string) {
    this.#secret = secret
    this.#salt = salt
    this.id = Buffer.from(this.#derive('id', 12)).toString('base64url')
  }

  /** Encrypts the content of an entry, and binds it to the entry's name. */
  async encrypt(name: string, content: unknown): Promise<string> {
    return await new CompactEncrypt(new TextEncoder().encode(JSON.stringify(content)))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: this.id })
      .encrypt(this.#derive(`entry ${name}`, 32))
  }

  /** The content that was encrypted for this name with this key; undefined for anything else. */
  async decrypt(name: string, encrypted: string): Promise<unknown> {
    try {
      const { plaintext } = await compactDecrypt(encrypted, this.#derive(`entry ${name}`, 32), {
        keyManagementAlgorithms: ['dir'],
        contentEncryptionAlgorithms: ['A256GCM'],
      })
      return JSON.parse(new TextDecoder().decode(plaintext))
    } catch {
      return undefined
    }
  }

  #derive(purpose: string, bytes: number): Uint8Array {
    return new Uint8Array(hkdfSync('sha256', this.#secret, this.#salt, `merchant-auth v1 ${purpose}`, bytes))
  }
}

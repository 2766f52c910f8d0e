/** A caller's token store, made safe: operations end in time, failures become events, and entries are encrypted. */
import { hkdfSync } from 'node:crypto'
// Only these two: all of jose takes four times as long to load.
import { compactDecrypt } from 'jose/jwe/compact/decrypt'
import { CompactEncrypt } from 'jose/jwe/compact/encrypt'
import * as z from 'zod/mini'
import { type Clock, type Instant, readClock, systemClock } from '../clock.ts'
import type { Emit, StoreFailedEvent } from '../events.ts'
import { redact } from '../redact.ts'
import { within } from '../waiting.ts'
import { OPERATION_TIMEOUT_MS, type Release, storeErrorCode, type TokenStore } from './token-store.ts'

/** Far more than any entry of this package: a token response has at most 64 KiB. */
const MAX_CHARACTERS = 256 * 1024

/** Where an entry is kept, and the key that encrypts it. */
export interface Place {
  readonly key: string
  readonly encryption: EncryptionKey
}

/** An entry that was found and decrypted. */
export interface Entry<T> {
  readonly content: T
  /** The remaining time (ms) at `readAt`. */
  readonly ttlMs: number
  readonly readAt: Instant
}

/** An exclusive lease on a place, until it is released or expires. */
export interface Lease {
  readonly key: string
  readonly release: () => Promise<void>
  /** Writes only while this lease is held. Undefined if the store wraps another one, or has no such writes. */
  readonly owner: Release | undefined
  /** When (monotonic ms) it ends, at the latest. */
  readonly endsAt: number
}

/** The client of the entries, and the settings of a SafeStore. */
export interface SafeStoreContext {
  /** A hash that identifies the client. */
  readonly client: string
  /** The first one encrypts, all decrypt. */
  readonly encryptionKeys: readonly string[]
  readonly clock: Clock
  readonly emit: Emit
  /** What may appear in no event. */
  readonly secrets: Iterable<string>
}

/** The entries of one client in a token store. A failed operation emits an event and rejects. */
export class SafeStore {
  readonly #store: TokenStore
  readonly #context: SafeStoreContext
  readonly #keys: readonly EncryptionKey[]
  readonly #timer: Pick<Clock, 'monotonicMs' | 'sleep'>
  readonly #unreadable = new Map<string, string>()

  constructor(store: TokenStore, context: SafeStoreContext) {
    this.#store = store
    this.#context = context
    this.#keys = context.encryptionKeys.map((secret) => new EncryptionKey(secret, context.client))
    this.#timer = slicedTimer(context.clock)
  }

  /** Whether the store has leases. */
  get hasLeases(): boolean {
    return this.#store.lease !== undefined
  }

  /** The places of an entry, one for each encryption key. Entries are written to the first one. */
  placesOf(name: string): readonly [Place, ...Place[]] {
    const keyOf = ({ id }: EncryptionKey): string => `v1.${name}.${this.#context.client}.${id}`
    const places = this.#keys.map((encryption) => ({ key: keyOf(encryption), encryption }))
    return places as [Place, ...Place[]] // the options have at least one key
  }

  /** The entry at this place. One that cannot be decrypted or parsed emits an event and counts as absent. */
  async read<T>({ key, encryption }: Place, shape: z.ZodMiniType<T>): Promise<Entry<T> | undefined> {
    const readAt = readClock(this.#context.clock) // the time of the round trip counts as elapsed
    const found = await this.#run('get', async () => partsOf(await this.#store.get(key)))
    if (found === undefined) return undefined
    const { value, ttlMs } = found
    if (typeof value === 'string' && value.length <= MAX_CHARACTERS && Number.isFinite(ttlMs)) {
      if (Number(ttlMs) <= 0) return undefined
      const content = z.safeParse(shape, await encryption.decrypt(key, value))
      if (content.success) return { content: content.data, ttlMs: Number(ttlMs), readAt }
    }
    this.#emitUnreadable(key, value)
    return undefined
  }

  /** Writes an entry with the time to live `ttlMs()`, unless that is over. With a lease, only while it is held. */
  async write(
    name: string,
    { content, ttlMs, lease }: { content: unknown; ttlMs: () => number; lease?: Lease | undefined },
  ): Promise<void> {
    const [{ key, encryption }] = this.placesOf(name)
    const value = await encryption.encrypt(key, content)
    const wholeMs = Math.floor(ttlMs()) // encryption took time
    if (wholeMs < 1) return
    const { owner, endsAt = 0 } = lease?.key === key ? lease : {}
    const leftMs = endsAt - this.#context.clock.monotonicMs()
    await this.#run('set', () => owner?.set?.(value, wholeMs, leftMs) ?? this.#store.set(key, value, wholeMs))
  }

  /** Deletes the entry at this place. With a lease, only while it is held. */
  async delete({ key }: Place, lease: Lease | undefined): Promise<void> {
    const owner = lease?.key === key ? lease.owner : undefined
    await this.#run('delete', () => owner?.delete?.() ?? this.#store.delete(key))
  }

  /** Acquires the lease on an entry; undefined while another process holds it. */
  async lease(name: string, ttlMs: number): Promise<Lease | undefined> {
    const [{ key }] = this.placesOf(name)
    let late = false
    const acquire = async (): Promise<Release | undefined> => {
      const release = await this.#store.lease?.(key, ttlMs)
      if (release && late) release().catch(() => {}) // unused, and it would block other processes
      return release || undefined // a store may return null or false
    }
    try {
      const release = await this.#run('lease', acquire)
      if (release === undefined) return undefined
      const endsAt = this.#context.clock.monotonicMs() + ttlMs
      const owner = release.store === this.#store ? release : undefined
      return { key, owner, endsAt, release: () => this.#run('lease', () => release()) }
    } catch (error) {
      late = true
      throw error
    }
  }

  /** Emits an event for an entry that cannot be parsed: once, however often it is read. */
  #emitUnreadable(key: string, value: unknown): void {
    const look = typeof value === 'string' ? `${value.length} ${value.slice(-64)}` : typeof value
    if (this.#unreadable.get(key) === look) return
    this.#unreadable.set(key, look)
    this.#context.emit({ type: 'store-failed', operation: 'get', code: 'UNREADABLE' })
  }

  async #run<T>(operation: StoreFailedEvent['operation'], act: () => Promise<T>): Promise<T> {
    const { emit, secrets } = this.#context
    const limitMs = this.#store.operationTimeoutMs ?? OPERATION_TIMEOUT_MS
    try {
      const endsAt = this.#timer.monotonicMs() + limitMs
      return await within(this.#timer, { endsAt }, async () => act(), timedOut)
    } catch (error) {
      const code = storeErrorCode(error)
      const shown = code !== undefined && redact(code, secrets) === code
      emit({ type: 'store-failed', operation, ...(shown ? { code } : undefined) })
      throw error
    }
  }
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

/** The parts of a store's result, which may be anything. */
function partsOf(found: unknown): { value: unknown; ttlMs: unknown } | undefined {
  if (found === undefined || found === null) return undefined
  const { value, ttlMs } = found as { value: unknown; ttlMs: unknown }
  return { value, ttlMs }
}

const SLICES = 5

const { setImmediate: afterInput } = globalThis

/**
 * Sleeps in slices. If the process was suspended, at most one slice of the time limit elapses, and replies that arrived
 * meanwhile are processed before the timeout. Clocks other than the system's sleep in one piece.
 */
function slicedTimer(clock: Clock): Pick<Clock, 'monotonicMs' | 'sleep'> {
  const slices = clock === systemClock ? SLICES : 1
  return {
    monotonicMs: () => clock.monotonicMs(),
    sleep: async (ms, signal) => {
      for (let slice = 0; slice < slices; slice += 1) await clock.sleep(ms / slices, signal)
      await new Promise((resolve) => afterInput(resolve))
    },
  }
}

function timedOut(): Error {
  return Object.assign(new Error('The token store did not answer in time'), { code: 'ETIMEDOUT' })
}

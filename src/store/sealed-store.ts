/** A store of sealed entries: under names that tell clients and keys apart, written under one key and read under all. */
import { createHash } from 'node:crypto'
import * as z from 'zod/mini'
import { SealingKey } from './sealing.ts'
import type { StoredValue, WatchedStore } from './watched-store.ts'

/** An entry that was found and opened. */
export interface OpenedEntry<T> extends Omit<StoredValue, 'value'> {
  /** What it is kept under. */
  readonly key: string
  readonly content: T
}

/** A hash, as it stands in keys. */
export function hashOf(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
}

/** The entries of one client, as those see them who have the same keys. */
export class SealedStore {
  readonly #store: WatchedStore
  readonly #client: string
  readonly #keys: readonly SealingKey[]

  /** `client` is the hash of what tells clients apart; the first of the `secrets` seals, all open. */
  constructor(store: WatchedStore, client: string, secrets: readonly string[]) {
    this.#store = store
    this.#client = client
    this.#keys = secrets.map((secret) => new SealingKey(secret, client))
  }

  /** The entries of this name, under each of the keys. What cannot be opened or read is told, and counts as absent. */
  async *read<T>(name: string, shape: z.ZodMiniType<T>): AsyncGenerator<OpenedEntry<T>> {
    for (const sealing of this.#keys) {
      const key = this.#keyOf(name, sealing)
      const found = await this.#store.get(key)
      if (found === undefined || found.ttlMs <= 0) continue
      const { value, ttlMs, readAt } = found
      const content = z.safeParse(shape, await sealing.open(key, value))
      if (content.success) yield { key, content: content.data, ttlMs, readAt }
      else this.#store.unreadable(key, value)
    }
  }

  /** Keeps the content until its time is over; not at all where it is over already. */
  async write(name: string, content: unknown, ttlMs: () => number): Promise<void> {
    const [sealing] = this.#keys
    if (sealing === undefined) return
    const key = this.#keyOf(name, sealing)
    const sealed = await sealing.seal(key, content)
    const wholeMs = Math.floor(ttlMs()) // sealing took time
    if (wholeMs >= 1) await this.#store.set(key, sealed, wholeMs)
  }

  /** Forgets the entry that is kept under `key`. */
  async delete(key: string): Promise<void> {
    await this.#store.delete(key)
  }

  /** Whether `lease` means anything: a store may do without. */
  get leases(): boolean {
    return this.#store.leases
  }

  /** The right to be the only one who writes under this name with these keys; undefined while another has it. */
  async lease(name: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    const [sealing] = this.#keys
    return sealing && (await this.#store.lease(this.#keyOf(name, sealing), ttlMs))
  }

  #keyOf(name: string, sealing: SealingKey): string {
    return `v1.${name}.${this.#client}.${sealing.id}`
  }
}

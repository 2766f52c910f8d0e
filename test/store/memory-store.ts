/** A token store in memory, on the clock of the test: it records its operations and fails on demand. */
import type { Clock, TokenStore } from 'merchant-auth'

export type Operation = 'get' | 'set' | 'lease' | 'release'
export type Entry = { readonly value: string; readonly ttlMs: number }

/** Replaces an operation; `run` executes the original one. */
export type Fault = (run: () => Promise<unknown>) => unknown

interface Timed<T> {
  readonly content: T
  readonly endsAt: number
}

export class MemoryStore implements TokenStore {
  /** The operations so far, in order. */
  readonly asked: { readonly operation: Operation; readonly key: string; readonly ttlMs?: number }[] = []
  readonly faults: Partial<Record<Operation, Fault | undefined>> = {}
  readonly lease?: NonNullable<TokenStore['lease']>
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #entries = new Map<string, Timed<string>>()
  readonly #leases = new Map<string, Timed<symbol>>()

  constructor(clock: Pick<Clock, 'monotonicMs'>, { leases = true } = {}) {
    this.#clock = clock
    if (leases) this.lease = (key, ttlMs) => this.#lease(key, ttlMs)
  }

  get(key: string): Promise<Entry | undefined> {
    return this.#run({ operation: 'get', key }, async () => this.entry(key))
  }

  set(key: string, value: string, ttlMs: number): Promise<void> {
    return this.#run({ operation: 'set', key, ttlMs }, async () => this.put(key, value, ttlMs))
  }

  /** Applies a fault to every operation; undefined ends it. */
  failAlways(fault: Fault | undefined): void {
    for (const operation of ['get', 'set', 'lease', 'release'] as const) this.faults[operation] = fault
  }

  /** The names of the operations so far. */
  get operations(): Operation[] {
    return this.asked.map(({ operation }) => operation)
  }

  /** The keys of all entries that have not expired. */
  get keys(): string[] {
    return [...this.#entries.keys()].filter((key) => this.entry(key) !== undefined)
  }

  /** The key of the only token entry. */
  get tokenKey(): string {
    const [key, ...others] = this.keys.filter((name) => name.startsWith('v2.token.'))
    if (key === undefined || others.length > 0) throw new Error(`${others.length} other token entries`)
    return key
  }

  /** The number of leases that have not expired. */
  get leased(): number {
    return [...this.#leases.values()].filter(({ endsAt }) => endsAt > this.#clock.monotonicMs()).length
  }

  /** Reads without recording an operation; `put` and `remove` write in the same way. */
  entry(key: string): Entry | undefined {
    const kept = this.#entries.get(key)
    const ttlMs = kept === undefined ? 0 : kept.endsAt - this.#clock.monotonicMs()
    return kept !== undefined && ttlMs > 0 ? { value: kept.content, ttlMs } : undefined
  }

  put(key: string, value: string, ttlMs: number): void {
    this.#entries.set(key, { content: value, endsAt: this.#clock.monotonicMs() + ttlMs })
  }

  remove(key: string): void {
    this.#entries.delete(key)
  }

  /** Acquires the lease of a key for another process; returns a function that releases it. */
  hold(key: string, ttlMs: number): () => void {
    const lease = { content: Symbol(key), endsAt: this.#clock.monotonicMs() + ttlMs }
    this.#leases.set(key, lease)
    return () => {
      if (this.#leases.get(key) === lease) this.#leases.delete(key)
    }
  }

  #lease(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    return this.#run({ operation: 'lease', key, ttlMs }, async () => {
      if ((this.#leases.get(key)?.endsAt ?? 0) > this.#clock.monotonicMs()) return undefined
      const release = this.hold(key, ttlMs)
      return () => this.#run({ operation: 'release', key }, async () => release())
    })
  }

  #run<T>(asked: MemoryStore['asked'][number], run: () => Promise<T>): Promise<T> {
    this.asked.push(asked)
    const fault = this.faults[asked.operation]
    return fault === undefined ? run() : (fault(run) as Promise<T>)
  }
}

/** The message of a store's own error, no part of which may appear in an event. */
export const ERROR_TEXT = 'connection to redis://app:swordfish@10.0.0.1 lost'

/** Faults, by name. */
export const FAILURES: Record<'throws' | 'rejects' | 'hangs', Fault> = {
  throws: () => {
    throw Object.assign(new Error(ERROR_TEXT), { code: 'ECONNREFUSED' })
  },
  rejects: () => Promise.reject(Object.assign(new Error(ERROR_TEXT), { code: 'ECONNREFUSED' })),
  hangs: () => new Promise(() => {}),
}

/** The code of the store-failed event for each fault. */
export const CODES = { throws: 'ECONNREFUSED', rejects: 'ECONNREFUSED', hangs: 'ETIMEDOUT' } as const

/** Delays an operation by `ms`. */
export function slow(clock: Clock, ms: number): Fault {
  return async (run) => {
    await clock.sleep(ms)
    return await run()
  }
}

/** Replaces the answer of an operation. */
export function answers(value: unknown): Fault {
  return async () => value
}

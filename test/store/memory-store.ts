/** A token store in memory, on a clock of the test's: it counts what is asked of it, and fails in every way. */
import type { Clock, TokenStore } from 'merchant-auth'

export type Operation = 'get' | 'set' | 'delete' | 'lease' | 'release'
export type Entry = { readonly value: string; readonly ttlMs: number }

/** What happens in the place of an operation; `run` does it all the same. */
export type Fault = (run: () => Promise<unknown>) => unknown

interface Timed<T> {
  readonly what: T
  readonly endsAt: number
}

export class MemoryStore implements TokenStore {
  /** What was asked, in order. */
  readonly asked: { readonly operation: Operation; readonly key: string; readonly ttlMs?: number }[] = []
  readonly faults: Partial<Record<Operation, Fault | undefined>> = {}
  readonly lease?: NonNullable<TokenStore['lease']>
  operationTimeoutMs?: number
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

  delete(key: string): Promise<void> {
    return this.#run({ operation: 'delete', key }, async () => this.remove(key))
  }

  /** Nothing works as it did. */
  failAlways(fault: Fault): void {
    for (const operation of ['get', 'set', 'lease', 'release'] as const) this.faults[operation] = fault
  }

  /** The operations so far, by name. */
  get operations(): Operation[] {
    return this.asked.map(({ operation }) => operation)
  }

  /** The names of what is there. */
  get keys(): string[] {
    return [...this.#entries.keys()].filter((key) => this.entry(key) !== undefined)
  }

  /** The name of the token's entry, where there is one and no other. */
  get tokenKey(): string {
    return this.#only('v1.token.')
  }

  /** The name of the rate limit's entry, where there is one and no other. */
  get limitKey(): string {
    return this.#only('v1.renewals-')
  }

  /** How many hold a lease. */
  get leased(): number {
    return [...this.#leases.values()].filter(({ endsAt }) => endsAt > this.#clock.monotonicMs()).length
  }

  /** Reads behind the back of those who use it, as `put` and `remove` write. */
  entry(key: string): Entry | undefined {
    const kept = this.#entries.get(key)
    const ttlMs = kept === undefined ? 0 : kept.endsAt - this.#clock.monotonicMs()
    return kept !== undefined && ttlMs > 0 ? { value: kept.what, ttlMs } : undefined
  }

  put(key: string, value: string, ttlMs: number): void {
    this.#entries.set(key, { what: value, endsAt: this.#clock.monotonicMs() + ttlMs })
  }

  remove(key: string): void {
    this.#entries.delete(key)
  }

  /** Somebody else takes the lease of a key. */
  hold(key: string, ttlMs: number): () => void {
    const mine = { what: Symbol(key), endsAt: this.#clock.monotonicMs() + ttlMs }
    this.#leases.set(key, mine)
    return () => {
      if (this.#leases.get(key) === mine) this.#leases.delete(key)
    }
  }

  #only(prefix: string): string {
    const [key, ...others] = this.keys.filter((name) => name.startsWith(prefix))
    if (key === undefined || others.length > 0) throw new Error(`${others.length} other entries of ${prefix}`)
    return key
  }

  #lease(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    return this.#run({ operation: 'lease', key, ttlMs }, async () => {
      if ((this.#leases.get(key)?.endsAt ?? 0) > this.#clock.monotonicMs()) return undefined
      const giveBack = this.hold(key, ttlMs)
      return () => this.#run({ operation: 'release', key }, async () => giveBack())
    })
  }

  #run<T>(asked: MemoryStore['asked'][number], run: () => Promise<T>): Promise<T> {
    this.asked.push(asked)
    const fault = this.faults[asked.operation]
    return fault === undefined ? run() : (fault(run) as Promise<T>)
  }
}

/** What a store's own error might say; none of it may be shown. */
export const ERROR_TEXT = 'connection to redis://app:swordfish@10.0.0.1 lost'

/** The ways to fail, by name. */
export const FAILURES: Record<'throws' | 'rejects' | 'hangs', Fault> = {
  throws: () => {
    throw Object.assign(new Error(ERROR_TEXT), { code: 'ECONNREFUSED' })
  },
  rejects: () => Promise.reject(Object.assign(new Error(ERROR_TEXT), { code: 'ECONNREFUSED' })),
  hangs: () => new Promise(() => {}),
}

/** The code that the event for a failure has. */
export const CODES = { throws: 'ECONNREFUSED', rejects: 'ECONNREFUSED', hangs: 'ETIMEDOUT' } as const

/** An operation that takes its time, and is done in the end. */
export function slow(clock: Clock, ms: number): Fault {
  return async (run) => {
    await clock.sleep(ms)
    return await run()
  }
}

/** An answer that cannot be parsed. */
export function answers(value: unknown): Fault {
  return async () => value
}

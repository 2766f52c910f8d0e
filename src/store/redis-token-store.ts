/** The store on Redis itself: everything is said by scripts, and waited for as long as it takes. */
import { randomUUID } from 'node:crypto'
import type { Clock } from '../clock.ts'
import type { RunScript } from './redis-client.ts'
import { LEASE, READ, RELEASE, REMOVE, REMOVE_AS_OWNER, WRITE, WRITE_AS_OWNER } from './redis-scripts.ts'
import type { TokenStore } from './token-store.ts'

interface Lease {
  readonly owner: string
  readonly ttlMs: number
  /** On the monotonic clock, at the latest. */
  readonly takenAt: number
}

/** A token store that says everything by scripts, and waits for as long as it takes. */
export class RedisTokenStore implements TokenStore {
  readonly operationTimeoutMs: number
  readonly #run: RunScript
  readonly #keyPrefix: string
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** Those that this process has, or has lost and does not know it. */
  readonly #leases = new Map<string, Lease>()
  /** Owners of leases that may still be there, although this process is through with them. */
  readonly #forsaken = new Map<string, string>()

  constructor(
    run: RunScript,
    { keyPrefix, operationTimeoutMs, clock }: { keyPrefix: string; operationTimeoutMs: number; clock: Clock },
  ) {
    this.#run = run
    this.#keyPrefix = keyPrefix
    this.operationTimeoutMs = operationTimeoutMs
    this.#clock = clock
  }

  async get(key: string): Promise<{ value: string; ttlMs: number } | undefined> {
    const [value, ttlMs] = (await this.#run(READ, this.#keysOf(key), [])) as [unknown, unknown]
    if (value === null || value === undefined) return undefined
    return { value: String(value), ttlMs: Number(ttlMs) }
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const lease = this.#leases.get(key)
    if (lease === undefined) await this.#run(WRITE, this.#keysOf(key), [value, Math.floor(ttlMs)])
    else {
      const leftMs = lease.ttlMs - (this.#clock.monotonicMs() - lease.takenAt)
      await this.#run(WRITE_AS_OWNER, this.#keysOf(key), [lease.owner, value, ttlMs, leftMs])
    }
  }

  async delete(key: string): Promise<void> {
    const lease = this.#leases.get(key)
    if (lease === undefined) await this.#run(REMOVE, this.#keysOf(key), [])
    else await this.#run(REMOVE_AS_OWNER, this.#keysOf(key), [lease.owner])
  }

  async lease(key: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    const owner = randomUUID()
    let taken: unknown
    try {
      const forsaken = this.#forsaken.get(key) ?? ''
      taken = await this.#run(LEASE, this.#keysOf(key), [owner, Math.ceil(ttlMs), forsaken])
    } catch (error) {
      this.#release(key, owner).catch(() => {}) // only the answer may have been lost
      throw error
    }
    if (Number(taken) !== 1) return undefined
    const lease = { owner, ttlMs, takenAt: this.#clock.monotonicMs() }
    this.#leases.set(key, lease)
    return async () => {
      if (this.#leases.get(key) === lease) this.#leases.delete(key)
      await this.#release(key, owner)
    }
  }

  async #release(key: string, owner: string): Promise<void> {
    this.#forsaken.set(key, owner)
    await this.#run(RELEASE, this.#keysOf(key), [owner])
    if (this.#forsaken.get(key) === owner) this.#forsaken.delete(key)
  }

  /** The token's key and its lease's. */
  #keysOf(key: string): [string, string] {
    const entry = `${this.#keyPrefix}{${key}}`
    return [entry, `${entry}:lease`]
  }
}

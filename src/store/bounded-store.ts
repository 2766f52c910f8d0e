/** A store whose operations end in time. */
import { type Clock, systemClock } from '../clock.ts'
import { within } from '../waiting.ts'
import type { TokenStore } from './token-store.ts'

/** How long (ms) an operation may take by default. */
export const OPERATION_TIMEOUT_MS = 250

type Release = () => Promise<void>

/** Another store with a limit on each operation: `operationTimeoutMs`, after which it rejects (`ETIMEDOUT`). */
export class BoundedStore implements TokenStore {
  /** The same store for one provider, which then writes by no leases but its own. */
  readonly own: () => TokenStore
  readonly lease?: NonNullable<TokenStore['lease']>
  readonly #store: TokenStore
  readonly #clock: Pick<Clock, 'monotonicMs' | 'sleep'>

  constructor(store: TokenStore, clock: Clock, own: () => TokenStore = () => store) {
    this.#store = store
    this.own = own
    this.#clock = patient(clock)
    if (store.lease !== undefined) this.lease = (key, ttlMs) => this.#lease(key, ttlMs)
  }

  get operationTimeoutMs(): number {
    return this.#store.operationTimeoutMs ?? OPERATION_TIMEOUT_MS
  }

  get(key: string): ReturnType<TokenStore['get']> {
    return this.#inTime(() => this.#store.get(key))
  }

  set(key: string, value: string, ttlMs: number): Promise<void> {
    return this.#inTime(() => this.#store.set(key, value, ttlMs))
  }

  delete(key: string): Promise<void> {
    return this.#inTime(() => this.#store.delete(key))
  }

  /** A lease that comes too late is given back: nobody would use it, and nobody else could have it. */
  async #lease(key: string, ttlMs: number): Promise<Release | undefined> {
    let late = false
    const take = async (): Promise<Release | undefined> => {
      const release = await this.#store.lease?.(key, ttlMs)
      if (!release) return undefined // whatever else a store says for it
      if (late) this.#inTime(release).catch(() => {}) // then it ends by itself
      return release
    }
    try {
      const release = await this.#inTime(take)
      return release && (() => this.#inTime(release))
    } catch (error) {
      late = true
      throw error
    }
  }

  async #inTime<T>(run: () => Promise<T>): Promise<T> {
    const endsAt = this.#clock.monotonicMs() + this.operationTimeoutMs
    return await within(this.#clock, { endsAt }, async () => run(), timedOut)
  }
}

const SLICES = 5

const { setImmediate: afterInput } = globalThis

/**
 * A process that stood still takes no store for a slow one: that uses up one slice of the time, and what has arrived
 * meanwhile is read first. Other clocks than the machine's may jump as they like.
 */
function patient(clock: Clock): Pick<Clock, 'monotonicMs' | 'sleep'> {
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

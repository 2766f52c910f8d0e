/** How many operations of a store are under way in this process, how long each may take, and that none begins while one hangs. */
import { Semaphore } from 'async-mutex'
import type { Clock } from '../base/clock.ts'
import { within } from '../base/waiting.ts'
import type { TokenStore } from './token-store.ts'

/** Operations that a store of a caller has under way. */
export const DEFAULT_SLOTS = 8
/** A queue that moves slower than this (ms) belongs to a store that hangs. */
const MAX_QUEUE_MS = 60_000

/** One operation of a store. */
export interface StoreOperation<T> {
  readonly run: () => Promise<T>
  /** How long it may take (ms), from its start. */
  readonly limitMs: number
  /** Whether it may begin although another one hangs, while the store has not answered this process yet. */
  readonly isUrgent: boolean
  /** When this is aborted, it does not begin any more. */
  readonly closed?: AbortSignal | undefined
}

/** The operations of one store, or of several that share threads or a connection. */
export class StoreQueue {
  readonly #slots: Semaphore
  /** Operations that took too long and have not ended. */
  #hanging = 0
  #hasAnswered = false

  constructor(slots: number = DEFAULT_SLOTS) {
    this.#slots = new Semaphore(slots)
  }

  /** @throws an error with the code `ETIMEDOUT` if the operation takes too long, or if another one hangs */
  async run<T>({ run, limitMs, isUrgent, closed }: StoreOperation<T>, clock: Clock): Promise<T> {
    closed?.throwIfAborted()
    const hasSlot = this.#slots.getValue() > 0
    if (this.#hanging > 0 && !(isUrgent && hasSlot && !this.#hasAnswered)) throw timedOut()
    const free = await this.#slot(clock, closed)
    const startedAt = clock.monotonicMs()
    const operation = started(run, closed)
    operation.then(free, free)
    const late = timedOut()
    try {
      const result = await within(
        clock,
        { endsAt: startedAt + limitMs },
        () => operation,
        () => late,
      )
      this.#hasAnswered = true
      return result
    } catch (error) {
      if (error === late) this.#hangs(operation)
      throw error
    }
  }

  async #slot(clock: Clock, closed: AbortSignal | undefined): Promise<() => void> {
    const acquired = this.#slots.acquire()
    if (!this.#slots.isLocked()) return (await acquired)[1]
    const endsAt = clock.monotonicMs() + MAX_QUEUE_MS
    try {
      const [, free] = await within(clock, { endsAt, closed }, () => acquired, timedOut)
      return free
    } catch {
      acquired.then(([, free]) => free()).catch(() => {}) // too late, or canceled
      closed?.throwIfAborted()
      throw timedOut()
    }
  }

  #hangs(operation: Promise<unknown>): void {
    this.#hanging += 1
    const end = (): void => {
      this.#hanging -= 1
    }
    operation.then(end, end)
    this.#slots.cancel() // those that wait for a slot fail, too
  }
}

const queues = new WeakMap<object, StoreQueue>()

/**
 * The queue of what shares threads or a connection: by default the store itself.
 *
 * @param slots how many operations it may have under way
 */
export function queueOf(shared: object, slots?: number): StoreQueue {
  const queue = queues.get(shared) ?? new StoreQueue(slots)
  queues.set(shared, queue)
  return queue
}

/** Gives a store the queue that it shares with others. */
export function shareQueue(store: TokenStore, queue: StoreQueue): TokenStore {
  queues.set(store, queue)
  return store
}

/** A store of a caller may throw. */
async function started<T>(run: () => Promise<T>, closed: AbortSignal | undefined): Promise<T> {
  closed?.throwIfAborted()
  return await run()
}

function timedOut(): Error {
  return Object.assign(new Error('The token store did not answer in time'), { code: 'ETIMEDOUT' })
}

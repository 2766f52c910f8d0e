/** The runs of a provider: callers with the same key share one, runs follow one another, and a lost one is replaced. */
import { Mutex } from 'async-mutex'
import pMemoize from 'p-memoize'
import type { Clock } from '../base/clock.ts'
import { isFrameworkError, MerchantAuthError } from '../base/errors.ts'
import { untilAborted, waitFor } from '../base/waiting.ts'

/** How long (ms) after the deadline of its step a run counts as lost. */
export const LOST_AFTER_MS = 1_000
/** After a freeze, the result of a run's step may have arrived and not be read yet: it is waited for so long (ms). */
export const AFTER_FREEZE_MS = 100

/** Rejects a wait for a run that was lost. */
const LOST = Symbol('lost')

/** Runs in order. Those after a lost one would wait forever: then a new queue takes its place. */
class RunQueue {
  /** When (monotonic ms) the present step of the run whose turn it is must have ended; infinite if there is no run. */
  stepEndsAt = Number.POSITIVE_INFINITY
  /** When (monotonic ms) its run was first found to have outlived its step. */
  lateSince: number | undefined
  /** Whether another queue has taken its place. */
  isReplaced = false
  readonly #keys = new Set<string>()
  /** How many runs are under way, or wait for their turn. */
  #unfinished = 0
  readonly #mutex = new Mutex()
  readonly #firstStepEndsAt: () => number

  /** `firstStepEndsAt`: when (monotonic ms) the first step of a run that begins now must have ended. */
  constructor(firstStepEndsAt: () => number) {
    this.#firstStepEndsAt = firstStepEndsAt
  }

  readonly join: (key: string, run: () => Promise<void>) => Promise<void> = pMemoize(
    async (key: string, run: () => Promise<void>) => {
      this.#keys.add(key)
      this.#unfinished += 1
      try {
        await this.#mutex.runExclusive(async () => {
          try {
            if (this.isReplaced) throw LOST // the run before was only late, and this one runs in another queue
            await run()
          } finally {
            this.#unfinished -= 1
            // Set here rather than by the next run: on Workers that one may have been dropped while it waited, and never begins.
            this.stepEndsAt = this.#unfinished > 0 ? this.#firstStepEndsAt() : Number.POSITIVE_INFINITY
          }
        })
      } finally {
        this.#keys.delete(key)
      }
    },
    { cache: false },
  )

  has(key?: string): boolean {
    return key === undefined ? this.#keys.size > 0 : this.#keys.has(key)
  }
}

interface RunsOptions {
  /** The limit of a run's first step (ms). */
  readonly firstStepMs: number
  /** Ends every wait. */
  readonly closed: AbortSignal
  /** The error of a call whose run was lost twice. */
  readonly lost: () => Error
}

/**
 * Everything that may send a token request. A run ends by the limits of its steps. It is lost where it outlives them: on
 * Cloudflare Workers, which drop what a request started when that request ends.
 */
export class Runs {
  readonly #clock: Clock
  readonly #firstStepMs: number
  readonly #closed: AbortSignal
  readonly #lost: () => Error
  #queue: RunQueue
  /** The waits that began in this tick. */
  readonly #waits = new Map<string, Promise<void>>()

  constructor(clock: Clock, { firstStepMs, closed, lost }: RunsOptions) {
    this.#clock = clock
    this.#firstStepMs = firstStepMs
    this.#closed = closed
    this.#lost = lost
    this.#queue = this.#newQueue()
  }

  /** Whether a run is under way, or waits for its turn: the one with this key, or any. */
  has(key?: string): boolean {
    return this.#queue.has(key) && !this.#hasBeenLate()
  }

  /** The run whose turn it is begins a step that ends within `ms`. */
  beginStep(ms: number): void {
    this.#queue.stepEndsAt = this.#clock.monotonicMs() + ms
    this.#queue.lateSince = undefined
  }

  /** Settles as the run with this key does: the one that is under way, or else a new one, after all earlier runs. */
  async join(key: string, run: () => Promise<void>, signal?: AbortSignal): Promise<void> {
    if (this.#isLost()) {
      const pause = this.#clock.sleep(AFTER_FREEZE_MS, this.#closed)
      await waitFor(untilAborted(pause, this.#closed), signal)
      this.#replaceIfLost()
    }
    for (let isSecond = false; ; isSecond = true) {
      const queue = this.#queue
      try {
        if (!queue.has()) this.beginStep(this.#firstStepMs)
        return await waitFor(this.#wait(key, run), signal)
      } catch (error) {
        const isOwn = error instanceof MerchantAuthError || isFrameworkError(error)
        if (signal?.aborted || isOwn) throw error
        if (isSecond) throw error === LOST ? this.#lost() : error
        // In newer runtimes, the promise of a lost run rejects with an error of the runtime.
        if (error === LOST) this.#replaceIfLost()
        else if (this.#queue === queue) this.#replace()
      }
    }
  }

  /** Resolves when no run is under way any more, or it is lost. */
  async settled(): Promise<void> {
    const queue = this.#queue
    await this.#untilLost(
      queue.join('settled', async () => {}),
      queue,
    ).catch(() => {})
  }

  /** Starts a run that no caller waits for, and that keeps no process alive. Its failure is an event. */
  start(key: string, run: () => Promise<void>, onSuccess: () => void = () => {}): void {
    this.#replaceIfLost()
    if (!this.#queue.has()) this.beginStep(this.#firstStepMs)
    this.#queue
      .join(key, run)
      .then(onSuccess)
      .catch(() => {})
  }

  /** All calls of one tick share a wait. Those of different requests do not: on Workers, its timer is lost with the request. */
  #wait(key: string, run: () => Promise<void>): Promise<void> {
    const begun = this.#waits.get(key)
    if (begun !== undefined) return begun
    const queue = this.#queue
    const wait = untilAborted(this.#untilLost(queue.join(key, run), queue), this.#closed)
    this.#waits.set(key, wait)
    Promise.resolve().then(() => this.#waits.delete(key)) // fake timers replace queueMicrotask
    return wait
  }

  #newQueue(): RunQueue {
    return new RunQueue(() => this.#clock.monotonicMs() + this.#firstStepMs)
  }

  /** Settles with the run; rejects with {@link LOST} when the run whose turn it is has outlived its step. */
  async #untilLost(joined: Promise<void>, queue: RunQueue): Promise<void> {
    const settled = new AbortController()
    const watch = async (): Promise<void> => {
      for (let dueAt = Number.POSITIVE_INFINITY; ; ) {
        const now = this.#clock.monotonicMs()
        const leftMs = queue.stepEndsAt + LOST_AFTER_MS - now
        const stoodStill = now - dueAt >= AFTER_FREEZE_MS // then the run's own timers come first
        if (leftMs <= 0 && !stoodStill) throw LOST
        const betweenRuns = leftMs === Number.POSITIVE_INFINITY
        const waitMs = leftMs <= 0 ? AFTER_FREEZE_MS : betweenRuns ? LOST_AFTER_MS : leftMs
        dueAt = now + waitMs
        await this.#clock.sleep(waitMs, settled.signal)
      }
    }
    try {
      await Promise.race([joined, watch()])
    } finally {
      settled.abort('settled') // without a reason, each would make an error
    }
  }

  #isLost(): boolean {
    return this.#clock.monotonicMs() >= this.#queue.stepEndsAt + LOST_AFTER_MS
  }

  /**
   * Whether its run was first found lost so long ago that a process that only stood still would have gone on. Notes the first
   * time.
   */
  #hasBeenLate(): boolean {
    if (!this.#isLost()) return false
    const now = this.#clock.monotonicMs()
    this.#queue.lateSince ??= now
    return now >= this.#queue.lateSince + AFTER_FREEZE_MS
  }

  #replaceIfLost(): void {
    if (this.#isLost()) this.#replace()
  }

  #replace(): void {
    this.#queue.isReplaced = true
    this.#queue = this.#newQueue()
  }
}

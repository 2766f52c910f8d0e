/** The runs of a provider: callers with the same key share one, runs follow one another, and a lost one is replaced. */
import { Mutex } from 'async-mutex'
import pMemoize from 'p-memoize'
import type { Clock } from '../clock.ts'
import { isFrameworkError, MerchantAuthError } from '../errors.ts'
import { untilAborted, waitFor } from '../waiting.ts'

/** A run counts as lost so long (ms) after the limit of its present step. */
const LOST_AFTER_MS = 1_000
/** After a freeze, the step of a run may have ended and not be read yet: whoever comes then waits for so long (ms). */
const AFTER_FREEZE_MS = 100

/** Rejects a wait for a run that was lost. */
const LOST = Symbol('lost')

/** Runs in order. Those after a lost one would wait forever: then a new line takes its place. */
class Line {
  /** When (monotonic ms) the present step of the run whose turn it is must have ended; infinite if there is no run. */
  stepEndsAt = Number.POSITIVE_INFINITY
  /** When (monotonic ms) its run was first found to have outlived its step. */
  lateSince: number | undefined
  /** Whether another line has taken its place. */
  isReplaced = false
  readonly #keys = new Set<string>()
  readonly #turn = new Mutex()

  readonly join: (key: string, run: () => Promise<void>) => Promise<void> = pMemoize(
    async (key: string, run: () => Promise<void>) => {
      this.#keys.add(key)
      try {
        await this.#turn.runExclusive(async () => {
          if (this.isReplaced) throw LOST // the run before was only late, and this one runs in another line
          try {
            await run()
          } finally {
            this.stepEndsAt = Number.POSITIVE_INFINITY // before the next turn begins
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
  #line = new Line()

  constructor(clock: Clock, { firstStepMs, closed, lost }: RunsOptions) {
    this.#clock = clock
    this.#firstStepMs = firstStepMs
    this.#closed = closed
    this.#lost = lost
  }

  /** Whether a run is under way, or waits for its turn: the one with this key, or any. */
  has(key?: string): boolean {
    return this.#line.has(key) && !this.#hasBeenLate()
  }

  /** The run whose turn it is begins a step that ends within `ms`. */
  beginStep(ms: number): void {
    this.#line.stepEndsAt = this.#clock.monotonicMs() + ms
    this.#line.lateSince = undefined
  }

  /** Settles as the run with this key does: the one that is under way, or else a new one, after all earlier runs. */
  async join(key: string, run: () => Promise<void>, signal?: AbortSignal): Promise<void> {
    if (this.#isLost()) {
      const line = this.#line
      await untilAborted(this.#clock.sleep(AFTER_FREEZE_MS, signal), signal)
      this.#replaceIfLost(line)
    }
    for (let isSecond = false; ; isSecond = true) {
      const line = this.#line
      try {
        if (!line.has()) this.beginStep(this.#firstStepMs)
        const joined = line.join(key, run)
        return await waitFor(untilAborted(this.#untilLost(joined, line), this.#closed), signal)
      } catch (error) {
        const isOwn = error instanceof MerchantAuthError || isFrameworkError(error)
        if (signal?.aborted || isOwn) throw error
        if (isSecond) throw error === LOST ? this.#lost() : error
        // In newer runtimes, the promise of a lost run rejects with an error of the runtime.
        if (error === LOST) this.#replaceIfLost(line)
        else if (this.#line === line) this.#replace()
      }
    }
  }

  /** Resolves when no run is under way any more, or it is lost. */
  async settled(): Promise<void> {
    const line = this.#line
    await this.#untilLost(
      line.join('settled', async () => {}),
      line,
    ).catch(() => {})
  }

  /** Starts a run that nobody waits for, and that keeps no process alive. */
  start(key: string, run: () => Promise<void>): void {
    this.#replaceIfLost(this.#line)
    if (!this.#line.has()) this.beginStep(this.#firstStepMs)
    this.#line.join(key, run).catch(() => {}) // its failure is an event
  }

  /** Settles with the run; rejects with {@link LOST} when the run whose turn it is has outlived its step. */
  async #untilLost(joined: Promise<void>, line: Line): Promise<void> {
    const settled = new AbortController()
    const watch = async (): Promise<void> => {
      for (let dueAt = Number.POSITIVE_INFINITY; ; ) {
        const now = this.#clock.monotonicMs()
        const leftMs = line.stepEndsAt + LOST_AFTER_MS - now
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
      settled.abort()
    }
  }

  #isLost(): boolean {
    return this.#clock.monotonicMs() >= this.#line.stepEndsAt + LOST_AFTER_MS
  }

  /** Whether it was found lost before, long enough ago for a run that was only frozen to go on. */
  #hasBeenLate(): boolean {
    if (!this.#isLost()) return false
    const now = this.#clock.monotonicMs()
    this.#line.lateSince ??= now
    return now >= this.#line.lateSince + AFTER_FREEZE_MS
  }

  #replaceIfLost(line: Line): void {
    if (this.#line === line && this.#isLost()) this.#replace()
  }

  #replace(): void {
    this.#line.isReplaced = true
    this.#line = new Line()
  }
}

/** The acquisition under way, at most one: whoever needs a token waits for it or begins it. A lost one is aborted and replaced. */
import { Mutex, type MutexInterface } from 'async-mutex'
import pMemoize from 'p-memoize'
import type { Clock } from '../base/clock.ts'
import { isFrameworkError, MerchantAuthError, ProviderClosedError } from '../base/errors.ts'
import { untilAborted, waitFor } from '../base/waiting.ts'

/** How long (ms) after its longest time an acquisition counts as lost. */
const LOST_AFTER_MS = 1_000
/** After a freeze, a result may have arrived and not be read yet: it is waited for so long (ms). */
const AFTER_FREEZE_MS = 100

/** Aborts a lost acquisition. */
const LOST = Symbol('lost')

/** An acquisition. */
interface Flight<Need> {
  readonly need: Need
  /** Resolves with what ends it for those who begin the next one. */
  readonly lock: Promise<MutexInterface.Releaser>
  readonly aborting: AbortController
  /**
   * When (monotonic ms) it is late, and lost a moment later: on Cloudflare Workers, which drop what a request started when
   * that request ends.
   */
  lateAt: number
  isLate: boolean
}

interface SingleFlightOptions<Need> {
  readonly clock: Clock
  /** How long (ms) an acquisition takes at most. */
  readonly longestMs: number
  readonly acquire: (need: Need, signal: AbortSignal) => Promise<void>
}

export class SingleFlight<Need> {
  readonly #clock: Clock
  readonly #longestMs: number
  /** Held while a token is acquired. A lost acquisition may never release it: then another lock takes its place. */
  #lock = new Mutex()
  #flight: Flight<Need> | undefined
  /** Everybody who waits for an acquisition shares its promise. */
  readonly #acquire: (flight: Flight<Need>) => Promise<void>
  /** The wait of all calls of this tick. */
  #wait: { readonly flight: Flight<Need>; readonly outcome: Promise<Outcome> } | undefined

  constructor({ clock, longestMs, acquire }: SingleFlightOptions<Need>) {
    this.#clock = clock
    this.#longestMs = longestMs
    this.#acquire = pMemoize(
      async ({ need, lock, aborting: { signal } }: Flight<Need>) => {
        const release = await lock
        try {
          await acquire(need, signal)
        } finally {
          release()
        }
      },
      { cache: false },
    )
  }

  /** What the acquisition under way is for; undefined if there is none. */
  get underWay(): Need | undefined {
    const flight = this.#flight
    if (flight === undefined || !this.#lock.isLocked() || this.#isLost(flight)) return undefined
    return flight.need
  }

  /** Begins an acquisition, and returns what it is for. Only while none is under way. */
  begin(need: Need): Need {
    const flight = {
      need,
      lock: this.#lock.acquire(),
      aborting: new AbortController(),
      lateAt: this.#clock.monotonicMs() + this.#longestMs + LOST_AFTER_MS - AFTER_FREEZE_MS,
      isLate: false,
    }
    this.#flight = flight
    this.#acquire(flight).catch(() => {}) // its failure is an event
    return need
  }

  /** Settles as the acquisition that was begun last does, or when it is lost, or the signal aborted. */
  ended(signal?: AbortSignal): Promise<Outcome> {
    const flight = this.#flight as Flight<Need>
    // Calls of different requests share no wait: on Workers, its timer is lost with the request.
    if (this.#wait?.flight !== flight) {
      this.#wait = { flight, outcome: this.#outcomeOf(flight) }
      Promise.resolve().then(() => {
        this.#wait = undefined
      })
    }
    return waitFor(this.#wait.outcome, signal)
  }

  /** Aborts the acquisition under way, and resolves when it has ended. */
  async close(): Promise<void> {
    const flight = this.#flight
    if (this.underWay === undefined || flight === undefined) return
    flight.aborting.abort(new ProviderClosedError())
    await waitFor(this.#untilLost(flight, this.#acquire(flight)), undefined).catch(() => {}) // keeps the process alive
  }

  async #outcomeOf(flight: Flight<Need>): Promise<Outcome> {
    const { signal } = flight.aborting
    try {
      await this.#untilLost(flight, untilAborted(this.#acquire(flight), signal))
      return 'ended'
    } catch (error) {
      if (error instanceof MerchantAuthError || isFrameworkError(error)) throw error
      this.#lose(flight) // in newer runtimes, the promise of a lost one rejects with an error of the runtime
      return 'lost'
    }
  }

  /** Settles with the promise; rejects when the acquisition is lost. */
  async #untilLost(flight: Flight<Need>, ended: Promise<void>): Promise<void> {
    const settled = new AbortController()
    const watch = async (): Promise<never> => {
      while (!this.#isLost(flight))
        await this.#clock.sleep(Math.max(0, flight.lateAt - this.#clock.monotonicMs()), settled.signal)
      throw LOST
    }
    try {
      await Promise.race([ended, watch()])
    } finally {
      settled.abort('settled') // without a reason, each would make an error
    }
  }

  /** A late one may belong to a process that stood still: then its own timers come first. */
  #isLost(flight: Flight<Need>): boolean {
    const now = this.#clock.monotonicMs()
    if (now < flight.lateAt) return false
    if (flight.isLate) {
      this.#lose(flight)
      return true
    }
    flight.isLate = true
    flight.lateAt = now + AFTER_FREEZE_MS
    return false
  }

  #lose(flight: Flight<Need>): void {
    flight.aborting.abort(LOST)
    if (this.#flight !== flight) return
    this.#flight = undefined
    this.#lock = new Mutex()
  }
}

/** How an acquisition ended that did not fail. */
type Outcome = 'ended' | 'lost'

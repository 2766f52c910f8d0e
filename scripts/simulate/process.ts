/** One process of the fleet: its own clocks, its own provider, and its calls. */
import type { Clock } from '../../src/clock.ts'
import type { AccessToken, TokenProvider } from '../../src/index.ts'
import type { Random } from '../soak/random.ts'
import type { Figures } from './figures.ts'
import type { RedisOnNetwork } from './redis.ts'
import type { Scenario } from './scenario.ts'
import type { SimulatedTokenEndpoint } from './token-endpoint.ts'
import { type Happening, KINDS, type Owner, type World } from './world.ts'

const START = Date.UTC(2026, 0, 1)
const HOUR_MS = 3_600_000
const MOST_SKEW_MS = 12 * HOUR_MS
const MOST_UPTIME_MS = 1_000 * HOUR_MS

/** After a request that failed because the process stood still, others fail for so long. */
const LONGEST_COOLDOWN_MS = 5_000

const LONGEST_WAIT_MS = 60_000

/** What a process has to do with the rest of the world. */
export interface Surroundings {
  readonly world: World
  readonly scenario: Scenario
  readonly figures: Figures
  readonly endpoint: SimulatedTokenEndpoint
  readonly redis: RedisOnNetwork
  readonly random: Random
  provider(process: SimulatedProcess): TokenProvider
}

export class SimulatedProcess implements Owner {
  alive = true
  standsStillUntil = 0
  /** The number of the last token that the token endpoint gave it. */
  newestToken = -1
  holdsLease = false
  readonly slot: number
  readonly clock: Clock
  readonly #around: Surroundings
  readonly #provider: TokenProvider
  readonly #kept: Happening[] = []
  readonly #call: Happening
  #token: AccessToken | undefined
  #number = -1
  #expiresAt = 0
  #clockReads = 0
  #pauseMs = 0
  /** When each call that waits for a token began. */
  readonly #waiting = new Set<number>()

  constructor(slot: number, around: Surroundings) {
    const { world, random } = around
    this.slot = slot
    this.#around = around
    this.clock = this.#createClock(random)
    this.#provider = around.provider(this)
    this.#call = world.after(this.#untilNextCall(), {
      kind: 'call',
      owner: this,
      run: () => this.#makeCall(),
    })
  }

  /** Nothing happens to it for some time: a long garbage collection, a frozen virtual machine. */
  standStill(ms: number): void {
    const { world, figures } = this.#around
    if (this.standsStillUntil > world.now) return
    figures.paused += 1
    this.standsStillUntil = world.now + ms
    world.after(ms, { kind: 'timer', owner: this, run: () => this.#goOn() })
  }

  /** It stands still as soon as the token endpoint has answered: what it sends then is late. */
  standStillWhenAnswered(ms: number): void {
    this.#pauseMs = ms
  }

  /** The token endpoint's answer is there. */
  answered(token: number): void {
    this.newestToken = token
    if (this.#pauseMs > 0) this.standStill(this.#pauseMs)
    this.#pauseMs = 0
  }

  /** How long (ms) what it sends now is on hold. */
  get holdsBackMs(): number {
    return Math.max(0, this.standsStillUntil - this.#around.world.now)
  }

  /** Calls that have waited for longer than any may. */
  get forgottenCalls(): number {
    const { world } = this.#around
    if (this.standsStillUntil + LONGEST_WAIT_MS > world.now) return 0
    return [...this.#waiting].filter((from) => from + LONGEST_WAIT_MS < world.now).length
  }

  keep(happening: Happening): void {
    this.#kept.push(happening)
  }

  /** It is no more: what it has in hand comes to nothing, and nothing of it gets out. */
  die(): void {
    this.alive = false
    if (this.holdsLease) this.#around.figures.leasesLost += 1
    this.#provider.close().catch(() => {}) // lets go of most real timers
  }

  #goOn(): boolean {
    const kept = this.#kept.splice(0)
    for (const kind of KINDS)
      for (const happening of kept) if (happening.kind === kind && !happening.over) happening.run()
    return true
  }

  #makeCall(): boolean {
    const { world, figures } = this.#around
    figures.calls += 1
    world.again(this.#untilNextCall(), this.#call)
    this.#clockReads = 0
    const token = this.#provider.currentToken()
    const looked = this.#clockReads
    if (token === undefined) {
      this.#waitForToken()
      return true
    }
    this.#got(token)
    return looked > 1 // a token that need not be renewed yet costs one look at the clock; the world notices the rest
  }

  #waitForToken(): void {
    const { world, figures } = this.#around
    const from = world.now
    this.#waiting.add(from)
    this.#provider.getToken().then(
      (token) => {
        if (!this.alive) return
        this.#waiting.delete(from)
        figures.waited({ from, ms: world.now - from, stoodStill: this.standsStillUntil > from })
        this.#got(token)
      },
      (error: unknown) => {
        if (!this.alive) return
        this.#waiting.delete(from)
        figures.failed({ error, stoodStill: this.standsStillUntil + LONGEST_COOLDOWN_MS > from })
      },
    )
  }

  #got(token: AccessToken): void {
    const { world, figures, endpoint, redis } = this.#around
    if (token !== this.#token) {
      this.#token = token
      this.#number = endpoint.numberOf(token.value)
      this.#expiresAt = endpoint.expiryOf(this.#number)
    }
    if (world.now >= this.#expiresAt) figures.expired += 1
    if (this.#number < redis.newest) figures.older += 1
  }

  #untilNextCall(): number {
    const { random, scenario } = this.#around
    return -Math.log(1 - random.next()) * scenario.callEveryMs
  }

  #createClock(random: Random): Clock {
    const { world } = this.#around
    const skewMs = Math.round((2 * random.next() - 1) ** 3 * MOST_SKEW_MS) // minutes for some, hours for others
    const uptimeMs = random.next() * MOST_UPTIME_MS
    return {
      monotonicMs: () => {
        this.#clockReads += 1
        return uptimeMs + world.now
      },
      epochMs: () => START + skewMs + Math.floor(world.now),
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          if (signal?.aborted) return reject(signal.reason)
          let sleeper: Happening | undefined
          const onAbort = (): void => {
            if (sleeper !== undefined) sleeper.over = true
            reject(signal?.reason)
          }
          signal?.addEventListener('abort', onAbort, { once: true })
          if (!this.alive) return
          world.acts(this)
          const wake = (): boolean => {
            signal?.removeEventListener('abort', onAbort)
            resolve()
            return true
          }
          sleeper = world.after(ms, { kind: 'timer', owner: this, run: wake })
        }),
    }
  }
}

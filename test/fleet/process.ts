/** One process of a fleet: a provider with a store, clocks and a link of its own, which may stand still or die. */
import { type AccessToken, createTokenProvider, type TokenProvider } from '../../src/index.ts'
import { createRedisTokenStore } from '../../src/store/redis.ts'
import { RaceClock } from '../races/clock.ts'
import { redisClient } from '../support/simulated-redis.ts'
import type { FleetOptions, Machine } from './actions.ts'
import type { FleetEndpoint } from './endpoint.ts'
import { Link } from './link.ts'
import type { ProcessReferee } from './process-referee.ts'
import type { Server } from './server.ts'
import { type Later, Steps } from './steps.ts'

const API = 'https://api.test.example/merchant'

/** What a process lives in. */
export interface Surroundings {
  readonly server: Server
  readonly endpoint: FleetEndpoint
  readonly options: FleetOptions
  readonly later: Later
}

/** One thing that a caller waits for. */
interface Waiting {
  readonly name: string
  /** Time in which the process was able to do what it had to do. */
  waitedMs: number
}

export class FleetProcess {
  readonly referee: ProcessReferee
  readonly machine: Machine
  readonly clock: RaceClock
  readonly link: Link
  /** What it does. */
  readonly steps: Steps
  readonly waiting = new Set<Waiting>()
  readonly #provider: TokenProvider

  constructor(referee: ProcessReferee, machine: Machine, { server, endpoint, options, later }: Surroundings) {
    const { name } = referee
    this.referee = referee
    this.machine = machine
    this.steps = new Steps(later)
    this.clock = new RaceClock((wake) => void this.steps.later(`a timer of ${name} fires`).then(wake))
    this.clock.advance(machine.monotonicMs)
    this.clock.stepWallClock(machine.epochMs - machine.monotonicMs)
    this.link = new Link({
      name,
      machine,
      server,
      steps: this.steps,
      later,
      onCommand: (command) => referee.sends(command),
    })
    const { clock } = this
    this.#provider = createTokenProvider({
      environment: {
        authUrl: 'https://auth.test.example',
        audience: 'https://api.test.example',
        apiUrls: [API],
      },
      clientId: 'client-1',
      clientSecret: 'swordfish',
      store: createRedisTokenStore(redisClient(this.link.run), { keyPrefix: 'm:' }),
      fetch: endpoint.fetchOf({
        name,
        arrives: (label) => this.steps.later(label),
        begins: () => referee.requestBegins(),
        ends: (fate) => referee.requestEnds(fate),
      }),
      onEvent: (event) => referee.hears(event, this.waiting.size > 0),
      clock,
      ...options,
    })
  }

  get name(): string {
    return this.referee.name
  }

  /** Whether calls of it count: it is neither dead nor closed. */
  get lives(): boolean {
    return !this.steps.areOver && !this.referee.closed
  }

  /** The token that it hands out, where there is one. */
  async getToken(): Promise<string | undefined> {
    return await this.#wait('getToken', async () => this.#valueOf(await this.#provider.getToken()))
  }

  /** An API has refused this token: what it hands out instead. */
  async renewToken(value: string): Promise<string | undefined> {
    this.referee.refuses(value)
    return await this.#wait('renewToken', async () => {
      const token = await this.#provider.renewToken(value, { url: `${API}/orders` })
      if (token?.value === value) throw new Error(`renewToken gave ${value} back`)
      return token && this.#valueOf(token)
    })
  }

  async close(): Promise<void> {
    this.referee.closed = true
    await this.#wait('close()', async () => {
      await this.#provider.close()
      if (!this.link.idle) this.referee.leavesBehind()
      return undefined
    })
  }

  /** Whether there is nothing that it waits for, or that is under way. */
  get isIdle(): boolean {
    const isQuiet = this.steps.idle && this.link.idle && this.clock.untilNextWakeMs() === undefined
    return isQuiet && this.waiting.size === 0 && this.referee.isIdle
  }

  /** Time goes by. */
  advance(ms: number): void {
    if (this.steps.areOver) return
    const { mostMs } = this.referee
    if (this.steps.idle && !this.steps.isHeld) {
      const activeMs = Math.min(ms, this.clock.untilNextWakeMs() ?? ms)
      this.referee.lives(this.link.idle && this.waiting.size > 0 ? activeMs : 0)
      for (const call of this.waiting) {
        call.waitedMs += activeMs
        if (call.waitedMs > mostMs) this.referee.waitsTooLong(call.name, call.waitedMs)
      }
    }
    this.clock.advance(ms)
  }

  /** Its value, and whether it says the truth about its end. */
  #valueOf({ value, expiresAt }: AccessToken): string {
    this.referee.expects(value, expiresAt - this.clock.epochMs())
    return value
  }

  async #wait(name: string, run: () => Promise<string | undefined>): Promise<string | undefined> {
    const call = { name, waitedMs: 0 }
    this.waiting.add(call)
    try {
      const value = await run()
      if (value !== undefined) this.referee.gets(value)
      return value
    } catch (error) {
      this.referee.fails(name, error)
      return undefined
    } finally {
      this.waiting.delete(call)
      this.referee.ends()
    }
  }
}

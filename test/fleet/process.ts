/** One process of a fleet: a provider with its own store, clocks and link, which can freeze or die. */
import { type AccessToken, createTokenProvider, type TokenProvider } from '../../src/index.ts'
import { createRedisTokenStore } from '../../src/store/redis.ts'
import type { Later, ModelEndpoint } from '../model/endpoint.ts'
import { ScheduledClock } from '../support/clock.ts'
import { redisClient } from '../support/simulated-redis.ts'
import type { FleetOptions, Machine } from './actions.ts'
import type { ProcessReferee } from './process-referee.ts'
import { Link, type Server } from './redis.ts'
import { Steps } from './steps.ts'

const API = 'https://api.test.example/merchant'

/** What a process shares with the others. */
export interface Surroundings {
  readonly server: Server
  readonly endpoint: ModelEndpoint
  readonly options: FleetOptions
  readonly later: Later
}

/** A call whose outcome a caller waits for. */
interface Waiting {
  readonly name: string
  /** The waiting time in which the process was able to run (ms). */
  waitedMs: number
}

export class FleetProcess {
  readonly referee: ProcessReferee
  readonly machine: Machine
  readonly clock: ScheduledClock
  readonly link: Link
  /** Everything that the process does. */
  readonly steps: Steps
  readonly waiting = new Set<Waiting>()
  readonly #provider: TokenProvider

  constructor(referee: ProcessReferee, machine: Machine, { server, endpoint, options, later }: Surroundings) {
    const { name } = referee
    this.referee = referee
    this.machine = machine
    this.steps = new Steps(later)
    this.clock = new ScheduledClock((wake) => void this.steps.later(`a timer of ${name} fires`).then(wake))
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
        requestBegins: () => referee.requestBegins(),
        requestEnds: (answer) => referee.requestEnds(answer),
        issue: ({ sent, lifetimeMs }) => referee.ledger.issue(name, sent, lifetimeMs),
        arrives: this.steps.later,
      }),
      onEvent: (event) => {
        if (event.type === 'store-failed') this.link.giveUp()
        referee.hears(event, this.waiting.size > 0)
      },
      clock,
      ...options,
    })
  }

  get name(): string {
    return this.referee.name
  }

  /** Whether the process is neither dead nor closed. */
  get lives(): boolean {
    return !this.steps.areOver && !this.referee.closed
  }

  /** The token that it hands out; undefined if the call fails. */
  async getToken(): Promise<string | undefined> {
    return await this.#wait('getToken', async () => this.#valueOf(await this.#provider.getToken()))
  }

  /** Reports this token as rejected; resolves with the token that it hands out instead. */
  async renewToken(value: string): Promise<string | undefined> {
    this.referee.rejects(value)
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
      if (this.link.isAwaited) this.referee.leavesBehind()
      return undefined
    })
  }

  /** Whether no call waits and nothing is in flight. */
  get isIdle(): boolean {
    const isQuiet = this.steps.idle && this.link.idle && this.clock.untilNextWakeMs() === undefined
    return isQuiet && this.waiting.size === 0 && this.referee.isIdle
  }

  /** Lets time pass. */
  advance(ms: number): void {
    if (this.steps.areOver) return
    const { mostMs } = this.referee
    if (this.waiting.size > 0 && this.steps.idle && !this.steps.isPaused) {
      const activeMs = Math.min(ms, this.clock.untilNextWakeMs() ?? ms)
      this.referee.lives(this.link.idle ? activeMs : 0)
      for (const call of this.waiting) {
        call.waitedMs += activeMs
        if (call.waitedMs > mostMs) this.referee.waitsTooLong(call.name, call.waitedMs)
      }
    }
    this.clock.advance(ms)
  }

  /** The value of a token, whose expiry is checked. */
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

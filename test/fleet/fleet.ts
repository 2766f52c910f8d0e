/** The processes of a fleet with their Redis and their token endpoint, and what happens to them. */
import { RaceClock } from '../races/clock.ts'
import type { Action, Machine, Story } from './actions.ts'
import { FleetEndpoint } from './endpoint.ts'
import { Ledger } from './ledger.ts'
import { FleetProcess } from './process.ts'
import { ProcessReferee } from './process-referee.ts'
import { Rations } from './rations.ts'
import { RedisReferee } from './redis-referee.ts'
import { sealing } from './sealing.ts'
import { Server } from './server.ts'
import type { Later } from './steps.ts'

export class Fleet {
  readonly ledger: Ledger
  readonly endpoint: FleetEndpoint
  /** Dead and closed ones, too. */
  readonly processes: FleetProcess[] = []
  readonly #story: Story
  readonly #later: Later
  readonly #clock = new RaceClock(() => {})
  readonly #rations: Rations
  readonly #redis: RedisReferee
  readonly #server: Server
  readonly #revoked = new Set<string>()

  constructor(story: Story, later: Later) {
    this.#story = story
    this.#later = later
    this.ledger = new Ledger(this.#clock, story.options)
    this.#rations = new Rations(this.ledger)
    this.#redis = new RedisReferee(this.ledger, (by) => this.#named(by)?.referee.getsLease())
    this.#server = new Server(() => this.#clock.monotonicMs(), this.#redis)
    this.endpoint = new FleetEndpoint(story.answers, this.ledger, later)
    for (const machine of story.machines) this.#start(machine)
    sealing.contents.clear()
    sealing.before = async (content) => await this.#beforeSealing(content)
  }

  get living(): FleetProcess[] {
    return this.processes.filter((process) => process.lives)
  }

  /** Puts an end to every trouble; where nobody is left, all start anew. */
  heal(): void {
    this.ledger.tell('all is well again')
    this.endpoint.heal()
    this.#server.mood = 'well'
    for (const process of this.processes) {
      process.link.network.letGo()
      process.steps.letGo()
    }
    if (this.living.length === 0) for (const machine of this.#story.machines) this.#start(machine)
  }

  /** Lets time go by for everybody. */
  advance(ms: number): void {
    this.#clock.advance(ms)
    for (const process of this.processes) process.advance(ms)
  }

  /** How long (ms) until the next sleeper wakes; undefined where nobody sleeps. */
  untilNextWakeMs(): number | undefined {
    const alive = this.processes.filter((process) => !process.steps.areOver)
    const next = Math.min(...alive.map(({ clock }) => clock.untilNextWakeMs() ?? Number.POSITIVE_INFINITY))
    return Number.isFinite(next) ? next : undefined
  }

  /** What must hold whenever everything has come to rest. */
  look(): void {
    const { holder } = this.#redis
    for (const process of this.processes) {
      const { name, referee, link, waiting, steps } = process
      if (steps.areOver || steps.isHeld) continue
      const call = referee.closed && [...waiting].find((one) => one.name !== 'close()')
      if (call) this.ledger.problem('closed', `${name}: ${call.name} waits on`)
      if (holder === name && process.isIdle && !link.troubled)
        this.ledger.problem('rest', `${name} has the lease and nothing to do`)
    }
    if (this.#redis.leaseWasLost) this.#rations.disturbed = true
  }

  act(action: Exclude<Action, { does: 'pass' }>): void {
    switch (action.does) {
      case 'callAll':
        for (const process of this.living) this.#call(process)
        break
      case 'revokeAll':
        for (const value of this.ledger.values()) this.#revoked.add(value)
        break
      case 'flush':
        this.#server.flush()
        this.#redis.flushed()
        break
      case 'jump':
        this.advance(action.ms)
        break
      case 'server':
        this.#server.mood = action.mood
        break
      default: {
        const process = this.living[action.who % this.living.length]
        if (process !== undefined) this.#happens(process, action)
      }
    }
  }

  #happens(process: FleetProcess, action: Extract<Action, { who: number }>): void {
    switch (action.does) {
      case 'call':
        this.#call(process)
        break
      case 'refuse': {
        const value = process.referee.got.at(-1 - action.nth)
        if (value !== undefined) process.renewToken(value)
        break
      }
      case 'pause':
        process.steps.hold()
        break
      case 'goOn':
        process.steps.letGo()
        break
      case 'holdLink':
        process.link.network.hold()
        break
      case 'letLinkGo':
        process.link.network.letGo()
        break
      case 'cut':
        process.link.cut(action.arriving)
        break
      case 'crash':
        process.steps.end()
        this.#rations.disturbed = true
        if (action.replaced) this.#start(process.machine)
        break
      case 'close':
        process.close()
        if (action.replaced) this.#start(process.machine)
    }
  }

  /** Takes the token to an API, which may refuse it. */
  async #call(process: FleetProcess): Promise<void> {
    const value = await process.getToken()
    if (value === undefined) return
    await process.steps.later(`an API answers ${process.name}`)
    if (this.#revoked.has(value) && process.lives) await process.renewToken(value)
  }

  #start(machine: Machine): void {
    const name = `p${this.processes.length + 1}`
    const referee = new ProcessReferee(name, this.ledger, this.#redis, this.#rations)
    this.processes.push(
      new FleetProcess(referee, machine, {
        server: this.#server,
        endpoint: this.endpoint,
        options: this.#story.options,
        later: this.#later,
      }),
    )
  }

  #named(name: string): FleetProcess | undefined {
    return this.processes.find((process) => process.name === name)
  }

  /** A token that was just got: its process may be held up before it has sealed it. */
  async #beforeSealing(content: unknown): Promise<void> {
    const by = this.ledger.issued((content as { value?: string }).value ?? '')?.by
    const process = by === undefined ? undefined : this.#named(by)
    if (process?.machine.sealsLate) await process.steps.later(`${by} has sealed it`)
  }
}

/** The processes of a fleet with their Redis and token endpoint, and the execution of a story. */
import type fc from 'fast-check'
import { Driver, look, type Model } from '../model/driver.ts'
import { type Later, ModelEndpoint } from '../model/endpoint.ts'
import { ScheduledClock } from '../support/clock.ts'
import type { Action, Machine, Story } from './actions.ts'
import { encryption } from './encryption.ts'
import { Ledger, RateLimit, type Rule } from './ledger.ts'
import { FleetProcess } from './process.ts'
import { ProcessReferee } from './process-referee.ts'
import { Server } from './redis.ts'
import { RedisReferee } from './redis-referee.ts'

/** After this time every token, lease, cooldown and rate limit is over. */
const LONG_MS = 3 * 60 * 60_000

export interface FleetPlan extends Pick<Story, 'machines' | 'answers' | 'options'> {
  /** The lifetime of tokens that `answers` does not specify. */
  readonly lifetimeSeconds?: number
  /** Called when a process has acquired the lease. */
  readonly onLease?: (process: FleetProcess) => void
}

export class Fleet implements Model {
  readonly ledger: Ledger
  readonly endpoint: ModelEndpoint
  readonly server: Server
  readonly clock = new ScheduledClock()
  /** Including those that crashed or were closed. */
  readonly processes: FleetProcess[] = []
  readonly #plan: FleetPlan
  readonly #later: Later
  readonly #rateLimit: RateLimit
  readonly #redis: RedisReferee
  readonly #revoked = new Set<string>()
  #started = 0

  constructor(plan: FleetPlan, later: Later) {
    this.#plan = plan
    this.#later = later
    this.ledger = new Ledger(this.clock, plan.options)
    this.#rateLimit = new RateLimit(this.ledger)
    this.#redis = new RedisReferee(this.ledger, (by) => {
      const process = this.#named(by)
      process?.referee.getsLease()
      if (process !== undefined) plan.onLease?.(process)
    })
    this.server = new Server(() => this.clock.monotonicMs(), this.#redis)
    this.endpoint = new ModelEndpoint(plan.answers, {
      clock: this.clock,
      later,
      lifetimeSeconds: plan.lifetimeSeconds,
    })
    for (const machine of plan.machines) this.#start(machine)
    encryption.before = async ({ value = '' }) => await this.#beforeEncryption(value)
  }

  get living(): FleetProcess[] {
    return this.processes.filter((process) => process.lives)
  }

  /** Ends every fault; if no process is left, starts all of them again. */
  heal(): void {
    this.ledger.note('every fault ends')
    this.endpoint.heal()
    this.server.mood = 'well'
    for (const process of this.processes) {
      process.link.network.resume()
      process.steps.resume()
    }
    if (this.living.length === 0) for (const machine of this.#plan.machines) this.#start(machine)
  }

  /** Lets time pass for every process. */
  advance(ms: number): void {
    this.clock.advance(ms)
    for (const process of this.processes) process.advance(ms)
  }

  untilNextWakeMs(): number | undefined {
    let next = Number.POSITIVE_INFINITY
    for (const { steps, clock } of this.processes)
      if (!steps.areOver) next = Math.min(next, clock.untilNextWakeMs() ?? next)
    return Number.isFinite(next) ? next : undefined
  }

  problems(): readonly string[] {
    const { problems, log } = this.ledger
    return problems.length > 0 ? [...problems, ...log] : problems
  }

  look(over: boolean): void {
    const { holder } = this.#redis
    for (const process of this.processes) {
      const { name, referee, link, waiting, steps } = process
      if (steps.areOver) continue
      if (over && waiting.size > 0)
        this.ledger.problem('settles', `${[...waiting][0]?.name} of ${name} does not`)
      if (steps.isPaused) continue
      const call = referee.closed && [...waiting].find((one) => one.name !== 'close()')
      if (call) this.ledger.problem('closed', `${name}: ${call.name} waits on`)
      if (holder === name && process.isIdle && !link.troubled)
        this.ledger.problem('rest', `${name} has the lease and nothing to do`)
    }
    if (this.#redis.leaseWasLost) this.#rateLimit.disturbed = true
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
        this.server.flush()
        this.#redis.flushed()
        break
      case 'jump':
        this.advance(action.ms)
        break
      case 'server':
        this.server.mood = action.mood
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
      case 'reject': {
        const value = process.referee.got.at(-1 - action.nth)
        if (value !== undefined) process.renewToken(value)
        break
      }
      case 'pause':
        process.steps.pause()
        break
      case 'goOn':
        process.steps.resume()
        break
      case 'holdLink':
        process.link.network.pause()
        break
      case 'letLinkGo':
        process.link.network.resume()
        break
      case 'cut':
        process.link.cut(action.arriving)
        break
      case 'crash':
        process.steps.end()
        this.#rateLimit.disturbed = true
        if (action.replaced) this.#start(process.machine)
        break
      case 'close':
        process.close()
        if (action.replaced) this.#start(process.machine)
    }
  }

  /** Calls an API, which may reject the token. */
  async #call(process: FleetProcess): Promise<void> {
    const value = await process.getToken()
    if (value === undefined) return
    await process.steps.later(`an API answers ${process.name}`)
    if (this.#revoked.has(value) && process.lives) await process.renewToken(value)
  }

  #start(machine: Machine): void {
    this.#started += 1
    const name = `p${this.#started}`
    const referee = new ProcessReferee(name, this.ledger, this.#redis, this.#rateLimit)
    this.processes.push(
      new FleetProcess(referee, machine, {
        server: this.server,
        endpoint: this.endpoint,
        options: this.#plan.options,
        later: this.#later,
      }),
    )
  }

  #named(name: string): FleetProcess | undefined {
    return this.processes.find((process) => process.name === name)
  }

  /** Delays a process, depending on its machine, before it encrypts a token that it has just acquired. */
  async #beforeEncryption(value: string): Promise<void> {
    const by = this.ledger.issued(value)?.by
    const process = by === undefined ? undefined : this.#named(by)
    if (process?.machine.encryptsLate) await process.steps.later(`${by} has encrypted it`)
  }
}

/** Runs a story, ends every fault, and checks that the fleet then works as if nothing had happened. */
export async function runStory(schedule: fc.Scheduler, story: Story): Promise<void> {
  const driver = new Driver(schedule)
  const fleet = new Fleet(story, driver.later)
  const done = act(story.actions, { fleet, driver })
  await driver.runScheduled(fleet)
  await done
  fleet.heal()
  await driver.runToTheEnd(fleet)
  fleet.advance(LONG_MS)
  const [value = ''] = await costsOne('one', (process) => process.getToken(), { fleet, driver })
  await costsOne('renewal', (process) => process.renewToken(value), { fleet, driver })
  for (const process of fleet.living) process.close()
  await driver.runScheduled(fleet)
  if (fleet.untilNextWakeMs() !== undefined) fleet.ledger.problem('rest', 'a timer runs after close()')
  await driver.runToTheEnd(fleet)
}

interface Run {
  readonly fleet: Fleet
  readonly driver: Driver
}

/** Does not use `scheduleSequence`: while one of its actions waits, nothing else can be scheduled. */
async function act(actions: readonly Action[], { fleet, driver }: Run): Promise<void> {
  for (const action of actions) {
    await driver.later(JSON.stringify(action))
    fleet.ledger.note(`* ${JSON.stringify(action)}`)
    if (action.does === 'pass') await driver.pass(action.ms)
    else fleet.act(action)
  }
}

/** Lets all living processes acquire a token at once, and expects the same token for one token request. */
async function costsOne(
  rule: Rule,
  acquire: (process: FleetProcess) => Promise<string | undefined>,
  { fleet, driver }: Run,
): Promise<Set<string>> {
  const before = fleet.endpoint.requests
  const values = new Set<string>()
  for (const process of fleet.living) acquire(process).then((value) => values.add(String(value)))
  await driver.runToTheEnd(fleet)
  const requests = fleet.endpoint.requests - before
  if (requests !== 1) fleet.ledger.problem(rule, `${requests} token requests`)
  if (values.size !== 1) fleet.ledger.problem('shared', `they got ${[...values].join(' and ')}`)
  look(fleet, true)
  return values
}

/** One fleet and its story, in the hands of a schedule, and whether all ends well. */
import type fc from 'fast-check'
import { settled } from '../races/clock.ts'
import type { Action, Story } from './actions.ts'
import { Fleet } from './fleet.ts'
import type { Ledger } from './ledger.ts'
import type { FleetProcess } from './process.ts'
import type { Rule } from './rules.ts'
import { sealing } from './sealing.ts'

const MOST_STEPS = 5_000
/** After this long no token, no lease, no cooldown and no ration is left. */
const LONG_MS = 3 * 60 * 60_000

/** Time that is to go by when there is nothing else to do. */
interface Passing {
  leftMs: number
  done(): void
}

export class World {
  readonly #fleet: Fleet
  readonly #ledger: Ledger
  readonly #schedule: fc.Scheduler
  readonly #actions: readonly Action[]
  #passing: Passing | undefined

  constructor(schedule: fc.Scheduler, story: Story) {
    this.#schedule = schedule
    this.#actions = story.actions
    this.#fleet = new Fleet(story, (label) => this.#later(label))
    this.#ledger = this.#fleet.ledger
  }

  /** Runs the story, then lets the world heal, and looks whether all is as if nothing had happened. */
  async run(): Promise<void> {
    const told = this.#tell()
    await this.#runScheduled()
    await told
    this.#fleet.heal()
    await this.#runToTheEnd()
    this.#fleet.advance(LONG_MS)
    const [value = ''] = await this.#costsOne('one', async (process) => await process.getToken())
    await this.#costsOne('renewal', async (process) => await process.renewToken(value))
    await this.#end()
  }

  /** Not by `scheduleSequence`, which nothing but the next action can follow while one waits. */
  async #tell(): Promise<void> {
    for (const action of this.#actions) {
      await this.#later(JSON.stringify(action))
      this.#ledger.tell(`* ${JSON.stringify(action)}`)
      if (action.does !== 'pass') this.#fleet.act(action)
      else
        await new Promise<void>((done) => {
          this.#passing = { leftMs: action.ms, done }
        })
    }
  }

  /** All who live do this at once: they must end up with the same token, for one token request. */
  async #costsOne(
    rule: Rule,
    act: (process: FleetProcess) => Promise<string | undefined>,
  ): Promise<Set<string>> {
    const before = this.#fleet.endpoint.requests
    const values = new Set<string>()
    for (const process of this.#fleet.living) act(process).then((value) => values.add(String(value)))
    await this.#runToTheEnd()
    const requests = this.#fleet.endpoint.requests - before
    if (requests !== 1) this.#ledger.problem(rule, `${requests} token requests`)
    if (values.size !== 1) this.#ledger.problem('shared', `they got ${[...values].join(' and ')}`)
    this.#judge()
    return values
  }

  async #end(): Promise<void> {
    for (const process of this.#fleet.living) process.close()
    await this.#runToTheEnd()
    for (const { name, clock, steps } of this.#fleet.processes)
      if (!steps.areOver && clock.untilNextWakeMs() !== undefined)
        this.#ledger.problem('rest', `${name} has a timer`)
    this.#judge()
  }

  async #runToTheEnd(): Promise<void> {
    for (let step = 0; step < MOST_STEPS; step += 1) {
      await this.#runScheduled()
      const ms = this.#fleet.untilNextWakeMs()
      if (ms === undefined) {
        for (const { name, waiting, steps } of this.#fleet.processes)
          if (!steps.areOver && waiting.size > 0)
            this.#ledger.problem('settles', `${[...waiting][0]?.name} of ${name} does not`)
        this.#judge()
        return
      }
      this.#fleet.advance(ms)
    }
    this.#ledger.problem('settles', 'there is no end to it')
    this.#judge()
  }

  async #runScheduled(): Promise<void> {
    await this.#settled()
    for (let step = 0; step < MOST_STEPS; step += 1) {
      if (this.#schedule.count() > 0) await this.#schedule.waitOne()
      else if (this.#passing === undefined) return
      else this.#pass(this.#passing)
      await this.#settled()
      this.#fleet.look()
      this.#judge()
    }
    this.#ledger.problem('settles', 'there is no end to what is scheduled')
    this.#judge()
  }

  /** Real sealing runs in threads of its own. */
  async #settled(): Promise<void> {
    do await settled()
    while (sealing.running > 0)
  }

  #pass(passing: Passing): void {
    const ms = Math.min(passing.leftMs, this.#fleet.untilNextWakeMs() ?? passing.leftMs)
    passing.leftMs -= ms
    this.#fleet.advance(ms)
    if (passing.leftMs > 0) return
    this.#passing = undefined
    passing.done()
  }

  #judge(): void {
    const { problems, told } = this.#ledger
    if (problems.length > 0) throw new Error([...problems, ...told].join('\n'))
  }

  /** When the schedule says so. */
  #later(label: string): Promise<void> {
    return this.#schedule.schedule(Promise.resolve(), label)
  }
}

/** Runs a model under the control of a schedule, step by step, until nothing is left to happen. */
import type fc from 'fast-check'
import { expect, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { Random } from '../support/random.ts'
import { forget } from '../support/recorded.ts'
import type { Later } from './endpoint.ts'

/** Five processes that wait out eight hanging token requests need some 14 000 steps, most of them commands to Redis. */
const MOST_STEPS = 30_000
/** After this many turns of the event loop, everything that is ready has run. */
const TURNS = 3

/** A simulation that a driver runs and checks. */
export interface Model {
  /** How long (ms) until the next timer fires; undefined if there is none. */
  untilNextWakeMs(): number | undefined
  advance(ms: number): void
  /** Checks every rule. `over`: nothing is scheduled, and no timer runs. */
  look(over: boolean): void
  /** The violations of rules, and the log that explains them. */
  problems(): readonly string[]
}

/** Time that passes as soon as nothing else is scheduled. */
interface Passing {
  leftMs: number
  readonly done: () => void
}

/** Executes the steps of a model in the order of a schedule. */
export class Driver {
  /** Resolves when the schedule says so. */
  readonly later: Later
  readonly #schedule: fc.Scheduler
  #passing: Passing | undefined

  constructor(schedule: fc.Scheduler) {
    this.#schedule = schedule
    this.later = (label) => schedule.schedule(Promise.resolve(), label)
  }

  /** Lets time pass, with everything that becomes due in it, as soon as nothing is scheduled. */
  pass(ms: number): Promise<void> {
    return new Promise((done) => {
      this.#passing = { leftMs: ms, done }
    })
  }

  /** Runs until nothing is scheduled. */
  async runScheduled(model: Model): Promise<void> {
    await settled(TURNS)
    for (let step = 0; step < MOST_STEPS; step += 1) {
      if (this.#schedule.count() > 0) await this.#schedule.waitOne()
      else if (this.#passing === undefined) return
      else this.#pass(model, this.#passing)
      await settled(TURNS)
      look(model, false)
    }
    throw new Error(`Steps are still scheduled after ${MOST_STEPS} steps`)
  }

  /** Runs until nothing is scheduled and no timer runs. */
  async runToTheEnd(model: Model): Promise<void> {
    for (let step = 0; step < MOST_STEPS; step += 1) {
      await this.runScheduled(model)
      const ms = model.untilNextWakeMs()
      if (ms === undefined) return look(model, true)
      model.advance(ms)
    }
    throw new Error(`Timers still run after ${MOST_STEPS} of them fired`)
  }

  #pass(model: Model, passing: Passing): void {
    const ms = Math.min(passing.leftMs, model.untilNextWakeMs() ?? passing.leftMs)
    passing.leftMs -= ms
    model.advance(ms)
    if (passing.leftMs > 0) return
    this.#passing = undefined
    passing.done()
  }
}

/** Checks every rule, and throws if one is violated. */
export function look(model: Model, over: boolean): void {
  model.look(over)
  const problems = model.problems()
  if (problems.length > 0) throw new Error(problems.join('\n'))
}

/** Runs one story with jitter from its seed, and fails on an unhandled rejection. */
export async function seeded(seed: number, run: () => Promise<void>): Promise<void> {
  const unhandled: unknown[] = []
  const note = (reason: unknown): void => void unhandled.push(reason)
  const random = new Random(seed)
  const jitter = vi.spyOn(Math, 'random').mockImplementation(() => random.next())
  process.on('unhandledRejection', note)
  try {
    await run()
    await settled(TURNS)
    expect(unhandled, 'no unhandled rejection').toEqual([])
  } finally {
    process.off('unhandledRejection', note)
    jitter.mockRestore()
    forget()
  }
}

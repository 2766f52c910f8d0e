/** Runs a model in the hands of a schedule, step by step, until nothing is left that could happen. */
import type fc from 'fast-check'
import { expect, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { Random } from '../support/random.ts'
import { forget } from '../support/recorded.ts'
import type { Later } from './endpoint.ts'

const MOST_STEPS = 5_000
/** So many turns of the event loop, and everything that is ready has run. */
const TURNS = 3

/** What happens by itself, and what must hold. */
export interface Model {
  /** How long (ms) until somebody wakes; undefined where nobody sleeps. */
  untilNextWakeMs(): number | undefined
  advance(ms: number): void
  /** Looks at every rule. `over`: nothing is scheduled, and nobody sleeps. */
  look(over: boolean): void
  /** The breaches of rules, and what else says why they came about. */
  problems(): readonly string[]
}

/** Time that is to go by when there is nothing else to do. */
interface Passing {
  leftMs: number
  readonly done: () => void
}

/** Takes the steps of a model in the order of a schedule. */
export class Driver {
  /** Happens when the schedule says so. */
  readonly later: Later
  readonly #schedule: fc.Scheduler
  #passing: Passing | undefined

  constructor(schedule: fc.Scheduler) {
    this.#schedule = schedule
    this.later = (label) => schedule.schedule(Promise.resolve(), label)
  }

  /** Lets time go by while everybody does what is due: as soon as nothing is scheduled. */
  pass(ms: number): Promise<void> {
    return new Promise((done) => {
      this.#passing = { leftMs: ms, done }
    })
  }

  /** Until nothing is scheduled. */
  async runScheduled(model: Model): Promise<void> {
    await settled(TURNS)
    for (let step = 0; step < MOST_STEPS; step += 1) {
      if (this.#schedule.count() > 0) await this.#schedule.waitOne()
      else if (this.#passing === undefined) return
      else this.#pass(model, this.#passing)
      await settled(TURNS)
      look(model, false)
    }
    throw new Error('There is no end to what is scheduled')
  }

  /** Until nobody sleeps, either. */
  async runToTheEnd(model: Model): Promise<void> {
    for (let step = 0; step < MOST_STEPS; step += 1) {
      await this.runScheduled(model)
      const ms = model.untilNextWakeMs()
      if (ms === undefined) return look(model, true)
      model.advance(ms)
    }
    throw new Error('There is no end to it')
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

/** Looks at every rule, and throws where one is broken. */
export function look(model: Model, over: boolean): void {
  model.look(over)
  const problems = model.problems()
  if (problems.length > 0) throw new Error(problems.join('\n'))
}

/** Runs one story with the jitter of its seed. Afterwards no rejection may be unhandled. */
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

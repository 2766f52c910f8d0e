/** What befalls processes in the middle of getting a token for the fleet. */
import type { Random } from '../soak/random.ts'
import type { Figures } from './figures.ts'
import type { SimulatedProcess } from './process.ts'
import type { Scenario } from './scenario.ts'
import type { World } from './world.ts'

/** Getting a token takes up to about this long. */
const TURN_MS = 300
/** The lease lasts 10 s. */
const LEAST_PAUSE_MS = 10_500
const MOST_PAUSE_MS = 40_000

export class Accidents {
  readonly #world: World
  readonly #scenario: Scenario
  readonly #figures: Figures
  readonly #random: Random
  readonly #crash: (process: SimulatedProcess) => void

  constructor(
    world: World,
    { scenario, figures, random }: { scenario: Scenario; figures: Figures; random: Random },
    crash: (process: SimulatedProcess) => void,
  ) {
    this.#world = world
    this.#scenario = scenario
    this.#figures = figures
    this.#random = random
    this.#crash = crash
  }

  /** Perhaps the process stands still within its turn, or is no more. */
  befall(process: SimulatedProcess): void {
    const { pause, crash } = this.#scenario.accidents
    const random = this.#random
    const inMs = random.next() * TURN_MS
    const pauseMs = random.between(LEAST_PAUSE_MS, MOST_PAUSE_MS)
    const fate = random.next()
    if (fate < pause / 2) process.standStillWhenAnswered(pauseMs)
    else if (fate < pause) this.#after(inMs, process, () => process.standStill(pauseMs))
    else if (fate < pause + crash) this.#after(inMs, process, () => this.#end(process))
  }

  #after(ms: number, process: SimulatedProcess, happen: () => void): void {
    const run = (): boolean => {
      if (process.alive) happen()
      return true
    }
    this.#world.after(ms, { kind: 'input', run })
  }

  #end(process: SimulatedProcess): void {
    this.#figures.crashed += 1
    this.#crash(process)
  }
}

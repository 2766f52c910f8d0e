/** Simulated time for a fleet: every step has a duration, and events happen in the order of their times. */
import { look } from '../model/driver.ts'
import type { Later } from '../model/endpoint.ts'
import { settled } from '../support/clock.ts'
import type { Random } from '../support/random.ts'
import type { Fleet } from './fleet.ts'

interface Happening {
  readonly at: number
  happen(): void
}

export class Timeline {
  #now = 0
  readonly #random: Random
  /** The latest first. */
  readonly #happenings: Happening[] = []

  constructor(random: Random) {
    this.#random = random
  }

  /** The time since the beginning (ms). */
  get now(): number {
    return this.#now
  }

  readonly later: Later = (_, [from, to] = [0, 0]) =>
    new Promise((resolve) => this.after(from + this.#random.next() * (to - from), resolve))

  /** Happens `ms` from now. */
  after(ms: number, happen: () => void): void {
    const at = this.#now + ms
    let [low, high] = [0, this.#happenings.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#happenings[middle] as Happening).at > at) low = middle + 1
      else high = middle
    }
    this.#happenings.splice(low, 0, { at, happen })
  }

  /** Lets `ms` pass. Every rule is checked after each step. */
  async run(fleet: Fleet, ms: number): Promise<void> {
    for (const until = this.#now + ms; this.#now < until; ) {
      const nextAt = Math.min(this.#happenings.at(-1)?.at ?? until, until)
      const passesMs = Math.min(nextAt - this.#now, fleet.untilNextWakeMs() ?? Number.POSITIVE_INFINITY)
      this.#now += passesMs
      if (passesMs > 0) fleet.advance(passesMs)
      const next = this.#happenings.at(-1)
      if (next === undefined || next.at > this.#now) continue
      this.#happenings.pop()
      next.happen()
      await settled(3)
      look(fleet, false)
    }
  }
}

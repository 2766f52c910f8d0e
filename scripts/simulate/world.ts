/** Simulated time: one thing after the other, and none before everything that the last one set off is done. */
import { EventQueue, type Queued } from './event-queue.ts'
import type { Quiet } from './quiet.ts'

/** The order in which a process that stood still finds what came meanwhile, as in Node.js: timers before input. */
export const KINDS = ['timer', 'input', 'call'] as const

/** Somebody to whom things happen: nothing any more once it is dead, and everything later while it stands still. */
export interface Owner {
  readonly alive: boolean
  readonly standsStillUntil: number
  keep(happening: Happening): void
}

export interface Happening extends Queued {
  readonly kind: (typeof KINDS)[number]
  readonly owner?: Owner | undefined
  /** Called off. */
  over?: boolean
  /** Whether it may have set something off that goes on by itself. */
  run(): boolean
}

export class World {
  now = 0
  readonly #quiet: Quiet
  readonly #queue = new EventQueue<Happening>()
  #acting: Owner | undefined
  #untimely = false

  constructor(quiet: Quiet) {
    this.#quiet = quiet
  }

  /** Something that happens `ms` from now. */
  after(ms: number, happening: Omit<Happening, 'at' | 'order'>): Happening {
    const queued = { ...happening, at: this.now + ms, order: 0 }
    this.#queue.push(queued)
    return queued
  }

  /** The same happening once more, `ms` from now. */
  again(ms: number, happening: Happening): void {
    happening.at = this.now + ms
    this.#queue.push(happening)
  }

  /** Noted of everything that a process does: out of its turn it did it late, and time has moved too early. */
  acts(owner: Owner): void {
    if (owner !== this.#acting) this.#untimely = true
  }

  async run(untilMs: number): Promise<void> {
    for (;;) {
      const next = this.#queue.popUntil(untilMs)
      if (next === undefined) break
      const { owner } = next
      if (next.over || owner?.alive === false) continue
      this.now = next.at
      if (owner !== undefined && owner.standsStillUntil > this.now) {
        owner.keep(next)
        continue
      }
      this.#acting = owner
      if (next.run()) await this.#quiet.settle()
      if (this.#untimely) throw new Error(`Something was still in flight when time moved, at ${this.now} ms`)
    }
    this.now = untilMs
  }
}

/** What this process does meanwhile: when it stood still, and what is left of it in the end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { collectGarbage } from '../../test/support/garbage.ts'

const LOOK_EVERY_MS = 20
/** Shorter ones are the ordinary work of one turn. */
const SHORTEST_STALL_MS = 40
const MOST_STALLS = 1_000
/** How long what is closed may take to go. */
const MOST_WAIT_MS = 30_000

/** The heap in use (bytes) after garbage collection. */
export async function heapUsed(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    collectGarbage()
    await new Promise((resolve) => setImmediate(resolve)) // finalizers, weak references
  }
  return process.memoryUsage().heapUsed
}

/** Looks at the clock every 20 ms: where a look comes late, this machine stood still. */
export class StallWatch implements Disposable {
  readonly #stalls: { readonly from: number; readonly to: number }[] = []
  readonly #timer = setInterval(() => this.#look(), LOOK_EVERY_MS)
  #last = Date.now()

  /** For how long (ms) it stood still between two instants. */
  stalledMs(from: number, to: number): number {
    this.#look() // this turn may have come before the timer's
    return this.#stalls.reduce(
      (sum, stall) => sum + Math.max(0, Math.min(to, stall.to) - Math.max(from, stall.from)),
      0,
    )
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const now = Date.now()
    if (now - this.#last - LOOK_EVERY_MS >= SHORTEST_STALL_MS)
      this.#stalls.push({ from: this.#last, to: now })
    if (this.#stalls.length > MOST_STALLS) this.#stalls.shift()
    this.#last = now
  }
}

/** Counts from its creation on: rejections that nobody handled, warnings, and handles that stay. */
export class Remains implements Disposable {
  readonly unhandled: unknown[] = []
  /** The warnings of too many listeners. */
  readonly warnings: string[] = []
  readonly #handles = process.getActiveResourcesInfo()
  readonly #onRejection = (reason: unknown): void => void this.unhandled.push(reason)
  readonly #onWarning = ({ name, message }: Error): void => {
    if (name.startsWith('MaxListeners')) this.warnings.push(message)
  }

  constructor() {
    process.on('unhandledRejection', this.#onRejection)
    process.on('warning', this.#onWarning)
  }

  /** The sockets, timers and other handles that were not open at the beginning, once they had the time to close. */
  async openHandles(): Promise<string[]> {
    const until = performance.now() + MOST_WAIT_MS
    while (this.#moreHandles().length > 0 && performance.now() < until) await sleep(50)
    return this.#moreHandles()
  }

  #moreHandles(): string[] {
    const more = process.getActiveResourcesInfo()
    for (const name of this.#handles) if (more.includes(name)) more.splice(more.indexOf(name), 1)
    return more
  }

  [Symbol.dispose](): void {
    process.off('unhandledRejection', this.#onRejection)
    process.off('warning', this.#onWarning)
  }
}

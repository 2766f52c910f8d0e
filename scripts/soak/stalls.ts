/** Notices when this machine stands still: what is late then is nobody's fault. */
import type { Ledger } from './ledger.ts'

const EVERY_MS = 20
/** Shorter ones are the ordinary work of one turn. */
const SHORTEST_MS = 80

/** Looks at the clock every 20 ms, and notes each standstill as a trouble. */
export class StallWatch {
  readonly #ledger: Ledger
  readonly #timer: NodeJS.Timeout
  #last = performance.now()

  constructor(ledger: Ledger) {
    this.#ledger = ledger
    this.#timer = setInterval(() => this.look(), EVERY_MS)
  }

  /** To be called before a call is judged, too: its turn may come before the timer's. */
  look(): void {
    const now = performance.now()
    const ms = now - this.#last - EVERY_MS
    this.#last = now
    if (ms >= SHORTEST_MS) this.#ledger.trouble('stall', { from: Date.now() - Math.ceil(ms), ms })
  }

  end(): void {
    clearInterval(this.#timer)
  }
}

/** What a fleet may cost that renews what an API refuses (contract 5.7), as long as nothing disturbs it. */
import type { Ledger } from './ledger.ts'

const FIRST_GAP_MS = 1_000
const MOST_GAP_MS = 300_000
const QUIET_MS = 60_000

export class Rations {
  /** Whether a store failed or a process died: then each process has rations of its own. */
  disturbed = false
  readonly #ledger: Ledger
  #gapMs = 0
  #renewedAt = Number.NEGATIVE_INFINITY

  constructor(ledger: Ledger) {
    this.#ledger = ledger
  }

  /** A process has paid for a renewal, which it began at `askedAt`. */
  renewed(by: string, askedAt: number): void {
    const agoMs = askedAt - this.#renewedAt
    if (agoMs < this.#gapMs && !this.disturbed)
      this.#ledger.problem('ration', `${by} renews ${agoMs} ms after the last one, not ${this.#gapMs}`)
    const begunAnew = agoMs > 2 * this.#gapMs + QUIET_MS
    this.#gapMs = begunAnew ? FIRST_GAP_MS : Math.min(2 * this.#gapMs, MOST_GAP_MS)
    this.#renewedAt = askedAt
  }
}

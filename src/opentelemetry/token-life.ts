/** What remains of the current token's life, as the gauge tells it. */
import type { Attributes } from '@opentelemetry/api'
import type { Clock } from '../clock.ts'
import { Lifetime } from '../token/lifetime.ts'
import type { Observed } from './instruments.ts'

/** The machine's clocks, looked up at each use so that fake timers work. Nothing sleeps here. */
const clock: Clock = {
  monotonicMs: () => performance.now(),
  epochMs: () => Date.now(),
  sleep: () => Promise.resolve(),
}

const WHOLE = { refreshAheadMs: 0, expiryMarginMs: 0 }

/** The life of one provider's current token. */
export class TokenLife implements Observed {
  readonly ref: WeakRef<Observed> = new WeakRef(this)
  #current: { readonly lifetime: Lifetime; readonly attributes: Attributes } | undefined

  /** A token that has so much left at this moment. */
  begin(remainsMs: number, attributes: Attributes): void {
    const now = { monotonicMs: clock.monotonicMs(), epochMs: clock.epochMs() }
    this.#current = { lifetime: new Lifetime(now, remainsMs, WHOLE, 0), attributes }
  }

  observe(): { seconds: number; attributes: Attributes } | undefined {
    if (this.#current === undefined) return undefined
    const { lifetime, attributes } = this.#current
    return { seconds: Math.max(0, lifetime.remainsMs(clock)) / 1000, attributes }
  }
}

/** When Redis is down: not at any time, but when that is noticed. */
import { isWithin, renewalAgeMs, type Scenario, type Span } from './scenario.ts'
import type { World } from './world.ts'

export class Outage implements Span {
  from = Number.POSITIVE_INFINITY
  until = Number.POSITIVE_INFINITY
  readonly #world: World

  constructor(world: World, { outage, lifetimeMs }: Scenario) {
    this.#world = world
    if (outage === undefined) return
    const plan = (): boolean => {
      const dueAt = this.newestIssuedAt + renewalAgeMs(lifetimeMs)
      this.from = Math.max(world.now, dueAt - outage.ms / 3)
      this.until = this.from + outage.ms
      world.after(this.until - world.now, { kind: 'input', run: () => this.#end() })
      return false
    }
    world.after(outage.from, { kind: 'input', run: plan })
  }

  /** An outage between two renewals would be noticed by few: it comes when this token falls due. */
  newestIssuedAt = 0
  /** What happens in the end. */
  onEnd = (): void => {}

  get isOn(): boolean {
    return isWithin(this, this.#world.now)
  }

  #end(): boolean {
    this.onEnd()
    return false
  }
}

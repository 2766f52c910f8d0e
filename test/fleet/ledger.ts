/** What everybody in a fleet is judged by: the tokens that were issued, who refused them, and every breach of a rule. */
import type { RaceClock } from '../races/clock.ts'
import { Grant } from '../races/record.ts'
import type { FleetOptions } from './actions.ts'
import { RULES, type Rule } from './rules.ts'

export interface Issued {
  readonly value: string
  /** Its place in the order in which the token endpoint issued them. */
  readonly number: number
  /** Who asked for it, and when. */
  readonly by: string
  readonly requestedAt: number
  readonly lifetimeMs: number
  readonly grant: Grant
}

export class Ledger {
  readonly problems: string[] = []
  /** What happened, for whoever has to find out why. */
  readonly told: string[] = []
  readonly options: FleetOptions
  readonly #clock: RaceClock
  readonly #issued = new Map<string, Issued>()
  readonly #refused = new Map<string, Set<string>>()

  constructor(clock: RaceClock, options: FleetOptions) {
    this.#clock = clock
    this.options = options
  }

  get now(): number {
    return this.#clock.monotonicMs()
  }

  tell(what: string): void {
    this.told.push(`${this.now.toFixed(1)}  ${what}`)
  }

  problem(rule: Rule, what: string): void {
    this.problems.push(`${RULES[rule]}: ${what} (at ${this.now} ms)`)
  }

  issue(by: string, requestedAt: number, lifetimeMs: number): Issued {
    const number = this.#issued.size + 1
    const value = `token-${number}`
    const sent = { at: requestedAt, wallAt: this.#clock.epochMs() - (this.now - requestedAt), aheadMs: 0 }
    const grant = new Grant(value, sent, lifetimeMs, this.options)
    const issued = { value, number, by, requestedAt, lifetimeMs, grant }
    this.#issued.set(value, issued)
    return issued
  }

  issued(value: string): Issued | undefined {
    return this.#issued.get(value)
  }

  /** All that were issued. */
  values(): Iterable<string> {
    return this.#issued.keys()
  }

  /** How long (ms) it may still be handed out. */
  remainsMs({ grant }: Issued): number {
    return grant.remainsMs(this.#clock)
  }

  refuse(by: string, value: string): void {
    this.#refused.set(value, (this.#refused.get(value) ?? new Set()).add(by))
  }

  isRefused(value: string, by?: string): boolean {
    const processes = this.#refused.get(value)
    return by === undefined ? processes !== undefined : processes?.has(by) === true
  }
}

/** What a fleet is judged by: its rules, the tokens that were issued and rejected, and every breach of a rule. */
import type { Sent } from '../model/endpoint.ts'
import { Grant } from '../model/grant.ts'
import type { ScheduledClock } from '../support/clock.ts'
import type { FleetOptions } from './actions.ts'

/** What must hold in every fleet. */
export const RULES = {
  holder: 'no two processes hold the lease at once, and none holds it for longer than `timeoutMs`',
  fence: 'a process that does not hold the lease, or no longer does, changes nothing',
  lifetime: 'no two holders write a token for the same lifetime, unless a lease ran out',
  order: 'no older token ever replaces a newer one',
  outlive: 'no entry outlives its token, and no process takes a token to live longer than it does',
  removal: 'only a rejected token is deleted',
  turn: 'a process makes a token request only with the lease, without Redis, or after the time of a lease',
  need: 'no token request while the store has a token that the process could have acquired',
  notice: 'a process that waits for a token sees it within 100 ms of its own time',
  alone: 'where Redis fails, the process goes on by itself',
  inFlight: 'at most one token request of a process in flight',
  margin:
    'no token is handed out past its margin, whichever process requested it and whatever the clocks say',
  rejected: 'no process gets a token back that it saw rejected',
  rateLimit: 'while Redis is well, a fleet renews a rejected token at once, then 1 s later, then doubling',
  settles: 'every call settles',
  wait: 'no call waits longer than a lease with a little grace, a token request and some operations',
  failure: 'no call fails while the token endpoint is well',
  errors: 'callers get errors of this package',
  one: 'when all is well again, a fleet without a token makes one token request',
  renewal: 'when all is well again, a rejected token is renewed once for the fleet',
  shared: 'when all is well again, every process gets the same token, whatever became of the last one',
  closed: 'after `close()` nobody waits, and nobody gets or asks for a token',
  rest: 'an idle process has no lease, and no timer after `close()`, which waits for the last command',
  unhandled: 'no unhandled rejection',
} as const

export type Rule = keyof typeof RULES

const MOST_LINES = 1_000

export interface Issued {
  readonly value: string
  /** Its place in the order in which the token endpoint issued them. */
  readonly number: number
  /** Which process requested it, and when. */
  readonly by: string
  readonly requestedAt: number
  readonly lifetimeMs: number
  readonly grant: Grant
}

export class Ledger {
  readonly problems: string[] = []
  /** The last things that happened. */
  readonly log: string[] = []
  readonly options: FleetOptions
  readonly #clock: ScheduledClock
  readonly #issued = new Map<string, Issued>()
  readonly #rejected = new Map<string, Set<string>>()

  constructor(clock: ScheduledClock, options: FleetOptions) {
    this.#clock = clock
    this.options = options
  }

  get now(): number {
    return this.#clock.monotonicMs()
  }

  note(what: string): void {
    this.log.push(`${this.now.toFixed(1)}  ${what}`)
    if (this.log.length > MOST_LINES) this.log.shift()
  }

  problem(rule: Rule, what: string): void {
    this.problems.push(`${RULES[rule]}: ${what} (at ${this.now} ms)`)
  }

  /** A token is issued to a process, in the order of their numbers. */
  issue(by: string, sent: Sent, lifetimeMs: number): string {
    const number = this.#issued.size + 1
    const value = `token-${number}`
    const grant = new Grant(value, sent, lifetimeMs, this.options)
    this.#issued.set(value, { value, number, by, requestedAt: sent.at, lifetimeMs, grant })
    this.note(`the token endpoint issues ${value} to ${by}`)
    return value
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

  reject(by: string, value: string): void {
    this.#rejected.set(value, (this.#rejected.get(value) ?? new Set()).add(by))
  }

  isRejected(value: string, by?: string): boolean {
    const processes = this.#rejected.get(value)
    return by === undefined ? processes !== undefined : processes?.has(by) === true
  }
}

const FIRST_GAP_MS = 1_000
const MOST_GAP_MS = 1_800_000
const QUIET_MS = 60_000

/** What renewals of rejected tokens may cost a fleet, as long as nothing disturbs it. */
export class RateLimit {
  /** Whether a store failed or a process died: then each process has a limit of its own. */
  disturbed = false
  readonly #ledger: Ledger
  #gapMs = 0
  #renewedAt = Number.NEGATIVE_INFINITY

  constructor(ledger: Ledger) {
    this.#ledger = ledger
  }

  /** A process has renewed a rejected token by a request of `beganAt`. */
  renewed(by: string, beganAt: number): void {
    const agoMs = beganAt - this.#renewedAt
    if (agoMs < this.#gapMs && !this.disturbed)
      this.#ledger.problem('rateLimit', `${by} renews ${agoMs} ms after the last one, not ${this.#gapMs}`)
    const begunAnew = agoMs > 2 * this.#gapMs + QUIET_MS
    this.#gapMs = begunAnew ? FIRST_GAP_MS : Math.min(2 * this.#gapMs, MOST_GAP_MS)
    this.#renewedAt = beganAt
  }
}

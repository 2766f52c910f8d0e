/** The rules of a fleet, the tokens that were issued and rejected, and every violation of a rule. */
import type { Sent } from '../model/endpoint.ts'
import { Grant } from '../model/grant.ts'
import type { ScheduledClock } from '../support/clock.ts'
import type { FleetOptions } from './actions.ts'

/** What must hold in every fleet. */
export const RULES = {
  holder: 'no two processes hold the lease at once, and none holds it for longer than `timeoutMs`',
  fence: 'a process that does not hold the lease, or no longer holds it, changes nothing in Redis',
  lifetime: 'no two holders write a token for the same lifetime, unless a lease ran out',
  order: 'no older token ever replaces a newer one',
  outlive: 'no entry outlives its token, and no process overestimates the lifetime of a token',
  removal: 'only a rejected token is deleted',
  turn: 'a process makes a token request only with the lease, without Redis, or after waiting for `timeoutMs`',
  need: 'no token request while the store has a token that the process could have acquired',
  notice: 'a process that waits for a token acquires it within 100 ms of its own running time',
  alone: 'a process whose Redis fails continues without it',
  inFlight: 'at most one token request per process in flight',
  margin:
    'no token is handed out past its margin, whichever process requested it and whatever the clocks say',
  rejected: 'no process gets a token again that it saw rejected',
  rateLimit:
    'while Redis works, a fleet renews a rejected token at once, then after 1 s, doubling from then on',
  settles: 'every call settles',
  wait: 'no call waits longer than a lease, a short grace period, a token request and some store operations',
  failure: 'no call fails while the token endpoint works',
  errors: 'callers get errors of this package',
  one: 'after all faults end, a fleet without a token makes one token request',
  renewal: 'after all faults end, a rejected token is renewed once for the fleet',
  shared: 'after all faults end, all processes get the same token',
  closed: 'after `close()` no call waits, gets a token or causes a token request',
  rest: 'an idle process holds no lease; `close()` waits for the last command and leaves no timer behind',
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
  /** The last notes, oldest first. */
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

  /** All tokens that were issued. */
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

/** The rate limit of renewals of rejected tokens for a whole fleet, as long as nothing disturbs it. */
export class RateLimit {
  /** Whether a store failed or a process died: then each process has its own limit. */
  disturbed = false
  readonly #ledger: Ledger
  #gapMs = 0
  #renewedAt = Number.NEGATIVE_INFINITY

  constructor(ledger: Ledger) {
    this.#ledger = ledger
  }

  /** A process has renewed a rejected token with a request that began at `beganAt`. */
  renewed(by: string, beganAt: number): void {
    const agoMs = beganAt - this.#renewedAt
    if (agoMs < this.#gapMs && !this.disturbed)
      this.#ledger.problem('rateLimit', `${by} renews ${agoMs} ms after the last one, not ${this.#gapMs}`)
    const begunAnew = agoMs > 2 * this.#gapMs + QUIET_MS
    this.#gapMs = begunAnew ? FIRST_GAP_MS : Math.min(2 * this.#gapMs, MOST_GAP_MS)
    this.#renewedAt = beganAt
  }
}

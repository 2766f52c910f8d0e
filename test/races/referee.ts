/**
 * Finds every broken promise, from what is observable outside a provider. The referee does not know how limits work (pauses,
 * cooldowns, rows of 401s): it counts the tokens that the limits are meant to save.
 */
import type { AuthEvent } from '../../src/index.ts'
import type { TokenAnswer } from './endpoint.ts'
import { Grant, type GrantOptions, type Sent } from './grant.ts'
import { currentRequest, type IncomingClock } from './incoming.ts'

/** What users were promised. */
const PROMISES = {
  oneRequest: 'at most one token request at a time, also of processes that share a store with leases',
  expired: 'no token is handed out past its margin, on either clock',
  abroad: 'no token is sent to another origin',
  noWait: 'no caller waits while a valid token is cached',
  answered: 'every caller is answered, within twice `timeoutMs`',
  aborted: 'an aborted call ends at once, with the error of its client for that',
  errors: 'each caller gets its own error, of a class of this package',
  cause: 'no caller gets an error unless a token request for callers has failed since the last token',
  sends: 'a call is sent at most three times, never twice with a token, and a stream once',
  third:
    'a call is sent a third time only with a token that its process acquired, or uses again, since the first time',
  lost: 'out of doubt, a call ends with a 401 only after three sends, or one with a token that was requested for a 401 since',
  forced: 'a forced call gets a token that was requested after it',
  reasons: 'no event says of a token that its API has accepted it, if it has not',
  quota: 'the 401s of an API cost at most 10 tokens in an hour and 50 in a day',
  hidden: 'good calls succeed in spite of faults that the package hides',
  closed: 'after `close()` no caller waits or gets a token, and no token is requested',
  recovery: 'once everything works and limits had time to pass, calls succeed from the third one a minute on',
  rest: 'no timer is left behind',
} as const

type PromiseName = keyof typeof PROMISES

export const MOST_SENDS = 3
const SECOND_MS = 1_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Both limits include scheduled renewals, which are counted here only of tokens of a day. */
const MOST_FOR_401S = [
  { tokens: 10, withinMs: HOUR_MS },
  { tokens: 50, withinMs: DAY_MS },
]
/** A bucket of 8 renewals for each API gets one back every 40 min. */
const BUCKET = 8
const FULL_BUCKET_MS = BUCKET * 40 * 60_000
/** On Cloudflare Workers: how much longer than `timeoutMs` a caller waits for an acquisition that was lost. */
const LOST_AFTER_MS = 1_100
/** A lease lasts so much longer than `timeoutMs`. A caller that has waited for longer goes on without one. */
const LEASE_BEYOND_MS = 2_000

/** The options of the provider that the promises depend on. */
export interface RefereeOptions extends GrantOptions {
  readonly timeoutMs: number
}

interface TokenRequest {
  readonly of: Referee
  /** Whether it must have a lease: callers that have waited for too long go on without one. */
  readonly isLeased: boolean
  /** When (monotonic ms) its first attempt began. */
  readonly beganAt: number
}

/** What calls wait for a token when it is requested. */
export interface SeenNeed {
  /** Since when (monotonic ms). */
  readonly since: number
  readonly isForced: boolean
  readonly isRejected: boolean
}

/** A call of an API. */
interface SentCall {
  readonly name: string
  readonly isStream: boolean
  readonly tokens: readonly string[]
  /** The moment of the first send. */
  readonly sentAt: number
}

/** What is known of all processes of a world. */
export interface Ledger {
  readonly clock: IncomingClock
  readonly problems: string[]
  readonly grants: Map<string, Grant>
  readonly inFlight: Set<TokenRequest>
  /** How many token requests for callers failed, with all their attempts, or were lost, or ended when their timers fired late. */
  failures: number
  /** The APIs that returned 401. */
  readonly rejecting: Set<string>
  /** When (monotonic ms) the 401s of all APIs cost a token. */
  readonly renewals: number[]
  /** When token requests began that may have been for a 401. */
  readonly possibleRenewals: { readonly at: number; readonly moment: number }[]
  /** Whether processes share a store with leases, and it works. */
  hasLeases: boolean
  readonly hasStore: boolean
}

export function createLedger(
  clock: IncomingClock,
  { hasStore, hasLeases }: Pick<Ledger, 'hasStore' | 'hasLeases'>,
): Ledger {
  return {
    clock,
    problems: [],
    grants: new Map(),
    inFlight: new Set(),
    failures: 0,
    rejecting: new Set(),
    renewals: [],
    possibleRenewals: [],
    hasLeases,
    hasStore,
  }
}

/** The referee of one process. */
export class Referee {
  readonly #ledger: Ledger
  readonly #options: RefereeOptions
  #closed = false
  /** The token that the process acquired last, if it is known which one that is. */
  #newest: Grant | undefined
  /** The tokens that were issued to the process since it last acquired one. */
  #issued: Grant[] = []
  /** When (monotonic ms) the last token request began, and whether the token in use was then far from its expiry. */
  #beganAt = Number.NEGATIVE_INFINITY
  #isFor401 = false
  #need: SeenNeed = { since: Number.POSITIVE_INFINITY, isForced: false, isRejected: false }
  #isFirstAttempt = false
  /** The moments when the last token request began, when the last one that succeeded did, and of the last 401. */
  #beganMoment = 0
  #acquiredMoment = 0
  #rejectedMoment = 0
  /** Whether the last response of the token endpoint asks for a pause. */
  #asksForPause = false
  /** The moments when the APIs last accepted a call that was repeated with the newest token: that ended their doubt. */
  readonly #helped = new Map<string, number>()
  /** The moments when APIs last accepted a call with each token, and with each token for each API. */
  readonly #accepted = new Map<string, number>()
  /** The moments when a token was last found in the store, and when an API last rejected a stream. */
  #foundMoment = 0
  #streamMoment = 0
  #failuresBefore = 0
  #lost = 0
  /** When (monotonic ms) the last acquisition ended. */
  #endedAt = Number.NEGATIVE_INFINITY

  constructor(ledger: Ledger, options: RefereeOptions) {
    this.#ledger = ledger
    this.#options = options
  }

  problem(promise: PromiseName, what: string): void {
    this.#ledger.problems.push(`${PROMISES[promise]}: ${what} (at ${this.#now} ms)`)
  }

  get endedAt(): number {
    return this.#endedAt
  }

  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
  }

  /** Whether a valid token is cached, whatever the wall clock did. */
  get hasToken(): boolean {
    return !this.#closed && (this.#newest?.certainlyRemainsMs ?? 0) > 0
  }

  /** An attempt begins. `need`: of the calls that wait, those included that were aborted meanwhile. Returns a function that ends it. */
  requestBegins(need: SeenNeed): () => void {
    const { inFlight, hasLeases } = this.#ledger
    if (this.#closed) this.problem('closed', 'a token request')
    if (this.#isFirstAttempt) this.#acquisitionRequests(need)
    const isLeased = hasLeases && this.#now < need.since + this.#options.timeoutMs + LEASE_BEYOND_MS
    const others = [...inFlight].filter(
      (other) => !this.#isOverdue(other) && (other.of === this || (isLeased && other.isLeased)),
    )
    if (others.length > 0) this.problem('oneRequest', `${others.length + 1} token requests`)
    const request = { of: this, beganAt: this.#beganAt, isLeased }
    inFlight.add(request)
    return () => {
      if (inFlight.delete(request) && this.#isOverdue(request)) this.#ledger.failures += 1
    }
  }

  #acquisitionRequests({ since, isForced, isRejected }: SeenNeed): void {
    this.#need = { since, isForced, isRejected: isRejected || this.#rejectedMoment > this.#acquiredMoment }
    this.#beganMoment = this.#ledger.clock.nextMoment()
    if (this.#need.isRejected)
      this.#ledger.possibleRenewals.push({ at: this.#now, moment: this.#beganMoment })
  }

  /** The moment when the last request began that may be a renewal. */
  get #lastRenewal(): number {
    return this.#ledger.possibleRenewals.at(-1)?.moment ?? 0
  }

  /** Whether it should have ended: its timer fires late, as the process stood still. */
  #isOverdue({ beganAt }: TokenRequest): boolean {
    return this.#now >= beganAt + this.#options.timeoutMs
  }

  /** The endpoint issues a token. Returns its value. */
  issues(sent: Sent, lifetimeMs: number): string {
    const { clock, grants } = this.#ledger
    const parts = { clock, sent, lifetimeMs, isRenewal: this.#need.isRejected }
    const grant = new Grant(`token-${grants.size + 1}`, parts, this.#options)
    grants.set(grant.value, grant)
    this.#issued.push(grant)
    return grant.value
  }

  handedOut(value: string | undefined, to: string): void {
    if (this.#closed) this.problem('closed', `${to} got a token`)
    const remainsMs = this.#ledger.grants.get(value ?? '')?.remainsMs ?? Number.NEGATIVE_INFINITY
    if (remainsMs <= 0) this.problem('expired', `${to} got ${value} ${-remainsMs} ms after its end`)
  }

  /** A forced call gets a token. Requests of other processes in the same second may be taken for later ones. */
  checkForced(value: string, from: Sent): void {
    const { grants, hasStore } = this.#ledger
    const isOfThisSecond = hasStore && (grants.get(value)?.sentAt ?? 0) > from.at - SECOND_MS
    if (!isOfThisSecond && !grants.get(value)?.isRequestedSince(from.moment))
      this.problem('forced', `${value} for a call of ${from.at} ms`)
  }

  /** A call is sent with a token, after it was sent with others. */
  checkSend({ name, isStream, tokens, sentAt }: SentCall, value: string): void {
    const mayBeSent = tokens.length < (isStream ? 1 : MOST_SENDS) && !tokens.includes(value)
    if (!mayBeSent) this.problem('sends', `a ${name} with ${[...tokens, value]}`)
    if (tokens.length === MOST_SENDS - 1 && !this.#isNewSince(value, sentAt))
      this.problem('third', `a ${name} with ${[...tokens, value]}`)
  }

  /**
   * Whether a token may have come into use since then. Another call may show that an earlier one works; a stream, which is sent
   * once, leaves an earlier one to the next call to try.
   */
  #isNewSince(value: string, moment: number): boolean {
    const isIssued = this.#ledger.grants.get(value)?.isIssuedSince(moment) ?? false
    const usedMoment = Math.max(this.#accepted.get(value) ?? 0, this.#foundMoment, this.#streamMoment)
    return isIssued || usedMoment > moment
  }

  /** A call ends with the 401 of an API that was not in doubt. */
  checkLost({ name, tokens, sentAt }: SentCall): void {
    const { grants, possibleRenewals } = this.#ledger
    const last = grants.get(tokens.at(-1) ?? '')
    if (tokens.length === MOST_SENDS || (last?.isRenewal && last.isIssuedSince(sentAt))) return
    if (possibleRenewals.filter(({ at }) => at > this.#now - FULL_BUCKET_MS).length >= BUCKET) return
    this.problem('lost', `a ${name} with ${tokens}`)
  }

  /** How many token requests had failed when a call begins. The call may fail only if more have failed when the call ends. */
  get failuresBefore(): number {
    // A store can bring back the pause that another process began before the last token.
    return this.#ledger.hasStore ? 0 : this.#failuresBefore
  }

  /** Whether a call may end with an error, given what had failed when it began. */
  mayFail(failuresBefore: number): boolean {
    const { failures, inFlight } = this.#ledger
    return (
      this.#closed ||
      failures > failuresBefore ||
      [...inFlight].some((request) => request.of === this && this.#isOverdue(request))
    )
  }

  /** Until when (monotonic ms) a call may wait that began to wait at `since`, if timers are never late. */
  patienceOf(since: number): number {
    const { timeoutMs } = this.#options
    return since + 2 * timeoutMs + this.#lost * (timeoutMs + LOST_AFTER_MS)
  }

  /** A request of a server ended, and everything that it had started is lost: callers may get an error. */
  lost(): void {
    this.#lost += 1
    this.#ledger.failures += 1
  }

  /** An API returned 401, or a caller says so. */
  rejects(api: string, { isStream = false } = {}): void {
    this.#rejectedMoment = this.#ledger.clock.nextMoment()
    if (isStream) this.#streamMoment = this.#rejectedMoment
    this.#ledger.rejecting.add(api)
  }

  /** An API accepted a call, with the last of its tokens. If that is not the newest, or a renewal is under way, doubt may remain. */
  accepts(api: string, tokens: readonly string[]): void {
    const { clock, grants } = this.#ledger
    const value = tokens.at(-1) as string
    const moment = clock.nextMoment()
    for (const key of [value, `${api} ${value}`]) this.#accepted.set(key, moment)
    const newest = [...grants.values()].at(-1)
    const isNewest = value === newest?.value && newest.isRequestedSince(this.#lastRenewal)
    if (tokens.length > 1 && isNewest) this.#helped.set(api, moment)
  }

  hasAccepted(api: string, token: string): boolean {
    return this.#accepted.has(`${api} ${token}`)
  }

  /** Whether an API may be in doubt: each request that may be a renewal, of whichever process and API, may have begun it. */
  isInDoubt(api: string): boolean {
    return this.#lastRenewal > (this.#helped.get(api) ?? 0)
  }

  /** The token endpoint answers. */
  answers(answer: TokenAnswer): void {
    this.#asksForPause =
      answer.kind === 'status' && (answer.status === 429 || answer.retryAfter !== undefined)
  }

  /** Follows the token requests by the provider's events. */
  readonly hears = (event: AuthEvent): void => {
    if (currentRequest()?.ended) return // nothing comes of it
    if (event.type === 'token-requested') {
      this.#isFirstAttempt = event.attempt === 1
      if (!this.#isFirstAttempt) return
      this.#beganAt = this.#now
      this.#isFor401 = (this.#newest?.certainlyRemainsMs ?? 0) > (this.#newest?.windowMs ?? 0)
    } else if (event.type === 'token-request-failed') {
      this.#issued = [] // past its margin when it arrived
      if (event.nextTryMs !== undefined) return
      // Nobody notices that a background renewal failed, but for a pause that the token endpoint asks for.
      const isBackground = this.#need.since === Number.POSITIVE_INFINITY && !this.#need.isRejected
      if (!isBackground || this.#asksForPause) this.#ledger.failures += 1
      this.#endedAt = this.#now
    } else if (event.type === 'token-acquired') this.#acquired(event.source)
  }

  #acquired(source: 'endpoint' | 'store'): void {
    this.#endedAt = this.#now
    const [issued, ...others] = this.#issued
    // With a store, another process may have issued it. A request that outlived its acquisition leaves two.
    this.#newest = source === 'endpoint' && others.length === 0 ? issued : undefined
    this.#issued = []
    if (source === 'store') {
      this.#foundMoment = this.#ledger.clock.nextMoment()
      return
    }
    this.#acquiredMoment = this.#beganMoment
    this.#failuresBefore = this.#ledger.failures
    if ((this.#isFor401 && !this.#need.isForced) || (issued?.lifetimeMs ?? 0) >= DAY_MS) this.#countRenewal()
  }

  #countRenewal(): void {
    const { rejecting, renewals } = this.#ledger
    renewals.push(this.#now)
    for (const { tokens, withinMs } of MOST_FOR_401S) {
      const count = renewals.filter((at) => at > this.#now - withinMs).length
      if (count > tokens * Math.max(1, rejecting.size))
        this.problem('quota', `${count} tokens in ${withinMs / HOUR_MS} h for ${rejecting.size} APIs`)
    }
  }

  get #now(): number {
    return this.#ledger.clock.monotonicMs()
  }
}

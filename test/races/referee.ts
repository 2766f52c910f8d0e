/** Finds every violation of a rule from what is observable outside a provider. */
import type { AuthEvent } from '../../src/index.ts'
import type { ScheduledClock } from '../support/clock.ts'
import type { RaceOptions } from './actions.ts'
import type { Answer, Sent } from './endpoint.ts'
import { Grant } from './grant.ts'

/** What must hold in every race. */
const RULES = {
  inFlight: 'at most one token request in flight',
  margin: 'no token is handed out past its margin, on either clock',
  atOnce: 'no call waits while a valid token is cached, or during a cooldown',
  need: 'no unnecessary renewal, and none for a token that was already replaced',
  twice: 'no call is made a third time',
  retries: 'no more attempts than `retries` allows',
  cooldown: 'cooldowns, and the pauses of background renewals, are respected',
  rateLimit: 'the rate limit of renewals after rejections is respected',
  settles: 'every call settles',
  signals: 'an aborted call ends at once, with the reason of its signal',
  errors: 'each caller gets its own error, of a class of this package',
  closed: 'after `close()` no call waits, gets a token or causes a token request',
  recovery: 'a caller without a token causes a token request, and gets a token once all faults end',
  rest: 'no timer is left behind',
  unhandled: 'no unhandled rejection',
} as const

type Rule = keyof typeof RULES

/** A failed acquisition, and how long the provider must back off after it. */
interface Failure {
  readonly at: number
  readonly leastMs: number
  readonly mostMs: number
  readonly retryAfterMs: number
  /** How long a background renewal must at least pause after it. */
  readonly pauseMs: number
  /** Whether possibly (`background`) or certainly (`surelyBackground`) no caller waited for it. */
  readonly background: boolean
  readonly surelyBackground: boolean
}

const NO_FAILURE: Failure = {
  at: Number.NEGATIVE_INFINITY,
  leastMs: 0,
  mostMs: 0,
  retryAfterMs: 0,
  pauseMs: 0,
  background: true,
  surelyBackground: false,
}

/** An acquisition in flight, and the APIs whose rejections are its only possible reason. */
interface Acquisition {
  readonly at: number
  readonly background: boolean
  readonly surelyBackground: boolean
  readonly apis: ReadonlySet<string>
}

/** The rejections of one API: how often they may cause a renewal. */
class RateLimit {
  #gapMs = 0
  #openAt = Number.NEGATIVE_INFINITY
  #lastRejection = Number.POSITIVE_INFINITY

  rejected(now: number): void {
    if (now - this.#lastRejection > this.#gapMs + 60_000) {
      this.#gapMs = 0
      this.#openAt = Number.NEGATIVE_INFINITY
    }
    this.#lastRejection = now
  }

  isOpen(now: number): boolean {
    return this.#openAt <= now
  }

  renewed(at: number): void {
    this.#gapMs = Math.min(this.#gapMs === 0 ? 1_000 : this.#gapMs * 2, 1_800_000)
    this.#openAt = at + this.#gapMs
  }
}

export class Referee {
  readonly problems: string[] = []
  readonly #clock: ScheduledClock
  readonly #options: RaceOptions
  readonly #grants = new Map<string, Grant>()
  readonly #rejected = new Map<string, Set<string>>()
  readonly #rateLimits = new Map<string, RateLimit>()
  #current: Grant | undefined
  #failure: Failure | undefined
  /** Since the last success, with a 429 and otherwise. */
  #refusals = 0
  #failures = 0
  #only4xx = true
  #lastAnswer: Answer | undefined
  #inFlight = 0
  #requests = 0
  #closed = false
  /** The acquisition in flight. */
  #running: Acquisition | undefined

  constructor(clock: ScheduledClock, options: RaceOptions) {
    this.#clock = clock
    this.#options = options
  }

  /** How many token requests there were. */
  get requests(): number {
    return this.#requests
  }

  get closed(): boolean {
    return this.#closed
  }

  problem(rule: Rule, what: string): void {
    this.problems.push(`${RULES[rule]}: ${what} (at ${this.#clock.monotonicMs()} ms)`)
  }

  close(): void {
    this.#closed = true
    this.#current = undefined
  }

  wallClockStepped(ms: number): void {
    for (const grant of this.#grants.values()) grant.wallClockStepped(ms)
  }

  requestBegins(): void {
    if (this.#closed) this.problem('closed', 'a token request after close()')
    this.#inFlight += 1
    this.#requests += 1
    if (this.#inFlight > 1) this.problem('inFlight', `${this.#inFlight} token requests in flight`)
  }

  requestEnds(answer: Answer | undefined): void {
    this.#inFlight -= 1
    this.#lastAnswer = answer
  }

  /** The endpoint issues a token. Returns its value. */
  issues(sent: Sent, lifetimeMs: number): string {
    const value = `token-${this.#grants.size + 1}`
    this.#grants.set(value, new Grant(value, sent, lifetimeMs, this.#options))
    return value
  }

  /** The tokens that were issued, oldest first. */
  get issued(): string[] {
    return [...this.#grants.keys()]
  }

  /** A token is handed out, which must happen before its margin and before close(). */
  handedOut(value: string, to: string): void {
    const grant = this.#grants.get(value)
    if (grant === undefined) {
      this.problem('margin', `${to} got a token that was never issued`)
      return
    }
    if (this.#closed) this.problem('closed', `${to} got a token after close()`)
    const remainsMs = grant.remainsMs(this.#clock)
    if (remainsMs <= 0) this.problem('margin', `${to} got ${value} ${-remainsMs} ms after its end`)
  }

  /**
   * An API, or a caller, has rejected a token.
   *
   * @param isReported whether it is reported to the provider: the second 401 of a call goes to the caller only
   */
  rejects(value: string, api: string, isReported = true): void {
    if (this.#closed || value !== this.#current?.value || !this.maybeServable()) return
    const apis = this.#rejected.get(value) ?? new Set()
    this.#rejected.set(value, apis.add(api))
    if (isReported) this.#rateLimitOf(api).rejected(this.#clock.monotonicMs())
  }

  /** Whether the current token may be handed out, however the wall clock was stepped. */
  certainlyServable(): boolean {
    return this.#current !== undefined && this.#current.certainlyRemainsMs(this.#clock) > 0
  }

  maybeServable(): boolean {
    return this.#current !== undefined && this.#current.remainsMs(this.#clock) > 0
  }

  /** Whether calls must fail at once. */
  certainlyCooling(): boolean {
    const { at, leastMs, background } = this.#failure ?? NO_FAILURE
    const cooling = !background && this.#clock.monotonicMs() < at + leastMs
    return cooling && !this.maybeServable() && this.#running === undefined && !this.#closed
  }

  /** Whether a call without a token must cause a request. */
  mustAsk(): boolean {
    if (this.#closed || this.#running !== undefined || this.maybeServable()) return false
    const { at, mostMs, retryAfterMs, surelyBackground } = this.#failure ?? NO_FAILURE
    return this.#clock.monotonicMs() >= at + (surelyBackground ? retryAfterMs : mostMs)
  }

  /** Follows the acquisitions by the provider's events. */
  readonly hears = (event: AuthEvent): void => {
    if (event.type === 'token-requested') {
      if (event.attempt === 1) this.#acquisitionBegins()
      const retries = this.#running?.surelyBackground ? 0 : this.#options.retries
      if (event.attempt > retries + 1) this.problem('retries', `attempt ${event.attempt}`)
    } else if (event.type === 'token-acquired') this.#acquired()
    else if (event.type === 'token-request-failed' && event.nextTryMs === undefined)
      this.#failed(event.status)
  }

  #acquisitionBegins(): void {
    const now = this.#clock.monotonicMs()
    const current = this.maybeServable() ? this.#current : undefined
    const certain = this.certainlyServable()
    const inWindow = current !== undefined && current.certainlyRemainsMs(this.#clock) <= current.windowMs
    const apis = this.#rejected.get(current?.value ?? '') ?? new Set<string>()
    const mayRenew = [...apis].filter((api) => this.#rateLimitOf(api).isOpen(now))
    if (certain && !inWindow && mayRenew.length === 0) {
      if (apis.size === 0) this.problem('need', 'no API rejected the current token')
      else this.problem('rateLimit', `asked for ${[...apis].join()}`)
    }
    const failure = this.#failure
    if (failure !== undefined) {
      const leastMs = this.#leastMsAfter(failure, { certain, inWindow, isRejected: apis.size > 0 })
      if (now < failure.at + leastMs)
        this.problem('cooldown', `a token request ${now - failure.at} ms after a failure`)
    }
    const rejectionOnly = certain && !inWindow
    this.#running = {
      at: now,
      background: current !== undefined,
      surelyBackground: certain && inWindow && apis.size === 0,
      apis: new Set(rejectionOnly ? mayRenew : []),
    }
  }

  /** The shortest time without a request after a failure, as far as the reason for the request is known. */
  #leastMsAfter(
    { background, surelyBackground, leastMs, pauseMs, retryAfterMs }: Failure,
    { certain, inWindow, isRejected }: { certain: boolean; inWindow: boolean; isRejected: boolean },
  ): number {
    if (!background) return leastMs
    if (!certain) return retryAfterMs
    if (!inWindow) return leastMs // a renewal after a rejection
    return surelyBackground && !isRejected ? pauseMs : Math.min(leastMs, pauseMs)
  }

  #acquired(): void {
    const { apis = new Set<string>(), at = 0 } = this.#running ?? {}
    const [api] = apis
    if (apis.size === 1 && api !== undefined) {
      this.#rateLimitOf(api).renewed(at)
    }
    this.#running = undefined
    this.#failure = undefined
    this.#failures = 0
    this.#refusals = 0
    this.#only4xx = true
    this.#current = [...this.#grants.values()].at(-1)
  }

  #failed(status: number | undefined): void {
    const isRefusal = status === 429
    if (isRefusal) this.#refusals += 1
    else this.#failures += 1
    this.#only4xx &&= status !== undefined && status >= 400 && status < 500
    const doubled = isRefusal ? 10_000 * 2 ** (this.#refusals - 1) : 1_000 * 2 ** (this.#failures - 1)
    const [leastMaxMs, mostMaxMs] = isRefusal
      ? [1_800_000, 1_800_000]
      : [this.#only4xx ? 30_000 : 5_000, 30_000]
    const answer = this.#lastAnswer
    const retryAfter = status !== undefined && answer?.kind === 'status' ? (answer.retryAfter ?? 0) : 0
    const retryAfterMs = Math.min(retryAfter * 1_000, isRefusal ? 3_600_000 : 60_000)
    const leftMs = this.#current?.certainlyRemainsMs(this.#clock) ?? 0
    const quarterMs = Math.min(Math.max(leftMs / 4, 5_000), 300_000)
    this.#failure = {
      at: this.#clock.monotonicMs(),
      leastMs: Math.max(Math.min(doubled, leastMaxMs), retryAfterMs),
      mostMs: Math.max(Math.min(doubled, mostMaxMs), retryAfterMs),
      retryAfterMs,
      pauseMs: Math.max(0.75 * quarterMs, retryAfter * 1_000),
      background: this.#running?.background ?? false,
      surelyBackground: this.#running?.surelyBackground ?? false,
    }
    this.#running = undefined
  }

  #rateLimitOf(api: string): RateLimit {
    let rateLimit = this.#rateLimits.get(api)
    if (rateLimit === undefined) {
      rateLimit = new RateLimit()
      this.#rateLimits.set(api, rateLimit)
    }
    return rateLimit
  }
}

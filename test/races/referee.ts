/** The model: what a provider may do, kept by what can be seen from outside, and every breach of it. */
import type { AuthEvent } from '../../src/index.ts'
import type { Answer } from './actions.ts'
import type { RaceClock } from './clock.ts'
import { type Acquisition, type Failure, Grant, NO_FAILURE, Ration, type RefereeOptions } from './record.ts'
import { RULES, type Rule } from './rules.ts'

export class Referee {
  readonly problems: string[] = []
  readonly #clock: RaceClock
  readonly #options: RefereeOptions
  readonly #grants = new Map<string, Grant>()
  readonly #rejected = new Map<string, Set<string>>()
  readonly #rations = new Map<string, Ration>()
  #current: Grant | undefined
  #failure: Failure | undefined
  #failures = 0
  #only4xx = true
  #lastAnswer: Answer | undefined
  #inFlight = 0
  #requests = 0
  #closed = false
  /** The acquisition that runs: why it may, and since when. */
  #running: Acquisition | undefined

  constructor(clock: RaceClock, options: RefereeOptions) {
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

  /** The value of the current token, where one was given and may still be handed out. */
  get current(): string | undefined {
    return this.#current?.value
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

  granted(
    value: string,
    sent: { at: number; wallAt: number; aheadMs: number },
    lifetimeSeconds: number,
  ): void {
    this.#grants.set(value, new Grant(value, sent, lifetimeSeconds * 1_000, this.#options))
  }

  /** A token has reached somebody: only one whose time has not come, and not after the end. */
  handedOut(value: string, to: string): void {
    const grant = this.#grants.get(value)
    if (grant === undefined) {
      this.problem('margin', `${to} got a token that was never given`)
      return
    }
    if (this.#closed) this.problem('closed', `${to} got a token after close()`)
    const remainsMs = grant.remainsMs(this.#clock)
    if (remainsMs <= 0) this.problem('margin', `${to} got ${value} ${-remainsMs} ms after its end`)
  }

  /** An API, or a caller, has refused a token. */
  refused(value: string, api: string): void {
    if (this.#closed || value !== this.#current?.value || !this.maybeServable()) return
    const apis = this.#rejected.get(value) ?? new Set()
    this.#rejected.set(value, apis.add(api))
    this.#rationOf(api).rejected(this.#clock.monotonicMs())
  }

  /** Whether the current token may be handed out, whichever way doubts are read. */
  certainlyServable(): boolean {
    return this.#current !== undefined && this.#current.certainlyRemainsMs(this.#clock) > 0
  }

  maybeServable(): boolean {
    return this.#current !== undefined && this.#current.remainsMs(this.#clock) > 0
  }

  /** Whether callers must fail at once. */
  certainlyCooling(): boolean {
    const { at, leastMs, background } = this.#failure ?? NO_FAILURE
    const cooling = !background && this.#clock.monotonicMs() < at + leastMs
    return cooling && !this.maybeServable() && this.#running === undefined && !this.#closed
  }

  /** Whether a caller without a token must have the endpoint asked. */
  mustAsk(): boolean {
    if (this.#closed || this.#running !== undefined || this.maybeServable()) return false
    const { at, mostMs, retryAfterMs, surelyBackground } = this.#failure ?? NO_FAILURE
    return this.#clock.monotonicMs() >= at + (surelyBackground ? retryAfterMs : mostMs)
  }

  /** Keeps the acquisitions by the provider's own events. */
  readonly heard = (event: AuthEvent): void => {
    if (event.type === 'token-requested') {
      if (event.attempt === 1) this.#acquisitionBegins()
      if (event.attempt > this.#options.retries + 1) this.problem('retries', `attempt ${event.attempt}`)
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
    const mayRenew = [...apis].filter((api) => this.#rationOf(api).isOpen(now))
    if (certain && !inWindow && mayRenew.length === 0) {
      if (apis.size === 0) this.problem('need', 'the current one was refused by nobody')
      else this.problem('ration', `asked for ${[...apis].join()}`)
    }
    const failure = this.#failure
    if (failure !== undefined) {
      const leastMs = failure.background && !certain ? failure.retryAfterMs : failure.leastMs
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

  #acquired(): void {
    const { apis = new Set<string>(), at = 0 } = this.#running ?? {}
    const [api] = apis
    if (apis.size === 1 && api !== undefined) {
      this.#rationOf(api).renewed(at)
    }
    this.#running = undefined
    this.#failure = undefined
    this.#failures = 0
    this.#only4xx = true
    this.#current = [...this.#grants.values()].at(-1)
  }

  #failed(status: number | undefined): void {
    this.#failures += 1
    this.#only4xx &&= status !== undefined && status >= 400 && status < 500
    const doubled = 1_000 * 2 ** (this.#failures - 1)
    const answer = this.#lastAnswer
    const retryAfter = status !== undefined && answer?.kind === 'status' ? (answer.retryAfter ?? 0) : 0
    const retryAfterMs = Math.min(retryAfter * 1_000, 60_000)
    this.#failure = {
      at: this.#clock.monotonicMs(),
      leastMs: Math.max(Math.min(doubled, this.#only4xx ? 30_000 : 5_000), retryAfterMs),
      mostMs: Math.max(Math.min(doubled, 30_000), retryAfterMs),
      retryAfterMs,
      background: this.#running?.background ?? false,
      surelyBackground: this.#running?.surelyBackground ?? false,
    }
    this.#running = undefined
  }

  #rationOf(api: string): Ration {
    let ration = this.#rations.get(api)
    if (ration === undefined) {
      ration = new Ration()
      this.#rations.set(api, ration)
    }
    return ration
  }
}

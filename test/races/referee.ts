/** Finds every violation of a rule from what is observable outside a provider. */
import type { AuthEvent } from '../../src/index.ts'
import type { ScheduledClock } from '../support/clock.ts'
import type { Answer, Sent } from './endpoint.ts'
import { Grant, type GrantOptions } from './grant.ts'
import { currentRequest, type IncomingRequest } from './incoming.ts'
import { Pauses, type Purpose, RenewalLimit, ReservedQuotas } from './limits.ts'

/** What must hold in every race, and in every explored schedule. */
const RULES = {
  inFlight: 'at most one token request in flight that is not lost',
  fleet: 'processes that share a store with leases have at most one token request in flight',
  margin: 'no token is handed out past its margin, on either clock',
  atOnce: 'no call waits while a valid token is cached, or during a cooldown',
  need: 'no unnecessary renewal, and none for a token that was already replaced',
  twice: 'no call is made a third time',
  retries: 'no more attempts than `retries` allows, and only one in the background',
  effort: 'no call fails before all attempts failed, unless a limit or a pause forbids them',
  cooldown: 'cooldowns, and the pauses of background renewals, are respected',
  rateLimit: 'the rate limit of renewals after rejections is respected',
  quota: 'a quota that is nearly spent pays for no renewal of a valid token',
  patience: 'a wait ends within `timeoutMs`, that for a lost run with a new request or an error',
  settles: 'every call settles',
  signals: 'an aborted call ends at once, with the reason of its signal',
  errors: 'each caller gets its own error, of a class of this package',
  closed: 'after `close()` no call waits, gets a token or causes a token request',
  recovery: 'a caller without a token causes a token request, and gets a token once all faults end',
  rest: 'no timer is left behind',
} as const

type Rule = keyof typeof RULES

/** The options of the provider that the rules depend on. */
export interface RefereeOptions extends GrantOptions {
  readonly timeoutMs: number
  readonly retries: number
}

/** An acquisition in flight. */
interface Acquisition {
  readonly at: number
  /** Whether it is a renewal in the background. */
  readonly background: 'yes' | 'maybe' | 'no'
  /** The APIs whose rejections may be its reason, and whether there can be no other. */
  readonly apis: readonly string[]
  readonly isForRejection: boolean
  /** The request of a server that runs it. */
  readonly request: IncomingRequest | undefined
  /** How many 429s it got so far. */
  refusals: number
}

/** What the processes know of each other that share a store. */
export interface Fleet {
  readonly grants: Map<string, Grant>
  readonly referees: Referee[]
  /** Whether the store has leases, and works. */
  leases: boolean
  /** Until when (monotonic ms) a 429 holds back all of them. */
  refusedUntil: number
}

export class Referee {
  readonly problems: string[] = []
  readonly #clock: ScheduledClock
  readonly #options: RefereeOptions
  readonly #fleet: Fleet
  /** Whether tokens may also come from a store, which takes time. */
  readonly #hasStore: boolean
  readonly #rejected = new Map<string, Set<string>>()
  readonly #limits = new Map<string, RenewalLimit>()
  readonly #pauses = new Pauses()
  readonly #quotas = new ReservedQuotas()
  #current: Grant | undefined
  #lastAnswer: Answer | undefined
  #inFlight = 0
  #requests = 0
  #excuses = 0
  #closed = false
  #running: Acquisition | undefined
  /** Whether a run was lost since the last acquisition began: calls may wait for it, as long as their patience allows. */
  #isLost = false
  #lost = 0
  #lastBegan = Number.NEGATIVE_INFINITY

  constructor(clock: ScheduledClock, options: RefereeOptions, fleet?: Fleet) {
    this.#clock = clock
    this.#options = options
    this.#hasStore = fleet !== undefined
    this.#fleet = fleet ?? { grants: new Map(), referees: [], leases: false, refusedUntil: 0 }
    this.#fleet.referees.push(this)
  }

  /** How many token requests there were. */
  get requests(): number {
    return this.#requests
  }

  get closed(): boolean {
    return this.#closed
  }

  get timeoutMs(): number {
    return this.#options.timeoutMs
  }

  /** How many acquisitions failed so far in a way that all who waited have to accept. */
  get excuses(): number {
    return this.#fleet.referees.reduce((sum, referee) => sum + referee.#excuses, 0)
  }

  problem(rule: Rule, what: string): void {
    this.problems.push(`${RULES[rule]}: ${what} (at ${this.#clock.monotonicMs()} ms)`)
  }

  close(): void {
    this.#closed = true
    this.#current = undefined
  }

  wallClockStepped(ms: number): void {
    for (const grant of this.#fleet.grants.values()) grant.wallClockStepped(ms)
  }

  requestBegins(): void {
    if (this.#closed) this.problem('closed', 'a token request after close()')
    this.#inFlight += 1
    this.#requests += 1
    if (this.#inFlight > 1) this.problem('inFlight', `${this.#inFlight} token requests in flight`)
    const others = this.#fleet.referees.filter((other) => other !== this && other.#holdsLease)
    if (this.#fleet.leases && others.length > 0) this.problem('fleet', 'another process requests a token')
  }

  /** Whether a request is in flight, and began when its lease cannot have expired. */
  get #holdsLease(): boolean {
    return this.#inFlight > 0 && this.#clock.monotonicMs() < this.#lastBegan + this.#options.timeoutMs
  }

  /** `answer`: undefined if it was aborted, or lost. */
  requestEnds(answer: Answer | undefined): void {
    this.#inFlight -= 1
    this.#lastAnswer = answer
    if (answer !== undefined && 'quota' in answer && answer.quota !== undefined)
      this.#quotas.answered(answer.quota, this.#clock.monotonicMs())
  }

  /** The endpoint issues a token. Returns its value. */
  issues(sent: Sent, lifetimeMs: number): string {
    const value = `token-${this.#fleet.grants.size + 1}`
    this.#fleet.grants.set(value, new Grant(value, sent, lifetimeMs, this.#options))
    return value
  }

  /** The tokens that were issued, oldest first. */
  get issued(): string[] {
    return [...this.#fleet.grants.keys()]
  }

  /** The value of the token that the provider acquired last. */
  get current(): string | undefined {
    return this.#current?.value
  }

  /** A token is handed out, which must happen before its margin and before close(). */
  handedOut(value: string, to: string): void {
    const grant = this.#fleet.grants.get(value)
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
    if (isReported) this.#limitOf(api).rejected(this.#clock.monotonicMs())
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
    return this.#isIdle && this.#clock.monotonicMs() < this.#pauses.earliest('caller')
  }

  /** Whether a call without a token must cause a request. */
  mustAsk(): boolean {
    return this.#isIdle && this.#clock.monotonicMs() >= this.#pauses.latest('caller')
  }

  /** Whether there is neither a token nor anything to wait for. */
  get #isIdle(): boolean {
    const isWaiting = this.#hasStore || this.#running !== undefined || this.#isLost
    return !this.#closed && !isWaiting && !this.maybeServable()
  }

  /** Whether a call may fail without any further request. */
  mayFail(): boolean {
    const now = this.#clock.monotonicMs()
    return this.#fleet.referees.some(
      (referee) => referee.#closed || now < referee.#pauses.latest('caller') || this.maybeServable(),
    )
  }

  /** Whether a call with this token, which `api` has just rejected, must get another one. */
  mustRenew(value: string, api: string): boolean {
    if (this.#closed || value !== this.#current?.value || !this.certainlyServable()) return false
    const now = this.#clock.monotonicMs()
    const isHeldBack = this.#fleet.referees.some(({ pauses }) => now < pauses.latest('rejection'))
    const isLimited = this.#fleet.referees.some((referee) => !referee.#limitOf(api).isCertainlyOpen(now))
    return !isHeldBack && !isLimited && !this.#quotas.isReserved(now)
  }

  /** Whether a call with this token, which an API has just rejected, must be sent again at once. */
  isReplaced(value: string): boolean {
    return !this.#closed && value !== this.#current?.value && this.certainlyServable()
  }

  /** When (monotonic ms) something changes by itself: the current token, a pause, or a limit. */
  get landmarks(): number[] {
    const now = this.#clock.monotonicMs()
    const remainsMs = this.#current?.certainlyRemainsMs(this.#clock) ?? Number.NaN
    const purposes: Purpose[] = ['caller', 'rejection', 'background']
    const pauses = purposes.flatMap((purpose) => {
      const [least, most] = [this.#pauses.earliest(purpose), this.#pauses.latest(purpose)]
      return [least - 1, least, most]
    })
    const limits = [...this.#limits.values()].flatMap(({ landmarks }) =>
      landmarks.flatMap((at) => [at - 1, at]),
    )
    const windowMs = this.#current?.windowMs ?? 0
    return [now + remainsMs - windowMs, now + remainsMs, ...pauses, ...limits, this.#quotas.endsAt]
  }

  /** When (monotonic ms) the last acquisition began, whether one is in flight, and how many may have been lost. */
  get acquisition(): { readonly at: number; readonly isRunning: boolean; readonly lost: number } {
    return { at: this.#lastBegan, isRunning: this.#running !== undefined, lost: this.#lost }
  }

  /** The run that this request of a server began is lost, also if it waits for its turn: all who wait may get an error. */
  lost(request: IncomingRequest): void {
    if (this.#running?.request === request) this.#running = undefined
    this.#isLost = true
    this.#lost += 1
    this.#excuses += 1
  }

  /** Follows the acquisitions by the provider's events. */
  readonly hears = (event: AuthEvent): void => {
    if (currentRequest()?.ended) return // nothing comes of it
    if (event.type === 'token-requested') {
      if (event.attempt === 1) this.#acquisitionBegins()
      const retries = this.#running?.background === 'yes' ? 0 : this.#options.retries
      if (event.attempt > retries + 1) this.problem('retries', `attempt ${event.attempt}`)
    } else if (event.type === 'token-acquired') this.#acquired()
    else if (event.type === 'token-request-failed') {
      if (event.nextTryMs === undefined) this.#failed(event)
      else if (event.status === 429 && this.#running) this.#running.refusals += 1
    }
  }

  #acquisitionBegins(): void {
    const now = this.#clock.monotonicMs()
    const current = this.maybeServable() ? this.#current : undefined
    const certain = this.certainlyServable()
    const inWindow = current !== undefined && current.certainlyRemainsMs(this.#clock) <= current.windowMs
    const apis = [...(this.#rejected.get(current?.value ?? '') ?? [])]
    const open = apis.filter((api) => this.#limitOf(api).isOpen(now))
    const purposes: Purpose[] = []
    if (!certain) purposes.push('caller')
    if (inWindow) purposes.push('background')
    if (current !== undefined && open.length > 0) purposes.push('rejection')

    if (purposes.length === 0 && apis.length === 0) this.problem('need', 'no API rejected the current token')
    if (purposes.length === 0 && apis.length > 0) this.problem('rateLimit', `asked for ${apis.join()}`)
    const earliest = Math.min(...purposes.map((purpose) => this.#pauses.earliest(purpose)))
    if (purposes.length > 0 && now < earliest)
      this.problem('cooldown', `a token request for ${purposes.join(' or ')} ${earliest - now} ms too early`)
    if (certain && this.#quotas.isReserved(now)) this.problem('quota', 'a renewal')
    if (this.#fleet.leases) this.#checkFleet({ isForCaller: !certain })

    const isForRejection = certain && !inWindow
    this.#lastBegan = now
    this.#isLost = false
    this.#running = {
      at: now,
      background: !inWindow ? 'no' : certain && apis.length === 0 ? 'yes' : 'maybe',
      apis: isForRejection ? open : apis,
      isForRejection,
      request: currentRequest(),
      refusals: 0,
    }
  }

  /** Whether another process's 429, or its token, makes this request unnecessary. */
  #checkFleet({ isForCaller }: { readonly isForCaller: boolean }): void {
    const waitMs = this.#fleet.refusedUntil - this.#clock.monotonicMs()
    if (waitMs > 0) this.problem('cooldown', `the pause of another process lasts ${waitMs} ms more`)
    const others = this.#fleet.referees.filter((other) => other !== this)
    const shared = this.#fleet.grants.get(others.map(({ current }) => current).find(Boolean) ?? '')
    if (shared === undefined || this.#rejected.has(shared.value) || shared === this.#current) return
    const usefulMs = shared.certainlyRemainsMs(this.#clock) - (isForCaller ? 0 : shared.windowMs)
    if (usefulMs > 0) this.problem('need', `another process has ${shared.value}`)
  }

  #acquired(): void {
    const { apis = [], at = 0, isForRejection = false } = this.#running ?? {}
    const [api] = apis
    if (isForRejection && apis.length === 1 && api !== undefined) this.#limitOf(api).renewed(at)
    else for (const one of apis) this.#limitOf(one).mayBeStricter()
    this.#running = undefined
    this.#fleet.refusedUntil = 0
    this.#pauses.succeeded()
    this.#current = [...this.#fleet.grants.values()].at(-1)
  }

  #failed({ attempt, status }: Extract<AuthEvent, { type: 'token-request-failed' }>): void {
    const now = this.#clock.monotonicMs()
    const { at = 0, apis = [], background = 'no', refusals = 0 } = this.#running ?? {}
    const answer = this.#lastAnswer
    const namedMs = status !== undefined && answer?.kind === 'status' ? namedIn(answer, status) : undefined
    this.#pauses.failed({
      at: now,
      status,
      namedMs,
      earlierRefusals: refusals,
      background,
      servableForMs: this.#current?.certainlyRemainsMs(this.#clock) ?? 0,
    })
    if (status === 429) this.#fleet.refusedUntil = this.#pauses.earliest('caller')
    for (const api of apis) this.#limitOf(api).mayBeStricter()
    // A call that waited behind a run that failed may have no more than a quarter of its time left.
    const isTried =
      attempt > this.#options.retries || !isRetried(answer) || now - at >= this.#options.timeoutMs / 4
    // Only a process that was suspended ends an attempt in the background so late, which has half of the time. Calls that
    // waited before have too little time left, and later ones share their run.
    const wasSuspended = now - at >= 0.75 * this.#options.timeoutMs
    if (status === 429 || namedMs !== undefined || wasSuspended || (background !== 'yes' && isTried))
      this.#excuses += 1
    this.#running = undefined
  }

  private get pauses(): Pauses {
    return this.#pauses
  }

  #limitOf(api: string): RenewalLimit {
    let limit = this.#limits.get(api)
    if (limit === undefined) {
      limit = new RenewalLimit()
      this.#limits.set(api, limit)
    }
    return limit
  }
}

/** The time (ms) that an answer names: by Retry-After, or where a 429 says that a quota is spent, until it is full. */
function namedIn({ retryAfter, quota }: Answer & { kind: 'status' }, status: number): number | undefined {
  const resetsInSeconds = status === 429 && quota?.remaining === 0 ? quota.resetsInSeconds : undefined
  if (retryAfter === undefined && resetsInSeconds === undefined) return undefined
  return 1_000 * Math.max(retryAfter ?? 0, resetsInSeconds ?? 0)
}

/** Whether another attempt follows this answer, where attempts are left and somebody waits. */
function isRetried(answer: Answer | undefined): boolean {
  if (answer === undefined) return true // a time-out
  if (answer.kind === 'status') return answer.status === 408 || answer.status >= 500
  return answer.kind !== 'bad body' && answer.kind !== 'token'
}

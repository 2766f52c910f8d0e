/** Finds every violation of a rule from what is observable outside a provider. */
import type { AuthEvent } from '../../src/index.ts'
import type { ScheduledClock } from '../support/clock.ts'
import type { Answer, Sent } from './endpoint.ts'
import { Grant, type GrantOptions } from './grant.ts'
import { currentRequest, type IncomingRequest } from './incoming.ts'
import { Pauses, type Purpose, RenewalBounds, ReservedQuotas } from './limits.ts'

/** What must hold in every race, and in every explored schedule. */
const RULES = {
  inFlight: 'at most one token request in flight that is not lost',
  fleet: 'processes that share a store with leases have at most one token request in flight',
  margin: 'no token is handed out past its margin, on either clock',
  atOnce: 'no call waits while a valid token is cached, or during a cooldown',
  need: 'no unnecessary renewal, and none for a token that was already replaced',
  twice: 'no call is made a third time',
  before: 'no call gets a 401 while the token before the current one works',
  retries: 'no more attempts than `retries` allows, only one in the background, and each fails once',
  effort: 'no call fails before all attempts failed, unless a limit or a pause forbids them',
  cooldown: 'cooldowns, and the pauses of background renewals, are respected',
  rateLimit: 'the rate limit of renewals after rejections is respected',
  quota: 'a quota that is nearly spent pays for no renewal of a valid token',
  patience:
    'nobody waits but for a token request that began less than `timeoutMs` ago, or was lost a second ago',
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
  /** The last attempt that failed. */
  lastFailed: number
}

/** After `timeoutMs`, a request counts as lost so much later, and calls that come then wait for so long. */
const LOST_AFTER_MS = 1_000
const AFTER_FREEZE_MS = 100
/** The longest pause between attempts, without a Retry-After. */
const MAX_BACKOFF_MS = 1_000

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
  /** The APIs that rejected a token, and those whose 401 may be about it. */
  readonly #rejected = new Map<string, Set<string>>()
  readonly #aboutToken = new Map<string, Set<string>>()
  /** The token with which each API last accepted a call. */
  readonly #accepted = new Map<string, string>()
  readonly #bounds = new Map<string, RenewalBounds>()
  readonly #pauses = new Pauses()
  readonly #quotas = new ReservedQuotas()
  /** The token in use, the one before, and a newer one that waits. */
  #inUse: Grant | undefined
  #before: Grant | undefined
  #newer: Grant | undefined
  #retryNewerAt = Number.NaN
  #lastAnswer: Answer | undefined
  /** When (monotonic ms) the acquisitions began whose requests are in flight. */
  readonly #inFlight = new Set<{ readonly at: number }>()
  /** Whether a process that stood still has begun an acquisition while another one was lost: which of them reports what is unknown since. */
  #isMixedUp = false
  #requests = 0
  #excuses = 0
  #closed = false
  #running: Acquisition | undefined
  /** Whether a run was lost since the last acquisition began: calls may wait for it, as long as their patience allows. */
  #isLost = false
  #lost = 0
  #lastBegan = Number.NEGATIVE_INFINITY
  #lastEnded = Number.NEGATIVE_INFINITY

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

  /** Whether requests of lost acquisitions run on, so that events cannot be told apart. */
  get isMixedUp(): boolean {
    return this.#isMixedUp
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
    this.#inUse = undefined
    this.#newer = undefined
  }

  /** The token in use. When it ends, a newer one takes its place. */
  get #current(): Grant | undefined {
    if (this.#newer !== undefined && !this.#isServable(this.#inUse) && this.#isServable(this.#newer))
      this.#useNewer()
    return this.#inUse
  }

  #useNewer(): void {
    this.#before = this.#inUse
    this.#inUse = this.#newer
    this.#newer = undefined
  }

  #isServable(grant: Grant | undefined): boolean {
    return grant !== undefined && grant.remainsMs(this.#clock) > 0
  }

  wallClockStepped(ms: number): void {
    for (const grant of this.#fleet.grants.values()) grant.wallClockStepped(ms)
  }

  /** Returns what ends it; `answer`: undefined if it was aborted, or lost. */
  requestBegins(): (answer: Answer | undefined) => void {
    if (this.#closed) this.problem('closed', 'a token request after close()')
    const request = { at: this.#lastBegan }
    const others = [...this.#inFlight].filter(({ at }) => !this.#isOverdue(at))
    if (others.length > 0) this.problem('inFlight', `${others.length + 1} token requests in flight`)
    this.#inFlight.add(request)
    this.#requests += 1
    const processes = this.#fleet.referees.filter((other) => other !== this && other.#holdsLease)
    if (this.#fleet.leases && processes.length > 0) this.problem('fleet', 'another process requests a token')
    return (answer) => this.#requestEnds(request, answer)
  }

  #isOverdue(at: number): boolean {
    return this.#clock.monotonicMs() >= at + this.#options.timeoutMs + LOST_AFTER_MS
  }

  /** Whether a request is in flight, and began when its lease cannot have expired. */
  get #holdsLease(): boolean {
    return this.#inFlight.size > 0 && this.#clock.monotonicMs() < this.#lastBegan + this.#options.timeoutMs
  }

  #requestEnds(request: { readonly at: number }, answer: Answer | undefined): void {
    this.#inFlight.delete(request)
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
  handedOut(value: string, to: string, { isRepeated = false } = {}): void {
    const grant = this.#fleet.grants.get(value)
    if (grant === undefined) {
      this.problem('margin', `${to} got a token that was never issued`)
      return
    }
    if (this.#closed) this.problem('closed', `${to} got a token after close()`)
    if (grant === this.#newer && !isRepeated) this.#useNewer()
    const remainsMs = grant.remainsMs(this.#clock)
    if (remainsMs <= 0) this.problem('margin', `${to} got ${value} ${-remainsMs} ms after its end`)
  }

  /** An API accepted a call. `rejected`: the token with which it was sent before. */
  accepts(value: string, api: string, rejected?: string): void {
    if (this.#closed) return
    const isOfCurrent = rejected !== undefined && rejected === this.#current?.value
    if (isOfCurrent && value === this.#newer?.value) this.#useNewer()
    else if (isOfCurrent && value === this.#before?.value) this.#useBefore(this.#before)
    const isCurrent = value === this.#current?.value
    if (isCurrent || this.#accepted.get(api) !== this.#current?.value) this.#accepted.set(api, value)
    if (isCurrent) this.#boundsOf(api).accepted()
    const isRenewed = rejected !== undefined && !isOfCurrent && this.#isNewer(value, rejected)
    if (isRenewed && this.#newer === undefined) this.#boundsOf(api).helped()
  }

  #isNewer(value: string, other: string): boolean {
    return this.issued.indexOf(value) > this.issued.indexOf(other)
  }

  #useBefore(before: Grant): void {
    if (!this.#isServable(before)) return
    this.#newer = this.#inUse
    this.#inUse = before
    this.#before = undefined
    const quarterMs = Math.min(Math.max(before.remainsMs(this.#clock) / 4, 5_000), 300_000)
    this.#retryNewerAt = this.#clock.monotonicMs() + 0.75 * quarterMs
  }

  /**
   * An API, or a caller, has rejected a token. `rejected`: as for `accepts`; `isByHand`: by `renewToken`, so that it counts as
   * one about the token.
   */
  rejects(
    value: string,
    api: string,
    {
      rejected,
      isByHand = false,
    }: { readonly rejected?: string | undefined; readonly isByHand?: boolean } = {},
  ): void {
    const current = this.#current?.value ?? ''
    // The second 401 of a call goes to its caller only, unless both tokens were in question.
    if (this.#closed || (rejected ?? value) !== current || !this.maybeServable()) return
    if (isByHand && this.#isServable(this.#newer)) {
      this.#useNewer()
      return
    }
    const bounds = this.#boundsOf(api)
    if (rejected !== undefined) bounds.beginDoubt()
    addTo(this.#rejected, current, api)
    const isCertain = (grant: Grant | undefined): boolean => (grant?.certainlyRemainsMs(this.#clock) ?? 0) > 0
    const isRepeated = isCertain(this.#newer) || (isCertain(this.#before) && this.#mayHaveBefore(api))
    if (!isByHand && rejected === undefined && isRepeated) return // with another token, which decides
    const now = this.#clock.monotonicMs()
    bounds.rejected(now)
    if (isByHand || bounds.mayBeAboutToken(now)) addTo(this.#aboutToken, current, api)
  }

  /** Whether a rejected call may be repeated with the token before. */
  #mayHaveBefore(api: string): boolean {
    const isAccepted = this.#accepted.get(api) === this.#current?.value
    return !isAccepted && this.#isServable(this.#before)
  }

  /** The tokens that a rejected call may be repeated with: that in use, the one before, and the newer one that waits. */
  get usable(): string[] {
    if (this.#isMixedUp) return []
    const grants = [this.#current, this.#before, this.#newer].filter((grant) => grant !== undefined)
    return grants.filter((grant) => grant.certainlyRemainsMs(this.#clock) > 0).map(({ value }) => value)
  }

  /** Whether the current token may be handed out, however the wall clock was stepped. */
  certainlyServable(): boolean {
    return !this.#isMixedUp && (this.#current?.certainlyRemainsMs(this.#clock) ?? 0) > 0
  }

  maybeServable(): boolean {
    return this.#isServable(this.#current)
  }

  /** Whether a token request is under way, which rejected calls may join. */
  get isRequesting(): boolean {
    return this.#running !== undefined
  }

  /** Whether calls must fail at once. */
  certainlyCooling(): boolean {
    return !this.#isMixedUp && this.#isIdle && this.#clock.monotonicMs() < this.#pauses.earliest('caller')
  }

  /** Whether a call without a token must cause a request. */
  mustAsk(): boolean {
    return this.#isIdle && this.#clock.monotonicMs() >= this.#pauses.latest('caller')
  }

  /** Whether there is neither a token nor anything to wait for. */
  get #isIdle(): boolean {
    const isWaiting = this.#hasStore || this.#isMixedUp || this.#running !== undefined || this.#isLost
    return !this.#closed && !isWaiting && !this.maybeServable()
  }

  /** Whether a call may fail without any further request. */
  mayFail(): boolean {
    const now = this.#clock.monotonicMs()
    return this.#fleet.referees.some(
      (referee) =>
        referee.#closed ||
        referee.#isMixedUp ||
        now < referee.#pauses.latest('caller') ||
        this.maybeServable(),
    )
  }

  /** Whether a call with this token, which `api` has just rejected, must get another one. */
  mustRenew(value: string, api: string): boolean {
    if (this.#closed || value !== this.#current?.value || !this.certainlyServable()) return false
    const now = this.#clock.monotonicMs()
    const isHeldBack = this.#fleet.referees.some(({ pauses }) => now < pauses.latest('rejected'))
    const must = this.#fleet.referees.every((referee) => referee.#boundsOf(api).mustRenew(now))
    const hasOther = this.#isServable(this.#newer) || this.#mayHaveBefore(api)
    return must && !isHeldBack && !this.#quotas.isReserved(now) && !hasOther
  }

  /** Whether a call with this token, which an API has just rejected, must be sent again at once. */
  isReplaced(value: string): boolean {
    return !this.#closed && value !== this.#current?.value && this.certainlyServable()
  }

  /** When (monotonic ms) something changes by itself: the current token, a pause, or a limit. */
  get landmarks(): number[] {
    const now = this.#clock.monotonicMs()
    const remainsMs = this.#current?.certainlyRemainsMs(this.#clock) ?? Number.NaN
    const purposes: Purpose[] = ['caller', 'rejected', 'background']
    const pauses = purposes.flatMap((purpose) => {
      const [least, most] = [this.#pauses.earliest(purpose), this.#pauses.latest(purpose)]
      return [least - 1, least, most]
    })
    const limits = [...this.#bounds.values()].flatMap(({ landmarks }) =>
      landmarks.flatMap((at) => [at - 1, at]),
    )
    const windowMs = this.#current?.windowMs ?? 0
    return [
      now + remainsMs - windowMs,
      now + remainsMs,
      ...pauses,
      ...limits,
      this.#retryNewerAt,
      this.#quotas.endsAt,
    ]
  }

  /** Until when (monotonic ms) a call may wait that began to wait at `since`, if timers are never late. */
  patienceOf(since: number): number {
    const endsAt = Math.max(this.#lastBegan, this.#lastEnded, since) + this.#options.timeoutMs
    return this.#lost === 0 ? endsAt : Math.max(endsAt + LOST_AFTER_MS, since + AFTER_FREEZE_MS)
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
    if (this.#isMixedUp) this.#hearsMixedUp(event)
    else if (event.type === 'token-requested') {
      if (event.attempt === 1) this.#acquisitionBegins()
      const retries = this.#running?.background === 'yes' ? 0 : this.#options.retries
      if (event.attempt > retries + 1) this.problem('retries', `attempt ${event.attempt}`)
    } else if (event.type === 'token-acquired') this.#acquired(event.source)
    else if (event.type === 'token-request-failed') {
      if (event.attempt <= (this.#running?.lastFailed ?? Number.POSITIVE_INFINITY))
        this.problem('retries', `attempt ${event.attempt} fails again`)
      if (this.#running) this.#running.lastFailed = event.attempt
      if (event.nextTryMs === undefined) this.#failed(event)
      else if (event.status === 429 && this.#running) this.#running.refusals += 1
    }
  }

  #hearsMixedUp(event: AuthEvent): void {
    if (event.type === 'token-requested' && event.attempt === 1) this.#lastBegan = this.#clock.monotonicMs()
    if (event.type === 'token-acquired') this.#becomesCurrent()
  }

  #acquisitionBegins(): void {
    const now = this.#clock.monotonicMs()
    if (this.#running !== undefined) {
      if (!this.#isOverdue(this.#running.at)) this.problem('inFlight', 'an acquisition is under way')
      this.#isMixedUp = true
    }
    const current = this.maybeServable() ? this.#current : undefined
    const certain = this.certainlyServable()
    const inWindow = current !== undefined && current.certainlyRemainsMs(this.#clock) <= current.windowMs
    const apis = [...(this.#rejected.get(current?.value ?? '') ?? [])]
    const aboutToken = [...(this.#aboutToken.get(current?.value ?? '') ?? [])]
    const open = aboutToken.filter((api) => this.#boundsOf(api).isOpen(now))
    const purposes: Purpose[] = []
    if (!certain) purposes.push('caller')
    if (inWindow) purposes.push('background')
    if (current !== undefined && open.length > 0) purposes.push('rejected')

    if (purposes.length === 0 && aboutToken.length === 0)
      this.problem('need', `${apis.join() || 'no API'} rejected calls with the current token`)
    if (purposes.length === 0 && aboutToken.length > 0)
      this.problem('rateLimit', `asked for ${aboutToken.join()}`)
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
      lastFailed: 0,
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

  #acquired(source: 'endpoint' | 'store'): void {
    const { apis = [], at = this.#clock.monotonicMs(), isForRejection = false } = this.#running ?? {}
    const [api] = apis
    if (isForRejection && apis.length === 1 && api !== undefined) this.#boundsOf(api).renewed(at)
    else for (const one of apis) this.#boundsOf(one).mayHaveRenewed(at)
    if (source === 'store') for (const one of this.#bounds.values()) one.mayHaveRenewed(at)
    this.#ended()
    this.#fleet.refusedUntil = 0
    this.#pauses.succeeded()
    this.#becomesCurrent()
  }

  #becomesCurrent(): void {
    const isAccepted = ({ value }: Grant): boolean => [...this.#accepted.values()].includes(value)
    const displaced = this.#current
    const before = this.#isServable(this.#before) ? this.#before : undefined
    const keepsBefore = before !== undefined && displaced !== undefined && isAccepted(before)
    if (!keepsBefore || isAccepted(displaced)) this.#before = displaced
    this.#inUse = [...this.#fleet.grants.values()].at(-1)
    this.#newer = undefined
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
    for (const api of apis) this.#boundsOf(api).mayHaveRenewed(now)
    const isOutOfTime = now + MAX_BACKOFF_MS >= at + this.#options.timeoutMs
    const isTried = attempt > this.#options.retries || !isRetried(answer) || isOutOfTime
    if (status === 429 || namedMs !== undefined || (background !== 'yes' && isTried)) this.#excuses += 1
    this.#ended()
  }

  #ended(): void {
    this.#running = undefined
    this.#lastEnded = this.#clock.monotonicMs()
  }

  private get pauses(): Pauses {
    return this.#pauses
  }

  #boundsOf(api: string): RenewalBounds {
    let bounds = this.#bounds.get(api)
    if (bounds === undefined) {
      bounds = new RenewalBounds()
      this.#bounds.set(api, bounds)
    }
    return bounds
  }
}

function addTo(apis: Map<string, Set<string>>, value: string, api: string): void {
  const known = apis.get(value) ?? new Set()
  apis.set(value, known.add(api))
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

/** A small world that is explored completely: one or two processes, a few callers, and a bounded number of events. */
import { createAuthFetch, createTokenProvider, type TokenProvider } from '../../src/index.ts'
import { APIS, type Call, Calls } from '../races/calls.ts'
import type { Answer } from '../races/endpoint.ts'
import { IncomingClock } from '../races/incoming.ts'
import type { AnsweredQuota } from '../races/limits.ts'
import { type Fleet, Referee } from '../races/referee.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { settled } from '../support/clock.ts'
import { ExploredEndpoint } from './endpoint.ts'
import type { Choose } from './explorer.ts'

/** Callers that do the same. They arrive one after the other, in any order with everything else. */
export interface Callers {
  readonly count: number
  readonly do: 'get a token' | 'call an API'
  /** Which API, of two. */
  readonly api?: 0 | 1
  /** Whether the API rejects their calls with every token. */
  readonly isBad?: boolean
  /** In which process, of two. */
  readonly process?: 0 | 1
}

/** What may happen besides callers, answers and time. */
type Trouble = 'failures' | 'aborts' | 'revocations' | 'learnings' | 'drops' | 'closes' | 'outages'

/** A world, and the bounds within which it is explored. */
export interface Plan {
  /** What the token of the first process is when the schedules begin. */
  readonly start: 'no token' | 'a fresh token' | 'a token in its window' | 'an expired token'
  /** Whether the request before that of the first token failed. Needs a world without retries. */
  readonly failedBefore?: boolean
  /** How often the first API rejected a call before the schedules begin; it rejects the later ones, too. */
  readonly rejections?: { readonly count: number; readonly everyMs: number }
  /** Whether the APIs learn of no token that is issued after the first one, until `learnings`. */
  readonly isLagging?: boolean
  readonly callers: readonly Callers[]
  /** How the token endpoint may answer, besides a token. */
  readonly answers?: readonly Answer[]
  /** What it says of its quota when it issues a token. */
  readonly quota?: AnsweredQuota
  /** **100**. */
  readonly lifetimeSeconds?: number
  /**
   * How often each may happen; never, if it is not named. `revocations`: the APIs reject all tokens issued so far.
   * `learnings`: they learn of all. `drops`: a request that a server handles ends, with all it started.
   * `outages`: the store hangs; a second one ends the first.
   */
  readonly most?: Partial<Record<Trouble, number>>
  /** How many events a schedule has at most. After them everything works, and nothing is left to choose. */
  readonly events: { readonly quick: number; readonly deep: number }
  readonly retries?: number
  /** Whether the `fetch` of token requests ignores that they are aborted. */
  readonly isDeaf?: boolean
  /** A store that the processes share. */
  readonly store?: 'with leases' | 'without leases'
}

interface Process {
  /** For names of alternatives. */
  readonly name: string
  readonly provider: TokenProvider
  readonly referee: Referee
  readonly calls: Calls
  readonly endpoint: ExploredEndpoint
}

/** Something that can happen next. */
interface Alternative {
  readonly name: string
  readonly happens: () => void
}

const TIMEOUT_MS = 10_000
/** A token of 100 s is handed out for 95 s, and renewed in the background from 75 s on. */
const LIFETIME_SECONDS = 100
const WINDOW_BEGINS_MS = 75_000
const TOKEN_ENDS_MS = 95_000
/** After the first failure. */
const COOLDOWN_MS = 1_000
/** Longer than any pause. */
const LONG_MS = 3_601_000
/** A timer of this or more only keeps a process alive. */
const NEVER_MS = 2 ** 31 - 1
/** No world needs more until it is over. */
const MOST_STEPS = 500

export class World {
  readonly clock: IncomingClock
  readonly #plan: Plan
  readonly #events: number
  readonly #processes: readonly Process[]
  readonly #store: MemoryStore | undefined
  readonly #fleet: Fleet | undefined
  readonly #dueTimers: (() => void)[] = []
  readonly #apiAnswers = new Map<Call, () => void>()
  readonly #arrived: number[]
  readonly #troubles: Partial<Record<Trouble, number>> = {}
  #outage: PromiseWithResolvers<never> | undefined

  constructor(plan: Plan, events = plan.events.quick) {
    this.#events = events
    this.#plan = plan
    this.clock = new IncomingClock((wake) => this.#dueTimers.push(wake))
    if (plan.store !== undefined) {
      const leases = plan.store === 'with leases'
      this.#store = new MemoryStore(this.clock, { leases })
      this.#fleet = { grants: new Map(), referees: [], leases, refusedUntil: 0 }
    }
    this.#arrived = plan.callers.map(() => 0)
    const processes = new Set(plan.callers.map(({ process = 0 }) => process)).size
    this.#processes = ['', "the other process's "].slice(0, processes).map((name) => this.#start(name))
  }

  #start(name: string): Process {
    const { retries = 1, isDeaf = false } = this.#plan
    const { clock } = this
    const options = { timeoutMs: TIMEOUT_MS, retries, expiryMarginMs: undefined, refreshAheadMs: undefined }
    const referee = new Referee(clock, options, this.#fleet)
    const endpoint = new ExploredEndpoint(clock, referee, { isDeaf })
    const provider = createTokenProvider({
      environment: {
        authUrl: 'https://auth.test.example',
        audience: 'https://api.test.example',
        apiUrls: APIS,
      },
      clientId: 'client-1',
      clientSecret: 'made-up-secret',
      fetch: endpoint.fetch,
      onEvent: referee.hears,
      clock,
      store: this.#store,
      ...options,
    })
    const calls = new Calls({
      referee,
      clock,
      provider,
      isDroppable: (this.#plan.most?.drops ?? 0) > 0,
      answered: (call) => new Promise((resolve) => this.#apiAnswers.set(call, resolve)),
      attach: (api) => createAuthFetch(provider, { fetch: api }),
    })
    return { name, provider, referee, calls, endpoint }
  }

  /** Runs one schedule, and throws if it breaks a rule. Afterwards everything works, and the world must recover. */
  async run(choose: Choose): Promise<void> {
    await this.#prepare()
    for (let event = 0; event < this.#events; event += 1) {
      const alternatives = this.#alternatives()
      if (alternatives.length === 0) break
      const chosen = choose(alternatives.map(({ name }) => name))
      alternatives[chosen]?.happens()
      await this.#settle({ over: false })
    }
    for (const { calls } of this.#processes) calls.heal()
    this.#endOutage()
    await this.#runToTheEnd()
    for (const process of this.#processes) await this.#recover(process)
    if (this.clock.sleeping > 0) this.#processes[0]?.referee.problem('rest', 'a timer runs')
    await this.#settle({ over: true })
  }

  /** What happened before the schedule begins. */
  async #prepare(): Promise<void> {
    const { start, failedBefore = false } = this.#plan
    if (start === 'no token') return
    if (failedBefore) await this.#fail()
    this.#processes[0]?.calls.getToken('the first caller', { abortable: false })
    await this.#runToTheEnd()
    if (start === 'a token in its window') this.clock.advance(WINDOW_BEGINS_MS)
    if (start === 'an expired token') this.clock.advance(TOKEN_ENDS_MS)
    const { isLagging = false, rejections: { count, everyMs } = { count: 0, everyMs: 0 } } = this.#plan
    for (const { calls } of this.#processes) calls.lag(isLagging)
    for (const { calls } of this.#processes) calls.rejectAll(APIS[0], count > 0)
    for (let rejection = 0; rejection < count; rejection += 1) {
      this.clock.advance(everyMs)
      this.#processes[0]?.calls.call(APIS[0], { abortable: false })
      await this.#runToTheEnd()
    }
  }

  /** One acquisition fails, and its cooldown ends. */
  async #fail(): Promise<void> {
    this.#processes[0]?.calls.getToken('the caller before', { abortable: false })
    await this.#settle({ over: false })
    for (const request of this.#processes[0]?.endpoint.pending ?? [])
      request.answer({ kind: 'status', status: 503 })
    await this.#settle({ over: false })
    this.clock.advance(COOLDOWN_MS)
  }

  /** The answer with a token. */
  get #token(): Answer {
    return { kind: 'token', lifetimeSeconds: this.#plan.lifetimeSeconds ?? LIFETIME_SECONDS }
  }

  get #quota(): { readonly quota?: AnsweredQuota } {
    const { quota } = this.#plan
    return quota === undefined ? {} : { quota }
  }

  /** Once everything works, and no pause can last, a process gets a token; then it is closed. */
  async #recover({ provider, referee, calls }: Process): Promise<void> {
    if (!referee.closed) {
      this.clock.advance(LONG_MS)
      calls.getToken('the caller after the outage', { abortable: false })
      await this.#runToTheEnd()
      if (provider.currentToken() === undefined) referee.problem('recovery', 'no recovery')
      calls.close()
    }
    await this.#runToTheEnd()
  }

  #alternatives(): Alternative[] {
    const alternatives: Alternative[] = []
    const add = (name: string, happens: () => void): number => alternatives.push({ name, happens })
    const timer = this.#dueTimers[0]
    if (timer !== undefined) add('a timer fires', () => this.#fire())
    for (const [at, callers] of this.#plan.callers.entries()) {
      if ((this.#arrived[at] ?? 0) < callers.count) add(this.#nameOf(callers), () => this.#arrives(at))
    }
    for (const { name, endpoint, calls, referee } of this.#processes) {
      for (const request of endpoint.pending) {
        add(`${name}token request gets a token`, () => request.answer({ ...this.#token, ...this.#quota }))
        for (const answer of this.#plan.answers ?? [])
          this.#add(alternatives, 'failures', `${name}token request gets ${nameOf(answer)}`, () =>
            request.answer(answer),
          )
      }
      for (const call of calls.all) {
        const which = `${name}call ${calls.all.indexOf(call)}`
        const { controller, request, settled } = call
        if (this.#apiAnswers.has(call) && !settled && !request.ended)
          add(`${which} gets its answer`, () => this.#apiAnswer(call))
        if (!settled && !request.ended && controller?.signal.aborted === false)
          this.#add(alternatives, 'aborts', `${which} is aborted`, () => controller.abort())
        if (!request.ended && (!settled || !request.isIdle))
          this.#add(alternatives, 'drops', `${which} is dropped`, () => calls.drop(call))
      }
      if (!calls.isRevoked && referee.current !== undefined)
        this.#add(alternatives, 'revocations', `${name}tokens are revoked`, () => calls.revoke())
      if (calls.isLagging)
        this.#add(alternatives, 'learnings', `${name}APIs learn of all tokens`, () => calls.lag(false))
      if (!referee.closed) this.#add(alternatives, 'closes', `${name}provider is closed`, () => calls.close())
    }
    this.#add(alternatives, 'outages', 'the store hangs, or works again', () => this.#storeChanges())
    const ms = timer === undefined ? this.#untilNextMs() : undefined
    if (ms !== undefined) add(`${ms} ms pass`, () => this.#pass(ms))
    return alternatives
  }

  /** Adds an alternative that may happen only so often. */
  #add(alternatives: Alternative[], trouble: Trouble, name: string, happens: () => void): void {
    const times = this.#troubles[trouble] ?? 0
    if (times >= (this.#plan.most?.[trouble] ?? 0)) return
    alternatives.push({
      name,
      happens: () => {
        this.#troubles[trouble] = times + 1
        happens()
      },
    })
  }

  #nameOf({ do: does, api = 0, isBad = false, process = 0 }: Callers): string {
    const where = this.#processes[process]?.name
    if (does === 'get a token') return `${where}caller needs a token`
    return `${where}caller calls API ${api + 1}${isBad ? ' in vain' : ''}`
  }

  #arrives(at: number): void {
    const { do: does, api = 0, isBad = false, process = 0 } = this.#plan.callers[at] as Callers
    const { calls } = this.#processes[process] as Process
    const wait = { abortable: (this.#plan.most?.aborts ?? 0) > 0 }
    this.#arrived[at] = (this.#arrived[at] ?? 0) + 1
    if (does === 'get a token') calls.getToken('getToken', wait)
    else calls.call(APIS[api], { ...wait, isBad })
  }

  #apiAnswer(call: Call): void {
    const answer = this.#apiAnswers.get(call)
    this.#apiAnswers.delete(call)
    answer?.()
  }

  #storeChanges(): void {
    if (this.#outage !== undefined) {
      this.#endOutage()
      return
    }
    const outage = Promise.withResolvers<never>()
    outage.promise.catch(() => {})
    this.#outage = outage
    this.#store?.failAlways(() => outage.promise)
    if (this.#fleet) this.#fleet.leases = false
  }

  /** Operations that hang have failed. */
  #endOutage(): void {
    this.#outage?.reject(new Error('the connection was lost'))
    this.#outage = undefined
    this.#store?.failAlways(undefined)
  }

  #fire(): void {
    this.#dueTimers.shift()?.()
  }

  /** How long (ms) until something changes by itself: a timer, a token, a pause or a limit. */
  #untilNextMs(): number | undefined {
    const now = this.clock.monotonicMs()
    const landmarks = this.#processes.flatMap(({ referee }) => referee.landmarks.map((at) => at - now))
    const delays = [this.clock.untilNextWakeMs() ?? NEVER_MS, ...landmarks]
    const next = Math.min(...delays.filter((ms) => ms > 0 && ms < NEVER_MS))
    return Number.isFinite(next) ? next : undefined
  }

  #pass(ms: number): void {
    if (this.#store === undefined) {
      const until = this.clock.monotonicMs() + ms
      for (const { calls } of this.#processes) calls.checkPatience(until)
    }
    this.clock.advance(ms)
  }

  /** Lets everything happen that waits, in a fixed order, with healthy answers. */
  async #runToTheEnd(): Promise<void> {
    await this.#settle({ over: false })
    for (let step = 0; step < MOST_STEPS; step += 1) {
      const [request] = this.#processes.flatMap(({ endpoint }) => [...endpoint.pending])
      const [call] = this.#apiAnswers.keys()
      const ms = this.clock.untilNextWakeMs() ?? NEVER_MS
      if (this.#dueTimers.length > 0) this.#fire()
      else if (request !== undefined) request.answer(this.#token)
      else if (call !== undefined) this.#apiAnswer(call)
      else if (ms < NEVER_MS) this.#pass(ms)
      else return await this.#settle({ over: true })
      await this.#settle({ over: false })
    }
    throw new Error(`Something still happens after ${MOST_STEPS} steps`)
  }

  /** Waits until nothing happens by itself any more, and throws if a rule is broken. */
  async #settle({ over }: { readonly over: boolean }): Promise<void> {
    await settled(1)
    for (const { calls, referee } of this.#processes) {
      calls.check({ over })
      if (referee.problems.length > 0) throw new Error(referee.problems.join('\n'))
    }
  }
}

function nameOf(answer: Answer): string {
  if (answer.kind !== 'status') return answer.kind
  const { status, retryAfter } = answer
  return retryAfter === undefined ? `${status}` : `${status} for ${retryAfter} s`
}

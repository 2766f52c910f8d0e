/** A small world that is explored completely: one or two processes, a few callers, and a bounded number of events. */
import { FIRST_COOLDOWN_MS } from '../../src/token/limits/cooldown.ts'
import { APIS, Apis } from '../races/apis.ts'
import type { TokenAnswer } from '../races/endpoint.ts'
import { IncomingClock } from '../races/incoming.ts'
import { type Call, Process } from '../races/process.ts'
import { createLedger, type Ledger } from '../races/referee.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { settled } from '../support/clock.ts'
import type { Choose } from './explorer.ts'

/** Callers that do the same. They arrive one after the other, in any order with everything else. */
export interface Callers {
  readonly count: number
  readonly do: 'get a token' | 'force a token' | 'call an API'
  /** Which API, of two. */
  readonly api?: 0 | 1
  /** Whether the API rejects their calls with every token. */
  readonly isBad?: boolean
  /** Whether their calls have a stream as their body, which cannot be sent twice. */
  readonly isStream?: boolean
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
  readonly answers?: readonly TokenAnswer[]
  /** **100**. */
  readonly lifetimeSeconds?: number
  /**
   * How often each may happen; never, if it is not named. `revocations`: the APIs reject all tokens issued so far.
   * `learnings`: they learn of all. `drops`: a request that a server handles ends, with all it started.
   * `outages`: the store hangs; a second one ends the first.
   */
  readonly most?: Partial<Record<Trouble, number>>
  /** What may pass at once (ms), besides the time until a timer fires or a token changes: for example a cooldown. */
  readonly passMs?: number
  /** Whether time passes only until a timer fires, so that a fresh token stays fresh. */
  readonly staysFresh?: boolean
  /** Whether every call that is not bad or aborted succeeds, unless a token request fails. */
  readonly allSucceed?: boolean
  /** How many events a schedule has at most. After them everything works, and nothing is left to choose. */
  readonly events: { readonly quick: number; readonly deep: number }
  readonly retries?: number
  /** Whether the `fetch` of token requests ignores that they are aborted. */
  readonly isDeaf?: boolean
  /** A store that the processes share. */
  readonly store?: 'with leases' | 'without leases'
}

/** Something that can happen next. */
interface Alternative {
  readonly name: string
  readonly happens: () => void
}

/** How the names of events begin, for each process. */
const NAMES = ['', "the other process's "] as const

const TIMEOUT_MS = 10_000
const LIFETIME_SECONDS = 100
const MARGIN_MS = 5_000
/** How long before its margin a token is renewed in the background. */
export const WINDOW_MS = 20_000
const TOKEN_ENDS_MS = LIFETIME_SECONDS * 1_000 - MARGIN_MS
const WINDOW_BEGINS_MS = TOKEN_ENDS_MS - WINDOW_MS
/** A timer of this or more only keeps a process alive. */
const NEVER_MS = 2 ** 31 - 1
/** No world needs more until it is over. */
const MOST_STEPS = 500

export class World {
  readonly clock: IncomingClock
  readonly #plan: Plan
  readonly #events: number
  readonly #ledger: Ledger
  readonly #apis: Apis
  readonly #processes: readonly Process[]
  readonly #store: MemoryStore | undefined
  readonly #dueTimers: (() => void)[] = []
  readonly #apiAnswers = new Map<Call, () => void>()
  readonly #arrived: number[]
  readonly #troubles: Partial<Record<Trouble, number>> = {}
  #outage: PromiseWithResolvers<never> | undefined

  constructor(plan: Plan, events = plan.events.quick) {
    this.#events = events
    this.#plan = plan
    this.clock = new IncomingClock((wake) => this.#dueTimers.push(wake))
    const hasLeases = plan.store === 'with leases'
    this.#store = plan.store && new MemoryStore(this.clock, { leases: hasLeases })
    this.#ledger = createLedger(this.clock, { hasStore: plan.store !== undefined, hasLeases })
    this.#apis = new Apis(this.#ledger.grants)
    this.#arrived = plan.callers.map(() => 0)
    const length = new Set(plan.callers.map(({ process = 0 }) => process)).size
    this.#processes = Array.from({ length }, () => this.#start())
  }

  #start(): Process {
    const { allSucceed, isDeaf = false, most, retries = 1 } = this.#plan
    return new Process({
      clock: this.clock,
      ledger: this.#ledger,
      apis: this.#apis,
      provider: {
        timeoutMs: TIMEOUT_MS,
        retries,
        expiryMarginMs: MARGIN_MS,
        refreshAheadMs: WINDOW_MS,
        store: this.#store,
      },
      isDeaf,
      isDroppable: (most?.drops ?? 0) > 0,
      allSucceed,
      answered: (call) => new Promise((resolve) => this.#apiAnswers.set(call, resolve)),
    })
  }

  /** Runs one schedule, and throws if it breaks a rule. Afterwards everything works, and the world must recover. */
  async run(choose: Choose): Promise<void> {
    await this.#prepare()
    for (let event = 0; event < this.#events; event += 1) {
      const alternatives = this.#alternatives()
      if (alternatives.length === 0) break
      const chosen = choose(alternatives.map(({ name }) => name))
      alternatives[chosen]?.happens()
      await this.#settle({ isOver: false })
    }
    this.#apis.heal()
    this.#endOutage()
    await this.#runToTheEnd()
    for (const process of this.#processes)
      await process.recover(async (ms) => {
        this.clock.advance(ms)
        await this.#runToTheEnd()
      })
    if (this.clock.sleeping > 0) this.#processes[0]?.referee.problem('rest', 'a timer runs')
    await this.#settle({ isOver: true })
  }

  /** What happened before the schedule begins. */
  async #prepare(): Promise<void> {
    const { start, failedBefore = false } = this.#plan
    if (start === 'no token') return
    if (failedBefore) await this.#fail()
    this.#processes[0]?.getToken()
    await this.#runToTheEnd()
    if (start === 'a token in its window') this.clock.advance(WINDOW_BEGINS_MS)
    if (start === 'an expired token') this.clock.advance(TOKEN_ENDS_MS)
    const { isLagging = false, rejections: { count, everyMs } = { count: 0, everyMs: 0 } } = this.#plan
    this.#apis.lag(isLagging)
    this.#apis.rejectAll(APIS[0], count > 0)
    for (let rejection = 0; rejection < count; rejection += 1) {
      this.clock.advance(everyMs)
      this.#processes[0]?.call(APIS[0])
      await this.#runToTheEnd()
    }
  }

  /** One acquisition fails, and its cooldown ends. */
  async #fail(): Promise<void> {
    this.#processes[0]?.getToken()
    await this.#settle({ isOver: false })
    for (const request of this.#processes[0]?.endpoint.pending ?? [])
      request.answer({ kind: 'status', status: 503 })
    await this.#settle({ isOver: false })
    this.clock.advance(FIRST_COOLDOWN_MS)
  }

  /** The answer with a token. */
  get #token(): TokenAnswer {
    return { kind: 'token', lifetimeSeconds: this.#plan.lifetimeSeconds ?? LIFETIME_SECONDS }
  }

  #alternatives(): Alternative[] {
    const alternatives: Alternative[] = []
    const add = (name: string, happens: () => void): number => alternatives.push({ name, happens })
    const timer = this.#dueTimers[0]
    if (timer !== undefined) add('a timer fires', () => this.#fire())
    for (const [at, callers] of this.#plan.callers.entries()) {
      if ((this.#arrived[at] ?? 0) < callers.count) add(this.#nameOf(callers), () => this.#arrives(at))
    }
    for (const [at, process] of this.#processes.entries())
      this.#addEventsOf(process, NAMES[at] ?? '', alternatives)
    if (!this.#apis.isRevoked)
      this.#add(alternatives, 'revocations', 'tokens are revoked', () => this.#apis.revoke())
    if (this.#apis.isLagging)
      this.#add(alternatives, 'learnings', 'APIs learn of all tokens', () => this.#apis.lag(false))
    this.#add(alternatives, 'outages', 'the store hangs, or works again', () => this.#storeChanges())
    for (const ms of timer === undefined ? this.#passesMs : []) add(`${ms} ms pass`, () => this.#pass(ms))
    return alternatives
  }

  #addEventsOf(process: Process, name: string, alternatives: Alternative[]): void {
    for (const request of process.endpoint.pending) {
      alternatives.push({
        name: `${name}token request gets a token`,
        happens: () => request.answer(this.#token),
      })
      for (const answer of this.#plan.answers ?? [])
        this.#add(alternatives, 'failures', `${name}token request gets ${nameOf(answer)}`, () =>
          request.answer(answer),
        )
    }
    for (const [at, call] of process.all.entries()) {
      const which = `${name}call ${at}`
      const { controller, request, isSettled } = call
      const isUnderWay = !isSettled && !request.ended
      if (this.#apiAnswers.has(call) && isUnderWay)
        alternatives.push({ name: `${which} gets its answer`, happens: () => this.#apiAnswer(call) })
      if (isUnderWay && controller?.signal.aborted === false)
        this.#add(alternatives, 'aborts', `${which} is aborted`, () => controller.abort())
      if (!request.ended && (!isSettled || !request.isIdle) && process.mayDrop(call))
        this.#add(alternatives, 'drops', `${which} is dropped`, () => process.drop(call))
    }
    if (!process.referee.closed)
      this.#add(alternatives, 'closes', `${name}provider is closed`, () => process.close())
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

  #nameOf({ do: does, api = 0, isBad = false, isStream = false, process = 0 }: Callers): string {
    const where = NAMES[process]
    if (does === 'get a token') return `${where}caller needs a token`
    if (does === 'force a token') return `${where}caller forces a token`
    return `${where}caller calls API ${api + 1}${isBad ? ' in vain' : ''}${isStream ? ' with a stream' : ''}`
  }

  #arrives(at: number): void {
    const { do: does, api = 0, isBad = false, isStream, process = 0 } = this.#plan.callers[at] as Callers
    const isAbortable = (this.#plan.most?.aborts ?? 0) > 0
    this.#arrived[at] = (this.#arrived[at] ?? 0) + 1
    const fault = isBad ? 'bad' : undefined
    if (does === 'call an API') this.#processes[process]?.call(APIS[api], { isAbortable, isStream, fault })
    else this.#processes[process]?.getToken({ isAbortable, isForced: does === 'force a token' })
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
    this.#ledger.hasLeases = false
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

  /** How long (ms) may pass at once. No timer fires late. */
  get #passesMs(): readonly number[] {
    const changes = [...this.#ledger.grants.values()].flatMap(({ remainsMs, windowMs }) => [
      remainsMs - windowMs,
      remainsMs,
    ])
    const { passMs = NEVER_MS, staysFresh = false } = this.#plan
    const timerMs = this.clock.untilNextWakeMs() ?? NEVER_MS
    const nextMs = Math.min(timerMs, ...(staysFresh ? [] : changes.filter((ms) => ms > 0)))
    return [...new Set([Math.min(passMs, nextMs), nextMs])].filter((ms) => ms < NEVER_MS)
  }

  #pass(ms: number): void {
    if (this.#store === undefined) {
      const until = this.clock.monotonicMs() + ms
      for (const process of this.#processes) process.checkPatience(until)
    }
    this.clock.advance(ms)
  }

  /** Lets everything happen that waits, in a fixed order, with healthy answers. */
  async #runToTheEnd(): Promise<void> {
    await this.#settle({ isOver: false })
    for (let step = 0; step < MOST_STEPS; step += 1) {
      const [request] = this.#processes.flatMap(({ endpoint }) => [...endpoint.pending])
      const [call] = this.#apiAnswers.keys()
      const ms = this.clock.untilNextWakeMs() ?? NEVER_MS
      if (this.#dueTimers.length > 0) this.#fire()
      else if (request !== undefined) request.answer(this.#token)
      else if (call !== undefined) this.#apiAnswer(call)
      else if (ms < NEVER_MS) this.#pass(ms)
      else return await this.#settle({ isOver: true })
      await this.#settle({ isOver: false })
    }
    throw new Error(`Something still happens after ${MOST_STEPS} steps`)
  }

  /** Waits until nothing happens by itself any more, and throws if a rule is broken. */
  async #settle({ isOver }: { readonly isOver: boolean }): Promise<void> {
    await settled(1)
    for (const process of this.#processes) process.check({ isOver })
    const { problems } = this.#ledger
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }
}

function nameOf(answer: TokenAnswer): string {
  if (answer.kind !== 'status') return answer.kind
  const { status, retryAfter } = answer
  return retryAfter === undefined ? `${status}` : `${status} for ${retryAfter} s`
}

/** One race: processes with their callers, a token endpoint and two APIs, all controlled by a schedule. */
import type fc from 'fast-check'
import { MemoryStore } from '../store/memory-store.ts'
import { settled } from '../support/clock.ts'
import type { Action, Race } from './actions.ts'
import { APIS, Apis, ELSEWHERE } from './apis.ts'
import type { PendingRequest, TokenAnswer } from './endpoint.ts'
import { IncomingClock } from './incoming.ts'
import { type Call, Process } from './process.ts'
import { createLedger, type Ledger } from './referee.ts'

/** After this many turns of the event loop, everything that is ready has run. */
const TURNS = 3
/** No race needs more. */
const MOST_STEPS = 10_000

export class World {
  readonly #clock: IncomingClock
  readonly #ledger: Ledger
  readonly #schedule: fc.Scheduler
  readonly #race: Race
  readonly #answers: TokenAnswer[]
  /** Whether timers fire when they are due. */
  readonly #isInTime: boolean
  readonly #apis: Apis
  readonly #processes: readonly Process[]

  constructor(schedule: fc.Scheduler, race: Race) {
    const { isOnWorkers, isDeaf, processes, ...options } = race.options
    this.#schedule = schedule
    this.#race = race
    this.#answers = [...race.answers]
    const isShared = processes > 1
    // A timer that fires late could not be told from one that was lost, and a process that stands still loses its lease.
    this.#isInTime = isOnWorkers || isShared
    // Each in a tick of its own, as they belong to different requests.
    this.#clock = new IncomingClock((wake) =>
      this.#isInTime ? void setImmediate(wake) : void this.#later('a timer fires').then(wake),
    )
    this.#ledger = createLedger(this.#clock, { hasStore: isShared, hasLeases: isShared })
    this.#apis = new Apis(this.#ledger.grants)
    const store = isShared ? new MemoryStore(this.#clock) : undefined
    this.#processes = Array.from(
      { length: processes },
      () =>
        new Process({
          clock: this.#clock,
          ledger: this.#ledger,
          apis: this.#apis,
          provider: { ...options, store },
          isDeaf,
          isDroppable: isOnWorkers,
          onTokenRequest: (request) => this.#answerLater(request),
          answered: () => this.#later('an API answers'),
        }),
    )
  }

  #later(label: string): Promise<void> {
    return this.#schedule.schedule(Promise.resolve(), label)
  }

  #answerLater(request: PendingRequest): void {
    const { lifetimeSeconds } = this.#race
    const answer = this.#answers.shift() ?? { kind: 'token', lifetimeSeconds }
    this.#later(`the token endpoint answers: ${JSON.stringify(answer)}`).then(() => request.answer(answer))
  }

  /** Runs the race, ends every outage, and checks that every call then settles and every provider recovers. */
  async run(): Promise<void> {
    this.#schedule.scheduleSequence(
      this.#race.actions.map((action) => ({
        label: JSON.stringify(action),
        builder: async () => await this.#act(action),
      })),
    )
    await this.#runScheduled()
    this.#answers.length = 0
    this.#apis.heal()
    await this.#runToTheEnd()
    for (const process of this.#processes)
      await process.recover(async (ms) => {
        await this.#advance(ms)
        await this.#runToTheEnd()
      })
    if (!this.#race.options.isOnWorkers && this.#clock.sleeping > 0)
      this.#processes[0]?.referee.problem('rest', 'a timer runs')
    this.#check({ isOver: true })
  }

  /** Runs until nothing is scheduled. */
  async #runScheduled(): Promise<void> {
    await settled(TURNS)
    for (let step = 0; this.#schedule.count() > 0; step += 1) {
      if (step === MOST_STEPS) throw new Error(`Steps are still scheduled after ${MOST_STEPS} steps`)
      await this.#schedule.waitOne()
      await settled(TURNS)
      this.#check({ isOver: false })
    }
  }

  /** Runs until nothing is scheduled and no timer runs. */
  async #runToTheEnd(): Promise<void> {
    for (let step = 0; step < MOST_STEPS; step += 1) {
      await this.#runScheduled()
      const ms = this.#clock.untilNextWakeMs()
      if (ms === undefined) return this.#check({ isOver: true })
      this.#clock.advance(ms)
    }
    throw new Error(`Timers still run after ${MOST_STEPS} of them fired`)
  }

  /** Throws if a promise is broken. `isOver`: nothing is scheduled, and no timer runs. */
  #check({ isOver }: { isOver: boolean }): void {
    for (const process of this.#processes) process.check({ isOver })
    const { problems } = this.#ledger
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }

  /** Lets time pass. Timers fire when they are due, or late, when the schedule says so. */
  async #advance(ms: number): Promise<void> {
    const until = this.#clock.monotonicMs() + ms
    while (this.#isInTime) {
      const nextMs = this.#clock.untilNextWakeMs() ?? Number.POSITIVE_INFINITY
      const at = Math.min(this.#clock.monotonicMs() + nextMs, until)
      // How long a store may take besides is not stated as one figure.
      if (!this.#ledger.hasStore) for (const process of this.#processes) process.checkPatience(at)
      if (at === until) break
      this.#clock.advance(nextMs)
      await settled(TURNS)
    }
    this.#clock.advance(until - this.#clock.monotonicMs())
  }

  async #act(action: Action): Promise<void> {
    const process = this.#processes['process' in action ? action.process % this.#processes.length : 0]
    if (process === undefined) throw new Error('There is no process')
    switch (action.does) {
      case 'getToken':
        process.getToken(action)
        break
      case 'call': {
        const { isOnWorkers } = this.#race.options // where other clients than fetch are not supported
        const client = isOnWorkers ? 'fetch' : action.client
        // Nothing ends what a call began that was not waited for: see IncomingRequest.signal.
        const isStream = action.isStream && !isOnWorkers
        process.call([...APIS, ELSEWHERE][action.target] as string, { ...action, client, isStream })
        break
      }
      case 'currentToken':
        process.currentToken()
        break
      case 'renewToken': {
        const value = [...this.#ledger.grants.keys()].at(-1 - action.nth)
        if (value !== undefined) process.renewToken(value, APIS[action.api ?? APIS.length])
        break
      }
      case 'abort':
        this.#nth(
          action.nth,
          ({ controller, isSettled }) => controller !== undefined && !isSettled,
        )?.call.controller?.abort()
        break
      case 'drop': {
        const dropped = this.#race.options.isOnWorkers ? this.#nth(action.nth, () => true) : undefined
        if (dropped?.process.mayDrop(dropped.call)) dropped.process.drop(dropped.call)
        break
      }
      case 'advance':
        await this.#advance(action.ms)
        break
      case 'stepWallClock':
        // With a store, the clock of the store says how long a token lives.
        if (!this.#ledger.hasStore) this.#clock.stepWallClock(action.ms)
        break
      case 'revoke':
        this.#apis.revoke()
        break
      case 'lag':
        this.#apis.lag(action.lags)
        break
      case 'rejectAll':
        this.#apis.rejectAll(APIS[action.api] as string, action.rejects)
        break
      case 'close':
        process.close()
    }
  }

  /** One of the calls whose request goes on: counts from the newest one, and begins again after the oldest one. */
  #nth(nth: number, isMeant: (call: Call) => boolean): { process: Process; call: Call } | undefined {
    const calls = this.#processes
      .flatMap((process) => process.all.map((call) => ({ process, call })))
      .filter(({ call }) => !call.request.ended && isMeant(call))
    return calls.at(-1 - (nth % (calls.length || 1)))
  }
}

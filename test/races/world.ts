/** One race: a provider, its callers, a token endpoint and two APIs, all controlled by a schedule. */
import type fc from 'fast-check'
import { createAuthFetch, createTokenProvider, type TokenProvider } from '../../src/index.ts'
import { settled } from '../support/clock.ts'
import type { Action, Race } from './actions.ts'
import { APIS, type Call, Calls } from './calls.ts'
import { type Later, ModelEndpoint } from './endpoint.ts'
import { IncomingClock } from './incoming.ts'
import { Referee } from './referee.ts'

/** After this many turns of the event loop, everything that is ready has run. */
const TURNS = 3
/** No race needs more. */
const MOST_STEPS = 5_000

export class World {
  readonly clock: IncomingClock
  readonly #referee: Referee
  readonly #schedule: fc.Scheduler
  readonly #race: Race
  readonly #provider: TokenProvider
  readonly #endpoint: ModelEndpoint
  readonly #calls: Calls

  constructor(schedule: fc.Scheduler, race: Race) {
    const { onWorkers, ...options } = race.options
    this.#schedule = schedule
    this.#race = race
    const later: Later = (label) => schedule.schedule(Promise.resolve(), label)
    // On Workers a timer that fires late could not be told from one that was lost: there they fire in time, each in a tick
    // of its own, as they belong to different requests.
    this.clock = new IncomingClock((wake) =>
      onWorkers ? void setImmediate(wake) : void later('a timer fires').then(wake),
    )
    this.#referee = new Referee(this.clock, race.options)
    this.#endpoint = new ModelEndpoint(race.answers, { clock: this.clock, later, referee: this.#referee })
    const provider = createTokenProvider({
      environment: {
        authUrl: 'https://auth.test.example',
        audience: 'https://api.test.example',
        apiUrls: APIS,
      },
      clientId: 'client-1',
      clientSecret: 'swordfish',
      fetch: this.#endpoint.fetch,
      onEvent: this.#referee.hears,
      clock: this.clock,
      ...options,
    })
    this.#provider = provider
    this.#calls = new Calls({
      referee: this.#referee,
      clock: this.clock,
      provider,
      isDroppable: onWorkers,
      answered: () => later('an API answers'),
      attach: (api) => createAuthFetch(provider, { fetch: api }),
    })
  }

  /** Runs the race, ends every outage, and checks that every call then settles and the provider recovers. */
  async run(): Promise<void> {
    this.#schedule.scheduleSequence(
      this.#race.actions.map((action) => ({
        label: JSON.stringify(action),
        builder: async () => await this.#act(action),
      })),
    )
    await this.#runScheduled()
    this.#endpoint.heal()
    this.#calls.heal()
    await this.#runToTheEnd()
    if (!this.#referee.closed) {
      await this.#advance(3_601_000) // longer than any cooldown
      this.#calls.getToken('the caller after the outage', { abortable: false })
      await this.#runToTheEnd()
      if (this.#provider.currentToken() === undefined) this.#referee.problem('recovery', 'no recovery')
      await this.#act({ does: 'close' })
    }
    await this.#runScheduled()
    if (!this.#race.options.onWorkers && this.clock.untilNextWakeMs() !== undefined)
      this.#referee.problem('rest', 'a timer runs')
    await this.#runToTheEnd()
  }

  /** Runs until nothing is scheduled. */
  async #runScheduled(): Promise<void> {
    await settled(TURNS)
    for (let step = 0; this.#schedule.count() > 0; step += 1) {
      if (step === MOST_STEPS) throw new Error(`Steps are still scheduled after ${MOST_STEPS} steps`)
      await this.#schedule.waitOne()
      await settled(TURNS)
      this.#check({ over: false })
    }
  }

  /** Runs until nothing is scheduled and no timer runs. */
  async #runToTheEnd(): Promise<void> {
    for (let step = 0; step < MOST_STEPS; step += 1) {
      await this.#runScheduled()
      const ms = this.clock.untilNextWakeMs()
      if (ms === undefined) return this.#check({ over: true })
      this.clock.advance(ms)
    }
    throw new Error(`Timers still run after ${MOST_STEPS} of them fired`)
  }

  /** Checks every rule, and throws if one is violated. `over`: nothing is scheduled, and no timer runs. */
  #check({ over }: { over: boolean }): void {
    this.#calls.check({ over })
    const { problems } = this.#referee
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }

  /** Lets time pass. On Workers every timer fires when it is due; elsewhere, when the schedule says so. */
  async #advance(ms: number): Promise<void> {
    const until = this.clock.monotonicMs() + ms
    while (this.#race.options.onWorkers) {
      const nextMs = this.clock.untilNextWakeMs() ?? Number.POSITIVE_INFINITY
      const at = Math.min(this.clock.monotonicMs() + nextMs, until)
      this.#calls.checkPatience(at)
      if (at === until) break
      this.clock.advance(nextMs)
      await settled(TURNS)
    }
    this.clock.advance(until - this.clock.monotonicMs())
  }

  async #act(action: Action): Promise<void> {
    switch (action.does) {
      case 'getToken':
        this.#calls.getToken('getToken', action)
        break
      case 'call':
        this.#calls.call(APIS[action.api] ?? '', action)
        break
      case 'currentToken':
        this.#calls.currentToken()
        break
      case 'renewToken': {
        const value = this.#referee.issued.at(-1 - action.nth)
        const api = action.api === undefined ? undefined : APIS[action.api]
        if (value !== undefined) this.#calls.renewToken(value, api)
        break
      }
      case 'abort':
        nthOf(
          this.#calls.waiting.filter(({ controller }) => controller),
          action.nth,
        )?.controller?.abort()
        break
      case 'drop': {
        const { all } = this.#calls
        const dropped = nthOf(
          all.filter(({ request }) => !request.ended),
          action.nth,
        )
        if (this.#race.options.onWorkers && dropped !== undefined) this.#calls.drop(dropped)
        break
      }
      case 'advance':
        await this.#advance(action.ms)
        break
      case 'freeze':
      case 'stepWallClock':
        this.clock.stepWallClock(action.ms)
        this.#endpoint.wallClockStepped(action.ms)
        this.#referee.wallClockStepped(action.ms)
        break
      case 'revoke':
        this.#calls.revoke()
        break
      case 'lag':
        this.#calls.lag(action.lags)
        break
      case 'rejectAll':
        this.#calls.rejectAll(APIS[action.api] ?? '', action.rejects)
        break
      case 'close':
        this.#calls.close()
    }
  }
}

/** Counts from the newest one, and begins again after the oldest one. */
function nthOf(calls: readonly Call[], nth: number): Call | undefined {
  return calls.at(-1 - (nth % (calls.length || 1)))
}

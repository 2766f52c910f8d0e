/** One race: a provider, its callers, a token endpoint and two APIs, all controlled by a schedule. */
import type fc from 'fast-check'
import {
  createAuthFetch,
  createTokenProvider,
  isMerchantAuthError,
  type TokenProvider,
} from '../../src/index.ts'
import { ScheduledClock, settled } from '../support/clock.ts'
import type { Action, Race } from './actions.ts'
import { type Later, ModelEndpoint } from './endpoint.ts'
import { Referee } from './referee.ts'

const APIS = ['https://api.test.example/merchant', 'https://api.test.example/in-store']

/** A call whose outcome a caller waits for. */
interface Call {
  readonly name: string
  readonly controller: AbortController | undefined
  sends: number
  /** Whether an API is handling it, so that close() does not affect it. */
  sending: boolean
  settled: boolean
  /** The least number of token requests when everything has settled. */
  requestsDue: number
}

/** After this many turns of the event loop, everything that is ready has run. */
const TURNS = 3
/** No race needs more. */
const MOST_STEPS = 5_000

export class World {
  readonly #referee: Referee
  readonly #clock: ScheduledClock
  readonly #schedule: fc.Scheduler
  readonly #later: Later
  readonly #race: Race
  readonly #provider: TokenProvider
  readonly #authFetch: typeof fetch
  readonly #endpoint: ModelEndpoint
  readonly #calls: Call[] = []
  readonly #revoked = new Set<string>()
  readonly #rejecting = new Set<string>()
  readonly #failures = new Set<unknown>()

  constructor(schedule: fc.Scheduler, race: Race) {
    this.#schedule = schedule
    this.#race = race
    const later: Later = (label) => schedule.schedule(Promise.resolve(), label)
    this.#later = later
    this.#clock = new ScheduledClock((wake) => void later('a timer fires').then(wake))
    this.#referee = new Referee(this.#clock, race.options)
    this.#endpoint = new ModelEndpoint(race.answers, { clock: this.#clock, later, referee: this.#referee })
    this.#provider = createTokenProvider({
      environment: {
        authUrl: 'https://auth.test.example',
        audience: 'https://api.test.example',
        apiUrls: APIS,
      },
      clientId: 'client-1',
      clientSecret: 'swordfish',
      fetch: this.#endpoint.fetch,
      onEvent: this.#referee.hears,
      clock: this.#clock,
      ...race.options,
    })
    this.#authFetch = createAuthFetch(this.#provider, { fetch: this.#api })
  }

  /** Runs the race, ends every outage, and checks that every call then settles and the provider recovers. */
  async run(): Promise<void> {
    this.#schedule.scheduleSequence(
      this.#race.actions.map((action) => ({
        label: JSON.stringify(action),
        builder: async () => this.#act(action),
      })),
    )
    await this.#runScheduled()
    this.#endpoint.heal()
    this.#rejecting.clear()
    await this.#runToTheEnd()
    if (!this.#referee.closed) {
      this.#clock.advance(3_601_000) // longer than any cooldown
      this.#getToken(false, 'the caller after the outage')
      await this.#runToTheEnd()
      if (this.#provider.currentToken() === undefined) this.#referee.problem('recovery', 'no recovery')
      this.#act({ does: 'close' })
    }
    await this.#runScheduled()
    if (this.#clock.untilNextWakeMs() !== undefined) this.#referee.problem('rest', 'a timer runs')
    await this.#runToTheEnd()
  }

  /** Runs until nothing is scheduled. */
  async #runScheduled(): Promise<void> {
    await settled(TURNS)
    for (let step = 0; this.#schedule.count() > 0; step += 1) {
      if (step === MOST_STEPS) throw new Error(`Steps are still scheduled after ${MOST_STEPS} steps`)
      await this.#schedule.waitOne()
      await settled(TURNS)
      this.#look(false)
    }
  }

  /** Runs until nothing is scheduled and no timer runs. */
  async #runToTheEnd(): Promise<void> {
    for (let step = 0; step < MOST_STEPS; step += 1) {
      await this.#runScheduled()
      const ms = this.#clock.untilNextWakeMs()
      if (ms === undefined) return this.#look(true)
      this.#clock.advance(ms)
    }
    throw new Error(`Timers still run after ${MOST_STEPS} of them fired`)
  }

  /** Checks every rule, and throws if one is violated. `over`: nothing is scheduled, and no timer runs. */
  #look(over: boolean): void {
    for (const call of this.#calls) {
      if (this.#referee.requests < call.requestsDue)
        this.#referee.problem('recovery', `${call.name} led to no token request`)
      if (call.settled) continue
      if (over) this.#referee.problem('settles', `${call.name} never settles`)
      if (call.controller?.signal.aborted)
        this.#referee.problem('signals', `${call.name} waits on after its abort`)
      if (this.#referee.closed && !call.sending)
        this.#referee.problem('closed', `${call.name} waits on after close()`)
      if (call.name.endsWith('at once')) this.#referee.problem('atOnce', `${call.name} was made to wait`)
    }
    const { problems } = this.#referee
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }

  #act(action: Action): void {
    switch (action.does) {
      case 'getToken':
        this.#getToken(action.abortable, 'getToken')
        break
      case 'call':
        this.#call(APIS[action.api] ?? '', action.abortable)
        break
      case 'currentToken':
        this.#currentToken()
        break
      case 'renewToken':
        this.#renewToken(this.#referee.issued.at(-1 - action.nth), action.api)
        break
      case 'abort':
        this.#abort(action.nth)
        break
      case 'advance':
        this.#clock.advance(action.ms)
        break
      case 'freeze':
      case 'stepWallClock':
        this.#clock.stepWallClock(action.ms)
        this.#endpoint.wallClockStepped(action.ms)
        this.#referee.wallClockStepped(action.ms)
        break
      case 'revoke':
        for (const value of this.#referee.issued) this.#revoked.add(value)
        break
      case 'rejectAll':
        if (action.rejects) this.#rejecting.add(APIS[action.api] ?? '')
        else this.#rejecting.delete(APIS[action.api] ?? '')
        break
      case 'close':
        this.#referee.close()
        this.#track('close()', undefined, () => this.#provider.close())
    }
  }

  #abort(nth: number): void {
    const waiting = this.#calls.filter((call) => !call.settled && call.controller !== undefined)
    waiting.at(nth % (waiting.length || 1))?.controller?.abort()
  }

  #currentToken(): void {
    const certain = this.#referee.certainlyServable()
    const token = this.#provider.currentToken()
    if (token !== undefined) this.#referee.handedOut(token.value, 'currentToken')
    else if (certain) this.#referee.problem('atOnce', 'currentToken() gives nothing')
  }

  #getToken(abortable: boolean, name: string): void {
    const controller = abortable ? new AbortController() : undefined
    const certain = this.#referee.certainlyServable() || this.#referee.certainlyCooling()
    this.#track(`${name}${certain ? ', at once' : ''}`, controller, async () => {
      const token = await this.#provider.getToken({ signal: controller?.signal })
      this.#referee.handedOut(token.value, name)
    })
  }

  #renewToken(value: string | undefined, api: number | undefined): void {
    if (value === undefined) return
    const url = api === undefined ? undefined : APIS[api]
    this.#referee.rejects(value, String(url))
    this.#track('renewToken', undefined, async () => {
      const token = await this.#provider.renewToken(value, { ...(url && { url }) })
      if (token === undefined && this.#referee.closed) this.#referee.problem('closed', 'renewToken resolves')
      if (token === undefined) return
      this.#referee.handedOut(token.value, 'renewToken')
      if (token.value === value) this.#referee.problem('need', 'renewToken gave the rejected token')
    })
  }

  #call(api: string, abortable: boolean): void {
    const controller = abortable ? new AbortController() : undefined
    const served = this.#referee.certainlyServable()
    const call = this.#track('call', controller, async (self) => {
      const id = this.#calls.indexOf(self)
      await this.#authFetch(`${api}/orders/${id}`, {
        method: 'POST',
        body: 'x',
        signal: controller?.signal ?? null,
      })
    })
    if (served && call.sends === 0)
      this.#referee.problem('atOnce', 'a call was made to wait while a token was there')
  }

  #track(name: string, controller: AbortController | undefined, run: (self: Call) => Promise<void>): Call {
    const requestsDue = this.#referee.mustAsk() ? this.#referee.requests + 1 : 0
    const call: Call = { name, controller, sends: 0, sending: false, settled: false, requestsDue }
    this.#calls.push(call)
    const ends = (error?: unknown): void => {
      call.settled = true
      if (controller?.signal.aborted) {
        if (error !== controller.signal.reason)
          this.#referee.problem('signals', `${name} did not end by its abort`)
      } else if (error !== undefined) this.#failed(name, error)
    }
    run(call).then(() => ends(), ends)
    return call
  }

  #failed(name: string, error: unknown): void {
    if (!isMerchantAuthError(error)) this.#referee.problem('errors', `${name} rejects with ${error}`)
    if (this.#failures.has(error)) this.#referee.problem('errors', `${name} got another's error`)
    this.#failures.add(error)
  }

  readonly #api: typeof fetch = (input, init = {}) => {
    const url = String(input)
    const api = APIS.find((one) => url.startsWith(one)) ?? ''
    const call = this.#calls[Number(url.split('/').at(-1))]
    const value = new Headers(init.headers).get('authorization')?.slice('Bearer '.length) ?? ''
    this.#referee.handedOut(value, 'an API')
    if (call === undefined) throw new Error('no such call')
    call.sends += 1
    call.sending = true
    if (call.sends > 2) this.#referee.problem('twice', 'a call was made a third time')
    return new Promise((resolve, reject) => {
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason))
      this.#later('an API answers').then(() => {
        if (init.signal?.aborted) return
        call.sending = false
        const rejects = this.#revoked.has(value) || this.#rejecting.has(api)
        if (rejects) this.#referee.rejects(value, api, call.sends === 1)
        resolve(new Response(null, { status: rejects ? 401 : 200 }))
      })
    })
  }
}

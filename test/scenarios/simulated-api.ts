/**
 * A simulated API, its token endpoint and the calls of some processes, on a virtual clock: days pass in seconds. Calls may
 * get a 401 of their own, tokens may be revoked, and the API may learn of a new token late.
 */
import axios from 'axios'
import type { AccessToken, TokenProvider, TokenProviderOptions } from 'merchant-auth'
import { vi } from 'vitest'
import { attachAuth } from '../../src/attach/axios/index.ts'
import { createAuthDispatch } from '../../src/attach/undici/index.ts'
import { createAuthFetch, createTokenProvider } from '../../src/index.ts'
import { quiet } from '../store/fleet.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { ScheduledClock, settled } from '../support/clock.ts'
import { mostWithin } from '../support/periods.ts'
import { Random } from '../support/random.ts'
import { noteSecret, thinOut } from '../support/recorded.ts'
import { ENVIRONMENT, SECRET } from '../token/harness.ts'

export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** What decides about a call: its token, a wrong store id or the like in it, or nothing, as for a health check. */
export type CallKind = 'good' | 'bad' | 'health'

const APIS = {
  merchant: 'https://api.test.example/merchant',
  inStore: 'https://api.test.example/in-store',
}
export type ApiName = keyof typeof APIS

const PATHS: Readonly<Record<CallKind, string>> = {
  good: '/stores/17/orders',
  bad: '/stores/unknown/orders',
  health: '/health',
}

/** Sends a request with this token, and resolves with the status of the response. */
type Transport = (token: string, url: string) => Promise<number>

/** A client of the package, in front of a transport that the simulation plays. */
export interface SimulatedClient {
  readonly name: string
  /** Returns what makes a call, and resolves with the status that the caller gets. */
  create(tokens: TokenProvider, transport: Transport): (url: string) => Promise<number>
}

const SCHEME = 'Bearer '
const tokenOf = (header: unknown): string => String(header).slice(SCHEME.length)

export const FETCH: SimulatedClient = {
  name: 'createAuthFetch',
  create: (tokens, transport) => {
    const send = async (input: unknown, init: { headers?: unknown } = {}): Promise<Response> => {
      const { Authorization: header } = init.headers as Record<string, string>
      return responseOf(await transport(tokenOf(header), String(input)))
    }
    const authFetch = createAuthFetch(tokens, { fetch: send as typeof fetch })
    return async (url) => (await authFetch(url)).status
  },
}

/** Responses without a body: all calls share them. */
const RESPONSES = new Map<number, Response>()

function responseOf(status: number): Response {
  const response = RESPONSES.get(status) ?? new Response(null, { status })
  RESPONSES.set(status, response)
  return response
}

const AXIOS: SimulatedClient = {
  name: 'attachAuth',
  create: (tokens, transport) => {
    const api = axios.create({
      validateStatus: () => true,
      adapter: async (config) => {
        const status = await transport(tokenOf(config.headers.get('Authorization')), String(config.url))
        return { status, statusText: '', data: '', headers: {}, config }
      },
    })
    attachAuth(api, tokens)
    return async (url) => (await api.get(url)).status
  },
}

interface SimulatedHandler {
  onRequestStart(controller: object, context: object): void
  onResponseStart(controller: object, status: number, headers: object, text: string): void
  onResponseEnd(controller: object, trailers: object): void
  onResponseError(controller: object, error: unknown): void
}

interface SimulatedRequest {
  readonly origin: string
  readonly path: string
  readonly method: string
  readonly headers?: Readonly<Record<string, string>>
}

const UNDICI: SimulatedClient = {
  name: 'createAuthDispatch',
  create: (tokens, transport) => {
    const send = ({ origin, path, headers }: SimulatedRequest, handler: SimulatedHandler): boolean => {
      const controller = { abort: () => {}, pause: () => {}, resume: () => {} }
      handler.onRequestStart(controller, {})
      transport(tokenOf(headers?.['Authorization']), origin + path).then((status) => {
        handler.onResponseStart(controller, status, {}, '')
        handler.onResponseEnd(controller, {})
      })
      return true
    }
    const dispatch = createAuthDispatch(tokens)(send)
    return (url) =>
      new Promise((resolve, reject) => {
        const { origin, pathname: path } = new URL(url)
        let status = 0
        const handler: SimulatedHandler = {
          onRequestStart: () => {},
          onResponseStart: (_, received) => {
            status = received
          },
          onResponseEnd: () => resolve(status),
          onResponseError: (_, error) => reject(error),
        }
        dispatch({ origin, path, method: 'GET' }, handler)
      })
  },
}

/** The clients of the package, which report to the provider which calls an API accepted. */
export const CLIENTS: readonly SimulatedClient[] = [FETCH, AXIOS, UNDICI]

/** A caller that uses the provider without an attachment: nobody reports which calls an API accepted. */
export const BY_HAND: SimulatedClient = {
  name: 'renewToken by hand',
  create: (tokens, transport) => async (url) => {
    const token: AccessToken = tokens.currentToken() ?? (await tokens.getToken())
    const status = await transport(token.value, url)
    if (status !== 401) return status
    const renewed = await tokens.renewToken(token, { url })
    return renewed === undefined ? status : await transport(renewed.value, url)
  },
}

/** Says of which kind each call is, one after the other. */
export type Kinds = (random: Random) => () => CallKind

export const allGood: Kinds = () => () => 'good'

/** This share of the calls gets a 401 of its own, by chance. */
export const badByChance =
  (share: number): Kinds =>
  (random) =>
  () =>
    random.next() < share ? 'bad' : 'good'

/** This share of the calls gets a 401 of its own, three in a row each time. */
export const badInThrees =
  (share: number): Kinds =>
  (random) => {
    let left = 0
    return () => {
      if (left === 0 && random.next() < share / 3) left = 3
      if (left === 0) return 'good'
      left -= 1
      return 'bad'
    }
  }

/** The stores of a chain call in turn; one of them has a store id that the account does not have. */
export const oneBadStoreOf =
  (stores: number): Kinds =>
  () => {
    let calls = 0
    return () => {
      calls += 1
      return calls % stores === 1 ? 'bad' : 'good'
    }
  }

/** This share of the calls goes to a path that returns 200 without a look at the token. */
export const withHealthChecks =
  (share: number, others: Kinds): Kinds =>
  (random) => {
    const kindOf = others(random)
    return () => (random.next() < share ? 'health' : kindOf())
  }

/** Loops that call one API: each starts its next call when the last one has ended and `everyMs` have passed. */
export interface Traffic {
  readonly kinds: Kinds
  readonly everyMs: number
  /** **1**. */
  readonly loops?: number
  /** When they start: **0**. */
  readonly fromMs?: number
  /** Which process, from 0 on: **0**. */
  readonly process?: number
  /** **'merchant'**. */
  readonly api?: ApiName
}

export interface Plan {
  readonly client: SimulatedClient
  readonly seed: number
  readonly forMs: number
  readonly traffic: readonly Traffic[]
  /** **24 h**. */
  readonly lifetimeMs?: number
  /** When all tokens that were issued so far are revoked. */
  readonly revokedAtMs?: readonly number[]
  /** How late the APIs learn of a token: until then they reject it. They know the first one at once. **0**. */
  readonly lagMs?: number
  /** An API that rejects every token. */
  readonly rejectingApi?: ApiName
  /** How long after it was sent a call is judged, and how long its response takes after that, at most: **0**. */
  readonly judgedWithinMs?: number
  /** The number of processes; several share a store. **1**. */
  readonly processes?: number
  readonly options?: Partial<Pick<TokenProviderOptions, 'refreshAheadMs'>>
}

/** A call that a valid token would have made succeed, and whose caller got a 401. */
export interface LostCall {
  /** When it was sent, since the start. */
  readonly atMs: number
  readonly process: number
  readonly api: ApiName
  /** Since the last revocation before it; undefined if there was none. */
  readonly afterRevocationMs: number | undefined
}

export interface Outcome {
  readonly calls: number
  /** When tokens were requested, since the start. */
  readonly requestedAtMs: readonly number[]
  readonly requests: number
  readonly requestsInWorstHour: number
  readonly requestsInWorstDay: number
  readonly lost: readonly LostCall[]
  /** How long after a revocation the last good call was lost; 0 if none was. */
  readonly lostForMs: number
}

/** Simulates a plan. Equal plans have equal calls, whatever the provider does. */
export async function simulate(plan: Plan): Promise<Outcome> {
  const jitter = new Random(plan.seed)
  const random = vi.spyOn(Math, 'random').mockImplementation(() => jitter.next())
  try {
    return await new Simulation(plan).run()
  } finally {
    random.mockRestore()
    thinOut()
  }
}

const TOKEN_LATENCY_MS = 50

interface IssuedToken {
  readonly nth: number
  readonly issuedAt: number
}

class Simulation {
  readonly #plan: Plan
  readonly #clock = new ScheduledClock((wake) => wake())
  readonly #startedAt = this.#clock.monotonicMs()
  readonly #agenda = new Agenda()
  readonly #latency: Random
  readonly #closing: (() => Promise<void>)[] = []
  readonly #issued = new Map<string, IssuedToken>()
  readonly #requestedAtMs: number[] = []
  readonly #lost: LostCall[] = []
  readonly #failures: unknown[] = []
  /** The number of tokens that have been revoked. */
  #revoked = 0
  #revokedAtMs: number | undefined
  #calls = 0
  /** The calls that have not ended, and the requests among them that the API has not responded to. */
  #open = 0
  #atApi = 0

  constructor(plan: Plan) {
    this.#plan = plan
    this.#latency = new Random(plan.seed)
  }

  async run(): Promise<Outcome> {
    const { revokedAtMs = [], forMs } = this.#plan
    for (const atMs of revokedAtMs) this.#agenda.add(this.#startedAt + atMs, () => this.#revoke())
    this.#startCalls()
    const endsAt = this.#startedAt + forMs
    for (;;) {
      const nextAt = Math.min(this.#agenda.nextAt, this.#nextWakeAt)
      if (nextAt > endsAt) break
      this.#clock.advance(nextAt - this.#now)
      this.#agenda.runDue(nextAt)
      await this.#settle()
    }
    await Promise.all(this.#closing.map((close) => close()))
    if (this.#failures.length > 0) throw this.#failures[0]
    return {
      calls: this.#calls,
      requestedAtMs: this.#requestedAtMs,
      requests: this.#requestedAtMs.length,
      requestsInWorstHour: mostWithin(HOUR_MS, this.#requestedAtMs),
      requestsInWorstDay: mostWithin(DAY_MS, this.#requestedAtMs),
      lost: this.#lost,
      lostForMs: Math.max(0, ...this.#lost.map(({ afterRevocationMs = 0 }) => afterRevocationMs)),
    }
  }

  #startCalls(): void {
    const { processes = 1, seed, client, traffic, options } = this.#plan
    const store = processes > 1 ? new MemoryStore(this.#clock) : undefined
    const clients = Array.from({ length: processes }, () => {
      const tokens = createTokenProvider({
        environment: { ...ENVIRONMENT, apiUrls: APIS },
        clientId: 'client-1',
        clientSecret: SECRET,
        fetch: (_, init) => this.#issue(init),
        clock: this.#clock,
        ...(store && { store }),
        ...options,
      })
      this.#closing.push(() => tokens.close())
      return client.create(tokens, (token, url) => this.#request(token, url))
    })
    for (const [index, { kinds, everyMs, loops = 1, fromMs = 0, ...target }] of traffic.entries()) {
      const { process = 0, api = 'merchant' } = target
      const call = clients[process]
      if (call === undefined) throw new Error(`There is no process ${process}`)
      const random = new Random(1_000 * seed + index)
      const kindOf = kinds(random)
      for (let loop = 0; loop < loops; loop += 1) {
        const send = (): void => {
          const nextAt = this.#now + everyMs
          this.#call(call, { kind: kindOf(), process, api }, () =>
            this.#agenda.add(Math.max(this.#now, nextAt), send),
          )
        }
        this.#agenda.add(this.#startedAt + fromMs + random.next() * everyMs, send)
      }
    }
  }

  #call(
    call: (url: string) => Promise<number>,
    { kind, process, api }: { kind: CallKind; process: number; api: ApiName },
    onEnd: () => void,
  ): void {
    const atMs = this.#now - this.#startedAt
    this.#calls += 1
    this.#open += 1
    call(APIS[api] + PATHS[kind])
      .then(
        (status) => {
          if (status !== 401 || kind === 'bad' || api === this.#plan.rejectingApi) return
          const revokedAtMs = this.#revokedAtMs
          const afterRevocationMs = revokedAtMs === undefined ? undefined : atMs - revokedAtMs
          this.#lost.push({ atMs, process, api, afterRevocationMs })
        },
        (error: unknown) => this.#failures.push(error),
      )
      .finally(() => {
        this.#open -= 1
        onEnd()
      })
  }

  /** The token endpoint. */
  async #issue(init: RequestInit | undefined): Promise<Response> {
    const { lifetimeMs = DAY_MS } = this.#plan
    this.#requestedAtMs.push(this.#now - this.#startedAt)
    await this.#clock.sleep(TOKEN_LATENCY_MS, init?.signal ?? undefined)
    const nth = this.#issued.size
    const value = `simulated.access.token-${nth}`
    noteSecret(value)
    this.#issued.set(value, { nth, issuedAt: this.#now })
    return Response.json({ access_token: value, expires_in: lifetimeMs / SECOND_MS, token_type: 'Bearer' })
  }

  #request(token: string, url: string): Promise<number> {
    const { judgedWithinMs = 0 } = this.#plan
    if (judgedWithinMs === 0) return Promise.resolve(this.#judge(token, url))
    const { promise, resolve } = Promise.withResolvers<number>()
    const later = (run: () => void): void =>
      this.#agenda.add(this.#now + this.#latency.next() * judgedWithinMs, run)
    this.#atApi += 1
    later(() => {
      const status = this.#judge(token, url)
      later(() => {
        this.#atApi -= 1
        resolve(status)
      })
    })
    return promise
  }

  #judge(token: string, url: string): number {
    const { rejectingApi, lifetimeMs = DAY_MS, lagMs = 0 } = this.#plan
    if (url.endsWith(PATHS.health)) return 200
    if (url.endsWith(PATHS.bad)) return 401
    if (rejectingApi !== undefined && url.startsWith(APIS[rejectingApi])) return 401
    const issued = this.#issued.get(token)
    if (issued === undefined || issued.nth < this.#revoked) return 401
    const ageMs = this.#now - issued.issuedAt
    return ageMs < lifetimeMs && (issued.nth === 0 || ageMs >= lagMs) ? 200 : 401
  }

  #revoke(): void {
    this.#revoked = this.#issued.size
    this.#revokedAtMs = this.#now - this.#startedAt
  }

  /** Lets everything run that is ready to run. Most calls need one turn. */
  async #settle(): Promise<void> {
    await settled(1)
    const { processes = 1 } = this.#plan
    if (this.#open > this.#atApi || this.#clock.sleeping > 0 || processes > 1) await quiet()
  }

  get #now(): number {
    return this.#clock.monotonicMs()
  }

  get #nextWakeAt(): number {
    return this.#now + (this.#clock.untilNextWakeMs() ?? Number.POSITIVE_INFINITY)
  }
}

interface AgendaItem {
  readonly at: number
  readonly run: () => void
}

/** What happens next. */
class Agenda {
  /** The last one is next. */
  readonly #items: AgendaItem[] = []

  get nextAt(): number {
    return this.#items.at(-1)?.at ?? Number.POSITIVE_INFINITY
  }

  add(at: number, run: () => void): void {
    let index = this.#items.length
    while (index > 0 && (this.#items[index - 1] as AgendaItem).at <= at) index -= 1
    this.#items.splice(index, 0, { at, run })
  }

  runDue(now: number): void {
    while (this.nextAt <= now) this.#items.pop()?.run()
  }
}

/** What the tests of the APIs' faults share: the rules by which an API refuses, and what calls it and counts. */
import axios from 'axios'
import { type AttachOptions, type AuthEvent, createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import type { ManualClock } from '../support/clock.ts'
import { scripted } from '../support/ground.ts'
import { outcomes } from '../support/recorded.ts'
import { ENVIRONMENT, granted, rig, type ScriptedEndpoint } from '../token/harness.ts'

export const TABLE = 'api'
export const CLIENTS = ['axios http', 'axios fetch', 'fetch'] as const
export type Client = (typeof CLIENTS)[number]

/** A request, as a rule sees it. */
export interface Asked {
  /** The number of the call, from 0. */
  readonly n: number
  /** 0 for its first try. */
  readonly attempt: number
  readonly path: string
  readonly token: string
  readonly now: number
}

export interface Verdict {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | string[]>>
}

/** How the merchant API judges requests; made anew for each test, as it may remember tokens. */
export interface Rule {
  readonly attach?: AttachOptions
  readonly judge: () => (asked: Asked) => Verdict
}

const GOOD: Verdict = { status: 200 }
const refused = (challenge: string | readonly string[] = 'Bearer realm="merchant"'): Verdict => ({
  status: 401,
  headers: { 'www-authenticate': typeof challenge === 'string' ? challenge : [...challenge] },
})
const always = (verdict: Verdict, attach: AttachOptions = {}): Rule => ({
  attach,
  judge: () => () => verdict,
})

/** 401 for ever, with this challenge, or with these in a header each. */
export const refusedWith = (challenge: string | readonly string[]): Rule => always(refused(challenge))

/** Half of the numbers, by a generator with a fixed seed (mulberry32). */
function isRefusedAtRandom({ n, attempt }: Asked): boolean {
  const a = (20_260_101 + (2 * n + attempt) * 0x6d2b79f5) | 0
  const b = Math.imul(a ^ (a >>> 15), 1 | a)
  const c = (b + Math.imul(b ^ (b >>> 7), 61 | b)) ^ b
  return ((c ^ (c >>> 14)) >>> 0) % 2 === 0
}

/** Accepts a token from `delayMs` after it first saw it on: another node has to hear of it first. */
function replicating(delayMs: number): (asked: Asked) => Verdict {
  const seenAt = new Map<string, number>()
  return ({ token, now }) => {
    if (!seenAt.has(token)) seenAt.set(token, now)
    return now - (seenAt.get(token) ?? now) >= delayMs ? GOOD : refused()
  }
}

export const RULES = {
  forEver: always(refused()),
  invalidToken: always(refused('Bearer realm="merchant", error="invalid_token"')),
  insufficientScope: always(refused('Bearer realm="merchant", error="insufficient_scope", scope="x"')),
  forbidden: always({ status: 403 }),
  status419: always({ status: 419 }, { renewOnStatus: [401, 419] }),
  status401Of419: always(refused(), { renewOnStatus: [401, 419] }),
  neverRenewed: always(refused(), { renewOnStatus: [] }),
  alternating: { judge: () => (asked) => ((asked.n + asked.attempt) % 2 === 0 ? refused() : GOOD) },
  atRandom: { judge: () => (asked) => (isRefusedAtRandom(asked) ? refused() : GOOD) },
  redirected: {
    judge: () => (asked) =>
      asked.path.startsWith('/merchant/orders/')
        ? { status: 302, headers: { location: asked.path.replace('orders', 'moved') } }
        : refused(),
  },
  onlyTheFirst: {
    judge: () => {
      let first: string | undefined
      return ({ token }) => {
        first ??= token
        return token === first ? GOOD : refused()
      }
    },
  },
  after2Seconds: { judge: () => replicating(2_000) },
  after5Seconds: { judge: () => replicating(5_000) },
} satisfies Record<string, Rule>

/** Judges by the rule, in-store excepted, and counts. */
export class JudgedApis {
  merchant = 0
  inStore = 0
  readonly #judge: (asked: Asked) => Verdict
  readonly #clock: ManualClock
  readonly #attempts = new Map<string, number>()

  constructor({ judge }: Rule, clock: ManualClock) {
    this.#judge = judge()
    this.#clock = clock
  }

  answer(path: string, authorization: string | null | undefined): Verdict {
    const token = /^Bearer (.+)$/.exec(authorization ?? '')?.[1]
    if (path.startsWith('/in-store/')) {
      this.inStore += 1
      return token === undefined ? refused() : GOOD
    }
    this.merchant += 1
    const attempt = this.#attempts.get(path) ?? 0
    this.#attempts.set(path, attempt + 1)
    if (token === undefined) return { status: 400 } // nothing here may come without
    const n = Number(path.split('/').at(-1))
    return this.#judge({ n, attempt, path, token, now: this.#clock.monotonicMs() })
  }
}

/** A client that calls two APIs on loopback, of which the merchant API goes by a rule; the clock stands. */
export interface LoopbackCalls extends AsyncDisposable {
  readonly apis: JudgedApis
  readonly endpoint: ScriptedEndpoint
  readonly clock: ManualClock
  readonly events: readonly AuthEvent[]
  readonly provider: TokenProvider
  /** The status that the caller gets. */
  get(path: string): Promise<number>
}

/** @param delayOf how long (ms) the answer to a path is held back, so that answers come one after another */
export async function callsOverLoopback(
  client: Client,
  rule: Rule,
  delayOf?: (n: number) => number,
): Promise<LoopbackCalls> {
  let apis: JudgedApis | undefined
  const server = await scripted(async ({ path, headers }, response) => {
    const { status = 500, headers: sent } = apis?.answer(path, headers.authorization) ?? {}
    const delay = delayOf?.(Number(path.split('/').at(-1)))
    if (delay !== undefined) await new Promise((resolve) => setTimeout(resolve, delay))
    response.writeHead(status, sent).end('{}')
  })
  const made = rigAt(server.url)
  apis = new JudgedApis(rule, made.clock)
  return {
    ...made,
    apis,
    get: getter(client, server.url, made.provider, rule.attach),
    [Symbol.asyncDispose]: async () => {
      thinOut()
      await made.provider.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** A provider for two APIs at this origin, whose tokens last as long as a day. */
export function rigAt(origin: string) {
  const made = rig([], {
    environment: { ...ENVIRONMENT, apiUrls: [`${origin}/merchant`, `${origin}/in-store`] },
  })
  made.endpoint.otherwise = granted({ expires_in: 86_400 })
  return made
}

function getter(
  client: Client,
  origin: string,
  provider: TokenProvider,
  attach: AttachOptions | undefined,
): (path: string) => Promise<number> {
  if (client === 'fetch') {
    const authFetch = createAuthFetch(provider, attach)
    return async (path) => {
      const response = await authFetch(origin + path)
      await response.text()
      return response.status
    }
  }
  const adapter = client === 'axios http' ? 'http' : 'fetch'
  const instance = axios.create({ baseURL: origin, adapter })
  attachAuth(instance, provider, attach)
  return async (path) => {
    try {
      return (await instance.get(path)).status
    } catch (error) {
      if (!axios.isAxiosError(error) || error.response === undefined) throw error
      return error.response.status
    }
  }
}

export const CALLS: readonly number[] = Array.from({ length: 250 }, (_, n) => n)

/** Each row with each client. */
export function onEach<Row extends readonly unknown[]>(rows: readonly Row[]): [Client, ...Row][] {
  return rows.flatMap((row) => CLIENTS.map((client): [Client, ...Row] => [client, ...row]))
}

/** `501 × 200, 499 × 401; 2 tokens, 1001 requests` */
export function costOf(
  statuses: readonly number[],
  { apis, endpoint }: Pick<LoopbackCalls, 'apis' | 'endpoint'>,
): string {
  return `${tally(statuses)}; ${counted(endpoint.count, 'token')}, ${counted(apis.merchant, 'request')}`
}

export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

const SEARCHED = 100

/** Of thousands of answers and events alike, the setup file's search takes seconds: one in 100 is enough. */
export function thinOut(): void {
  const kept = outcomes.filter((_, at) => at % SEARCHED === 0)
  outcomes.splice(0, outcomes.length, ...kept)
}

/** `501 × 200, 499 × 401` */
export function tally(statuses: readonly number[]): string {
  const counts = new Map<number, number>()
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1)
  return [...counts]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${count} × ${status}`)
    .join(', ')
}

/** Rules by which an API rejects calls, and a fetch on them that counts. */
import { type AuthEvent, createAuthFetch } from 'merchant-auth'
import type { ManualClock } from '../support/clock.ts'
import { Random } from '../support/random.ts'
import { granted, rig, type ScriptedEndpoint } from '../token/harness.ts'
import { counted } from './cells.ts'

export const TABLE = 'api'

/** A request, as a rule sees it. */
interface Asked {
  /** The number of the call, from 0. */
  readonly n: number
  /** 0 for its first try. */
  readonly attempt: number
  readonly token: string
  readonly now: number
}

/** How the merchant API judges requests; made anew for each test, as it may remember tokens. */
export interface Rule {
  readonly judge: () => (asked: Asked) => Status
}

type Status = 200 | 400 | 401

/** Half of the numbers, by a generator with a fixed seed. */
function isRejectedAtRandom({ n, attempt }: Asked): boolean {
  const number = new Random(20_260_101 + (2 * n + attempt - 1) * 0x6d2b79f5).next() * 2 ** 32
  return number % 2 === 0
}

/** Accepts a token from `delayMs` after it first saw it on: another node has to hear of it first. */
function replicating(delayMs: number): (asked: Asked) => Status {
  const seenAt = new Map<string, number>()
  return ({ token, now }) => {
    if (!seenAt.has(token)) seenAt.set(token, now)
    return now - (seenAt.get(token) ?? now) >= delayMs ? 200 : 401
  }
}

export const RULES = {
  forEver: { judge: () => () => 401 },
  alternating: { judge: () => (asked) => ((asked.n + asked.attempt) % 2 === 0 ? 401 : 200) },
  atRandom: { judge: () => (asked) => (isRejectedAtRandom(asked) ? 401 : 200) },
  onlyTheFirst: {
    judge: () => {
      let first: string | undefined
      return ({ token }) => {
        first ??= token
        return token === first ? 200 : 401
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
  readonly #judge: (asked: Asked) => Status
  readonly #clock: ManualClock
  readonly #attempts = new Map<string, number>()

  constructor({ judge }: Rule, clock: ManualClock) {
    this.#judge = judge()
    this.#clock = clock
  }

  answer(path: string, authorization: string | null): Status {
    const token = /^Bearer (.+)$/.exec(authorization ?? '')?.[1]
    if (path.startsWith('/in-store/')) {
      this.inStore += 1
      return token === undefined ? 401 : 200
    }
    this.merchant += 1
    const attempt = this.#attempts.get(path) ?? 0
    this.#attempts.set(path, attempt + 1)
    if (token === undefined) return 400 // nothing here may come without
    const n = Number(path.split('/').at(-1))
    return this.#judge({ n, attempt, token, now: this.#clock.monotonicMs() })
  }
}

/** A fetch that calls two APIs, of which the merchant API goes by a rule; the clock stands. */
export interface Calls {
  readonly apis: JudgedApis
  readonly endpoint: ScriptedEndpoint
  readonly clock: ManualClock
  readonly events: readonly AuthEvent[]
  /** The status that the caller gets. */
  get(path: string): Promise<number>
}

/** @param delayOf how long (ms) the answer to a path is held back, so that answers come one after another */
export function callsTo(rule: Rule, { both = false, delayOf = (_: number): number => 0 } = {}): Calls {
  const { provider, endpoint, clock, events } = rig()
  endpoint.otherwise = granted({ expires_in: 86_400 })
  const apis = new JudgedApis(rule, clock)
  const stub: typeof fetch = async (input, init) => {
    const { pathname } = new URL(String(input))
    const status = apis.answer(
      both ? pathname.replace('in-store', 'merchant') : pathname,
      new Headers(init?.headers).get('authorization'),
    )
    const delay = delayOf(Number(pathname.split('/').at(-1)))
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay))
    return new Response(null, { status })
  }
  const authFetch = createAuthFetch(provider, { fetch: stub })
  const get = async (path: string) => (await authFetch(`https://api.test.example${path}`)).status
  return { apis, endpoint, clock, events, get }
}

export const CALLS: readonly number[] = Array.from({ length: 250 }, (_, n) => n)

/** `501 × 200, 499 × 401; 2 tokens, 1001 requests` */
export function costOf(
  statuses: readonly number[],
  { apis, endpoint }: Pick<Calls, 'apis' | 'endpoint'>,
): string {
  return `${tally(statuses)}; ${counted(endpoint.count, 'token')}, ${counted(apis.merchant, 'request')}`
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

/** Shared by the token tests: a scripted token endpoint, a manual clock, and a provider that uses both. */
import {
  type AccessToken,
  type AuthEvent,
  createTokenProvider,
  type TokenProvider,
  type TokenProviderOptions,
  type TokenRequestError,
} from 'merchant-auth'
import { afterEach, beforeEach, type MockInstance, vi } from 'vitest'
import { ManualClock, settled } from '../support/clock.ts'

export const ENVIRONMENT = {
  name: 'test',
  authUrl: 'https://auth.test.example',
  audience: 'https://api.test.example',
  apiUrls: ['https://api.test.example/merchant', 'https://api.test.example/in-store'],
}
export const TOKEN_ENDPOINT = 'https://auth.test.example/oauth/token'
export const MERCHANT_URL = 'https://api.test.example/merchant/orders'
export const IN_STORE_URL = 'https://api.test.example/in-store/sales'
export const SECRET = 'swordfish+with/slash='

export type Answer = (init: RequestInit) => Response | Promise<Response>

/** A token response, with a new token each time unless `fields` sets `access_token`. */
export function granted(fields: Record<string, unknown> = {}): Answer {
  return () =>
    Response.json({ access_token: nextToken(), expires_in: 1_000, token_type: 'Bearer', ...fields })
}

/** A token response with these headers. */
export const grantedWith =
  (headers: Readonly<Record<string, string>>, fields: Record<string, unknown> = {}): Answer =>
  async (init) => {
    const response = await granted(fields)(init)
    for (const [name, value] of Object.entries(headers)) response.headers.append(name, value)
    return response
  }

let issued = 0
function nextToken(): string {
  issued += 1
  return `head.body.signature-${issued}`
}

/** A response with this status. */
export function status(code: number, body: unknown = '', headers: Record<string, string> = {}): Answer {
  return () => new Response(typeof body === 'string' ? body : JSON.stringify(body), { status: code, headers })
}

/** Never answers; rejects when the signal aborts. */
export const hang: Answer = ({ signal }) =>
  new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason))
  })

/** Never answers, and ignores the signal. */
export const deaf: Answer = () => new Promise(() => {})

/** Rejects as fetch does when the connection is refused. */
export const noConnection: Answer = () => {
  const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  return Promise.reject(new TypeError('fetch failed', { cause }))
}

/** A response whose connection is reset after the first byte of its body. */
export function breaksOff(status = 200): Answer {
  const cause = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
  return () => {
    const parts = [new TextEncoder().encode('{')]
    const body = new ReadableStream({
      pull(controller) {
        const part = parts.shift()
        if (part === undefined) controller.error(new TypeError('terminated', { cause }))
        else controller.enqueue(part)
      },
    })
    return new Response(body, { status })
  }
}

/** A token endpoint that gives the scripted answers in order, then tokens that live for 1 000 s. */
export class ScriptedEndpoint {
  readonly requests: { url: string; init: RequestInit }[] = []
  answers: Answer[]
  otherwise: Answer = granted()

  constructor(answers: Answer[]) {
    this.answers = answers
  }

  get count(): number {
    return this.requests.length
  }

  readonly fetch: typeof fetch = async (url, init = {}) => {
    this.requests.push({ url: String(url), init })
    return await (this.answers.shift() ?? this.otherwise)(init)
  }
}

export interface Rig {
  readonly provider: TokenProvider
  readonly endpoint: ScriptedEndpoint
  readonly clock: ManualClock
  readonly events: AuthEvent[]
}

/** A provider with a scripted endpoint and a manual clock. Its tokens of 1 000 s are renewed after 790 s, and used for 990 s. */
export function rig(answers: Answer[] = [], options: Partial<TokenProviderOptions> = {}): Rig {
  const endpoint = new ScriptedEndpoint(answers)
  const clock = new ManualClock()
  const events: AuthEvent[] = []
  const provider = createTokenProvider({
    environment: ENVIRONMENT,
    clientId: 'client-1',
    clientSecret: SECRET,
    fetch: endpoint.fetch,
    onEvent: (event) => events.push(event),
    clock,
    timeoutMs: 10_000,
    retries: 2,
    refreshAheadMs: 200_000,
    expiryMarginMs: 10_000,
    ...options,
  } as TokenProviderOptions)
  return { provider, endpoint, clock, events }
}

/** Returns what a promise rejects with; throws if it resolves. */
export async function rejection<T = Error>(promise: Promise<unknown>): Promise<T> {
  return await promise.then(
    (value) => {
      throw new Error(`resolved with ${String(value)}`)
    },
    (error: T) => error,
  )
}

type Waiting = Pick<Rig, 'provider' | 'clock'>

/** Acquires a token while the clock advances by `ms`. */
export async function acquired({ provider, clock }: Waiting, ms = 0): Promise<AccessToken> {
  const waiting = provider.getToken()
  await clock.advance(ms)
  return await waiting
}

/** Returns what `getToken()` rejects with while the clock advances by `ms`. */
export async function failed<T = TokenRequestError>({ provider, clock }: Waiting, ms = 0): Promise<T> {
  const waiting = rejection<T>(provider.getToken())
  await clock.advance(ms)
  return await waiting
}

/** Makes `Math.random()` return 0 in every test of the calling file: no backoff pauses, full refresh windows. */
export function withoutJitter(): MockInstance<() => number> {
  const random = vi.spyOn(Math, 'random')
  beforeEach(() => void random.mockReturnValue(0))
  afterEach(() => void random.mockReset())
  return random
}

/** Counts unhandled rejections; the returned function stops counting and resolves with the count. */
export function unhandledRejections(): () => Promise<number> {
  let count = 0
  const listener = (): void => {
    count += 1
  }
  process.on('unhandledRejection', listener)
  return async () => {
    await settled()
    process.off('unhandledRejection', listener)
    return count
  }
}

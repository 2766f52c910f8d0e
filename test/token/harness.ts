/** What the tests of the token share: a scripted token endpoint, a clock that stands, and a provider on both. */
// Loaded before a test begins, as their first use would be a matter of files.
import '../../src/token/quota-headers.ts'
import '../../src/token/shared-token.ts'
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

/** A token response; each token is another one unless `fields` says so. */
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

/** Any answer with this status. */
export function status(code: number, body: unknown = '', headers: Record<string, string> = {}): Answer {
  return () => new Response(typeof body === 'string' ? body : JSON.stringify(body), { status: code, headers })
}

/** No answer at all. Ends only when the signal does. */
export const hang: Answer = ({ signal }) =>
  new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason))
  })

/** No answer at all, and no ear for the signal. */
export const deaf: Answer = () => new Promise(() => {})

/** What fetch does when nobody listens on the other side. */
export const noConnection: Answer = () => {
  const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  return Promise.reject(new TypeError('fetch failed', { cause }))
}

/** An answer that ends, on the wire, after its first byte. */
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

/** A token endpoint that gives the scripted answers in turn, and then tokens of 1 000 seconds. */
export class ScriptedEndpoint {
  readonly requests: { url: string; init: RequestInit }[] = []
  readonly answers: Answer[]
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

/** A provider on a scripted endpoint and a clock that stands. */
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
    ...options,
  })
  return { provider, endpoint, clock, events }
}

/** What a promise rejects with, for a closer look than a matcher's. Fails where it resolves. */
export async function rejection<T = Error>(promise: Promise<unknown>): Promise<T> {
  return await promise.then(
    (value) => {
      throw new Error(`resolved with ${String(value)}`)
    },
    (error: T) => error,
  )
}

type Waiting = Pick<Rig, 'provider' | 'clock'>

/** Acquires a token, while `ms` pass. */
export async function acquired({ provider, clock }: Waiting, ms = 0): Promise<AccessToken> {
  const waiting = provider.getToken()
  await clock.advance(ms)
  return await waiting
}

/** What a call for a token rejects with, while `ms` pass. */
export async function failed<T = TokenRequestError>({ provider, clock }: Waiting, ms = 0): Promise<T> {
  const waiting = rejection<T>(provider.getToken())
  await clock.advance(ms)
  return await waiting
}

/** `Math.random()` is 0 in each test of the file that calls this: pauses end at once, and windows are not shortened. */
export function withoutJitter(): MockInstance<() => number> {
  const random = vi.spyOn(Math, 'random')
  beforeEach(() => void random.mockReturnValue(0))
  afterEach(() => void random.mockReset())
  return random
}

/** How many promises nobody handled: to be asked at the end. */
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

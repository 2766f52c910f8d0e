/** The token on fetch: what `fetch` takes and gives, in the terms of an authorized call. */
import { startTimer } from '../clock.ts'
import type { AttachOptions } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import { type AuthorizedCall, authorize, MAX_DRAINED_BYTES, MAX_DRAINING_MS } from './authorized-call.ts'
import { type AttachContext, createAttachContext, headerValue, whyWithheld } from './context.ts'
import { classWith, copyOfHeaders, type FetchHeaders, hasHeader, withHeader } from './fetch-headers.ts'
import { wrapGlobalFetch } from './global-fetch.ts'
import { canSendAgain, keepForLater, snapshotOf } from './replay.ts'

type Fetch = typeof fetch

/**
 * A drop-in for `fetch` that puts the token on calls below the environment's `apiUrls`, renews it once when an
 * API answers 401 (RFC 6750 §3.1), and then makes the call once more. All other calls pass through untouched.
 *
 * It rejects as the wrapped fetch does, and as `TokenProvider.getToken` does where a call needs a token that
 * cannot be had. The call's signal ends its wait for a token, too.
 *
 * Sent again after a 401 are calls without a body, and those whose body is a string, URLSearchParams, FormData, Blob,
 * ArrayBuffer or view, or that of a Request. Streams and generators are sent once, and the caller gets the 401.
 *
 * @param tokens the provider, which any number of fetches may share
 * @param attach the header, its scheme, the statuses that renew; and `fetch`, the fetch to wrap: by default
 *   `globalThis.fetch`, looked up at each call. With a header other than `Authorization` redirects are not followed:
 *   the caller gets the 3xx
 * @returns what is called like `fetch`
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option
 * @example
 * const authFetch = createAuthFetch(tokens)
 * const response = await authFetch('https://api.test.example.com/merchant/orders')
 */
export function createAuthFetch(
  tokens: TokenProvider,
  attach?: AttachOptions & { readonly fetch?: Fetch | undefined },
): Fetch {
  const context = createAttachContext(tokens, attach, { fetch: true })
  const wrap =
    (wrapped: Fetch): Fetch =>
    (input, init) => {
      try {
        return fetchWithToken(context, wrapped, input, init)
      } catch (error) {
        return Promise.reject(error) // fetch never throws
      }
    }
  return context.fetch === undefined ? wrapGlobalFetch(wrap) : wrap(context.fetch)
}

function fetchWithToken(
  context: AttachContext,
  wrapped: Fetch,
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<Response> {
  // Read once: what is judged is what is sent.
  const request = requestOf(input)
  const url = request?.get('url') ?? String(input)
  const members = membersOf(init)
  const given: unknown = members?.headers === undefined ? request?.get('headers') : members.headers
  const headers = copyOfHeaders(given)
  const isRejected = (init !== undefined && init !== null && !members) || (given !== undefined && !headers) // by fetch itself
  const ownHeader = headers !== undefined && hasHeader(headers, context.headerKey)
  const withheld = whyWithheld(context, url, ownHeader)
  if (withheld === undefined && !isRejected)
    return authorize(new FetchCall(context, wrapped, { url, request, init: members, headers }), context)
  if (withheld !== undefined) context.emitWithheld(withheld, url)
  // An iterator has been read to its end.
  const isSpent = typeof given === 'object' && given !== null && 'next' in given
  return wrapped(input, isSpent ? { ...members, headers: headers as [string, string][] } : init)
}

/** What fetch reads of an init, wherever it comes from: a Request, for example, has it by its class. */
const MEMBERS = [
  ...[
    'method',
    'headers',
    'body',
    'duplex',
    'signal',
    'redirect',
    'mode',
    'credentials',
    'cache',
    'referrer',
  ],
  ...['referrerPolicy', 'integrity', 'keepalive', 'priority', 'window', 'dispatcher'],
] as const

/** What an init says, as it is now; undefined where fetch would reject it. */
function membersOf(init: RequestInit | undefined): RequestInit | undefined {
  if (typeof init !== 'object' || init === null) return undefined
  const members: Record<string, unknown> = { ...init }
  for (const name of MEMBERS) {
    const value: unknown = Reflect.get(init, name)
    if (value !== undefined) members[name] = value
  }
  const { signal } = members
  const isSignal = signal === undefined || signal === null || isSignalLike(signal)
  return isSignal ? members : undefined
}

/** Whether a call can wait by it: signals of older libraries are not the platform's own. */
function isSignalLike(signal: unknown): signal is AbortSignal {
  return typeof signal === 'object' && signal !== null && 'addEventListener' in signal
}

/** A Request, read by its class as fetch reads it, whatever a derived class or the object itself says. */
class GivenRequest {
  readonly itself: Request
  readonly #proto: object

  constructor(itself: Request, proto: object) {
    this.itself = itself
    this.#proto = proto
  }

  get<Key extends keyof Request>(key: Key): Request[Key] {
    return Reflect.get(this.#proto, key, this.itself)
  }

  clone(): Request {
    return Reflect.apply(this.get('clone'), this.itself, [])
  }
}

function requestOf(input: string | URL | Request): GivenRequest | undefined {
  if (typeof input !== 'object' || input === null) return undefined
  const proto = classWith(input, 'bodyUsed')
  if (proto === undefined) return undefined
  const request = new GivenRequest(input as Request, proto)
  try {
    return request.get('url') === undefined ? undefined : request
  } catch {
    return undefined // it only looks like one: fetch takes it for the text of a URL
  }
}

/** What a caller gave to fetch, as it was at the time of the call: fetch, too, would have read it by then. */
interface Given {
  readonly url: string
  readonly request: GivenRequest | undefined
  readonly init: RequestInit | undefined
  readonly headers: FetchHeaders | undefined
}

class FetchCall implements AuthorizedCall<Response> {
  readonly url: string
  readonly repeatable: boolean
  readonly #context: AttachContext
  readonly #fetch: Fetch
  readonly #init: RequestInit | undefined
  readonly #headers: FetchHeaders | undefined
  readonly #signal: AbortSignal | undefined
  #target: string | Request
  #redirect: RequestInit['redirect']
  /** The Request for a second try, its body kept beforehand. */
  #spare: Request | undefined
  /** What may have to be cancelled, or fail, before it is sent. */
  readonly #streams: readonly unknown[] | undefined

  constructor(context: AttachContext, wrapped: Fetch, { url, request, init, headers }: Given) {
    this.url = url
    this.#context = context
    this.#fetch = wrapped
    this.#target = request?.itself ?? url
    this.#redirect = init?.redirect ?? request?.get('redirect')
    this.#headers = headers
    this.#init = init
    this.#signal = (init?.signal === undefined ? request?.get('signal') : init.signal) ?? undefined
    const body = init?.body
    const keeps = context.renewOnStatus.length > 0
    const requestBody = body ? undefined : request?.get('body')
    if (requestBody) {
      if (keeps && !request?.get('bodyUsed')) this.#spare = request?.clone()
      this.repeatable = this.#spare !== undefined
    } else {
      if (keeps && body && init) init.body = snapshotOf(body)
      this.repeatable = canSendAgain(body)
    }
    if (requestBody || !canSendAgain(body))
      this.#streams = [body, requestBody && request?.get('body'), this.#spare?.body]
  }

  send(token: AccessToken): Promise<Response> {
    const context = this.#context
    const target = this.#target
    if (this.#spare !== undefined) this.#target = this.#spare
    const headers = withHeader(this.#headers, context.header, headerValue(context, token))
    const init: RequestInit = { ...this.#init, headers }
    // Only Authorization is taken off by fetch when a redirect leads to another origin.
    if (!context.isAuthorization && this.#redirect !== 'error') init.redirect = 'manual'
    return this.#fetch(target, init)
  }

  answered(): void {
    // nothing was put on what the caller gave
  }

  failed(): undefined {
    // fetch rejects only where there is no answer
  }

  statusOf(response: Response): number {
    return response.status
  }

  challengeOf(response: Response): string {
    return response.headers?.get('www-authenticate') ?? ''
  }

  wasRedirected(response: Response): boolean {
    return response.redirected
  }

  discard(response: Response): void {
    drainIfSmall(response).catch(() => {})
  }

  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    const wait = start(this.#signal)
    return this.#streams === undefined ? wait : this.#withStreams(wait, this.#streams)
  }

  ended(): boolean {
    return this.#signal?.aborted === true
  }

  /** Looks after streams in a wait: they are cancelled with the call, as fetch does, and may themselves fail meanwhile. */
  async #withStreams<T>(wait: Promise<T>, streams: readonly unknown[]): Promise<T> {
    const init = this.#init
    const bodyToSend = keepForLater(init?.body)
    try {
      return await wait
    } catch (reason) {
      for (const stream of streams)
        if (stream instanceof ReadableStream && !stream.locked) stream.cancel(reason).catch(() => {})
      throw reason
    } finally {
      if (init?.body) init.body = bodyToSend() as NonNullable<RequestInit['body']>
    }
  }
}

async function drainIfSmall({ body, headers }: Response): Promise<void> {
  if (body === null) return
  if (Number(headers.get('content-length')) > MAX_DRAINED_BYTES) return await body.cancel()
  const reader = body.getReader()
  const stopTimer = startTimer(() => reader.cancel().catch(() => {}), MAX_DRAINING_MS)
  try {
    for (let bytes = 0; bytes <= MAX_DRAINED_BYTES; ) {
      const { done, value } = await reader.read()
      if (done) return
      bytes += value.byteLength
    }
    await reader.cancel()
  } finally {
    stopTimer()
  }
}

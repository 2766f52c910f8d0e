/** The token on fetch. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { startTimer } from '../clock.ts'
import type { AttachOptions } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import { untilAborted } from '../waiting.ts'
import {
  type AttachContext,
  type Attempt,
  type AuthorizedCall,
  authorize,
  createAttachContext,
  getsToken,
  MAX_DRAINED_BYTES,
  MAX_DRAINING_MS,
} from './authorize.ts'
import { canSendAgain, snapshotOf, watchBody } from './body.ts'
import { classWith, copyFetchHeaders, type FetchHeaders, hasFetchHeader, withFetchHeader } from './headers.ts'

type Fetch = typeof fetch

/**
 * A drop-in for `fetch` that attaches the token to calls below the environment's `apiUrls`. When an API answers 401
 * (RFC 6750 §3.1), it renews the token once and repeats the call. All other calls pass through unchanged.
 *
 * It rejects as the wrapped fetch does, and as `TokenProvider.getToken` does if no token can be acquired. The call's
 * signal also ends its wait for a token.
 *
 * Calls without a body are repeated after a 401, and calls whose body is a string, URLSearchParams, FormData, Blob,
 * ArrayBuffer, a view, or the body of a Request. Streams and generators are sent once: the caller gets the 401.
 *
 * @param tokens the provider, which any number of fetches may share
 * @param attach the header, its scheme, the statuses that renew; and `fetch`, the fetch to wrap: by default
 *   `globalThis.fetch`, looked up at each call. With a header other than `Authorization`, redirects are not followed:
 *   the caller gets the 3xx
 * @returns a function like `fetch`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option
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
  // Everything is read once, so that what is checked is what is sent.
  const request = requestOf(input)
  const url = request?.url ?? String(input)
  const members = membersOf(init)
  const given: unknown = members?.headers === undefined ? request?.get('headers') : members.headers
  const headers = copyFetchHeaders(given)
  const isInvalid = (init !== undefined && init !== null && !members) || (given !== undefined && !headers)
  const ownHeader = headers !== undefined && hasFetchHeader(headers, context.headerKey)
  if (getsToken(context, url, { header: ownHeader }) && !isInvalid)
    return authorize(new FetchCall(context, wrapped, { url, request, init: members, headers }), context)
  // An iterator has been consumed.
  const isSpent = typeof given === 'object' && given !== null && 'next' in given
  return wrapped(input, isSpent ? { ...members, headers: headers as [string, string][] } : init)
}

/** What fetch reads from an init, own or inherited: a Request, for example, has them on its class. */
const MEMBERS =
  'method headers body duplex signal redirect mode credentials cache referrer referrerPolicy integrity keepalive priority window dispatcher'.split(
    ' ',
  )

/** A copy of an init; undefined if fetch would reject it. */
function membersOf(init: RequestInit | undefined): RequestInit | undefined {
  if (typeof init !== 'object' || init === null) return undefined
  const members: Record<string, unknown> = { ...init }
  for (const name of MEMBERS) {
    const value: unknown = Reflect.get(init, name)
    if (value !== undefined) members[name] = value
  }
  const { signal } = members
  if (signal === undefined || signal === null) return members
  // Signals of older libraries are not the platform's.
  return typeof signal === 'object' && 'addEventListener' in signal ? members : undefined
}

/** A Request, read through its original class as fetch reads it, even if the object or a derived class overrides members. */
class GivenRequest {
  readonly itself: Request
  readonly url: string
  readonly #proto: object

  /** Throws if it only looks like a Request. */
  constructor(itself: Request, proto: object) {
    this.itself = itself
    this.#proto = proto
    this.url = this.get('url')
    if (typeof this.url !== 'string') throw new TypeError()
  }

  get<Key extends keyof Request>(key: Key): Request[Key] {
    return Reflect.get(this.#proto, key, this.itself)
  }

  clone(): Request {
    return this.get('clone').call(this.itself)
  }
}

function requestOf(input: string | URL | Request): GivenRequest | undefined {
  if (typeof input !== 'object' || input === null) return undefined
  const proto = classWith(input, 'bodyUsed')
  if (proto === undefined) return undefined
  try {
    return new GivenRequest(input as Request, proto)
  } catch {} // fetch converts it to the text of a URL
  return undefined
}

/** The arguments of a call, as they were at the time of the call. */
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
  readonly #redirect: RequestInit['redirect']
  #target: string | Request
  /** The Request for a second send, cloned before the first one. */
  #spare: Request | undefined
  /** Streams, which may fail or have to be canceled before they are sent. */
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
    /** The Request whose body is sent. */
    const source = !body && request?.get('body') ? request : undefined
    if (source) {
      if (keeps && !source.get('bodyUsed')) this.#spare = source.clone()
      this.repeatable = this.#spare !== undefined
    } else {
      if (keeps && body && init) init.body = snapshotOf(body)
      this.repeatable = canSendAgain(body)
    }
    if (source || !canSendAgain(body)) this.#streams = [body, source?.get('body'), this.#spare?.body]
  }

  send(token: AccessToken): Promise<Attempt<Response>> {
    const context = this.#context
    const target = this.#target
    if (this.#spare !== undefined) this.#target = this.#spare
    const headers = withFetchHeader(this.#headers, context.header, context.headerValue(token))
    const init: RequestInit = { ...this.#init, headers }
    // On a redirect to another origin, fetch removes no header but Authorization.
    if (!context.isAuthorization && this.#redirect !== 'error') init.redirect = 'manual'
    return this.#fetch(target, init).then((response) => new FetchAttempt(response))
  }

  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    const wait = untilAborted(start(this.#signal), this.#signal)
    return this.#streams === undefined ? wait : this.#withStreams(wait, this.#streams)
  }

  /** Watches streams during a wait: they are canceled with the call, as fetch does, and may fail meanwhile. */
  async #withStreams<T>(wait: Promise<T>, streams: readonly unknown[]): Promise<T> {
    const init = this.#init
    const bodyToSend = watchBody(init?.body)
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

class FetchAttempt implements Attempt<Response> {
  readonly #response: Response

  constructor(response: Response) {
    this.#response = response
  }

  get status(): number {
    return this.#response.status
  }

  get challenge(): string {
    return this.#response.headers?.get('www-authenticate') ?? ''
  }

  get redirected(): boolean {
    return this.#response.redirected
  }

  settle(): Response {
    return this.#response
  }

  discard(): void {
    drainIfSmall(this.#response).catch(() => {})
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

/** A call that a wrapper has passed to the global fetch. */
interface Passing {
  readonly wrapper: Fetch
  /** The global fetch at that time. */
  readonly to: Fetch
  readonly outer: Passing | undefined
  hasResponse: boolean
}

const passing = new AsyncLocalStorage<Passing>()

/**
 * Wraps the global fetch, for `globalThis.fetch = createAuthFetch(…)`. When the global fetch is the wrapper itself, or something that calls the wrapper, calls go to
 * the fetch that was global when the wrapper was created.
 *
 * @param wrap makes a wrapper of the given fetch
 */
function wrapGlobalFetch(wrap: (wrapped: Fetch) => Fetch): Fetch {
  const before = globalThis.fetch
  /** Fetches that have called the wrapper. */
  const callers = new WeakSet<Fetch>()
  const direct = wrap((input, init) => before(input, init))
  const viaGlobal = wrap((input, init) => {
    const to = globalThis.fetch
    if (to === before || callers.has(to)) return before(input, init)
    const call: Passing = { wrapper, to, outer: innermostPending(), hasResponse: false }
    const answer = passing.run(call, () => to(input, init))
    const end = (): void => {
      call.hasResponse = true
    }
    Promise.resolve(answer).then(end, end)
    return answer
  })
  const wrapper: Fetch = (input, init) => {
    const call = innermostPending(wrapper)
    if (call === undefined) return viaGlobal(input, init)
    callers.add(call.to)
    return direct(input, init)
  }
  callers.add(wrapper)
  return wrapper
}

/** The innermost call without a response: of this wrapper, or of any. */
function innermostPending(wrapper?: Fetch): Passing | undefined {
  let call = passing.getStore()
  while (call && (call.hasResponse || (wrapper && call.wrapper !== wrapper))) call = call.outer
  return call
}

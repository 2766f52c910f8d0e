/** The token on fetch: what `fetch` takes and gives, in the terms of an authorized call. */
import { startTimer } from '../clock.ts'
import { ConfigurationError } from '../errors.ts'
import type { AttachOptions } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/token-provider.ts'
import { type AuthorizedCall, authorize, MAX_DRAINED_BYTES, MAX_DRAINING_MS } from './authorized-call.ts'
import { type AttachContext, createAttachContext, headerValue, whyWithheld } from './context.ts'
import { canSendAgain, snapshotOf } from './replay.ts'

type Fetch = typeof fetch
type HeadersInit = NonNullable<RequestInit['headers']>

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
  attach: AttachOptions & { readonly fetch?: Fetch | undefined } = {},
): Fetch {
  const { fetch: wrapped = (input, init) => globalThis.fetch(input, init), ...options } = attach
  if (typeof wrapped !== 'function') {
    throw new ConfigurationError('The token cannot be attached', [
      { option: 'fetch', reason: 'must be a function' },
    ])
  }
  const context = createAttachContext(tokens, options)
  return (input, init) => {
    try {
      return fetchWithToken(context, wrapped, input, init)
    } catch (error) {
      return Promise.reject(error) // fetch never throws
    }
  }
}

function fetchWithToken(
  context: AttachContext,
  wrapped: Fetch,
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<Response> {
  // A URL object may be changed while the call waits for a token: what is judged is what is sent.
  const request = isRequest(input) ? input : undefined
  const url = request?.url ?? String(input)
  const headers = init?.headers ?? request?.headers
  const withheld = whyWithheld(context, url, hasHeader(headers, context.headerKey))
  if (withheld === undefined)
    return authorize(new FetchCall(context, wrapped, { url, request, init }), context)
  context.tellWithheld(withheld, url)
  return wrapped(input, init)
}

function isRequest(input: string | URL | Request): input is Request {
  return typeof input === 'object' && input !== null && 'url' in input && 'headers' in input
}

/** What a caller gave to fetch; the URL as it will be sent. */
interface Given {
  readonly url: string
  readonly request: Request | undefined
  readonly init: RequestInit | undefined
}

class FetchCall implements AuthorizedCall<Response> {
  readonly url: string
  readonly repeatable: boolean
  readonly #context: AttachContext
  readonly #fetch: Fetch
  /** What the caller gave, as it was at the time of the call: fetch, too, would have read it by then. */
  readonly #init: RequestInit | undefined
  readonly #headers: HeadersInit | undefined
  readonly #signal: AbortSignal | undefined
  #target: string | Request
  /** The Request for a second try, its body kept beforehand. */
  #spare: Request | undefined

  constructor(context: AttachContext, wrapped: Fetch, { url, request, init }: Given) {
    this.url = url
    this.#context = context
    this.#fetch = wrapped
    this.#target = request ?? url
    this.#headers = copyOf(init?.headers ?? request?.headers)
    this.#init = init && { ...init }
    this.#signal = (init?.signal === undefined ? request?.signal : init.signal) ?? undefined
    const body = init?.body
    const keeps = context.renewOnStatus.length > 0
    if (request?.body && !body) {
      if (keeps && !request.bodyUsed) this.#spare = request.clone()
      this.repeatable = this.#spare !== undefined
    } else {
      if (keeps && body && this.#init) this.#init.body = snapshotOf(body)
      this.repeatable = canSendAgain(body)
    }
  }

  send(token: AccessToken): Promise<Response> {
    const context = this.#context
    const target = this.#target
    if (this.#spare !== undefined) this.#target = this.#spare
    const headers = withHeader(this.#headers, context.header, headerValue(context, token))
    const init: RequestInit = this.#init === undefined ? { headers } : { ...this.#init, headers }
    // Only Authorization is taken off by fetch when a redirect leads to another origin.
    if (!context.isAuthorization && (init.redirect ?? redirectOf(target)) !== 'error')
      init.redirect = 'manual'
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
    return start(this.#signal)
  }

  ended(): boolean {
    return this.#signal?.aborted === true
  }
}

function redirectOf(target: string | Request): RequestInit['redirect'] {
  return typeof target === 'object' ? target.redirect : undefined
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

function hasHeader(headers: HeadersInit | undefined, key: string): boolean {
  if (headers === undefined) return false
  if (!isRecord(headers)) return (headers instanceof Headers ? headers : new Headers(headers)).has(key)
  for (const name of Object.keys(headers)) {
    if (name.length === key.length && name.toLowerCase() === key) return true
  }
  return false
}

function copyOf(headers: HeadersInit | undefined): HeadersInit | undefined {
  if (headers === undefined) return undefined
  return isRecord(headers) ? { ...headers } : new Headers(headers)
}

/** The headers with one more. They are a copy already; the next send may have another value. */
function withHeader(headers: HeadersInit | undefined, name: string, value: string): HeadersInit {
  if (headers === undefined) return { [name]: value }
  if (isRecord(headers)) return { ...headers, [name]: value }
  const copy = new Headers(headers)
  copy.set(name, value)
  return copy
}

function isRecord(headers: HeadersInit): headers is Record<string, string> {
  return !(Symbol.iterator in headers)
}

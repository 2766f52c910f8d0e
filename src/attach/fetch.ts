/** The token on fetch. */
import { startTimer } from '../clock.ts'
import type { AttachOptions } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import {
  type AttachContext,
  type Attempt,
  type AuthorizedCall,
  authorize,
  createAttachContext,
  MAX_DRAINED_BYTES,
  MAX_DRAINING_MS,
  shouldAttach,
} from './authorize.ts'
import { canSendAgain } from './body.ts'
import { hasHeader } from './headers.ts'

type Fetch = typeof fetch

/**
 * A drop-in for `fetch` that attaches the token to calls below the environment's `apiUrls`. When an API returns 401
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
 * @example
 * globalThis.fetch = createAuthFetch(tokens, { fetch: globalThis.fetch })
 */
export function createAuthFetch(
  tokens: TokenProvider,
  attach?: AttachOptions & { readonly fetch?: Fetch | undefined },
): Fetch {
  const context = createAttachContext(tokens, attach, { fetch: true })
  const { fetch: given } = context
  if (given !== undefined) return (input, init) => fetchWithToken(context, given, input, init)
  // Otherwise the global fetch of each call, which may be mocked or instrumented later; but where this one was made the
  // global one, the fetch that was there before.
  const before = globalThis.fetch
  let isGlobal = false
  const checkGlobal = (): void => {
    isGlobal ||= globalThis.fetch === authFetch
  }
  const authFetch: Fetch = (input, init) => {
    checkGlobal()
    return fetchWithToken(context, isGlobal ? before : globalThis.fetch, input, init)
  }
  queueMicrotask(checkGlobal)
  return authFetch
}

async function fetchWithToken(
  context: AttachContext,
  wrapped: Fetch,
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<Response> {
  // Its members are getters, which the copies below would miss.
  if (isRequest(init)) return fetchWithToken(context, wrapped, new Request(input, init), undefined)
  const request = isRequest(input) ? input : undefined
  const url = request?.url ?? String(input)
  const headers = headersOf(init?.headers ?? request?.headers)
  const key = context.headerKey
  const header = headers instanceof Headers ? headers.has(key) : hasHeader(headers, key)
  if (!shouldAttach(context, url, { header })) return wrapped(input, init)
  // Copies: callers reuse their URL, headers and init for the next call while this one waits for a token.
  const given = { url, input: request ?? url, request, init: { ...init }, headers }
  const call = new FetchCall(context, wrapped, given)
  try {
    return await authorize(call, context)
  } catch (error) {
    call.cancelStreams(error)
    throw error
  } finally {
    call.cancelSpare()
  }
}

/** Whether it is a Request, of the platform or of the undici package. */
function isRequest(value: unknown): value is Request {
  return typeof value === 'object' && value !== null && 'bodyUsed' in value
}

type HeaderRecord = Readonly<Record<string, string>>

/** A copy: of a record as it is, of anything else as the platform reads it. */
function headersOf(given: RequestInit['headers']): Headers | HeaderRecord {
  if (given === undefined || given === null) return {}
  return Symbol.iterator in given ? new Headers(given) : { ...(given as HeaderRecord) }
}

function withHeader(headers: Headers | HeaderRecord, name: string, value: string): Headers | HeaderRecord {
  if (!(headers instanceof Headers)) return { ...headers, [name]: value }
  const copy = new Headers(headers)
  copy.set(name, value)
  return copy
}

/** One call, as it was given. */
interface Given {
  readonly url: string
  readonly input: string | Request
  readonly request: Request | undefined
  readonly init: RequestInit
  readonly headers: Headers | HeaderRecord
}

class FetchCall implements AuthorizedCall<Response> {
  readonly url: string
  readonly repeatable: boolean
  readonly signal: AbortSignal | undefined
  /** The body in the init, which fetch prefers to that of a Request. */
  body: unknown
  readonly #context: AttachContext
  readonly #fetch: Fetch
  readonly #given: Given
  /** What to send next. */
  #input: string | Request
  /** A clone of the Request for a second send, because the first one consumes its body. */
  #spare: Request | undefined

  constructor(context: AttachContext, wrapped: Fetch, given: Given) {
    const { url, input, request, init } = given
    this.url = url
    this.signal = (init.signal === undefined ? request?.signal : init.signal) ?? undefined
    this.body = init.body ?? undefined
    this.#context = context
    this.#fetch = wrapped
    this.#given = given
    this.#input = input
    const keepsBody = context.renewOnStatus.length > 0
    // A Request that was sent before is for fetch to reject.
    const isReadable = request?.body && !request.bodyUsed
    if (keepsBody && this.body === undefined && isReadable) this.#spare = request.clone()
    this.repeatable = keepsBody && canSendAgain(this.body)
  }

  async send(token: AccessToken): Promise<Attempt<Response>> {
    const { header, headerValue, isAuthorization } = this.#context
    const { request, init, headers } = this.#given
    const options: RequestInit = { ...init, headers: withHeader(headers, header, headerValue(token)) }
    if (this.body !== undefined) options.body = this.body as NonNullable<RequestInit['body']>
    // On a redirect to another origin, fetch removes no header but Authorization.
    if (!isAuthorization && (init.redirect ?? request?.redirect) !== 'error') options.redirect = 'manual'
    const input = this.#input
    if (input === this.#spare) this.#spare = undefined
    this.#input = this.#spare ?? input
    return new FetchAttempt(await this.#fetch(input, options))
  }

  /** Cancels the bodies that fetch did not get, as it does itself when a call ends early. */
  cancelStreams(reason: unknown): void {
    for (const body of [this.body, this.#given.request?.body])
      if (body instanceof ReadableStream && !body.locked) body.cancel(reason).catch(() => {})
  }

  cancelSpare(): void {
    this.#spare?.body?.cancel().catch(() => {})
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

/** Reads a small body, so that its connection can be reused; cancels any other. */
async function drainIfSmall({ body, headers }: Response): Promise<void> {
  if (!body) return
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

/** The token on fetch. */
import type { AttachOptions } from '../options.ts'
import type { TokenProvider } from '../token/provider.ts'
import {
  type AttachContext,
  type AuthorizedCall,
  admit,
  authorize,
  createAttachContext,
  type Rejection,
} from './authorize.ts'
import { canSendAgain, isNodeStream, isObject, isWebStream } from './body.ts'
import { findHeader, withHeader } from './headers.ts'
import { type HeldBody, holdCopy, holdUnread, isTooLarge } from './held-body.ts'

type Fetch = typeof fetch
type FetchArguments = Parameters<Fetch>

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
  context.provider.attached()
  const send = (wrapped: Fetch, args: FetchArguments): Promise<Response> => {
    try {
      return fetchWithToken(context, wrapped, args)
    } catch (error) {
      return Promise.reject(error) // fetch never throws
    }
  }
  if (given !== undefined) return (...args) => send(given, args)
  // Otherwise the global fetch of each call; but where this one was made the global one, the fetch before it.
  const before = globalThis.fetch
  let isGlobal = false
  const checkGlobal = (): void => {
    isGlobal ||= globalThis.fetch === authFetch
  }
  const authFetch: Fetch = (...args) => {
    checkGlobal()
    return send(isGlobal ? before : globalThis.fetch, args)
  }
  queueMicrotask(checkGlobal)
  return authFetch
}

function fetchWithToken(context: AttachContext, wrapped: Fetch, args: FetchArguments): Promise<Response> {
  const [input, init] = args
  const request = isRequest(input) ? input : undefined
  const url = request?.url ?? String(input)
  const initHeaders = init?.headers && copyOf(init.headers)
  const header = findHeader(initHeaders ?? request?.headers ?? {}, context.headerKey)
  const decision = admit(context, url, { header })
  if (decision !== 'attach') {
    const sent = Promise.resolve(wrapped(...args))
    if (decision === 'foreign') return sent
    return sent.then((response) => {
      context.withheld.answered(decision, url, statusOf(response))
      return response
    })
  }
  // Its members are getters, which the copy below would miss.
  if (isRequest(init)) return fetchWithToken(context, wrapped, [new Request(input, init)])

  const { isAuthorization, renewOnStatus } = context
  const options: RequestInit = { ...init } // now, because callers fill one object for many calls
  const body = options.body ?? undefined
  const hasRequestBody = body === undefined && !!request?.body && !request.bodyUsed
  // The first send consumes the body of a Request.
  const spare = hasRequestBody && renewOnStatus.length > 0 ? request.clone() : undefined
  // On a redirect to another origin, fetch removes no header but Authorization.
  if (!isAuthorization && (options.redirect ?? request?.redirect) !== 'error') options.redirect = 'manual'
  // The token is where the headers of the call are: in its init, or on a copy of its Request, which has all the others.
  const isOnRequest = request !== undefined && initHeaders === undefined && body === undefined
  const headers = initHeaders ?? (request === undefined || isOnRequest ? {} : copyOf(request.headers))
  const hasInit = !isOnRequest || init !== undefined || options.redirect !== undefined
  let sent: Request | undefined
  const nextRequest = (): Request | undefined => {
    // In Node.js, the signal of a clone aborts nothing after a garbage collection.
    if (sent !== undefined && spare !== undefined)
      return copyOfRequest(spare, { signal: request?.signal ?? null })
    return isOnRequest ? copyOfRequest(request) : request
  }
  const call: AuthorizedCall<Response, Response> = {
    url,
    method: options.method ?? request?.method ?? 'GET',
    repeatable: canSendAgain(body),
    body,
    startWait: () => {
      const signal = options.signal === undefined ? request?.signal : options.signal
      return { signal: signal ?? undefined, end: () => {} }
    },
    send: ({ token, body: bodyToSend }) => {
      const tokenHeader = context.headerFor(token)
      const sentOptions: RequestInit = { ...options }
      if (body !== undefined) sentOptions.body = bodyToSend as typeof body
      sent = nextRequest()
      if (isOnRequest) sent?.headers.set(tokenHeader.name, tokenHeader.value)
      else sentOptions.headers = withHeader(headers, tokenHeader)
      return Promise.resolve(hasInit ? wrapped(sent ?? url, sentOptions) : wrapped(sent ?? url))
    },
    statusOf,
    rejectionOf,
    hold,
    settle: (response) => {
      if (sent !== undefined && isWebStream(response?.body)) sentFor.set(response.body, sent)
      return response
    },
  }
  const stream = hasRequestBody ? request.body : body
  if (!isWebStream(stream)) return authorize(call, context)
  return authorize(call, context)
    .catch((error: unknown) => {
      cancel(stream, error) // as fetch does when a call ends early
      throw error
    })
    .finally(() => cancel(spare?.body))
}

function cancel(stream: ReadableStream | null | undefined, reason?: unknown): void {
  if (stream && !stream.locked) stream.cancel(reason).catch(() => {})
}

/** Whether it is a Request, of the platform or of the undici package. */
function isRequest(value: unknown): value is Request {
  return isObject(value) && 'bodyUsed' in value
}

/**
 * The Requests that responses belong to. The caller has its own one, and in Node.js the signal of a Request that was garbage
 * collected aborts nothing, neither the call nor the body of its response.
 */
const sentFor = new WeakMap<ReadableStream, Request>()

/** A copy that has everything of a Request, in its class, which may be that of the undici package. */
function copyOfRequest(request: Request, init?: RequestInit): Request {
  const isGlobal: boolean = request instanceof Request
  const OwnRequest = isGlobal ? Request : (request.constructor as typeof Request)
  return new OwnRequest(request, init)
}

type RequestHeaders = Record<string, string> | Headers

/** A record is not parsed here. A `Headers` keeps the case of the names. */
function copyOf(given: NonNullable<RequestInit['headers']>): RequestHeaders {
  if (!(Symbol.iterator in given)) return { ...(given as Record<string, string>) }
  const copy = new Headers(given)
  // Mocks of fetch (msw, nock) replace Headers: a copy lacks what was not set through their class.
  for (const [name = '', value = ''] of given) if (!copy.has(name)) copy.set(name, value)
  return copy
}

/** Mocks return something else. */
const statusOf = (response: Response | undefined): number | undefined => response?.status

function rejectionOf({ headers, redirected }: Response): Rejection {
  return { challenge: headers?.get('www-authenticate'), redirected }
}

/** The caller may get the response itself, which has what no other one can have: its URL, for example. */
function hold(response: Response): HeldBody | undefined {
  const { body, headers } = response
  if (!isWebStream(body) || body.locked) return holdUnread(isNodeStream(body) ? body : undefined)
  if (isTooLarge(headers.get('content-length'))) return undefined
  const { body: copy } = response.clone()
  return holdCopy(copy as typeof body, async () => response.body?.cancel())
}

/** The token on fetch. */
import { startTimer } from '../clock.ts'
import type { AttachOptions, FetchLike } from '../options.ts'
import type { TokenProvider } from '../token/provider.ts'
import {
  type AttachContext,
  type AuthorizedCall,
  admit,
  authorize,
  createAttachContext,
  MAX_DRAINED_BYTES,
  MAX_DRAINING_MS,
  type Rejection,
} from './authorize.ts'
import { canSendAgain, isObject, isWebStream } from './body.ts'
import { hasHeader, withHeader } from './headers.ts'

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
  attach?: AttachOptions & { readonly fetch?: FetchLike | undefined },
): Fetch {
  const context = createAttachContext(tokens, attach, { fetch: true })
  const { fetch: given } = context
  const send = (wrapped: FetchLike, input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    try {
      return fetchWithToken(context, wrapped, input, init)
    } catch (error) {
      return Promise.reject(error) // fetch never throws
    }
  }
  if (given !== undefined) return (input, init) => send(given, input, init)
  // Otherwise the global fetch of each call; but where this one was made the global one, the fetch before it.
  const before = globalThis.fetch
  let isGlobal = false
  const checkGlobal = (): void => {
    isGlobal ||= globalThis.fetch === authFetch
  }
  const authFetch: Fetch = (input, init) => {
    checkGlobal()
    return send(isGlobal ? before : globalThis.fetch, input, init)
  }
  Promise.resolve().then(checkGlobal) // fake timers replace queueMicrotask
  return authFetch
}

function fetchWithToken(
  context: AttachContext,
  wrapped: FetchLike,
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<Response> {
  // Its members are getters, which the copy below would miss.
  if (isRequest(init)) return fetchWithToken(context, wrapped, new Request(input, init), undefined)
  const request = isRequest(input) ? input : undefined
  const url = request?.url ?? String(input)
  const headers = copyOf(init?.headers ?? request?.headers)
  const decision = admit(context, url, { header: hasHeader(headers, context.headerKey) })
  if (decision === 'foreign') return wrapped(input, init)
  if (decision !== 'attach')
    return wrapped(input, init).then((response) => {
      context.withheld.answered(decision, url, response.status)
      return response
    })

  const { isAuthorization, renewOnStatus } = context
  const options: RequestInit = { ...init } // now, because callers fill one object for many calls
  const body = options.body ?? undefined
  const hasRequestBody = body === undefined && !!request?.body && !request.bodyUsed
  // The first send consumes the body of a Request.
  let spare = hasRequestBody && renewOnStatus.length > 0 ? request.clone() : undefined
  let next = request ?? url
  // On a redirect to another origin, fetch removes no header but Authorization.
  if (!isAuthorization && (options.redirect ?? request?.redirect) !== 'error') options.redirect = 'manual'
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
      const sent = next
      next = spare ?? next
      if (sent === spare) spare = undefined
      const sentOptions: RequestInit = { ...options, headers: withHeader(headers, context.headerFor(token)) }
      if (body !== undefined) sentOptions.body = bodyToSend as typeof body
      return wrapped(sent, sentOptions)
    },
    statusOf,
    rejectionOf,
    settle,
    discard,
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

type RequestHeaders = Record<string, string> | Headers

/** A record is not parsed here. A `Headers` keeps the case of the names. */
function copyOf(given: RequestInit['headers']): RequestHeaders {
  if (given === undefined) return {}
  return Symbol.iterator in given ? new Headers(given) : { ...(given as Record<string, string>) }
}

const statusOf = (response: Response): number => response.status
const settle = (response: Response): Response => response

function rejectionOf({ headers, redirected }: Response): Rejection {
  return { challenge: headers?.get('www-authenticate'), redirected }
}

function discard(response: Response): void {
  drainIfSmall(response).catch(() => {})
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

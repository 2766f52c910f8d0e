/** The token on fetch. */
import type { AttachOptions, FetchLike } from '../options/options.ts'
import type { TokenProvider } from '../token/provider.ts'
import { admit, isWithheld } from './admit.ts'
import { type AuthorizedCall, authorize, type Rejection } from './authorize.ts'
import { canSendAgain, isConsumed, isNodeStream, isObject, isWebStream } from './body.ts'
import { type AttachContext, createAttachContext } from './context.ts'
import { copyOfHeaders, findHeader, withHeader } from './headers.ts'
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
 * ArrayBuffer, a view, or the body of a Request. Streams and generators are sent once: the caller gets the 401. So are
 * streams and forms of the form-data package in a Request of node-fetch, and bodies of the Requests of `@whatwg-node/fetch`.
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
  const send = (wrapped: FetchLike, args: FetchArguments): Promise<Response> => {
    try {
      if (typeof wrapped !== 'function') throw new TypeError(NO_FETCH)
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
  Promise.resolve().then(checkGlobal) // fake timers replace queueMicrotask
  return authFetch
}

const NO_FETCH =
  'There is no global fetch. In a test (jsdom), run it in the environment "node", or pass the option fetch.'

function fetchWithToken(context: AttachContext, wrapped: FetchLike, args: FetchArguments): Promise<Response> {
  const { 0: input, 1: init } = args // without an iterator, for which each call would pay
  const request = isRequest(input) ? input : undefined
  const url = request?.url ?? String(input)
  const initHeaders = init?.headers && copyOf(init.headers)
  const header = findHeader(initHeaders ?? request?.headers ?? {}, context.headerKey)
  const decision = admit(context, url, { header })
  context.withheld.decided(decision, url)
  if (decision !== 'attach') {
    const sent = Promise.resolve(wrapped(...args))
    if (!isWithheld(decision)) return sent
    return sent.then((response) => {
      context.withheld.answered(decision, url, statusOf(response))
      return response
    })
  }

  // Now, because callers fill one object for many calls.
  // A clone that nobody reads would keep the whole body.
  const spare = request === undefined && isRequest(init) ? spareOf(context, init, init.body) : undefined
  const options: RequestInit = isRequest(init) ? initOf(init) : { ...init }
  // On a redirect to another origin, fetch removes no header but Authorization.
  if (!context.isAuthorization && (options.redirect ?? request?.redirect) !== 'error')
    options.redirect = 'manual'
  if (request === undefined)
    return sendUrl(context, { wrapped, url, options, spare, headers: initHeaders ?? {} })
  const isAlone = init === undefined && options.redirect === undefined
  return sendRequest(context, { wrapped, url, options, request, isAlone, headers: initHeaders })
}

/** A call that gets the token. */
interface GivenCall {
  readonly wrapped: FetchLike
  readonly url: string
  readonly options: RequestInit
}

interface UrlCall extends GivenCall {
  readonly headers: RequestHeaders
  /** A clone of the Request that is the init. */
  readonly spare: Request | undefined
}

interface RequestCall extends GivenCall {
  readonly request: Request
  /** Whether there is no init. */
  readonly isAlone: boolean
  /** The headers of the init, which replace those of the Request. */
  readonly headers: RequestHeaders | undefined
}

/** Sends a call of a URL, with the token in its init. */
function sendUrl(
  context: AttachContext,
  { wrapped, url, options, spare, headers }: UrlCall,
): Promise<Response> {
  const body = options.body ?? undefined
  const call: AuthorizedCall<Response, Response> = {
    url,
    api: context.destinations(url).api,
    method: options.method ?? 'GET',
    repeatable: spare !== undefined || canSendAgain(body),
    body,
    startWait: () => ({ signal: options.signal ?? undefined, end: () => {} }),
    send: ({ token, body: bodyToSend, rejected, isLast }) => {
      const sentOptions: RequestInit = { ...options, headers: withHeader(headers, context.headerFor(token)) }
      if (body !== undefined) sentOptions.body = bodyToSend as typeof body
      if (spare !== undefined && rejected.length > 0) sentOptions.body = (isLast ? spare : spare.clone()).body
      return Promise.resolve(wrapped(url, sentOptions))
    },
    statusOf,
    rejectionOf,
    hold,
    settle,
  }
  return isWebStream(body)
    ? withStreams(authorize(call, context), () => [body], spare)
    : authorize(call, context)
}

/** A clone of a Request for further sends of its body, which the first one consumes. In @whatwg-node/fetch, it is the Request itself. */
function spareOf({ renewOnStatus }: AttachContext, request: Request, body: unknown): Request | undefined {
  const isOne = Object.prototype.toString.call(request) === '[object Request]' // not an object with its members
  if (!isOne || !isWebStream(body) || renewOnStatus.length === 0) return undefined
  const clone = request.clone()
  return clone === request ? undefined : clone
}

/**
 * Sends a Request. The token is where the headers of the call are: on a copy of it, which has all the others, or in the
 * init. A Request that cannot be copied whole is sent itself, with the token in the init.
 */
function sendRequest(context: AttachContext, given: RequestCall): Promise<Response> {
  const { wrapped, url, options, request, isAlone } = given
  const body = options.body ?? undefined
  const own: unknown = body === undefined && !request.bodyUsed ? request.body : undefined
  // Node-fetch clones a stream by pipes: whole only before it flows, and up to the size of their buffers.
  const hasStream = isWebStream(own)
  const foreign = isObject(own) && !hasStream ? own : undefined
  const spare = spareOf(context, request, own)
  // An instance of a subclass may have more than a copy would have.
  const isItself =
    foreign !== undefined ||
    (request instanceof Request && Object.getPrototypeOf(request) !== Request.prototype)
  const isInInit = given.headers !== undefined || body !== undefined || isItself
  const headers = given.headers ?? (isInInit ? copyOf(request.headers) : {})
  let sent = isInInit ? request : copyOfRequest(request)
  const call: AuthorizedCall<Response, Response> = {
    url,
    api: context.destinations(url).api,
    method: options.method ?? request.method,
    repeatable: hasStream ? spare !== undefined : foreign !== undefined || canSendAgain(body),
    body: body ?? foreign,
    startWait: () => {
      const signal = options.signal === undefined ? request.signal : options.signal
      return { signal: signal ?? undefined, end: () => {} }
    },
    send: ({ token, body: bodyToSend, rejected, isLast }) => {
      const header = context.headerFor(token)
      if (rejected.length > 0) {
        if (spare !== undefined) sent = copyOfClone(isLast ? spare : spare.clone(), request)
        else if (!isInInit) sent = copyOfRequest(request)
      }
      if (isInInit) {
        const init: RequestInit = { ...options, headers: withHeader(headers, header) }
        if (bodyToSend !== foreign) init.body = bodyToSend as NonNullable<typeof body>
        return Promise.resolve(wrapped(sent, init))
      }
      sent.headers.set(header.name, header.value)
      return Promise.resolve(isAlone ? wrapped(sent) : wrapped(sent, { ...options }))
    },
    statusOf,
    rejectionOf,
    hold: (response) => (isConsumed(foreign) ? undefined : hold(response)),
    settle: (response) => {
      if (isWebStream(response?.body)) sentFor.set(response.body, sent)
      return response
    },
  }
  if (!hasStream && !isWebStream(body)) return authorize(call, context)
  // In Bun, the Request itself keeps its stream.
  return withStreams(authorize(call, context), () => [body, sent.body, request.body], spare)
}

/** A call's answer. Streams that its client has not read when it fails are canceled, as by fetch, and a spare copy in any case. */
function withStreams(
  answer: Promise<Response>,
  streams: () => readonly unknown[],
  spare: Request | undefined,
): Promise<Response> {
  answer.then(
    () => cancel(spare?.body),
    (error: unknown) => {
      for (const stream of [...streams(), spare?.body]) cancel(stream, error)
    },
  )
  return answer
}

function cancel(stream: unknown, reason?: unknown): void {
  if (isWebStream(stream) && !stream.locked) stream.cancel(reason).catch(() => {})
}

/** Whether it is a Request, of the platform or of a package, or an object with its members, as gaxios makes it. */
function isRequest(value: unknown): value is Request {
  return isObject(value) && 'bodyUsed' in value
}

/** The members of an init that are getters of a Request. */
const MEMBERS = [
  'method',
  'headers',
  'body',
  'duplex',
  'signal',
  'redirect',
  'referrer',
  'referrerPolicy',
  'mode',
  'credentials',
  'cache',
  'integrity',
  'keepalive',
]

/** What a fetch of any class reads from a Request in the place of an init. */
function initOf(request: Request): RequestInit {
  const init: Record<string, unknown> = { ...request } // such as the agent of node-fetch
  for (const name of MEMBERS) init[name] = Reflect.get(request, name)
  return init
}

/**
 * The Requests that responses belong to. The caller has its own one, and in Node.js the signal of a Request that was garbage
 * collected aborts nothing, neither the call nor the body of its response.
 */
const sentFor = new WeakMap<ReadableStream, Request>()

/** A copy that has everything of a Request, in its class, which may be that of a package. */
function copyOfRequest(request: Request, init?: RequestInit): Request {
  const OwnRequest = request.constructor as typeof Request
  const copy = new OwnRequest(request, init)
  // @whatwg-node/fetch shares them.
  if (copy.headers === request.headers)
    Object.defineProperty(copy, 'headers', { value: copyOf(request.headers) })
  return copy
}

/** A copy of a clone of a Request that has everything of that Request. */
function copyOfClone(clone: Request, request: Request): Request {
  // In Node.js, the signal of a clone aborts nothing after a garbage collection. An init resets the referrer.
  const { signal, referrer, referrerPolicy } = request
  const copy = copyOfRequest(clone, { signal, referrer, referrerPolicy }) as Request & Record<symbol, unknown>
  // In Node.js 22, a clone lacks the dispatcher, which is a property with a symbol.
  for (const key of Object.getOwnPropertySymbols(request)) copy[key] ??= (request as typeof copy)[key]
  return copy
}

type RequestHeaders = Record<string, string> | Headers

/** A record is not parsed here. A `Headers` keeps the case of the names. */
function copyOf(given: NonNullable<RequestInit['headers']>): RequestHeaders {
  if (!(Symbol.iterator in given)) return { ...(given as Record<string, string>) }
  const isGlobal: boolean = given instanceof Headers
  if (!isGlobal && Object.prototype.toString.call(given) === '[object Headers]')
    return copyOfHeaders(given as unknown as Headers)
  const copy = new Headers(given)
  // Mocks of fetch (msw, nock) replace Headers: a copy lacks what was not set through their class.
  for (const [name = '', value = ''] of given) if (!copy.has(name)) copy.set(name, value)
  return copy
}

/** Mocks return something else. */
const statusOf = (response: Response | undefined): number | undefined => response?.status

const settle = (response: Response): Response => response

function rejectionOf({ headers, redirected, url }: Response): Rejection {
  return { challenge: headers?.get('www-authenticate'), redirectedTo: redirected ? url : undefined }
}

/** The caller may get the response itself, which has what no other one can have: its URL, for example. */
function hold(response: Response): HeldBody | undefined {
  const { body, headers } = response
  if (!isWebStream(body) || body.locked) return holdUnread(isNodeStream(body) ? body : undefined)
  if (isTooLarge(headers.get('content-length'))) return undefined
  const { body: copy } = response.clone()
  return holdCopy(copy as typeof body, async () => response.body?.cancel())
}

/**
 * The token on undici: which calls of a dispatcher get it.
 *
 * @module merchant-auth/undici
 */
import type { AttachOptions } from '../options.ts'
import type { TokenProvider } from '../token/provider.ts'
import { type AttachContext, createAttachContext, type WithheldReason, whyWithheld } from './context.ts'
import { snapshotOf } from './replay.ts'
import { type CallOptions, type CallParts, putOn, UndiciCall } from './undici-call.ts'
import { areHeaders, copyOfHeaders, hasHeader } from './undici-headers.ts'
import type { Dispatch, DispatchHandler, DispatchOptions, UndiciInterceptor } from './undici-types.ts'

export type { UndiciInterceptor } from './undici-types.ts'

/**
 * An interceptor for undici's `dispatcher.compose(…)`: it puts the token on calls below the environment's `apiUrls`,
 * renews it once when an API answers 401, and then makes the call once more. All other calls pass through untouched.
 *
 * Sent again are calls without a body, and those whose body is a string, a Buffer or another view, an ArrayBuffer, a
 * Blob or a FormData. Streams, iterables and generators are sent once, and the caller gets the 401. So it is with every
 * body that undici's `fetch` sends: for fetch, `createAuthFetch` is the better choice.
 *
 * A call that waits for a token is none of the dispatcher's yet: its `close()` fails it.
 *
 * In `compose(…)` it comes after `dns`, `cache` and `deduplicate`, which have to know what is sent, and before `retry`,
 * `redirect` and the others: then each attempt and each place that a redirect leads to is judged by itself.
 *
 * Use an Agent, which connects to the origin that a call names. Not every version tells interceptors where a Client or
 * Pool is connected to: name the `origin` in their calls, or they get no token.
 *
 * Errors of `TokenProvider.getToken` reach the caller as errors of the call do.
 *
 * @param tokens the provider, which any number of dispatchers may share
 * @param attach the header, its scheme, the statuses that renew. With a header other than `Authorization` an
 *   interceptor below this one follows no redirects: the caller gets the 3xx
 * @returns what `dispatcher.compose(…)` takes, of undici 7.1.1 or newer
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option
 * @example
 * const dispatcher = new Agent().compose(createAuthDispatch(tokens))
 * const { statusCode, body } = await request('https://api.test.example.com/merchant/orders', { dispatcher })
 */
export function createAuthDispatch(tokens: TokenProvider, attach?: AttachOptions): UndiciInterceptor {
  const context = createAttachContext(tokens, attach)
  const isPlainlyWithin = plainlyWithin(tokens.environment.apiUrls)
  const isElsewhere = connectionWatch()
  const whyWithheldAt = (origin: string, options: DispatchOptions): WithheldReason | undefined =>
    isPlainlyWithin(origin, options) ? undefined : whyNot(context, origin, options)
  /** Reads all that the caller gave, once: what is judged is what is sent. */
  const judge = (given: DispatchOptions, handler: DispatchHandler, connected?: string | null): Judged => {
    const options = { ...given }
    if (options.origin instanceof URL) options.origin = new URL(options.origin)
    const origin = originOf(connected === undefined ? options.origin : connected)
    const isUncertain = connected === undefined && isElsewhere(handler, origin)
    const withheld = isUncertain ? 'destination' : whyWithheldAt(origin, options)
    if (withheld !== undefined) {
      context.emitWithheld(withheld, urlOf(origin, options))
      return { options: given }
    }
    const headers = copyOfHeaders(options.headers)
    if (!areHeaders(headers)) return { options: { ...options, headers } }
    const call: CallOptions = Object.assign(options, { headers })
    if (hasHeader(headers, context.headerKey)) {
      context.emitWithheld('own-header', urlOf(origin, options))
      return { options: call }
    }
    if (context.renewOnStatus.length > 0) call.body = copyOfBody(call.body)
    if (isObject(call.query)) call.query = { ...call.query }
    return { options: call, origin }
  }
  // Newer dispatchers say where they connect to, whatever a call names; null: to one of several places.
  const intercept =
    (dispatch: Dispatch, connected?: string | null): Dispatch =>
    (given, handler) => {
      // What other values are, undici has to say. It gives interceptors no handlers of the older kind.
      if (!isObject(given) || !isHandler(handler)) return dispatch(given, handler)
      let judged: Judged
      try {
        judged = judge(given, handler, connected)
      } catch (error) {
        handler.onResponseError?.(null, error) // as undici has it, where options cannot be read
        return false
      }
      if (judged.origin === undefined) return dispatch(judged.options, handler)
      return sendWithToken({ context, dispatch, handler, ...judged })
    }
  // By its public type it takes and gives the dispatch function of whichever version of undici composes it.
  return intercept as unknown as UndiciInterceptor
}

/**
 * Says whether a call comes by a second time, and for another origin. undici before 8.10.2 does not say where a dispatcher
 * is connected: by a Client, what a redirect names would go to where the redirect came from.
 */
function connectionWatch(): (handler: DispatchHandler, origin: string) => boolean {
  const origins = new WeakMap<DispatchHandler, string>()
  return (handler, origin) => {
    const first = origins.get(handler)
    if (first === undefined) origins.set(handler, origin)
    return first !== undefined && first !== origin
  }
}

/** What a call is made with, and where it goes, if that is with the token. */
type Judged =
  | { readonly options: CallOptions; readonly origin: string }
  | { readonly options: DispatchOptions; readonly origin?: undefined }

function sendWithToken(parts: CallParts): boolean {
  const { context, dispatch, options, handler } = parts
  const token = context.tokens.currentToken()
  if (token === undefined) {
    new UndiciCall(parts).sendLater()
    return true
  }
  if (context.renewOnStatus.length > 0) return new UndiciCall(parts).send(token)
  putOn(options, context, token)
  return dispatch(options, handler)
}

/** The text of an origin; '' where it is none to undici. */
function originOf(origin: unknown): string {
  const text = typeof origin === 'string' || origin instanceof URL ? String(origin) : ''
  return text.endsWith('/') ? text.slice(0, -1) : text
}

function urlOf(origin: string, { path }: DispatchOptions): string {
  return typeof path === 'string' ? origin + path : origin
}

/** Letters, digits and the few other characters that mean nothing to a resolver, up to the query. */
const PLAIN_REST = /[\w/~-]*(?:$|\?)/y

/** Says yes in the common case: the letters of an API's URL, and nothing else to be resolved. */
function plainlyWithin(apiUrls: readonly string[]): (origin: string, options: DispatchOptions) => boolean {
  const apis = apiUrls.map((url) => {
    const { origin, pathname } = new URL(url)
    return { origin, start: pathname.endsWith('/') ? pathname : `${pathname}/` }
  })
  return (origin, options) => {
    const path = options?.path
    if (typeof path !== 'string' || options.method === 'CONNECT' || path.includes('/oauth/token'))
      return false
    for (const api of apis) {
      if (api.origin !== origin || !path.startsWith(api.start)) continue
      PLAIN_REST.lastIndex = api.start.length
      return PLAIN_REST.test(path)
    }
    return false
  }
}

/** What resolution changes in a path, or cuts off. */
const UNRESOLVED = /[\\#]|\/(?:\.|%2e)/i

/** Why a call goes without the token, as far as its place tells. */
function whyNot(
  context: AttachContext,
  origin: string,
  options: DispatchOptions | undefined,
): WithheldReason | undefined {
  const path = options?.path
  if (typeof path !== 'string' || path[0] !== '/' || options?.method === 'CONNECT') return 'destination'
  const url = origin + path
  const withheld = whyWithheld(context, url, false)
  if (withheld !== undefined) return withheld
  // undici sends a path as it is given. What a server makes of one that is not resolved is not for us to say.
  const isResolved = !UNRESOLVED.test(path) || new URL(url).pathname === path.split('?', 1)[0]
  return isResolved ? undefined : 'destination'
}

/** Bytes as they are now: a second attempt is like the first. */
function copyOfBody(body: unknown): unknown {
  const isBytes = ArrayBuffer.isView(body) || body instanceof ArrayBuffer
  return isBytes && body.byteLength > 0 ? snapshotOf(body as Uint8Array<ArrayBuffer>) : body
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isHandler(value: DispatchHandler | null): boolean {
  return (
    typeof value === 'object' &&
    typeof value?.onRequestStart === 'function' &&
    typeof value.onResponseError === 'function'
  )
}

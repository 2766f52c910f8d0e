/**
 * The token on undici: which calls of a dispatcher get it.
 *
 * @module merchant-auth/undici
 */
import type { AttachOptions } from '../options.ts'
import type { TokenProvider } from '../token/token-provider.ts'
import { type AttachContext, createAttachContext, type WithheldReason, whyWithheld } from './context.ts'
import { snapshotOf } from './replay.ts'
import { type CallOptions, type CallParts, putOn, UndiciCall } from './undici-call.ts'
import { copyOfHeaders, hasHeader, type RequestHeaders, readableHeaders } from './undici-headers.ts'
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
  // Newer dispatchers say where they connect to, whatever a call names; null: to one of several places.
  const intercept =
    (dispatch: Dispatch, connected?: string | null): Dispatch =>
    (options, handler) => {
      // undici gives interceptors no handlers of the older kind: what this one is, undici has to say.
      if (typeof handler?.onRequestStart !== 'function') return dispatch(options, handler)
      const origin = originOf(connected === undefined ? options?.origin : connected)
      const isUncertain = connected === undefined && isElsewhere(handler, origin)
      const withheld = isUncertain ? 'destination' : whyWithheldAt(origin, options)
      if (withheld !== undefined) {
        context.emitWithheld(withheld, origin + options?.path)
        return dispatch(options, handler)
      }
      const headers = readableHeaders(options.headers)
      if (!hasHeader(headers, context.headerKey)) {
        const copy = copyOf(options, headers, context.renewOnStatus.length > 0)
        return sendWithToken({ context, dispatch, options: copy, handler, origin })
      }
      context.emitWithheld('own-header', origin + options.path)
      return dispatch(headers === options.headers ? options : { ...options, headers }, handler)
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

function sendWithToken(parts: CallParts): boolean {
  const { context, dispatch, options, handler } = parts
  const token = context.tokens.currentToken()
  if (token === undefined) {
    options.headers = copyOfHeaders(options.headers)
    new UndiciCall(parts).sendLater()
    return true
  }
  if (context.renewOnStatus.length > 0) return new UndiciCall(parts).send(token)
  putOn(options, context, token)
  return dispatch(options, handler)
}

function originOf(origin: unknown): string {
  const text = typeof origin === 'string' ? origin : String(origin)
  return text.endsWith('/') ? text.slice(0, -1) : text
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

/** The options as they are now: a call that waits, or is made again, is the one that was asked for. */
function copyOf(options: DispatchOptions, headers: RequestHeaders, keepsBody: boolean): CallOptions {
  const copy: CallOptions = { ...options, headers }
  const { body } = copy
  if (keepsBody && (ArrayBuffer.isView(body) || body instanceof ArrayBuffer))
    copy.body = snapshotOf(body as Uint8Array)
  if (typeof copy.origin === 'object') copy.origin = originOf(copy.origin)
  if (typeof copy.query === 'object' && copy.query !== null) copy.query = { ...copy.query }
  return copy
}

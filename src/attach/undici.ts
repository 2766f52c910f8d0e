/**
 * The token on undici: which calls of a dispatcher get it.
 *
 * @module merchant-auth/undici
 */
import type { AttachOptions } from '../options.ts'
import type { TokenProvider } from '../token/provider.ts'
import { createAttachContext, getsToken } from './authorize.ts'
import { snapshotOf } from './body.ts'
import { areUndiciHeaders, copyUndiciHeaders, hasUndiciHeader } from './headers.ts'
import { type CallOptions, type CallParts, RedirectWatch, UndiciCall } from './undici-call.ts'
import type { Dispatch, DispatchHandler, DispatchOptions, UndiciInterceptor } from './undici-types.ts'

export type { UndiciInterceptor } from './undici-types.ts'

/**
 * An interceptor for undici's `dispatcher.compose(…)`: it attaches the token to calls below the environment's `apiUrls`.
 * When an API answers 401, it renews the token once and repeats the call. All other calls pass through unchanged.
 *
 * Calls without a body are repeated, and calls whose body is a string, a Buffer or another view, an ArrayBuffer, a Blob
 * or a FormData. Streams, iterables and generators are sent once: the caller gets the 401. undici's `fetch` sends every
 * body as an iterable: for fetch, use `createAuthFetch`.
 *
 * A call that waits for a token is not the dispatcher's yet: its `close()` fails the call.
 *
 * The order in `compose(…)`: `dns`, `cache` and `deduplicate`, which need to know what is sent; this one; `redirect`; then
 * `retry` and the others, so that each attempt is checked separately. With `retry` or `decompress` between it and `redirect`
 * it does not recognize every redirect: one from another origin to an API may be sent with the token.
 *
 * Use an Agent, which connects to the origin that a call names. Older versions do not tell interceptors where a Client or
 * Pool connects: name the `origin` in their calls, or they get no token.
 *
 * Errors of `TokenProvider.getToken` reach the caller as errors of the call do.
 *
 * @param tokens the provider, which any number of dispatchers may share
 * @param attach the header, its scheme, the statuses that renew. With a header other than `Authorization`, interceptors
 *   below this one follow no redirects: the caller gets the 3xx
 * @returns an interceptor for `dispatcher.compose(…)` of undici 7.1.1 or newer
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option
 * @example
 * const dispatcher = new Agent().compose(createAuthDispatch(tokens))
 * const { statusCode, body } = await request('https://api.test.example.com/merchant/orders', { dispatcher })
 */
export function createAuthDispatch(tokens: TokenProvider, attach?: AttachOptions): UndiciInterceptor {
  const context = createAttachContext(tokens, attach)
  const redirects = new RedirectWatch()
  /** Reads everything the caller gave once, so that what is checked is what is sent. */
  const judge = (given: DispatchOptions, handler: DispatchHandler, connected?: string | null): Judged => {
    const options = { ...given }
    if (options.origin instanceof URL) options.origin = new URL(options.origin)
    const origin = originOf(connected === undefined ? options.origin : connected)
    // One that says where it connects sends every call there.
    const first =
      connected === undefined ? redirects.firstOrigin(handler, origin, urlOf(origin, options)) : origin
    const redirected = !isSameOrigin(first, origin)
    if (redirected || !isResolved(origin, options)) {
      context.emitWithheld('destination', urlOf(origin, options))
      return redirected ? { options: given, origin: first, redirected } : { options: given }
    }
    const url = urlOf(origin, options)
    if (!getsToken(context, url, {})) return { options: given }
    const headers = copyUndiciHeaders(options.headers)
    if (!areUndiciHeaders(headers)) return { options: { ...options, headers } }
    const call: CallOptions = Object.assign(options, { headers })
    if (hasUndiciHeader(headers, context.headerKey)) {
      context.emitWithheld('own-header', url)
      return { options: call }
    }
    if (context.renewOnStatus.length > 0) call.body = copyOfBody(call.body)
    if (isObject(call.query)) call.query = { ...call.query }
    return { options: call, origin }
  }
  // Newer dispatchers say where they connect, whatever origin a call names; null: to one of several origins.
  const intercept =
    (dispatch: Dispatch, connected?: string | null): Dispatch =>
    (given, handler) => {
      // undici itself rejects other values. It passes no handlers of the older kind to interceptors.
      if (!isObject(given) || !isHandler(handler)) return dispatch(given, handler)
      let judged: Judged
      try {
        judged = judge(given, handler, connected)
      } catch (error) {
        handler.onResponseError(null, error) // as undici does, when options cannot be read
        return false
      }
      if (judged.origin === undefined) return dispatch(judged.options, handler)
      const parts = { context, dispatch, handler, redirects, origin: judged.origin }
      if (!judged.redirected) return sendWithToken({ ...parts, options: judged.options })
      const url = urlOf(originOf(judged.options.origin), judged.options)
      return new UndiciCall({ ...parts, options: { headers: [] } }).sendUnchanged(judged.options, url)
    }
  // Its public type takes and returns the dispatch function of any version of undici.
  return intercept as unknown as UndiciInterceptor
}

/** The options of a call, and its origin if it gets the token, or was redirected to another one. */
type Judged =
  | { readonly options: CallOptions; readonly origin: string; readonly redirected?: undefined }
  | { readonly options: DispatchOptions; readonly origin: string; readonly redirected: true }
  | { readonly options: DispatchOptions; readonly origin?: undefined }

function sendWithToken(parts: CallParts): boolean {
  const call = new UndiciCall(parts)
  const token = parts.context.tokens.currentToken()
  if (token !== undefined) return call.send(token)
  call.sendLater()
  return true
}

/** The text of an origin; '' if undici would reject it. */
function originOf(origin: unknown): string {
  const text = typeof origin === 'string' || origin instanceof URL ? String(origin) : ''
  return text.endsWith('/') ? text.slice(0, -1) : text
}

/** Whether two origins are the same one. undici's redirect interceptor names it in its shortest form, in lower case. */
function isSameOrigin(one: string, other: string): boolean {
  if (one === other) return true
  return URL.canParse(one) && URL.canParse(other) && new URL(one).href === new URL(other).href // with its user info
}

function urlOf(origin: string, { path }: DispatchOptions): string {
  return typeof path === 'string' ? origin + path : origin
}

/** Parts of a path that URL resolution changes or cuts off. */
const UNRESOLVED = /[\\#]|\/(?:\.|%2e)/i

/** Whether the path is sent as the URL says: undici sends a path as given, and servers may resolve it. */
function isResolved(origin: string, { path, method }: DispatchOptions): boolean {
  if (typeof path !== 'string' || path[0] !== '/' || method === 'CONNECT') return false
  if (!UNRESOLVED.test(path)) return true
  return URL.canParse(origin + path) && new URL(origin + path).pathname === path.split('?', 1)[0]
}

/** A copy of bytes, so that a second attempt is like the first. */
function copyOfBody(body: unknown): unknown {
  const isBytes = ArrayBuffer.isView(body) || body instanceof ArrayBuffer
  return isBytes ? snapshotOf(body as Uint8Array<ArrayBuffer>) : body
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isHandler(value: Partial<DispatchHandler> | null): boolean {
  return (
    typeof value === 'object' &&
    typeof value?.onRequestStart === 'function' &&
    typeof value.onResponseError === 'function'
  )
}

/**
 * The token on undici: which calls of a dispatcher get it.
 *
 * @module merchant-auth/undici
 */
import type { AttachOptions } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import { type AttachContext, createAttachContext, shouldAttach } from './authorize.ts'
import { isObject } from './body.ts'
import { UndiciCall } from './undici-call.ts'
import type {
  Dispatch,
  DispatchOptions,
  FlatHeaders,
  HeaderPairs,
  HeaderValue,
  UndiciHeaders,
  UndiciInterceptor,
} from './undici-types.ts'

export type { UndiciInterceptor } from './undici-types.ts'

/**
 * An interceptor for undici's `dispatcher.compose(…)`: it attaches the token to calls below the environment's `apiUrls`.
 * When an API answers 401, it renews the token once and repeats the call. All other calls pass through unchanged.
 *
 * Calls without a body are repeated, and calls whose body is a string, a Buffer or another view, an ArrayBuffer, a Blob
 * or a FormData. Streams, iterables and generators are sent once: the caller gets the 401. undici's `fetch` sends every
 * body as an iterable, and every redirect as a call of its own: for fetch, use `createAuthFetch`.
 *
 * The order in `compose(…)`: `dns`, `cache`, `deduplicate`, `retry` and `redirect` first, then this one. A redirect
 * interceptor that comes after it makes a redirect from another origin to an API a call with the token.
 *
 * A call that waits for a token is not the dispatcher's yet: its `close()` fails the call.
 *
 * Use an Agent, which connects to the origin that a call names. Older versions do not tell interceptors where a Client or
 * Pool connects: name the `origin` in their calls, or they get no token.
 *
 * Errors of `TokenProvider.getToken` reach the caller as errors of the call do.
 *
 * @param tokens the provider, which any number of dispatchers may share
 * @param attach the header, its scheme, the statuses that renew. With a header other than `Authorization`, a redirect
 *   interceptor before this one follows no redirects: the caller gets the 3xx
 * @returns an interceptor for `dispatcher.compose(…)` of undici 7.1.1 or newer
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option
 * @example
 * const dispatcher = new Agent().compose(createAuthDispatch(tokens))
 * const { statusCode, body } = await request('https://api.test.example.com/merchant/orders', { dispatcher })
 */
export function createAuthDispatch(tokens: TokenProvider, attach?: AttachOptions): UndiciInterceptor {
  const context = createAttachContext(tokens, attach)
  // Newer dispatchers say where they connect, whatever origin a call names; null: to one of several origins.
  const intercept =
    (dispatch: Dispatch, connected?: string | null): Dispatch =>
    (given, handler) => {
      // undici rejects these itself.
      if (!isObject(given) || !isObject(handler) || !isObject(given.headers ?? {}))
        return dispatch(given, handler)
      const url = urlOf(given, connected)
      if (!isResolved(given)) {
        context.emitWithheld('destination', url)
        return dispatch(given, handler)
      }
      // A copy, because callers use one object for several calls, and a generator can be read only once.
      const options = { ...given, headers: copyOf(given.headers) }
      if (!shouldAttach(context, url, { header: hasHeader(options.headers, context.headerKey) }))
        return dispatch(isPairs(given.headers) ? options : given, handler)
      const optionsWith = (token: AccessToken, body: unknown): DispatchOptions => {
        const sent = { ...options, body, headers: withHeader(options.headers, context, token) }
        // On a redirect to another origin, undici's redirect interceptor removes no header but Authorization.
        return context.isAuthorization ? sent : { ...sent, maxRedirections: 0 }
      }
      return new UndiciCall({ context, dispatch, handler, url, body: given.body, optionsWith }).start()
    }
  // Its public type takes and returns the dispatch function of any version of undici.
  return intercept as unknown as UndiciInterceptor
}

function urlOf({ origin, path }: DispatchOptions, connected: string | null | undefined): string {
  const text = String((connected === undefined ? origin : connected) ?? '')
  return (text.endsWith('/') ? text.slice(0, -1) : text) + path
}

/** The path of a request that a server may resolve to another one: undici sends it as given. */
const UNRESOLVED = /^[^?]*(?:[\\#]|\/(?:\.|%2e){1,2}(?:[/?]|$))/i

/** Whether the URL of the call is its origin and its path, in every server's eyes. */
function isResolved({ path, method }: DispatchOptions): boolean {
  return typeof path === 'string' && path[0] === '/' && method !== 'CONNECT' && !UNRESOLVED.test(path)
}

/** Whether it is neither a record nor a flat list. */
function isPairs(headers: UndiciHeaders): headers is HeaderPairs {
  return isObject(headers) && Symbol.iterator in headers && !isList(headers)
}

function copyOf(headers: UndiciHeaders): FlatHeaders {
  if (isPairs(headers)) return [...headers].flat()
  return isList(headers) ? [...headers] : { ...headers }
}

/** Whether there is a header of this name. undici ignores undefined values. */
function hasHeader(headers: FlatHeaders, key: string): boolean {
  if (isList(headers))
    return headers.some((name, at) => at % 2 === 0 && isNamed(name, key) && headers[at + 1] !== undefined)
  for (const name in headers) if (isNamed(name, key) && headers[name] !== undefined) return true
  return false
}

function isNamed(name: HeaderValue, key: string): boolean {
  return name?.length === key.length && String(name).toLowerCase() === key
}

function withHeader(headers: FlatHeaders, context: AttachContext, token: AccessToken): FlatHeaders {
  const value = context.headerValue(token)
  return isList(headers) ? [...headers, context.header, value] : { ...headers, [context.header]: value }
}

function isList(headers: unknown): headers is readonly HeaderValue[] {
  return Array.isArray(headers)
}

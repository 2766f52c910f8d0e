/**
 * The token on undici: which calls of a dispatcher get it.
 *
 * @module merchant-auth/undici
 */
import type { AttachOptions } from '../../options/options.ts'
import type { TokenProvider } from '../../token/provider.ts'
import { admit } from '../admit.ts'
import { isObject } from '../body.ts'
import { createAttachContext } from '../context.ts'
import { findHeader, type HeaderList, isHeaderList } from '../headers.ts'
import { UndiciCall } from './call.ts'
import type {
  Dispatch,
  DispatchOptions,
  HeaderPairs,
  HeaderValue,
  UndiciHeaders,
  UndiciInterceptor,
} from './types.ts'

export type { UndiciInterceptor } from './types.ts'

/**
 * An interceptor for undici's `dispatcher.compose(…)`: it attaches the token to calls below the environment's `apiUrls`.
 * When an API returns 401, it renews the token once and repeats the call. All other calls pass through unchanged.
 *
 * Calls without a body are repeated, and calls whose body is a string, a Buffer or another view, an ArrayBuffer, a Blob
 * or a FormData. Streams, iterables and generators are sent once: the caller gets the 401. undici's `fetch` sends every
 * body as an iterable, and every redirect as a call of its own: for fetch, use `createAuthFetch`.
 *
 * The order in `compose(…)`: `dns`, `cache`, `deduplicate`, `retry` and `redirect` first, then this one, then the others.
 * A redirect interceptor that comes after it makes a redirect from another origin to an API a call with the token. With
 * `responseError` before it, which turns a 401 into an error, the token is not renewed.
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
  const targetOf = createTargetOf()
  // Newer dispatchers say where they connect, whatever origin a call names; null: to one of several origins.
  const intercept =
    (dispatch: Dispatch, connected?: string | null): Dispatch =>
    (given, handler) => {
      // undici says itself what is wrong with the handlers of older versions.
      if (typeof handler.onRequestStart !== 'function') return dispatch(given, handler)
      const { url, isResolved } = targetOf(given, connected)
      if (!isResolved || given.method === 'CONNECT') {
        context.withheld.decided('destination', url)
        return dispatch(given, handler)
      }
      const isRead = isPairs(given.headers)
      const headers = isRead ? recordOf(given.headers) : (given.headers ?? {})
      const options = isRead ? { ...given, headers } : given // a generator of headers can be read only once
      const decision = admit(context, url, { header: findHeader(headers, context.headerKey) })
      context.withheld.decided(decision, url)
      if (decision !== 'attach') return dispatch(options, handler)
      return new UndiciCall({ context, dispatch, handler, url, options, headers }).start()
    }
  // Its public type takes and returns the dispatch function of any version of undici.
  return intercept as unknown as UndiciInterceptor
}

/** Where a call goes. */
interface Target {
  readonly path: string
  readonly url: string
  /** Whether the URL is the origin and the path, in every server's eyes. */
  readonly isResolved: boolean
}

/** The path of a request that a server may resolve to another one: undici sends it as given. */
const UNRESOLVED = /^[^?]*(?:[\\#]|\/(?:\.|%2e){1,2}(?:[/?]|$))/i

/** Finds out where a call goes. The next one often goes there, too, such as each that creates a payment. */
function createTargetOf() {
  let last: Target | undefined
  return ({ origin: named, path }: DispatchOptions, connected: string | null | undefined): Target => {
    const origin = String((connected === undefined ? named : connected) ?? '')
    const url = (origin.endsWith('/') ? origin.slice(0, -1) : origin) + path
    if (url !== last?.url || path !== last.path) {
      // An absolute URL as the path is for a proxy, which would see the token.
      last = { path, url, isResolved: path[0] === '/' && !UNRESOLVED.test(path) }
    }
    return last
  }
}

/** Whether it is neither a record nor a flat list. */
function isPairs(headers: UndiciHeaders): headers is HeaderPairs {
  if (isHeaderList(headers)) return isHeaderList(headers[0])
  return isObject(headers) && Symbol.iterator in headers
}

/** A record, which all interceptors take; a name that occurs more than once has a list of values. */
function recordOf(pairs: HeaderPairs): Readonly<Record<string, HeaderValue>> {
  const record: Record<string, HeaderValue> = {}
  for (const [name, value] of pairs) {
    const earlier = record[name]
    record[name] = earlier === undefined ? value : ([earlier, value].flat() as HeaderList as string[])
  }
  return record
}

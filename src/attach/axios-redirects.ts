/** Redirects of axios calls: the token stays on the origin of the call and within `apiUrls`. */
import type { Destinations } from '../destinations.ts'
import type { AxiosBeforeRedirect, AxiosConfig, AxiosRedirect } from './axios-types.ts'
import { type Header, headerName } from './headers.ts'

/** What decides whether a redirect keeps the token. */
export interface RedirectRule {
  /** A URL on the origin of the call. */
  readonly url: string
  /** The header that carries the token. */
  readonly header: Header
  readonly destinations: Destinations
  /** The caller's own `beforeRedirect`, which is called first. */
  readonly given: AxiosBeforeRedirect | undefined
}

/** The `beforeRedirect` of axios' http adapter: it deletes the token where the request is redirected elsewhere. */
export function createRedirectGuard(
  { url, header, destinations, given }: RedirectRule,
  onRedirect = (): void => {},
): AxiosBeforeRedirect {
  return (options, ...rest) => {
    onRedirect()
    const target = targetOf(options)
    given?.(options, ...rest)
    const mayKeep =
      targetOf(options) === target && // otherwise the caller sends the request elsewhere
      new URL(options.href).origin === new URL(url).origin &&
      destinations(options.href).api !== undefined
    const name = headerName(options.headers, header.key)
    if (!mayKeep && name !== undefined && options.headers[name] === header.value) delete options.headers[name]
  }
}

/** What Node.js will request: with a proxy it differs from `href`. */
function targetOf({ protocol, hostname, port, path }: AxiosRedirect): string {
  return `${protocol}//${hostname}:${port}${path}`
}

/** For axios' fetch adapter: fetch would send any header but `Authorization` along to another origin. */
export function withoutRedirects(options: AxiosConfig['fetchOptions']): AxiosConfig['fetchOptions'] {
  return options?.redirect === 'error' ? options : { ...options, redirect: 'manual' }
}

/** The Requests of axios' fetch adapter whose response came by a redirect, which its response does not say. */
const redirected = new WeakSet<object>()
const watching = new WeakMap<typeof fetch, typeof fetch>()

const globalFetch: typeof fetch = (input, init) => globalThis.fetch(input, init)

/** A fetch that notes redirected Requests. The same function for each fetch, because axios keeps an adapter for each. */
export function watchRedirects(given: typeof fetch = globalFetch): typeof fetch {
  const watched = watching.get(given) ?? watchedFetch(given)
  watching.set(given, watched)
  return watched
}

function watchedFetch(given: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await given(input, init)
    if (response.redirected && typeof input === 'object') redirected.add(input)
    return response
  }
}

/** Whether this is a Request of axios' fetch adapter that was redirected. */
export function wasRedirected(request: unknown): boolean {
  return redirected.has(request as object)
}

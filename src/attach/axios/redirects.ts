/** Redirects of axios calls: the token stays on the origin of the call and within `apiUrls`. */
import { type Destinations, mayKeepToken } from '../../environment/destinations.ts'
import { type Header, headerName } from '../headers.ts'
import type { AxiosBeforeRedirect, AxiosConfig, AxiosRedirect } from './types.ts'

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
  onLeave = (): void => {},
): AxiosBeforeRedirect {
  return (options, ...rest) => {
    const target = targetOf(options)
    given?.(options, ...rest)
    const isChanged = targetOf(options) !== target // the caller sends the request elsewhere
    if (!isChanged && mayKeepToken(url, options.href, destinations)) return
    onLeave()
    const name = headerName(options.headers, header.key)
    if (name !== undefined && options.headers[name] === header.value) delete options.headers[name]
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

/** Where the Requests of axios' fetch adapter were redirected to, which its response does not say. */
const redirected = new WeakMap<object, string>()
const watching = new WeakMap<typeof fetch, typeof fetch>()

const globalFetch: typeof fetch = (input, init) => globalThis.fetch(input, init)

/** A fetch that notes redirected Requests. The same function for each fetch, because axios keeps an adapter for each. */
export function watchRedirects(given: typeof fetch = globalFetch): typeof fetch {
  const known = watching.get(given)
  if (known !== undefined) return known
  const watched: typeof fetch = async (input, init) => {
    const response = await given(input, init)
    if (response.redirected && typeof input === 'object') redirected.set(input, response.url)
    return response
  }
  watching.set(given, watched)
  return watched
}

/** Where a Request of axios' fetch adapter was redirected to; undefined if it was not. */
export function redirectTargetOf(request: unknown): string | undefined {
  return redirected.get(request as object)
}

/** Which URLs may get the token: decided on the URL that is sent, after parsing has resolved dot segments and backslashes. */

import { parseUrl } from '../base/urls.ts'
import { type Api, apisOf, type Environment, tokenEndpoint } from './environment.ts'

/** How a URL relates to an environment. */
export interface Destination {
  /** The `apiUrls` entry that the URL is below; undefined if the URL may not get the token. */
  readonly api: Api | undefined
  /** Whether an API is on the URL's origin, but the URL is below none. */
  readonly isOnApiOrigin: boolean
  readonly isTokenEndpoint: boolean
  /** Whether the URL contains a user name or a password. */
  readonly hasUserInfo: boolean
}

/** Classifies an absolute URL. */
export type Destinations = (url: string) => Destination

/** One `apiUrls` entry, prepared for comparison. */
interface Base extends Api {
  readonly origin: string
  /** The path without a trailing slash. */
  readonly path: string
  /** The result for a plain URL below this entry. */
  readonly destination: Destination
}

/**
 * The rest of a URL after a known base URL, if it needs no parsing: up to the query or fragment it contains nothing that
 * a parser would resolve (dot segments, backslashes, percent signs, control characters).
 */
const PLAIN_REST = /\/(?:[\w~!$&'()*+,;=:@/-]|(?<=\w)\.(?=\w))*(?:$|[?#])/y

const NOWHERE: Destination = {
  api: undefined,
  isOnApiOrigin: false,
  isTokenEndpoint: false,
  hasUserInfo: false,
}

/** The token endpoints of all environments that this process uses. */
const tokenEndpoints = new Set<string>()

/** Whether a URL is the token endpoint of any environment that this process uses. */
export function isAnyTokenEndpoint(url: string): boolean {
  const { origin, pathname } = parseUrl(url) ?? {}
  return tokenEndpoints.has(`${origin}${pathname}`)
}

/** The destinations of an environment. */
export function destinationsOf(environment: Environment): Destinations {
  // A provider that the caller implements may have no token endpoint.
  const endpoint = parseUrl(environment.authUrl) && tokenEndpoint(environment)
  if (endpoint !== undefined) tokenEndpoints.add(endpoint)
  const bases = apisOf(environment)
    .map((api): Base => {
      const { origin } = new URL(api.url)
      const path = api.url.slice(origin.length)
      return { ...api, origin, path, destination: { ...NOWHERE, api } }
    })
    .sort((a, b) => b.path.length - a.path.length) // for nested entries, the innermost one wins
  // The next call often has the same URL, and a renewal looks it up again.
  let last = NOWHERE
  let lastUrl = ''
  return (url) => {
    if (url !== lastUrl) {
      last = plainMatch(bases, url, endpoint) ?? parsedMatch(bases, url, endpoint)
      lastUrl = url
    }
    return last
  }
}

/** Whether a redirect to `target` keeps the token of a call to `url`: on the same origin, and below an API. */
export function mayKeepToken(url: string, target: string, destinations: Destinations): boolean {
  return parseUrl(target)?.origin === parseUrl(url)?.origin && destinations(target).api !== undefined
}

/** The common case, without parsing: a URL that starts with exactly a known base URL. */
function plainMatch(
  bases: readonly Base[],
  url: string,
  endpoint: string | undefined,
): Destination | undefined {
  const base = bases.find((base) => url.startsWith(base.url))
  if (base === undefined || (endpoint !== undefined && url.startsWith(endpoint))) return undefined
  PLAIN_REST.lastIndex = base.url.length
  return PLAIN_REST.test(url) ? base.destination : undefined
}

function parsedMatch(bases: readonly Base[], url: string, endpoint: string | undefined): Destination {
  const parsed = parseUrl(url)
  if (parsed === undefined) return NOWHERE
  const { origin, pathname, username, password } = parsed
  // Some servers treat an encoded slash as a path separator, and others do not.
  const isAmbiguous = /%2f|%5c/i.test(pathname)
  const here = bases.filter((base) => base.origin === origin)
  const base = here.find(({ path }) => `${pathname}/`.startsWith(`${path}/`))
  return {
    api: isAmbiguous ? undefined : base?.destination.api,
    isOnApiOrigin: here.length > 0 && base === undefined,
    isTokenEndpoint: origin + pathname === endpoint,
    hasUserInfo: username !== '' || password !== '',
  }
}

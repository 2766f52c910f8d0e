/** Which URLs may have the token? Judged on the URL as it is sent: parsed, with dot segments and backslashes resolved. */
import { canonicalUrl, type Environment, isFrozenCopy, tokenEndpoint } from './environments.ts'

/** What a URL is to an environment. */
export interface Destination {
  /** The `apiUrls` entry that the URL is below; undefined: it may not have the token. */
  readonly api: string | undefined
  readonly isTokenEndpoint: boolean
  /** Whether the URL carries credentials of its own. */
  readonly hasUserInfo: boolean
}

/** Judges absolute URLs. */
export type Destinations = (url: string) => Destination

/** One `apiUrls` entry, ready for comparison. */
interface Api {
  readonly origin: string
  /** Its path without the slash at its end. */
  readonly path: string
  /** Origin and path with a slash at the end. */
  readonly prefix: string
  /** What a plain URL below it is. */
  readonly destination: Destination
}

/**
 * The rest of a URL, from the slash that ends a known prefix on, that needs no parsing: nothing in it is resolved
 * (no dot segment, no backslash, no percent sign, no control character) before the query begins.
 */
const PLAIN_REST = /(?:[\w~!$&'()*+,;=:@/-]|(?<=\w)\.(?=\w))*(?:$|[?#])/y

const NOWHERE: Destination = { api: undefined, isTokenEndpoint: false, hasUserInfo: false }

const known = new WeakMap<Environment, Destinations>()

/** The destinations of an environment. */
export function destinationsOf(environment: Environment): Destinations {
  const destinations = known.get(environment) ?? newDestinations(environment)
  if (isFrozenCopy(environment)) known.set(environment, destinations)
  return destinations
}

function newDestinations(environment: Environment): Destinations {
  // A caller's own provider need not have a token endpoint.
  const endpoint = URL.canParse(environment.authUrl) ? tokenEndpoint(environment) : undefined
  const apis = environment.apiUrls
    .map((url): Api => {
      const base = canonicalUrl(url)
      const { origin } = new URL(base)
      const destination = { ...NOWHERE, api: url }
      return { origin, path: base.slice(origin.length), prefix: `${base}/`, destination }
    })
    .sort((a, b) => b.path.length - a.path.length) // of nested entries the inner one counts
  // The next call often has the same URL, and a renewal asks for it again.
  let last = NOWHERE
  let lastUrl = ''
  return (url) => {
    if (url !== lastUrl) {
      last = plainMatch(apis, url) ?? parsedMatch(apis, url, endpoint)
      lastUrl = url
    }
    return last
  }
}

/** The common case without a parser: a URL that begins, to the letter, with a known prefix. */
function plainMatch(apis: readonly Api[], url: string): Destination | undefined {
  if (url.includes('/oauth/token')) return undefined
  for (const { prefix, destination } of apis) {
    if (!url.startsWith(prefix)) continue
    PLAIN_REST.lastIndex = prefix.length
    return PLAIN_REST.test(url) ? destination : undefined
  }
  return undefined
}

function parsedMatch(apis: readonly Api[], url: string, endpoint: string | undefined): Destination {
  if (!URL.canParse(url)) return NOWHERE
  const { origin, pathname, username, password } = new URL(url)
  // An encoded slash is one path segment to some servers, and two to others.
  const isAmbiguous = /%2f|%5c/i.test(pathname)
  const api = apis.find((api) => api.origin === origin && `${pathname}/`.startsWith(`${api.path}/`))
  return {
    api: isAmbiguous ? undefined : api?.destination.api,
    isTokenEndpoint: origin + pathname === endpoint,
    hasUserInfo: username !== '' || password !== '',
  }
}

/** May this URL have the token? Judged on the URL as it is sent: parsed, with dot segments and backslashes resolved. */
import { canonicalUrl, type Environment, isFrozenCopy } from './environments.ts'

/** The places that may have an environment's token. */
export interface Destinations {
  /** The `apiUrls` entry that an absolute URL lies below; undefined where the URL may not have the token. */
  apiOf(url: string): string | undefined
}

/** One `apiUrls` entry, ready to be compared with. */
interface Api {
  /** The entry as it was given: its name in events and rations. */
  readonly url: string
  readonly origin: string
  /** Its path without the slash at its end. */
  readonly path: string
  /** Origin and path with a slash at the end. */
  readonly prefix: string
}

/**
 * The rest of a URL, from the slash that ends a known prefix on, that needs no parsing: nothing in it is resolved
 * (no dot segment, no backslash, no percent sign, no control character) before the query begins.
 */
const PLAIN_REST = /(?:[\w~!$&'()*+,;=:@/-]|(?<=\w)\.(?=\w))*(?:$|[?#])/y

const known = new WeakMap<Environment, Destinations>()

/** The places that may have the token of this environment. */
export function destinationsOf(environment: Environment): Destinations {
  const destinations = known.get(environment) ?? newDestinations(environment)
  if (isFrozenCopy(environment)) known.set(environment, destinations)
  return destinations
}

function newDestinations(environment: Environment): Destinations {
  const apis = environment.apiUrls
    .map((url): Api => {
      const base = canonicalUrl(url)
      const { origin } = new URL(base)
      return { url, origin, path: base.slice(origin.length), prefix: `${base}/` }
    })
    .sort((a, b) => b.path.length - a.path.length) // where two are nested, the inner one is meant
  return { apiOf: (url) => plainMatch(apis, url) ?? parsedMatch(apis, url) }
}

/** The common case without a parser: a URL that begins, to the letter, with a known prefix. */
function plainMatch(apis: readonly Api[], url: string): string | undefined {
  for (const api of apis) {
    if (!url.startsWith(api.prefix)) continue
    PLAIN_REST.lastIndex = api.prefix.length
    return PLAIN_REST.test(url) ? api.url : undefined
  }
  return undefined
}

function parsedMatch(apis: readonly Api[], url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { origin, pathname } = new URL(url)
  // An encoded slash is one path segment to some servers, and two to others.
  if (/%2f|%5c/i.test(pathname)) return undefined
  return apis.find((api) => api.origin === origin && `${pathname}/`.startsWith(`${api.path}/`))?.url
}

/** Whether a URL carries credentials of its own. */
export function hasUserInfo(url: string): boolean {
  if (!url.includes('@') || !URL.canParse(url)) return false
  const { username, password } = new URL(url)
  return username !== '' || password !== ''
}

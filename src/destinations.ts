/** Which URLs may get the token: decided on the URL that is sent, after parsing has resolved dot segments and backslashes. */
import {
  type Api,
  apisOf,
  canonicalUrl,
  type Environment,
  isFrozenCopy,
  tokenEndpoint,
} from './environments.ts'

/** How a URL relates to an environment. */
export interface Destination {
  /** The `apiUrls` entry that the URL is below; undefined if the URL may not get the token. */
  readonly api: Api | undefined
  /** Whether an API is on the URL's origin, but the URL is below none. */
  readonly isBeside: boolean
  readonly isTokenEndpoint: boolean
  /** Whether the URL contains a user name or a password. */
  readonly hasUserInfo: boolean
}

/** Classifies an absolute URL. */
export type Destinations = (url: string) => Destination

/** One `apiUrls` entry, prepared for comparison. */
interface Base {
  readonly origin: string
  /** The path without a trailing slash. */
  readonly path: string
  /** Origin and path, without and with a trailing slash. */
  readonly bare: string
  readonly prefix: string
  /** The result for a plain URL below this entry. */
  readonly destination: Destination
}

/**
 * The rest of a URL after a known prefix, if it needs no parsing: up to the query it contains nothing that a parser would
 * resolve (dot segments, backslashes, percent signs, control characters).
 */
const PLAIN_REST = /(?:[\w~!$&'()*+,;=:@/-]|(?<=\w)\.(?=\w))*(?:$|[?#])/y

const NOWHERE: Destination = {
  api: undefined,
  isBeside: false,
  isTokenEndpoint: false,
  hasUserInfo: false,
}

const known = new WeakMap<Environment, Destinations>()

/** The destinations of an environment. */
export function destinationsOf(environment: Environment): Destinations {
  const destinations = known.get(environment) ?? newDestinations(environment)
  if (isFrozenCopy(environment)) known.set(environment, destinations)
  return destinations
}

function newDestinations(environment: Environment): Destinations {
  // A provider that the caller implements may have no token endpoint.
  const endpoint = URL.canParse(environment.authUrl) ? tokenEndpoint(environment) : undefined
  const bases = apisOf(environment)
    .map((api): Base => {
      const base = canonicalUrl(api.url)
      const { origin } = new URL(base)
      const destination = { ...NOWHERE, api }
      return { origin, path: base.slice(origin.length), bare: base, prefix: `${base}/`, destination }
    })
    .sort((a, b) => b.path.length - a.path.length) // for nested entries, the innermost one wins
  // The next call often has the same URL, and a renewal looks it up again.
  let last = NOWHERE
  let lastUrl = ''
  return (url) => {
    if (url !== lastUrl) {
      last = plainMatch(bases, url) ?? parsedMatch(bases, url, endpoint)
      lastUrl = url
    }
    return last
  }
}

/** The common case, without parsing: a URL that starts with exactly a known prefix. */
function plainMatch(bases: readonly Base[], url: string): Destination | undefined {
  if (url.includes('/oauth/token')) return undefined
  for (const { bare, prefix, destination } of bases) {
    if (!url.startsWith(prefix)) {
      if (url.startsWith(bare)) return undefined // perhaps the entry itself, which may be below another one
      continue
    }
    PLAIN_REST.lastIndex = prefix.length
    return PLAIN_REST.test(url) ? destination : undefined
  }
  return undefined
}

function parsedMatch(bases: readonly Base[], url: string, endpoint: string | undefined): Destination {
  if (!URL.canParse(url)) return NOWHERE
  const { origin, pathname, username, password } = new URL(url)
  // Some servers treat an encoded slash as a path separator, and others do not.
  const isAmbiguous = /%2f|%5c/i.test(pathname)
  const here = bases.filter((base) => base.origin === origin)
  const base = here.find(({ path }) => `${pathname}/`.startsWith(`${path}/`))
  return {
    api: isAmbiguous ? undefined : base?.destination.api,
    isBeside: here.length > 0 && base === undefined,
    isTokenEndpoint: origin + pathname === endpoint,
    hasUserInfo: username !== '' || password !== '',
  }
}

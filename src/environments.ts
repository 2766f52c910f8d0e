/** Environments such as production and test: their type, their validation, and a checked set of them. */
import { ConfigurationError, type Problem } from './errors.ts'

/** One environment of the service: its token endpoint, its audience and its APIs. */
export interface Environment {
  /**
   * A name for messages and events, for example `test`.
   * @default none; with `defineEnvironments`, the environment's key
   */
  readonly name?: string | undefined
  /**
   * Base URL of the token endpoint, which is `{authUrl}/oauth/token`; the whole URL is accepted, too. https, or http on a
   * loopback host.
   */
  readonly authUrl: string
  /** The audience to request tokens for, usually a URL. It is sent unchanged. */
  readonly audience: string
  /**
   * Base URLs (at least one) of the merchant API and the in-store API: by name, `{ merchant: …, inStore: … }`, or as a
   * list. Only URLs below one of them get the token: same origin, and a path that is equal or continues after a `/`.
   * https, or http on a loopback host. Events show the name of an API, or its URL if it has none. Names with the same base
   * URL are one API, and events show all of them.
   */
  readonly apiUrls: Readonly<Record<string, string>> | readonly string[]
  /**
   * Allows http to hosts other than loopback hosts. The client secret and the tokens then cross the network unencrypted.
   * @default false
   */
  readonly allowInsecureRequests?: boolean | undefined
}

/** One API. */
export interface Api {
  /** Its base URL: scheme, host, port and path, without a trailing slash. */
  readonly url: string
  /** Its name, or its URL if it has none. Several names with this base URL: all of them, separated by commas. */
  readonly label: string
}

/** The APIs in `apiUrls`. */
export function apisOf({ apiUrls }: Pick<Environment, 'apiUrls'>): readonly Api[] {
  const entriesByUrl = Map.groupBy(entriesOf(apiUrls), ({ url }) => canonicalUrl(url))
  return [...entriesByUrl].map(([url, entries]) => ({
    url,
    label: [...new Set(entries.map((entry) => entry.name ?? entry.url))].join(', '),
  }))
}

/** One entry of `apiUrls`. */
interface Entry {
  /** Undefined in a list. */
  readonly name: string | undefined
  readonly url: string
  /** Where it stands, for messages: `apiUrls.merchant` or `apiUrls[0]`. */
  readonly place: string
}

function entriesOf(apiUrls: Environment['apiUrls']): readonly Entry[] {
  return Object.entries<string>(apiUrls).map(([key, url]) =>
    Array.isArray(apiUrls)
      ? { name: undefined, url, place: `apiUrls[${key}]` }
      : { name: key, url, place: `apiUrls.${key}` },
  )
}

/** The token endpoint of an environment. */
export function tokenEndpoint({ authUrl }: Pick<Environment, 'authUrl'>): string {
  return `${withoutTokenPath(canonicalUrl(authUrl))}/oauth/token`
}

function withoutTokenPath(authUrl: string): string {
  return authUrl.replace(/\/oauth\/token\/?$/, '')
}

/** Scheme, host, port and path of a base URL, without a trailing slash. */
function canonicalUrl(url: string): string {
  const { origin, pathname } = new URL(url)
  return origin + pathname.replace(/\/$/, '')
}

/** The frozen copies, which are reused: an application may create thousands of providers for one environment. */
const copies = new WeakSet<object>()

/** A frozen copy of an environment, or its problems. The option names of the problems start with `at`. */
export function checkEnvironment(value: unknown, at: string, key?: string): Environment | Problem[] {
  if (typeof value !== 'object' || value === null)
    return [{ option: at, reason: 'must be an object with authUrl, audience and apiUrls' }]
  const given = value as Environment
  if (copies.has(given) && (key === undefined || given.name !== undefined)) return given
  const { name = key, authUrl, audience, apiUrls, allowInsecureRequests } = given
  const problems: Problem[] = []
  const add = (option: string, reason: string | undefined): void => {
    if (reason !== undefined) problems.push({ option: `${at}.${option}`, reason })
  }
  const insecure = allowInsecureRequests === true
  if (name !== undefined && !isText(name)) add('name', 'must be a non-empty string')
  if (!['undefined', 'boolean'].includes(typeof allowInsecureRequests))
    add('allowInsecureRequests', 'must be true or false')
  add('authUrl', baseUrlProblem(authUrl, insecure))
  if (!isText(audience)) add('audience', 'must be a non-empty string')
  const entries = typeof apiUrls === 'object' && apiUrls !== null ? entriesOf(apiUrls) : []
  if (entries.length === 0)
    add('apiUrls', 'must be base URLs by name, or a list of base URLs, with at least one')
  for (const entry of entries)
    add(entry.place, entry.name === '' ? 'must have a non-empty name' : apiUrlProblem(entry.url, insecure))
  return problems.length > 0
    ? problems
    : frozenEnvironment({ name, authUrl, audience, apiUrls, allowInsecureRequests })
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function apiUrlProblem(value: unknown, insecure: boolean): string | undefined {
  const problem = baseUrlProblem(value, insecure)
  if (problem === undefined && /%2f|%5c/i.test(new URL(value as string).pathname)) {
    return 'must not contain an encoded slash (%2f) or backslash (%5c) in its path'
  }
  return problem
}

function baseUrlProblem(value: unknown, insecure: boolean): string | undefined {
  if (typeof value !== 'string' || !URL.canParse(value)) return 'must be an absolute URL'
  const url = new URL(value)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must be an https URL'
  if (url.protocol === 'http:' && !insecure && !isLoopback(url.hostname)) {
    return 'must use https (http is allowed for loopback hosts, or with allowInsecureRequests: true)'
  }
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or a password'
  if (value.includes('?') || value.includes('#')) return 'must not contain a query or a fragment'
  return undefined
}

/** localhost and its subdomains (RFC 6761), 127.0.0.0/8 and ::1, as the URL parser normalizes them. */
function isLoopback(hostname: string): boolean {
  return /^(?:(?:.+\.)?localhost\.?|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}

/**
 * Checks a set of environments and freezes it. Each environment must be complete. Token endpoints and audiences must
 * differ between environments, and no URL may be below the `apiUrls` of two of them, so that a token of one environment
 * cannot reach another. The key of an environment is its default name.
 *
 * @param environments the environments by name, usually `production` and `test`
 * @returns frozen copies under the same names
 * @typeParam T the set, so that TypeScript knows each name
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem
 * @example
 * const environments = defineEnvironments({
 *   test: {
 *     authUrl: 'https://auth.test.example.com',
 *     audience: 'https://api.test.example.com',
 *     apiUrls: { merchant: 'https://api.test.example.com/merchant', inStore: 'https://api.test.example.com/in-store' },
 *   },
 * })
 * environments.test.apiUrls.merchant // TypeScript knows the names
 */
export function defineEnvironments<const T extends Readonly<Record<string, Environment>>>(
  environments: T,
): T {
  const names = Object.keys(environments ?? {})
  if (names.length === 0) {
    throw new ConfigurationError('The environments cannot be used', [
      { option: 'environments', reason: 'must be an object with at least one environment' },
    ])
  }
  const checked: [string, Environment][] = []
  const problems: Problem[] = []
  for (const name of names) {
    const environment = checkEnvironment(environments[name], name, name)
    if (Array.isArray(environment)) problems.push(...environment)
    else checked.push([name, environment])
  }
  if (problems.length === 0) problems.push(...overlaps(checked))
  if (problems.length > 0) throw new ConfigurationError('The environments cannot be used', problems)
  return Object.freeze(Object.fromEntries(checked)) as T
}

/** A frozen copy of an environment, without any other properties. */
export function frozenEnvironment<T extends Environment>(environment: T): T {
  const { name, authUrl, audience, apiUrls, allowInsecureRequests } = environment
  const copy = Object.freeze({
    ...(name === undefined ? undefined : { name }),
    authUrl: withoutTokenPath(authUrl),
    audience,
    apiUrls: Object.freeze(Array.isArray(apiUrls) ? [...apiUrls] : { ...apiUrls }),
    ...(allowInsecureRequests === undefined ? undefined : { allowInsecureRequests }),
  })
  copies.add(copy)
  return copy as Environment as T
}

function overlaps(entries: [string, Environment][]): Problem[] {
  const problems: Problem[] = []
  entries.forEach(([key, environment], index) => {
    for (const [otherKey, other] of entries.slice(0, index)) {
      if (tokenEndpoint(environment) === tokenEndpoint(other)) {
        problems.push({ option: `${key}.authUrl`, reason: `is also the token endpoint of ${otherKey}` })
      }
      if (environment.audience === other.audience) {
        problems.push({ option: `${key}.audience`, reason: `is also the audience of ${otherKey}` })
      }
      for (const { url, place } of entriesOf(environment.apiUrls)) {
        if (entriesOf(other.apiUrls).some((api) => isBelow(url, api.url) || isBelow(api.url, url))) {
          problems.push({
            option: `${key}.${place}`,
            reason: `overlaps with the apiUrls of ${otherKey}: its tokens would reach both environments`,
          })
        }
      }
    }
  })
  return problems
}

function isBelow(url: string, base: string): boolean {
  return `${canonicalUrl(url)}/`.startsWith(`${canonicalUrl(base)}/`)
}

/** Environments such as production and test: their type, their validation, and a checked set of them. */

import { ConfigurationError, type Flaw, type Problem } from '../base/errors.ts'
import { isMissing, membersOf } from '../base/schema.ts'
import { parseUrl } from '../base/urls.ts'

/** One environment of the service: its token endpoint, its audience and its APIs. */
export type Environment = EnvironmentAddresses & (WithAudience | WithTokenPath)

/** What is requested where the token endpoint has the service's own path. @inline */
export interface WithAudience {
  /**
   * The audience to request tokens for, usually a URL. It is sent unchanged; with a `tokenPath`, even `/oauth/token`, it may be
   * absent.
   */
  readonly audience: string
  /**
   * The path of the token endpoint, which is appended to `authUrl`: begins with one `/`, without a query or a fragment. A slash
   * at its end is kept. `''`: `authUrl` is the whole URL.
   * @default '/oauth/token'
   */
  readonly tokenPath?: string | undefined
}

/** What is requested from another token endpoint. @inline */
export interface WithTokenPath {
  /** The audience to request tokens for; not sent if absent. */
  readonly audience?: string | undefined
  /** The path of the token endpoint, as above. */
  readonly tokenPath: string
}

/** Where an environment is. @inline */
export interface EnvironmentAddresses {
  /**
   * A name for events, for example `test`.
   * @default none; with `defineEnvironments`, the environment's key
   */
  readonly name?: string | undefined
  /**
   * Base URL of the token endpoint, which is `{authUrl}{tokenPath}`. Without `tokenPath`, the whole URL with `/oauth/token` is
   * accepted, too. https, or http on a loopback host.
   */
  readonly authUrl: string
  /**
   * Base URLs of the APIs, at least one: by name, `{ merchant: …, inStore: … }`, or as a list. Only URLs below one of them get
   * the token: same origin, and a path that is equal or continues after a `/`. https, or http on a loopback host.
   *
   * Names with the same base URL are one API, and events show all of them.
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
  /** For messages: `apiUrls.merchant` or `apiUrls[0]`. */
  readonly place: string
}

function entriesOf(apiUrls: Environment['apiUrls']): readonly Entry[] {
  return membersOf(apiUrls).map(([key, url]) =>
    Array.isArray(apiUrls)
      ? { name: undefined, url, place: `apiUrls[${key}]` }
      : { name: key, url, place: `apiUrls.${key}` },
  )
}

/** The path of the service's own token endpoint below its `authUrl`. */
const TOKEN_PATH = '/oauth/token'

/** The token endpoint of an environment, as the URL parser normalizes it. */
export function tokenEndpoint({ authUrl, tokenPath }: Pick<Environment, 'authUrl' | 'tokenPath'>): string {
  if (tokenPath === undefined) return withoutTokenPath(canonicalUrl(authUrl)) + TOKEN_PATH
  const { origin, pathname } = new URL(tokenPath === '' ? authUrl : canonicalUrl(authUrl) + tokenPath)
  return origin + pathname
}

function withoutTokenPath(authUrl: string): string {
  const url = authUrl.replace(/\/$/, '')
  return url.endsWith(TOKEN_PATH) ? url.slice(0, -TOKEN_PATH.length) : authUrl
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
    return [{ option: at, ...flawOf(value, 'must be an object with authUrl, audience and apiUrls') }]
  const given = value as Environment
  if (copies.has(given) && (key === undefined || given.name !== undefined)) return given
  const { name = key, authUrl, tokenPath, audience, apiUrls, allowInsecureRequests } = given
  const insecure = allowInsecureRequests === true
  const entries = typeof apiUrls === 'object' && apiUrls !== null ? entriesOf(apiUrls) : []
  const flaws: [option: string, flaw: Flaw | undefined][] = [
    ['name', name === undefined ? undefined : textFlaw(name)],
    ['allowInsecureRequests', isOptionalBoolean(allowInsecureRequests) ? undefined : NOT_BOOLEAN],
    ['authUrl', baseUrlFlaw(authUrl, insecure)],
    ['tokenPath', tokenPath === undefined ? undefined : tokenPathFlaw(tokenPath)],
    ['audience', audienceFlaw(audience, tokenPath)],
    ['apiUrls', entries.length > 0 ? undefined : apiUrlsFlaw(apiUrls)],
    ...entries.map(({ place, url }): [string, Flaw | undefined] => [place, apiUrlFlaw(url, insecure)]),
  ]
  const problems = flaws.flatMap(([option, flaw]) =>
    flaw === undefined ? [] : { option: `${at}.${option}`, ...flaw },
  )
  return problems.length > 0 ? problems : frozenEnvironment(given, name)
}

const NOT_BOOLEAN: Flaw = { kind: 'invalid', reason: 'must be true or false' }

function isOptionalBoolean(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean'
}

/** The flaw of a required value. */
function flawOf(value: unknown, reason: string): Flaw {
  return { kind: isMissing(value) ? 'missing' : 'invalid', reason }
}

function textFlaw(value: unknown): Flaw | undefined {
  return typeof value === 'string' && value !== '' ? undefined : flawOf(value, 'must be a non-empty string')
}

function audienceFlaw(audience: unknown, tokenPath: unknown): Flaw | undefined {
  if (tokenPath !== undefined) return audience === undefined ? undefined : textFlaw(audience)
  const flaw = textFlaw(audience)
  return flaw && { ...flaw, reason: `${flaw.reason}, unless there is a tokenPath` }
}

/** What is wrong with the path of a token endpoint. */
export function tokenPathFlaw(value: unknown): Flaw | undefined {
  if (value === '' || (typeof value === 'string' && /^\/(?!\/)[^\s?#|\\]*$/.test(value))) return undefined
  return {
    kind: 'invalid',
    reason: 'must begin with one /, without a query, a fragment or white space',
  }
}

function apiUrlsFlaw(value: unknown): Flaw {
  const isEmpty = typeof value === 'object' && value !== null
  return flawOf(isEmpty ? undefined : value, 'must be at least one base URL, by name or as a list')
}

function apiUrlFlaw(value: unknown, insecure: boolean): Flaw | undefined {
  const isEncoded = /%2f|%5c/i.test(parseUrl(String(value))?.pathname ?? '')
  return isEncoded
    ? { kind: 'invalid', reason: 'must not contain an encoded slash (%2f) or backslash (%5c) in its path' }
    : baseUrlFlaw(value, insecure)
}

function baseUrlFlaw(value: unknown, insecure: boolean): Flaw | undefined {
  const url = typeof value === 'string' ? parseUrl(value) : undefined
  if (typeof value !== 'string' || url === undefined)
    return flawOf(value, 'must be an absolute URL, which begins with https://')
  if (url.protocol === 'http:' && !insecure && !isLoopback(url.hostname)) {
    const reason = 'must use https (http is allowed for loopback hosts, or with allowInsecureRequests: true)'
    return { kind: 'insecure', reason }
  }
  const reason = urlReason(value, url)
  return reason === undefined ? undefined : { kind: 'invalid', reason }
}

function urlReason(value: string, { protocol, username, password }: URL): string | undefined {
  if (protocol !== 'https:' && protocol !== 'http:') return 'must be an https URL'
  // Parsers drop line breaks, and turn the backslash of an escaped one into a slash: two URLs, as a YAML block or a .env file has
  // them, would silently become one.
  if (/[\s|\\]/.test(value)) return 'must be one URL, without white space, | and \\'
  if (username !== '' || password !== '') return 'must not contain a user name or a password'
  if (value.includes('?') || value.includes('#')) return 'must not contain a query or a fragment'
  return undefined
}

/**
 * Whether a host is this machine: localhost and its subdomains (RFC 6761), 127.0.0.0/8 and ::1, as the URL parser normalizes
 * them.
 */
export function isLoopback(hostname: string): boolean {
  return /^(?:(?:.+\.)?localhost\.?|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}

/**
 * Checks a set of environments and freezes it. Token endpoints and audiences must differ between environments, and no URL
 * may be below the `apiUrls` of two of them, so that a token of one environment cannot reach another.
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
  const checked: [string, Environment][] = []
  const problems: Problem[] = []
  for (const [name, given] of membersOf<Environment>(environments ?? {})) {
    const environment = checkEnvironment(given, name, name)
    if (Array.isArray(environment)) problems.push(...environment)
    else checked.push([name, environment])
  }
  if (problems.length === 0) problems.push(...overlaps(checked))
  if (problems.length === 0 && checked.length === 0)
    problems.push({
      option: 'environments',
      kind: 'missing',
      reason: 'must be an object with at least one environment',
    })
  if (problems.length > 0) throw new ConfigurationError('The environments cannot be used', problems)
  return Object.freeze(Object.fromEntries(checked)) as T
}

/** A frozen copy of an environment, without any other properties. */
export function frozenEnvironment<T extends Environment>(
  environment: T,
  name: string | undefined = environment.name,
): T {
  const { authUrl, tokenPath, audience, apiUrls, allowInsecureRequests } = environment
  const copy = Object.freeze({
    ...(name === undefined ? undefined : { name }),
    authUrl: tokenPath === undefined ? withoutTokenPath(authUrl) : authUrl,
    ...(tokenPath === undefined ? undefined : { tokenPath }),
    ...(audience === undefined ? undefined : { audience }),
    apiUrls: Object.freeze(Array.isArray(apiUrls) ? [...apiUrls] : Object.fromEntries(membersOf(apiUrls))),
    ...(allowInsecureRequests === undefined ? undefined : { allowInsecureRequests }),
  })
  copies.add(copy)
  return copy as Environment as T
}

function overlaps(entries: [string, Environment][]): Problem[] {
  const problems: Problem[] = []
  entries.forEach(([key, environment], index) => {
    for (const [otherKey, other] of entries.slice(0, index)) {
      const add = (option: string, reason: string): void => {
        problems.push({ option: `${key}.${option}`, kind: 'conflict', reason })
      }
      if (tokenEndpoint(environment) === tokenEndpoint(other))
        add('authUrl', `is also the token endpoint of ${otherKey}`)
      if (environment.audience !== undefined && environment.audience === other.audience)
        add('audience', `is also the audience of ${otherKey}`)
      for (const { url, place } of entriesOf(environment.apiUrls))
        if (entriesOf(other.apiUrls).some((api) => isBelow(url, api.url) || isBelow(api.url, url)))
          add(place, `overlaps with the apiUrls of ${otherKey}: its tokens would reach both environments`)
    }
  })
  return problems
}

function isBelow(url: string, base: string): boolean {
  return `${canonicalUrl(url)}/`.startsWith(`${canonicalUrl(base)}/`)
}

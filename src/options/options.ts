/** The options: their documentation, defaults and validation. All problems are reported at once. */
import * as z from 'zod/mini'
import { type Clock, limitClockOf, SECOND_MS, systemClock } from '../base/clock.ts'
import { ConfigurationError, type Problem } from '../base/errors.ts'
import {
  authMethod,
  fn,
  hasFunction,
  headerName,
  membersOf,
  ms,
  objectWith,
  ofKind,
  parse,
  schemeName,
  strict,
  text,
  whole,
} from '../base/schema.ts'
import { checkEnvironment, type Environment, tokenEndpoint } from '../environment/environment.ts'
import type { AuthEvent } from '../events/events.ts'
import type { TokenStore } from '../store/token-store.ts'

/** What an assertion is for. */
export interface AssertionEndpoint {
  /**
   * The token endpoint: the assertion's audience, unless the option `fetch` calls another address, or the service asks for
   * its issuer.
   */
  readonly url: string
  /** The client id: the assertion's issuer and subject. */
  readonly clientId: string
}

/** A function that fetches: `fetch` without the properties that runtimes add to it, such as Bun's `preconnect`. @inline */
export type FetchLike = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

/** How a client sends its secret (RFC 7591 §2). @inline */
export type TokenEndpointAuthMethod = 'client_secret_post' | 'client_secret_basic'

/** Options of `createTokenProvider`: the client proves its identity by either `clientSecret` or `clientAssertion`. */
export type TokenProviderOptions = GeneralOptions & (WithClientSecret | WithClientAssertion)

/** A client with a secret. @inline */
export interface WithClientSecret {
  /**
   * The client secret (RFC 6749 §2.3.1), or a function that returns it and is called before every token request. If the token
   * endpoint rejects the secret and the function then returns a different one, the request is repeated once.
   *
   * If the function throws, times out or returns nothing, waiting calls reject with a `TokenRequestError`
   * (`ERR_CLIENT_SECRET`).
   */
  readonly clientSecret: string | (() => string | Promise<string>)
  /** Not together with `clientSecret`. */
  readonly clientAssertion?: undefined
}

/** A client that signs assertions. @inline */
export interface WithClientAssertion {
  /**
   * In place of a secret, a function that returns a signed JWT (RFC 7523 §2.2, `private_key_jwt`). It is called before every
   * attempt. With a `store`, `encryptionKeys` is required.
   *
   * The rules for a `clientSecret` function apply; its failure has the code `ERR_CLIENT_ASSERTION`.
   */
  readonly clientAssertion: (endpoint: AssertionEndpoint) => string | Promise<string>
  /** Not together with `clientAssertion`. */
  readonly clientSecret?: undefined
}

/** The options of every client. @inline */
export interface GeneralOptions {
  /** Its token endpoint issues the token, and its APIs get it. */
  readonly environment: Environment
  /** The client id (RFC 6749 §2.2): any non-empty string. */
  readonly clientId: string
  /**
   * Further fields of the token request, for example an organization. Invalid, because the provider sets them:
   * `client_id`, `client_secret`, `client_assertion`, `client_assertion_type`, `audience`, `grant_type`.
   * @default none
   */
  readonly tokenParameters?: Readonly<Record<string, string>> | undefined
  /**
   * Time limit (ms, 1 to 2^31-1) for one token request, including its retries and pauses; one attempt may take all of it. After
   * it, waiting calls reject with `ERR_TOKEN_TIMEOUT`. A call that first has to wait for a background renewal may wait longer:
   * its own signal limits its wait.
   * @default 10_000
   */
  readonly timeoutMs?: number | undefined
  /**
   * Further attempts (0 to 100) after no connection, a timeout, an incomplete or empty response, 408, 5xx, or a 429 that says
   * when to try again. The pauses are random, at first up to 200 ms and then doubling, or as long as Retry-After (RFC 9110
   * §10.2.3) asks. A background renewal makes one attempt.
   * @default 2
   */
  readonly retries?: number | undefined
  /**
   * The token is renewed in the background this long (ms, 0 to 2^31-1) before `expiryMarginMs` begins; for each token, the time
   * is 0 to 25 % shorter, at random. 0 disables background renewal. Capped at 50 % of the lifetime.
   * @default min(3_600_000, 20 % of the lifetime)
   */
  readonly refreshAheadMs?: number | undefined
  /**
   * How long (ms, 0 to 2^31-1) before its expiry a token is no longer used, so that it does not expire in transit. Capped at
   * 25 % of the lifetime.
   * @default min(10_000, 5 % of the lifetime)
   */
  readonly expiryMarginMs?: number | undefined
  /**
   * How the client sends its secret (RFC 7591 §2): as a field of the body, or with `'client_secret_basic'` in the header
   * `Authorization` (RFC 6749 §2.3.1); then neither id nor secret is a field.
   * Not together with `clientAssertion`.
   * @default 'client_secret_post'
   */
  readonly tokenEndpointAuthMethod?: TokenEndpointAuthMethod | undefined
  /**
   * The format of the token request: `'json'`, which the payment service expects, or `'form'` (RFC 6749 §4.4.2).
   * @default 'json'
   */
  readonly bodyFormat?: 'json' | 'form' | undefined
  /**
   * How long (ms, 1 to 2^31-1) a token lives if its response has no `expires_in`, which RFC 6749 §5.1 only recommends. An
   * `expires_in` in the response always takes precedence.
   * @default none: such a response is refused
   */
  readonly lifetimeIfMissingMs?: number | undefined
  /**
   * A store that shares the token between processes: `createFileTokenStore` of `merchant-auth/file` on one machine,
   * `createRedisTokenStore` of `merchant-auth/redis` on many, or your own. No call fails because the store fails.
   * @default none: in memory
   */
  readonly store?: TokenStore | undefined
  /**
   * Encryption keys for store entries (strings with at least 32 random bytes each). The first one encrypts, and all
   * decrypt, so that keys can be rotated.
   * @default derived from the client secret
   */
  readonly encryptionKeys?: readonly string[] | undefined
  /**
   * The fetch that sends the token request, for example for proxies, mutual TLS or tests.
   * @default `globalThis.fetch`, looked up at each use
   */
  readonly fetch?: FetchLike | undefined
  /**
   * Called synchronously with every event. Its errors and rejections are ignored.
   * @default none
   */
  readonly onEvent?: ((event: AuthEvent) => void) | undefined
  /**
   * The source of time, for tests.
   * @default the system clocks
   */
  readonly clock?: Clock | undefined
}

/** Options of the functions that attach the token to calls. */
export interface AttachOptions {
  /**
   * The request header (RFC 9110 §5.1) that carries the token. Headers that clients set or drop themselves, such as `Host` and
   * `Content-Type`, are invalid. With a name other than `Authorization`, fetch and axios' fetch adapter do not follow
   * redirects, because they would send the header to another origin.
   * @default 'Authorization'
   */
  readonly header?: string | undefined
  /**
   * The scheme before the token in the header; `''` sends the bare token.
   * @default 'Bearer'
   */
  readonly scheme?: string | undefined
  /**
   * Statuses of the API (400 to 599) after which the token is renewed and the call is repeated, a POST, too: only those
   * that the API gives where it has done nothing. `[]` disables renewal after a response, and copies no body.
   * @default [401]
   */
  readonly renewOnStatus?: readonly number[] | undefined
}

/** What proves the client's identity. */
export interface Credential {
  /** The option that it comes from. */
  readonly option: 'clientSecret' | 'clientAssertion'
  readonly value: WithClientSecret['clientSecret']
}

/** Validated options, with defaults applied. */
export interface ResolvedOptions extends GeneralOptions {
  /** The URL of the token endpoint. */
  readonly endpoint: string
  readonly credential: Credential
  readonly tokenParameters: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly retries: number
  readonly bodyFormat: 'json' | 'form'
  readonly tokenEndpointAuthMethod: TokenEndpointAuthMethod
  readonly clock: Clock
  /** For limits of what is under way. */
  readonly limitClock: Clock
}

/** What identifies a client at a token endpoint: providers with the same client could share one token. */
export function clientOf({ environment, endpoint, clientId, tokenParameters }: ResolvedOptions): string {
  const parameters = Object.entries(tokenParameters).sort(([one], [other]) => (one < other ? -1 : 1))
  const parts = [endpoint, clientId, environment.audience, ...parameters.flat()]
  return JSON.stringify(parts)
}

/** How long (ms) a token request may take, its retries and pauses included. */
const DEFAULT_TIMEOUT_MS = 10 * SECOND_MS
const DEFAULT_RETRIES = 2

/** The header that carries the token. */
export const DEFAULT_HEADER = 'Authorization'
export const DEFAULT_SCHEME = 'Bearer'

/** Validated attach options, with defaults applied. */
export interface ResolvedAttach {
  readonly header: string
  /** The header's name in lower case. */
  readonly headerKey: string
  /** The scheme and the space before the token, or ''. */
  readonly prefix: string
  readonly renewOnStatus: readonly number[]
  /** The fetch to wrap, if one was given. */
  readonly fetch: FetchLike | undefined
}

const PROVIDER =
  'must be a token provider, as createTokenProvider() or, in a test, createStaticTokenProvider() returns it'
const FUNCTION = 'must be a function'
const TEXT = 'must be a non-empty string'
const RETRIES = 'must be a whole number from 0 to 100'
const KEYS = 'must be an array with at least one key'
const SECRET = 'must be a non-empty string, or a function that returns one'
const STORE = 'must have the functions get and set'
const LEASE = 'lease, if present, must be a function'
const CLOCK = 'must have the functions monotonicMs, epochMs and sleep'
const STATUS = 'must be a status from 400 to 599'

/** The fields of the token request that the provider sets. */
const OWN_FIELDS = /^(?:client_(?:id|secret|assertion|assertion_type)|audience|grant_type)$/

const parameters = z
  .custom<Readonly<Record<string, string>>>()
  .check(({ value, issues }: { readonly value: unknown; readonly issues: unknown[] }) => {
    const report = (kind: Problem['kind'], message: string, ...path: string[]): void => {
      issues.push({ code: 'custom', input: value, path, message, params: { kind } })
    }
    // Its prototype says nothing: an object of another realm has another one.
    if (typeof value !== 'object' || value === null || Symbol.iterator in value)
      return report('invalid', 'must be an object of names and values')
    for (const [name, field] of membersOf(value as Readonly<Record<string, unknown>>)) {
      if (name === '') report('invalid', 'must have a name', name)
      if (OWN_FIELDS.test(name)) report('conflict', 'is set by the provider', name)
      if (typeof field !== 'string') report('invalid', 'must be a string', name)
    }
  })

const misplaced = z.optional(z.custom<never>(() => false, ofKind('unknown', 'belongs in environment')))
const providerShape = strict({
  authUrl: misplaced,
  tokenPath: misplaced,
  audience: misplaced,
  apiUrls: misplaced,
  allowInsecureRequests: misplaced,
  environment: z.optional(z.custom<unknown>()), // checkEnvironment() checks it
  clientId: text(TEXT),
  clientSecret: z.optional(z.union([text(SECRET), fn<() => string | Promise<string>>(SECRET)], SECRET)),
  clientAssertion: z.optional(fn<WithClientAssertion['clientAssertion']>(FUNCTION)),
  tokenParameters: z.optional(parameters),
  timeoutMs: z.optional(ms(1)),
  retries: z.optional(whole(0, 100, RETRIES)),
  refreshAheadMs: z.optional(ms(0)),
  expiryMarginMs: z.optional(ms(0)),
  bodyFormat: z.optional(z.enum(['json', 'form'], "must be 'json' or 'form'")),
  tokenEndpointAuthMethod: z.optional(authMethod),
  lifetimeIfMissingMs: z.optional(ms(1)),
  store: z.optional(
    objectWith<TokenStore>(['get', 'set'], STORE).check(
      z.refine(({ lease }) => lease === undefined || typeof lease === 'function', LEASE),
    ),
  ),
  encryptionKeys: z.optional(z.array(text(TEXT), KEYS).check(z.minLength(1, KEYS))),
  fetch: z.optional(fn<FetchLike>(FUNCTION)),
  onEvent: z.optional(fn<(event: AuthEvent) => void>(FUNCTION)),
  clock: z.optional(objectWith<Clock>(['monotonicMs', 'epochMs', 'sleep'], CLOCK)),
})

const attachParts = {
  header: z.optional(headerName),
  scheme: z.optional(schemeName),
  renewOnStatus: z.optional(z.array(whole(400, 599, STATUS), 'must be an array of statuses')),
}

const attachShape = strict(attachParts)

/** The schema of `createAuthFetch`, which also accepts the fetch to wrap. */
const attachFetchShape = strict({ ...attachParts, fetch: z.optional(fn<FetchLike>(FUNCTION)) })

/** Validates the options of a provider, or throws a {@link ConfigurationError} with every problem. */
export function resolveOptions(options: unknown): ResolvedOptions {
  const resolved = checkOptions(options)
  if (!Array.isArray(resolved)) return resolved
  throw new ConfigurationError('The options of the token provider cannot be used', resolved)
}

/** The validated options of a provider, with defaults applied, or every problem. */
export function checkOptions(options: unknown): ResolvedOptions | Problem[] {
  const parsed = parse(providerShape, options)
  const given: Partial<TokenProviderOptions> = options ?? {}
  const environment = checkEnvironment(given.environment, 'environment')
  const problems = [...parsed.problems, ...credentialProblems(given)]
  if (Array.isArray(environment)) return [...problems, ...environment]
  if (parsed.data === undefined || problems.length > 0) return problems
  const {
    clientSecret = '',
    clientAssertion,
    tokenParameters = {},
    timeoutMs = DEFAULT_TIMEOUT_MS,
    retries = DEFAULT_RETRIES,
    bodyFormat = 'json',
    tokenEndpointAuthMethod = 'client_secret_post',
    clock = systemClock,
    ...data
  } = parsed.data
  const endpoint = tokenEndpoint(environment)
  const credential: Credential =
    clientAssertion === undefined
      ? { option: 'clientSecret', value: clientSecret }
      : {
          option: 'clientAssertion',
          value: () => clientAssertion({ url: endpoint, clientId: data.clientId }),
        }
  const fields = Object.fromEntries(membersOf(tokenParameters))
  const limitClock = limitClockOf(clock)
  const formats = { bodyFormat, tokenEndpointAuthMethod }
  const defaults = { tokenParameters: fields, timeoutMs, retries, ...formats, clock, limitClock }
  return { ...data, ...defaults, environment, endpoint, credential }
}

/** What is wrong with the combination of options that prove the client's identity. */
function credentialProblems(given: Partial<TokenProviderOptions>): Problem[] {
  const has = (option: keyof TokenProviderOptions): boolean => given[option] !== undefined
  const problems: Problem[] = []
  const conflict = (option: string, reason: string): void => {
    problems.push({ option, kind: 'conflict', reason })
  }
  if (has('clientAssertion') && has('clientSecret'))
    conflict('clientAssertion', 'must not be given together with clientSecret')
  if (has('clientAssertion') && has('tokenEndpointAuthMethod'))
    conflict('tokenEndpointAuthMethod', 'is for a client secret, not for an assertion')
  if (!has('clientSecret') && !has('clientAssertion'))
    problems.push({
      option: 'clientSecret',
      kind: 'missing',
      reason: `${SECRET}; or give clientAssertion`,
    })
  if (has('clientAssertion') && has('store') && !has('encryptionKeys'))
    problems.push({
      option: 'encryptionKeys',
      kind: 'missing',
      reason: 'must be given with a store and clientAssertion: no client secret exists to derive a key from',
    })
  return problems
}

/** Mocks made by hand or automatically have a part of a provider. */
function isProvider(tokens: unknown): boolean {
  if (!hasFunction(tokens, 'getToken') || !hasFunction(tokens, 'currentToken')) return false
  return typeof (tokens as { environment?: { authUrl?: unknown } }).environment?.authUrl === 'string'
}

/** Validates a provider and the options of an attachment, or throws a {@link ConfigurationError} with every problem. */
export function resolveAttach(
  tokens: unknown,
  options: unknown = {},
  { fetch = false }: { readonly fetch?: boolean } = {},
): ResolvedAttach {
  const parsed = parse<z.output<typeof attachFetchShape>>(fetch ? attachFetchShape : attachShape, options)
  const noProvider: Problem[] = isProvider(tokens)
    ? []
    : [{ option: 'tokens', kind: 'invalid', reason: PROVIDER }]
  const problems = [...noProvider, ...parsed.problems]
  const resolved = parsed.data
  if (resolved === undefined || problems.length > 0)
    throw new ConfigurationError('The token cannot be attached', problems)
  const { header = DEFAULT_HEADER, scheme = DEFAULT_SCHEME, renewOnStatus = [401], fetch: given } = resolved
  const prefix = scheme === '' ? '' : `${scheme} `
  return { header, headerKey: header.toLowerCase(), prefix, renewOnStatus, fetch: given }
}

/** What a caller may say: every option with its default, and all problems at once. */
import * as z from 'zod/mini'
import { copied, copyOf, fn, having, headerName, ms, partOf, problemsOf, schemeName, text } from './checks.ts'
import { type Clock, MAX_TIMER_MS, systemClock } from './clock.ts'
import { checkEnvironment, type Environment } from './environments.ts'
import { ConfigurationError } from './errors.ts'
import type { AuthEvent } from './events.ts'
import type { TokenStore } from './store/token-store.ts'

/** Options of `createTokenProvider`. */
export interface TokenProviderOptions {
  /** The environment whose token endpoint is asked and whose APIs get the token. */
  readonly environment: Environment
  /** The client id (RFC 6749 §2.2): any text but an empty one. */
  readonly clientId: string
  /**
   * The client secret, or a function that yields it and is asked before every token request. Where a function
   * yields another secret after the token endpoint rejected the last one, the request is made once more. Where it
   * throws, hangs or yields nothing, waiting calls reject with a `TokenRequestError` (`ERR_CLIENT_SECRET`).
   */
  readonly clientSecret: string | (() => string | Promise<string>)
  /**
   * Time (ms, 1 to 2^31-1) for a whole token request with its retries and pauses. An attempt
   * that another may follow gets at most half of it. After it, waiting calls reject with a `TokenRequestError`.
   * @default 10_000
   */
  readonly timeoutMs?: number | undefined
  /**
   * Further attempts (0 to 100) after a first one that failed with no connection, a time-out, an answer that broke off,
   * 408, 429 or 5xx. The
   * pauses between them are random, up to 200 ms and doubling, or what Retry-After (RFC 9110 §10.2.3) asks for.
   * @default 2
   */
  readonly retries?: number | undefined
  /**
   * How long (ms, 0 to 2^31-1) before the end of its use a token is renewed in the background, shortened by a random
   * 0 to 25 % for each token, so that many processes do not renew together. 0: never in the background. At most 50 %
   * of a token's lifetime.
   * @default min(300_000, 20 % of the lifetime)
   */
  readonly refreshAheadMs?: number | undefined
  /**
   * How long (ms, 0 to 2^31-1) before its expiry a token is no longer handed out, so that it does not expire on its
   * way. At most 25 % of a token's lifetime.
   * @default min(10_000, 5 % of the lifetime)
   */
  readonly expiryMarginMs?: number | undefined
  /**
   * How the token request is written: `json` as the service wants it, `form` as RFC 6749 §4.4.2 has it.
   * @default 'json'
   */
  readonly bodyFormat?: 'json' | 'form' | undefined
  /**
   * Where the token is kept for other processes too, so that they need not ask for one of their own:
   * `createRedisTokenStore` of `merchant-auth/redis`, or one of your own. No call fails when it does.
   * @default none: the token is kept in the memory of this process
   */
  readonly store?: TokenStore | undefined
  /**
   * Keys (at least 32 random bytes each, as text) for what goes to the store: the first one writes, all read, so
   * that keys can be replaced without a pause. Not used without a store.
   * @default derived from the client secret
   */
  readonly encryptionKeys?: readonly string[] | undefined
  /**
   * What sends the token request: for proxies, mutual TLS, tests.
   * @default globalThis.fetch, looked up at each use
   */
  readonly fetch?: typeof fetch | undefined
  /** Called with every event, at once. What it throws, or rejects with, is ignored. */
  readonly onEvent?: ((event: AuthEvent) => void) | undefined
  /**
   * Where time comes from.
   * @default the clocks of this machine
   */
  readonly clock?: Clock | undefined
}

/** Options of everything that attaches the token to calls. */
export interface AttachOptions {
  /**
   * The request header (a name of RFC 9110 §5.1) that carries the token; not one that clients set themselves or drop, such
   * as `Host` and `Content-Type`. Under another name than `Authorization`
   * redirects are not followed by fetch, axios' fetch adapter and undici, which would take it along.
   * @default 'Authorization'
   */
  readonly header?: string | undefined
  /**
   * What stands before the token in the header; `''` sends the bare token.
   * @default 'Bearer'
   */
  readonly scheme?: string | undefined
  /**
   * Statuses of the API (400 to 599) upon which the token is renewed and the call is made once more. `[]` never
   * renews, and never keeps a body for a second try.
   * @default [401]
   */
  readonly renewOnStatus?: readonly number[] | undefined
}

/** Checked options with their defaults. */
export interface ResolvedOptions {
  readonly environment: Environment
  readonly clientId: string
  readonly clientSecret: string | (() => string | Promise<string>)
  readonly timeoutMs: number
  readonly retries: number
  readonly refreshAheadMs: number | undefined
  readonly expiryMarginMs: number | undefined
  readonly bodyFormat: 'json' | 'form'
  readonly store: TokenStore | undefined
  readonly encryptionKeys: readonly string[] | undefined
  readonly fetch: typeof fetch
  readonly onEvent: ((event: AuthEvent) => void) | undefined
  readonly clock: Clock
}

/** Checked attach options with their defaults. */
export interface ResolvedAttach {
  readonly header: string
  /** The header's name in lower case. */
  readonly headerKey: string
  /** What stands before the token, with the space between. */
  readonly prefix: string
  readonly renewOnStatus: readonly number[]
  /** The fetch to wrap, where one was given. */
  readonly fetch: typeof fetch | undefined
}

function isDurationOrNothing(ms: unknown): boolean {
  return ms === undefined || (typeof ms === 'number' && ms >= 1 && ms <= MAX_TIMER_MS)
}

const DURATION = 'must be a number of milliseconds from 0 to 2147483647'

const STORE = 'must have the functions get, set and delete'
const LEASE = 'must have a function as lease, where it has one'
const STORE_TIMEOUT = 'must have an operationTimeoutMs of 1 to 2147483647 ms, where it has one'
const KEY = 'must be a non-empty string'
const KEYS = 'must be an array with at least one key'

const providerShape = z.strictObject({
  environment: z.optional(z.unknown()), // checked with the environments
  clientId: text('must be a non-empty string'),
  clientSecret: z.custom<string | (() => string | Promise<string>)>(
    (value) => (typeof value === 'string' && value !== '') || typeof value === 'function',
    'must be a non-empty string, or a function that yields one',
  ),
  timeoutMs: z.optional(ms(1, 'must be a number of milliseconds from 1 to 2147483647')),
  retries: z.optional(
    z
      .int('must be a whole number from 0 to 100')
      .check(z.gte(0, 'must be at least 0'), z.lte(100, 'must be at most 100')),
  ),
  refreshAheadMs: z.optional(ms(0, DURATION)),
  expiryMarginMs: z.optional(ms(0, DURATION)),
  bodyFormat: z.optional(z.enum(['json', 'form'], "must be 'json' or 'form'")),
  store: z.optional(
    having<TokenStore>(['get', 'set', 'delete'], STORE).check(
      z.refine((store) => ['undefined', 'function'].includes(typeof partOf(store, 'lease')), LEASE),
      z.refine((store) => isDurationOrNothing(partOf(store, 'operationTimeoutMs')), STORE_TIMEOUT),
    ),
  ),
  encryptionKeys: z.optional(z.array(text(KEY), KEYS).check(z.refine((keys) => keys.length > 0, KEYS))),
  fetch: z.optional(fn<typeof fetch>('must be a function')),
  onEvent: z.optional(fn<(event: AuthEvent) => void>('must be a function')),
  clock: z.optional(
    having<Clock>(
      ['monotonicMs', 'epochMs', 'sleep'],
      'must have the functions monotonicMs, epochMs and sleep',
    ),
  ),
})

const attachParts = {
  header: z.optional(headerName),
  scheme: z.optional(schemeName),
  renewOnStatus: z.optional(
    z.array(
      z
        .int('must be a status')
        .check(
          z.gte(400, 'must be a status from 400 to 599'),
          z.lte(599, 'must be a status from 400 to 599'),
        ),
      'must be an array of statuses',
    ),
  ),
}

const attachShape = copied(z.strictObject(attachParts))

/** The schema of what `createAuthFetch` takes: the fetch to wrap, too. */
const attachFetchShape = copied(
  z.strictObject({ ...attachParts, fetch: z.optional(fn<typeof fetch>('must be a function')) }),
)

/**
 * Checks the options of a provider.
 *
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every problem
 */
export function resolveOptions(options: unknown): ResolvedOptions {
  const given = copyOf(options, Object.keys(providerShape.shape))
  const parsed = z.safeParse(providerShape, given)
  const environment = checkEnvironment(partOf(given, 'environment'), 'environment')
  if (!parsed.success || Array.isArray(environment)) {
    const problems = parsed.success ? [] : problemsOf(parsed.error)
    if (Array.isArray(environment)) problems.push(...environment)
    throw new ConfigurationError('The options of the token provider cannot be used', problems)
  }
  const { data } = parsed
  return {
    environment,
    clientId: data.clientId,
    clientSecret: data.clientSecret,
    timeoutMs: data.timeoutMs ?? 10_000,
    retries: data.retries ?? 2,
    refreshAheadMs: data.refreshAheadMs,
    expiryMarginMs: data.expiryMarginMs,
    bodyFormat: data.bodyFormat ?? 'json',
    store: data.store,
    encryptionKeys: data.encryptionKeys,
    fetch: data.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    onEvent: data.onEvent,
    clock: data.clock ?? systemClock,
  }
}

/**
 * Checks what is to be attached, and how.
 *
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every problem
 */
export function resolveAttach(
  tokens: unknown,
  options: unknown = {},
  { fetch = false }: { readonly fetch?: boolean } = {},
): ResolvedAttach {
  const parsed = z.safeParse(fetch ? attachFetchShape : attachShape, options)
  const problems = parsed.success ? [] : problemsOf(parsed.error)
  if (typeof partOf(tokens, 'getToken') !== 'function')
    problems.unshift({
      option: 'tokens',
      reason: 'must be a token provider, as createTokenProvider() makes it',
    })
  if (!parsed.success || problems.length > 0)
    throw new ConfigurationError('The token cannot be attached', problems)
  const given: z.output<typeof attachFetchShape> = parsed.data
  const { header = 'Authorization', scheme = 'Bearer', renewOnStatus = [401] } = given
  return {
    header,
    headerKey: header.toLowerCase(),
    prefix: scheme === '' ? '' : `${scheme} `,
    renewOnStatus: [...renewOnStatus],
    fetch: given.fetch,
  }
}

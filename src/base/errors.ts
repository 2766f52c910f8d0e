/** The errors of this package: one class for each kind of failure, stable codes, and the type guard. */
import { inManual } from './manual-link.ts'
import type { Quota } from './quota.ts'

/**
 * What failed, for programs. Codes are part of the public API and do not change within a major version.
 *
 * - `ERR_CONFIGURATION` ({@link ConfigurationError}): an option is invalid: `problems` lists all of them
 * - `ERR_BROWSER` ({@link ConfigurationError}): a provider was created in a browser
 * - `ERR_TOKEN_NETWORK` ({@link TokenRequestError}): no connection to the token endpoint, or a response that is incomplete or cannot be
 *   read
 * - `ERR_TOKEN_TIMEOUT` ({@link TokenRequestError}): no response from the token endpoint in time
 * - `ERR_TOKEN_STATUS` ({@link TokenRequestError}): the token endpoint returned an error status, or an error with a success status
 * - `ERR_TOKEN_REDIRECT` ({@link TokenRequestError}): the token endpoint returned a redirect, which is never followed
 * - `ERR_CLIENT_SECRET` ({@link TokenRequestError}): the `clientSecret` function threw, timed out or returned no string: see `cause`
 * - `ERR_CLIENT_ASSERTION` ({@link TokenRequestError}): the same of `clientAssertion`
 * - `ERR_TOKEN_RESPONSE` ({@link TokenResponseError}): the token endpoint returned a success status, but no usable token
 * - `ERR_PROVIDER_CLOSED` ({@link ProviderClosedError}): the provider was closed
 */
export type MerchantAuthErrorCode =
  | 'ERR_CONFIGURATION'
  | 'ERR_BROWSER'
  | 'ERR_TOKEN_NETWORK'
  | 'ERR_TOKEN_TIMEOUT'
  | 'ERR_TOKEN_STATUS'
  | 'ERR_TOKEN_REDIRECT'
  | 'ERR_CLIENT_SECRET'
  | 'ERR_CLIENT_ASSERTION'
  | 'ERR_TOKEN_RESPONSE'
  | 'ERR_PROVIDER_CLOSED'

const BRAND = Symbol.for('merchant-auth.error')

/** The base class of all errors of this package. No error contains the client secret, an assertion or a token. */
export class MerchantAuthError extends Error {
  /** What failed, for programs. */
  readonly code: MerchantAuthErrorCode

  /** @internal */
  constructor(message: string, code: MerchantAuthErrorCode, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }

  /** The fields for a structured log: name, code, message, and the fields of the subclass. */
  toJSON(): Record<string, unknown> {
    return { ...Object.fromEntries(Object.entries(this)), name: this.name, message: this.message }
  }
}

/** An option that cannot be used, and why. */
export interface Problem {
  /** The option's name with its path, for example `environment.apiUrls[0]`. */
  readonly option: string
  /**
   * What is wrong, for programs. Kinds are part of the public API, as codes are:
   *
   * - `missing`: the option is required, and not given or empty
   * - `invalid`: its value cannot be used
   * - `insecure`: it is an `http:` URL of a host other than a loopback host, or a directory that other users can write
   * - `unknown`: there is no such option, or not in this place
   * - `conflict`: it cannot be combined with another option, or with what exists already
   * - `unavailable`: it names a file, a port or a package that cannot be used
   */
  readonly kind: 'missing' | 'invalid' | 'insecure' | 'unknown' | 'conflict' | 'unavailable'
  /** Why it cannot be used, for people: the words may change in any version. Never contains the value. */
  readonly reason: string
}

/** What is wrong with a value, whatever its option is called. */
export type Flaw = Pick<Problem, 'kind' | 'reason'>

/** Invalid options, all at once. Its `code` is `ERR_CONFIGURATION`, or `ERR_BROWSER` in a browser. */
export class ConfigurationError extends MerchantAuthError {
  /** All problems. */
  readonly problems: readonly Problem[]

  /** @internal */
  constructor(
    what: string,
    problems: readonly Problem[],
    code: 'ERR_CONFIGURATION' | 'ERR_BROWSER' = 'ERR_CONFIGURATION',
  ) {
    super(`${what}:\n${problems.map(({ option, reason }) => `  - ${option}: ${reason}`).join('\n')}`, code)
    this.problems = problems
  }
}

/** The file of a credential cannot be used. Its message contains no foreign text. */
export class CredentialFileError extends Error {}

/** The fields of a {@link TokenRequestError}. */
export type TokenRequestFailure = Pick<TokenRequestError, 'code' | 'retryable' | 'attempts'> &
  Partial<Pick<TokenRequestError, 'status' | 'error' | 'errorDescription' | 'retryAfterMs' | 'answer'>> & {
    /** Not picked: with `lib` ES2021, TypeScript knows no `cause` of an error. */
    readonly cause?: unknown
  }

/**
 * The token request failed. Its `code` says why: `ERR_TOKEN_NETWORK`, `ERR_TOKEN_TIMEOUT`, `ERR_TOKEN_STATUS`,
 * `ERR_TOKEN_REDIRECT`, `ERR_CLIENT_SECRET` or `ERR_CLIENT_ASSERTION`. Its `cause` is the underlying error, if there is one.
 */
export class TokenRequestError extends MerchantAuthError {
  /** HTTP status of the token endpoint's response; undefined if there was no response, or none that can be read. */
  readonly status: number | undefined
  /** The `error` code of the response (RFC 6749 §5.2), for example `invalid_client`. */
  readonly error: string | undefined
  /** The `error_description` of the response, redacted and cut to 300 characters. */
  readonly errorDescription: string | undefined
  /** Number of attempts (at least 1) before this failure. */
  readonly attempts: number
  /**
   * How long (ms) this package sends no further token request: the rest of the cooldown, Retry-After (RFC 9110 §10.2.3)
   * within its limits, and after a 429 the time until a spent quota is full again. Calls fail immediately until then. It
   * does not promise that a later request succeeds: with `retryable: false`, correct the cause first.
   */
  readonly retryAfterMs: number | undefined
  /** Whether the same request may succeed later without any change by the caller. */
  readonly retryable: boolean
  /**
   * What the message says of the response: the redacted redirect location, what an error body of another shape says, the
   * delay (ms) of Retry-After, the spent quotas, and the kind of the refusal. Not enumerable.
   * @internal
   */
  declare readonly answer:
    | {
        readonly location?: string | undefined
        readonly detail?: string | undefined
        readonly retryAfterMs?: number | undefined
        readonly quotas?: readonly Quota[] | undefined
        readonly kind?: string | undefined
      }
    | undefined

  /** @internal */
  constructor(message: string, failure: TokenRequestFailure) {
    super(message, failure.code, failure.cause)
    this.status = failure.status
    this.error = failure.error
    this.errorDescription = failure.errorDescription
    this.attempts = failure.attempts
    this.retryAfterMs = failure.retryAfterMs
    this.retryable = failure.retryable
    Object.defineProperty(this, 'answer', { value: failure.answer })
  }
}

/** One invalid field of a token response. */
export interface ResponseIssue {
  /** Name of the field in the response; `body` for the whole response. */
  readonly field: string
  /** Why it is invalid. Never contains the value. */
  readonly reason: string
}

/** The token endpoint returned a success status, but no usable token (RFC 6749 §5.1): `ERR_TOKEN_RESPONSE`. */
export class TokenResponseError extends MerchantAuthError {
  /** The invalid fields of the response, and the reasons. */
  readonly issues: readonly ResponseIssue[]
  /** As on a {@link TokenRequestError}. */
  readonly retryAfterMs: number | undefined

  /** @internal */
  constructor(message: string, issues: readonly ResponseIssue[], retryAfterMs?: number) {
    super(message, 'ERR_TOKEN_RESPONSE')
    this.issues = issues
    this.retryAfterMs = retryAfterMs
  }
}

/** The provider was closed before or during the call: `ERR_PROVIDER_CLOSED`. */
export class ProviderClosedError extends MerchantAuthError {
  /** @internal */
  constructor() {
    const what = 'The token provider is closed. Create a new one with createTokenProvider().'
    super(`${what} See ${inManual('providerclosederror')}`, 'ERR_PROVIDER_CLOSED')
  }
}

// On the prototypes, so that inspect does not list the name again among the fields.
const CLASSES = {
  MerchantAuthError,
  ConfigurationError,
  TokenRequestError,
  TokenResponseError,
  ProviderClosedError,
}
for (const [name, { prototype }] of Object.entries(CLASSES))
  Object.defineProperty(prototype, 'name', { value: name, configurable: true, writable: true })
Object.defineProperty(MerchantAuthError.prototype, BRAND, { value: true })

/**
 * A separate error object for one of the callers that share a failure.
 *
 * @param remainingMs how long (ms) no further token request is sent
 * @param note text to append to the message
 */
export function copyForCaller(error: unknown, remainingMs?: number, note = ''): unknown {
  const pause = remainingMs === undefined ? undefined : { retryAfterMs: Math.ceil(remainingMs) }
  if (error instanceof TokenRequestError) {
    const { answer, cause } = error
    return new TokenRequestError(error.message + note, { ...error, answer, cause, ...pause })
  }
  if (error instanceof TokenResponseError) {
    const { retryAfterMs } = { ...error, ...pause }
    return new TokenResponseError(error.message + note, error.issues, retryAfterMs)
  }
  return error instanceof ProviderClosedError ? new ProviderClosedError() : error
}

/**
 * Whether a value is an error of this package. Also works across copies of the package, where `instanceof` fails.
 *
 * @param value any thrown value
 */
export function isMerchantAuthError(value: unknown): value is MerchantAuthError {
  return (value as { [BRAND]?: unknown } | null | undefined)?.[BRAND] === true
}

/**
 * Whether a framework steers itself by this error, as Next.js does while it prerenders a page: it has to be passed on as it
 * is.
 */
export function isFrameworkError(error: unknown): boolean {
  const { digest, code } = (error ?? {}) as { readonly digest?: unknown; readonly code?: unknown }
  return typeof digest === 'string' || String(code).startsWith('NEXT_') // NEXT_STATIC_GEN_BAILOUT has no digest
}

/** The errors of this package: one class per kind of failure, a stable code on each, and the guard that recognizes them. */

/**
 * What went wrong, for programs. Codes are part of the public interface and do not change within a major version.
 *
 * - `ERR_CONFIGURATION`: an option cannot be used
 * - `ERR_BROWSER`: a provider was created in a browser
 * - `ERR_TOKEN_NETWORK`: no connection to the token endpoint, or its answer broke off before its end
 * - `ERR_TOKEN_TIMEOUT`: no answer of the token endpoint in time
 * - `ERR_TOKEN_STATUS`: the token endpoint answered with an error
 * - `ERR_TOKEN_REDIRECT`: the token endpoint answered with a redirect, which is never followed
 * - `ERR_CLIENT_SECRET`: the function `clientSecret` threw, hung or yielded nothing
 * - `ERR_TOKEN_RESPONSE`: the token endpoint's answer was a success, but no usable token
 * - `ERR_PROVIDER_CLOSED`: the provider was closed
 */
export type MerchantAuthErrorCode =
  | 'ERR_CONFIGURATION'
  | 'ERR_BROWSER'
  | 'ERR_TOKEN_NETWORK'
  | 'ERR_TOKEN_TIMEOUT'
  | 'ERR_TOKEN_STATUS'
  | 'ERR_TOKEN_REDIRECT'
  | 'ERR_CLIENT_SECRET'
  | 'ERR_TOKEN_RESPONSE'
  | 'ERR_PROVIDER_CLOSED'

const BRAND = Symbol.for('merchant-auth.error')

/**
 * The base of every error that this package makes. Neither the client secret nor a token is in any of its parts or
 * prints.
 */
export class MerchantAuthError extends Error {
  /** What went wrong, for programs. */
  readonly code: MerchantAuthErrorCode

  /** @internal */
  constructor(message: string, code: MerchantAuthErrorCode, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }

  /** The fields of this error for a structured log: name, code, message and what its class adds. */
  toJSON(): Record<string, unknown> {
    return { ...Object.fromEntries(Object.entries(this)), name: this.name, message: this.message }
  }
}

/** One option that is wrong, and why. */
export interface Problem {
  /** The option's name, with its path: `environment.apiUrls[0]`. */
  readonly option: string
  /** What is wrong with it. Never holds the value. */
  readonly reason: string
}

/**
 * Options that cannot work. Thrown before any request, with all problems at once. Its `code` is `ERR_CONFIGURATION`, or
 * `ERR_BROWSER` in a browser.
 */
export class ConfigurationError extends MerchantAuthError {
  /** Everything that is wrong. */
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

/** The fields of a {@link TokenRequestError}. */
export interface TokenRequestFailure {
  readonly code: Exclude<
    MerchantAuthErrorCode,
    'ERR_CONFIGURATION' | 'ERR_BROWSER' | 'ERR_TOKEN_RESPONSE' | 'ERR_PROVIDER_CLOSED'
  >
  readonly retryable: boolean
  readonly attempts: number
  readonly status?: number | undefined
  readonly error?: string | undefined
  readonly errorDescription?: string | undefined
  readonly retryAfterMs?: number | undefined
  readonly answer?: TokenRequestError['answer']
  readonly cause?: unknown
}

/**
 * No token could be had. Its `code` says why: `ERR_TOKEN_NETWORK`, `ERR_TOKEN_TIMEOUT`, `ERR_TOKEN_STATUS`,
 * `ERR_TOKEN_REDIRECT` or `ERR_CLIENT_SECRET`; its `cause` is the error below it, where there is one.
 */
export class TokenRequestError extends MerchantAuthError {
  /** HTTP status of the token endpoint's answer; undefined where there was none. */
  readonly status: number | undefined
  /** The `error` code of the answer (RFC 6749 §5.2), for example `invalid_client`. */
  readonly error: string | undefined
  /** The `error_description` of the answer, with secrets taken out and at most 300 characters long. */
  readonly errorDescription: string | undefined
  /** How many attempts (at least 1) were made for this one failure. */
  readonly attempts: number
  /**
   * How long (ms) this package will not ask the token endpoint again: the pause after a failure, or what remains of it,
   * and Retry-After (RFC 9110 §10.2.3) as far as it is obeyed. Calls in the meantime fail at once.
   */
  readonly retryAfterMs: number | undefined
  /** Whether the same request may succeed later without a change on this side. */
  readonly retryable: boolean
  /**
   * What else the answer said, for `merchant-auth check`: where a redirect leads to, fit to be shown, and how long (ms)
   * Retry-After asks to wait. Not enumerable, because the message says the same.
   * @internal
   */
  declare readonly answer:
    | { readonly location?: string | undefined; readonly retryAfterMs?: number | undefined }
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

/** One field of a token response that cannot be used. */
export interface ResponseIssue {
  /** Name of the field on the wire; `body` for the whole answer. */
  readonly field: string
  /** What is wrong with it. Never holds the value. */
  readonly reason: string
}

/**
 * The token endpoint answered with success, but with nothing that can be used as a token (RFC 6749 §5.1). Its `code` is
 * `ERR_TOKEN_RESPONSE`.
 */
export class TokenResponseError extends MerchantAuthError {
  /** Which fields of the answer cannot be used, and why. */
  readonly issues: readonly ResponseIssue[]
  /** How long (ms) this package will not ask the token endpoint again, as on a {@link TokenRequestError}. */
  readonly retryAfterMs: number | undefined

  /** @internal */
  constructor(message: string, issues: readonly ResponseIssue[], retryAfterMs?: number) {
    super(message, 'ERR_TOKEN_RESPONSE')
    this.issues = issues
    this.retryAfterMs = retryAfterMs
  }
}

/** The provider was closed, before the call or while it waited. Its `code` is `ERR_PROVIDER_CLOSED`. */
export class ProviderClosedError extends MerchantAuthError {
  /** @internal */
  constructor() {
    super('The token provider is closed. Create a new one with createTokenProvider().', 'ERR_PROVIDER_CLOSED')
  }
}

// On the prototypes, so that no print shows the name a second time, among the fields.
for (const [type, name] of [
  [MerchantAuthError, 'MerchantAuthError'],
  [ConfigurationError, 'ConfigurationError'],
  [TokenRequestError, 'TokenRequestError'],
  [TokenResponseError, 'TokenResponseError'],
  [ProviderClosedError, 'ProviderClosedError'],
] as const) {
  Object.defineProperty(type.prototype, 'name', { value: name, configurable: true, writable: true })
}
Object.defineProperty(MerchantAuthError.prototype, BRAND, { value: true })

/**
 * A separate error object for one of many callers that share a failure, with how long (ms) the token endpoint is not
 * asked from now on, and perhaps with a note.
 */
export function ownCopy(error: unknown, remainingMs?: number, note = ''): unknown {
  const pause = remainingMs === undefined ? undefined : { retryAfterMs: Math.ceil(remainingMs) }
  if (error instanceof TokenRequestError) {
    const { answer, cause } = error
    const code = error.code as TokenRequestFailure['code']
    return new TokenRequestError(error.message + note, { ...error, code, answer, cause, ...pause })
  }
  if (error instanceof TokenResponseError) {
    const { retryAfterMs } = { ...error, ...pause }
    return new TokenResponseError(error.message + note, error.issues, retryAfterMs)
  }
  if (error instanceof ProviderClosedError) {
    return new ProviderClosedError()
  }
  return error
}

/**
 * Whether a value is an error of this package, also when it comes from another copy of it, where `instanceof` fails.
 *
 * @param value anything that was thrown
 */
export function isMerchantAuthError(value: unknown): value is MerchantAuthError {
  return typeof value === 'object' && value !== null && (value as { [BRAND]?: unknown })[BRAND] === true
}

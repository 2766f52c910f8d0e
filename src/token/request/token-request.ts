/** One token request (RFC 6749 §4.4.2): the POST to the token endpoint, its failures and its retries. */
import { type Advice, adviceOf, OPTIONS, otherWays } from '../../advice/failure.ts'
import { BROKEN_OFF, networkFailureOf } from '../../advice/network.ts'
import { type OAuthError, refusalOf } from '../../advice/refusals.ts'
import { RESPONSES, unusableKindOf } from '../../advice/responses.ts'
import { type Instant, LATE_WAIT_MS, readClock } from '../../base/clock.ts'
import {
  isFrameworkError,
  MerchantAuthError,
  type ResponseIssue,
  TokenRequestError,
  type TokenRequestFailure,
  TokenResponseError,
} from '../../base/errors.ts'
import { isSpent, type Quota, quotaInText, quotasIn, spentForMs } from '../../base/quota.ts'
import { formEncoded, redactedCause, shownUrl } from '../../base/redact.ts'
import { untilAborted, within } from '../../base/waiting.ts'
import { isLoopback } from '../../environment/environment.ts'
import type { ResolvedOptions } from '../../options/options.ts'
import type { Purpose } from '../limits/request-limits.ts'
import { CachedToken } from './access-token.ts'
import type { ClientCredential } from './client-credential.ts'
import type { AcquisitionContext } from './context.ts'
import { tokenRequestInit } from './request-format.ts'
import { ExpiredTokenError } from './token-errors.ts'
import {
  isRedirect,
  readOAuthError,
  readRetryAfter,
  readTokenResponse,
  redirectTarget,
} from './token-response.ts'

const FIRST_PAUSE_MS = 200
/** Of `timeoutMs`: a longer pause might not fit into what is left, and end the request long before: for jobs with many retries. */
const MAX_PAUSE_SHARE = 0.2
/** The pause after a token that is expired on arrival: its endpoint says in whole seconds how long the token still lives. */
const EXPIRED_PAUSE_MS = 1_000

/** One request that was sent. */
interface Exchange {
  readonly sentAt: Instant
  readonly signal: AbortSignal
}

/** What a token request needs besides the options. */
export interface TokenRequestContext extends AcquisitionContext {
  readonly credential: ClientCredential
  readonly purpose: Purpose
  /** Whether another attempt may follow one that has just failed. */
  readonly mayRetry: () => boolean
}

/** A token request with its retries. */
export class TokenRequest {
  readonly #options: ResolvedOptions
  readonly #context: TokenRequestContext
  #attempts = 0
  /** What the last response said about quotas. */
  #quotas: readonly Quota[] = []
  #askedForAnother = false
  /** Why the attempt before failed. */
  #failureBefore: unknown
  /** When (monotonic ms of the limit clock) the last attempt must have ended. Each attempt may take all that is left. */
  readonly #endsAt: number

  constructor(options: ResolvedOptions, context: TokenRequestContext) {
    this.#options = options
    this.#context = context
    this.#endsAt = options.limitClock.monotonicMs() + options.timeoutMs
  }

  get #endpoint(): string {
    return shownUrl(this.#options.endpoint, this.#context.secrets)
  }

  /**
   * Requests a token, with up to `retries` further attempts within `timeoutMs`; in the background with one attempt.
   *
   * @throws {@link TokenRequestError}
   * @throws {@link TokenResponseError}
   */
  async send(): Promise<CachedToken> {
    const { purpose, signal } = this.#context
    const retries = purpose === 'background' ? 0 : this.#options.retries
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#attempt(attempt)
      } catch (error) {
        signal.throwIfAborted()
        if (isFrameworkError(error)) throw error
        const pauseMs = attempt <= retries ? this.#pauseAfter(error, attempt - 1) : undefined
        this.#emitFailed(error, pauseMs)
        if (pauseMs === undefined) throw error
        await untilAborted(this.#options.limitClock.sleep(pauseMs, signal), signal)
      }
    }
  }

  /** Exponential backoff with full jitter, or Retry-After; undefined if no attempt follows. */
  #pauseAfter(error: unknown, retry: number): number | undefined {
    const leastMs = error instanceof ExpiredTokenError ? EXPIRED_PAUSE_MS : leastPauseMs(error)
    if (leastMs === undefined || this.#context.credential.isLate || !this.#context.mayRetry())
      return undefined
    const mostMs = Math.min(FIRST_PAUSE_MS * 2 ** retry, MAX_PAUSE_SHARE * this.#options.timeoutMs)
    const backoffMs = Math.random() * mostMs
    const pauseMs = Math.max(backoffMs, leastMs)
    return this.#options.limitClock.monotonicMs() + pauseMs < this.#endsAt ? pauseMs : undefined
  }

  async #attempt(attempt: number): Promise<CachedToken> {
    this.#beginAttempt()
    const credential = await this.#ask({ isFirst: attempt === 1 })
    try {
      return await this.#post(credential)
    } catch (error) {
      const another = await this.#anotherCredential(error, credential)
      if (another === undefined) throw error
      this.#emitFailed(error, 0)
      this.#beginAttempt()
      return await this.#post(another)
    }
  }

  #beginAttempt(): void {
    this.#attempts += 1
    this.#quotas = []
  }

  /** Asks for the credential of an attempt. */
  async #ask({ isFirst }: { readonly isFirst: boolean }): Promise<string> {
    const { credential } = this.#context
    try {
      return await (isFirst ? credential.first(this.#endsAt) : credential.another(this.#endsAt))
    } catch (error) {
      if (isFrameworkError(error)) throw error
      const { message, cause } = error as Error
      const { option } = this.#options.credential
      throw this.#failure(
        `The ${option} function ${message}, so no token was requested at ${this.#endpoint}.`,
        {
          code: option === 'clientSecret' ? 'ERR_CLIENT_SECRET' : 'ERR_CLIENT_ASSERTION',
          retryable: true,
          cause,
        },
      )
    }
  }

  /** A different credential than the rejected one, once: a secret may have been rotated since it was read. */
  async #anotherCredential(error: unknown, rejected: string): Promise<string | undefined> {
    const { credential: asked, purpose } = this.#context
    if (!asked.mayChange || this.#askedForAnother || !isRefusedClient(error)) return
    // Assertions always differ, so a new one does not show that a key was rotated. The next background renewal signs one anyway.
    if (purpose === 'background' && this.#options.credential.option === 'clientAssertion') return
    this.#askedForAnother = true
    const credential = await this.#ask({ isFirst: false }).catch(() => undefined) // the rejection says more
    return credential === rejected ? undefined : credential
  }

  /** Sends one request, and reads the token in its response. */
  async #post(credential: string): Promise<CachedToken> {
    const { clock, limitClock } = this.#options
    const { emit, secrets, signal: closed } = this.#context
    const endsAt = this.#endsAt
    const leftMs = Math.max(0, Math.round(endsAt - limitClock.monotonicMs()))
    let response: Response | undefined
    const exchange = async (signal: AbortSignal): Promise<CachedToken> => {
      emit({ type: 'token-requested', attempt: this.#attempts, url: this.#endpoint })
      const sentAt = readClock(clock)
      try {
        // The global fetch is looked up at each use: tests and tools replace it.
        const { endpoint, fetch = globalThis.fetch } = this.#options
        const init = tokenRequestInit(this.#options, credential)
        const { authorization } = init.headers
        if (authorization !== undefined) {
          // For servers that repeat the header, or what is in it.
          secrets.keep('basic', authorization.slice('Basic '.length))
          secrets.keep('in basic', formEncoded(credential))
        }
        response = await fetch(endpoint, { ...init, signal })
        if (!isResponse(response)) throw this.#noResponse()
        return await this.#read(response, { sentAt, signal })
      } catch (error) {
        if (error instanceof MerchantAuthError || isFrameworkError(error)) throw error
        throw this.#networkFailure(redactedCause(error, secrets), { isIncomplete: response !== undefined })
      }
    }
    const cause = this.#failureBefore
    const before = cause instanceof Error ? ` The attempt before failed: ${cause.message}` : ''
    return await within(limitClock, { endsAt, closed }, exchange, () =>
      this.#failure(`POST ${this.#endpoint} ${this.#timedOut(leftMs, response?.status)}${before}`, {
        code: 'ERR_TOKEN_TIMEOUT',
        retryable: true,
        cause,
      }),
    )
  }

  /** What happened in a request that had this time (ms), and what to do. */
  #timedOut(leftMs: number, status: number | undefined): string {
    if (leftMs === 0) return `was not sent. ${this.#advice(RESPONSES['stood-still'])}`
    if (status !== undefined)
      return `returned ${status}, but not its whole body within ${leftMs} ms. ${this.#advice(RESPONSES['slow-body'])}`
    return `returned no response within ${leftMs} ms. ${this.#advice(RESPONSES['no-response'])}`
  }

  async #read(response: Response, { sentAt, signal }: Exchange): Promise<CachedToken> {
    const { limits, secrets } = this.#context
    const { lifetimeIfMissingMs } = this.#options
    this.#quotas = quotasIn(response, secrets)
    limits.quotasReported(this.#quotas)
    if (isRedirect(response)) throw this.#redirectFailure(response)
    if (!response.ok) throw this.#refused(response, await this.#oauthError(response, signal))
    const read = await readTokenResponse(response, { sentAt, secrets, lifetimeIfMissingMs })
    if (read.kind === 'error') throw this.#refused(response, read.oauth)
    if (read.kind === 'invalid') throw this.#badResponse(read.issues)
    const cached = new CachedToken({ ...read.token, quotas: this.#quotas }, this.#options, secrets)
    if (cached.servableForMs(this.#options.clock) > 0) return cached
    throw new ExpiredTokenError(this.#endpoint)
  }

  /** There was no response, an incomplete one, or one that cannot be read. */
  #networkFailure(
    cause: Error | undefined,
    { isIncomplete }: { readonly isIncomplete: boolean },
  ): TokenRequestError {
    const isLocal = isLoopback(new URL(this.#options.endpoint).hostname)
    const found = networkFailureOf(cause, { isLoopback: isLocal })
    const isBrokenOff = isIncomplete && found.failure.isLasting !== true
    const failure = isBrokenOff ? BROKEN_OFF : found.failure
    let what = 'received no response'
    if (isBrokenOff) what = 'received an incomplete or empty response'
    else if (failure.step === 'response') what = 'returned a response that cannot be read'
    else if (failure.step === 'program') what = 'was not sent'
    return this.#failure(`POST ${this.#endpoint} ${what} (${found.reason}). ${this.#advice(failure)}`, {
      code: 'ERR_TOKEN_NETWORK',
      retryable: failure.isLasting !== true,
      cause,
    })
  }

  /** A function returned something else, such as the mock of a test. */
  #noResponse(): TokenRequestError {
    const name = this.#options.fetch === undefined ? 'global fetch' : 'option fetch'
    return this.#failure(
      `POST ${this.#endpoint} has no response: the ${name} returned something else, or a Response that was read before. ` +
        this.#advice(RESPONSES['no-response-object']),
      { code: 'ERR_TOKEN_NETWORK', retryable: false },
    )
  }

  #badResponse(issues: readonly ResponseIssue[]): TokenResponseError {
    const what = issues.map(({ field, reason }) => `${field} ${reason}`).join('; ')
    const kind = unusableKindOf(issues)
    const advice = this.#advice(RESPONSES[kind])
    const response =
      kind === 'incomplete-token' || kind === 'no-lifetime'
        ? 'a token response that cannot be used'
        : 'no token response'
    return new TokenResponseError(`POST ${this.#endpoint} returned ${response}: ${what}. ${advice}`, issues)
  }

  #redirectFailure(response: Response): TokenRequestError {
    const { status } = response
    const retryAfterMs = readRetryAfter(response, this.#options.clock.epochMs())
    const location = redirectTarget(response, this.#context.secrets)
    const isSameOrigin = location === new URL(this.#options.endpoint).origin
    return this.#failure(
      `POST ${this.#endpoint} returned a redirect${location && ` to ${location}`}, which is never followed: it would ` +
        `forward the credentials. ${this.#advice(RESPONSES[isSameOrigin ? 'redirect-here' : 'redirect'])}`,
      {
        code: 'ERR_TOKEN_REDIRECT',
        retryable: false,
        status,
        retryAfterMs,
        answer: { location, retryAfterMs },
      },
    )
  }

  /** The response has an error status, or an error with a success status. */
  #refused(response: Response, { detail, ...oauth }: OAuthError): TokenRequestError {
    const { status } = response
    const retryAfterMs = readRetryAfter(response, this.#options.clock.epochMs())
    const words = [oauth.error, oauth.errorDescription, detail]
      .filter((part) => part !== undefined)
      .join(': ')
    const pause = retryAfterMs === undefined ? '' : ` It asks for a pause of ${retryAfterMs} ms.`
    const quotas = status === 429 ? this.#quotas.filter(isSpent) : []
    const { bodyFormat, credential, environment, tokenEndpointAuthMethod } = this.#options
    const asked = /(?:^|,)\s*basic\b/i.test(response.headers.get('www-authenticate') ?? '')
    const request = {
      isAssertion: credential.option === 'clientAssertion',
      isForm: bodyFormat === 'form',
      needsBasic: asked && tokenEndpointAuthMethod === 'client_secret_post',
      hasAudience: environment.audience !== undefined,
    }
    const refusal = refusalOf(status, { ...oauth, detail }, request)
    return this.#failure(
      `POST ${this.#endpoint} returned ${status}${words && ` (${words})`}.${pause} ` +
        quotas.map((quota) => `${quotaInText(quota)} `).join('') +
        this.#advice(refusal),
      {
        code: 'ERR_TOKEN_STATUS',
        // Without the detail: free text must not cause retries.
        retryable: refusalOf(status, oauth).isTemporary === true,
        status,
        ...oauth,
        retryAfterMs,
        answer: { detail, retryAfterMs, quotas, kind: refusal.kind },
      },
    )
  }

  /**
   * The error body, if it arrives within half of what is left of the time: a retry must stay possible, and the status is
   * enough. One that arrived while the process stood still is read although no time is left, until the late timer of the
   * request ends.
   */
  async #oauthError(response: Response, signal: AbortSignal): Promise<OAuthError> {
    const { limitClock } = this.#options
    const now = limitClock.monotonicMs()
    const endsAt = now < this.#endsAt ? (now + this.#endsAt) / 2 : now + LATE_WAIT_MS / 2
    const read = (): Promise<OAuthError> => readOAuthError(response, this.#context.secrets)
    return await within(limitClock, { endsAt, closed: signal }, read, () => new Error()).catch(() => ({}))
  }

  #advice(failure: Advice): string {
    const { credential, fetch } = this.#options
    const circle = fetch ? ' If the option fetch uses a client that has this token, it waits for itself.' : ''
    return adviceOf(failure, {
      ...OPTIONS,
      ...otherWays(this.#options, credential.option),
      credential: credential.option,
      circle,
    })
  }

  #failure(message: string, failure: Omit<TokenRequestFailure, 'attempts'>): TokenRequestError {
    return new TokenRequestError(message, { ...failure, attempts: this.#attempts })
  }

  #emitFailed(error: unknown, nextTryMs: number | undefined): void {
    this.#failureBefore = error
    const { code, status, error: oauth } = error as Partial<TokenRequestError>
    this.#context.emit({
      type: 'token-request-failed',
      attempt: this.#attempts,
      code: String(code),
      status,
      error: oauth,
      nextTryMs,
      quota: this.#quotas.length > 0 ? this.#quotas : undefined,
    })
  }
}

/** How long (ms) a failed request has to pause at least before the next one; undefined if it must not be repeated. */
function leastPauseMs(error: unknown): number | undefined {
  if (!(error instanceof TokenRequestError) || !error.retryable) return undefined
  const { answer, retryAfterMs, status } = error
  const spentMs = spentForMs(answer?.quotas)
  // A service that counts refused requests would refuse the next ones, too.
  if (status === 429 && retryAfterMs === undefined && spentMs === 0) return undefined
  return Math.max(retryAfterMs ?? 0, spentMs)
}

/**
 * Whether this is a response, and not what a mock or a mistaken function returns instead. The body that the token is in must be
 * unread.
 */
function isResponse(response: Partial<Response> | null | undefined): boolean {
  const isOne = typeof response?.headers?.get === 'function' && typeof response.body === 'object'
  return isOne && !(response.ok === true && response.bodyUsed === true)
}

/** Whether the token endpoint rejected the client, perhaps because the secret was rotated since it was read. */
function isRefusedClient(error: unknown): boolean {
  return (
    error instanceof TokenRequestError &&
    (error.status === 401 || error.error === 'invalid_client' || error.error === 'access_denied')
  )
}

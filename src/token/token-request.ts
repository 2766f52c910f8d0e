/** One token request (RFC 6749 §4.4.2): the client's credential, the POST to the token endpoint, its failures and its retries. */
import { readClock } from '../clock.ts'
import {
  MerchantAuthError,
  type ResponseIssue,
  TokenRequestError,
  type TokenRequestFailure,
  TokenResponseError,
} from '../errors.ts'
import type { Emitter } from '../events.ts'
import type { ResolvedOptions } from '../options.ts'
import { type Quota, quotaInText, spentForMs } from '../quota.ts'
import { redactedCause, shownUrl, type UsedSecrets } from '../redact.ts'
import { untilAborted, within } from '../waiting.ts'
import { warnIfWeak } from '../warnings.ts'
import { CachedToken } from './access-token.ts'
import type { Quotas } from './rate-limit.ts'
import { adviceFor, TOO_MANY } from './rejection.ts'
import {
  isRedirect,
  type OAuthError,
  quotasIn,
  readOAuthError,
  readRetryAfter,
  readTokenResponse,
  redirectTarget,
} from './token-response.ts'

const FIRST_PAUSE_MS = 200
/** RFC 7523 §2.2. */
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** What the parts of a provider share besides its options. */
export interface ProviderContext extends Emitter {
  /** The client secrets and tokens used so far, to be kept out of errors and events. */
  readonly secrets: UsedSecrets
  /** What the token endpoint said about its quotas. */
  readonly quotas: Quotas
  /** Aborted when the provider is closed. */
  readonly closed: AbortSignal
}

/** What a token request needs besides the options. */
export interface TokenRequestContext extends ProviderContext {
  readonly credential: ClientCredential
  /** When (monotonic ms) the last attempt must have ended. */
  readonly deadline: number
  /** Whether it is a background renewal. */
  readonly background: boolean
  /** Whether another attempt may follow one that has just failed. */
  readonly mayRetry: () => boolean
}

/**
 * Requests a token, with up to `retries` further attempts before the deadline; in the background with one attempt.
 *
 * @throws {@link TokenRequestError}
 * @throws {@link TokenResponseError}
 */
export function requestToken(options: ResolvedOptions, context: TokenRequestContext): Promise<CachedToken> {
  return new TokenRequest(options, context).send()
}

/**
 * When (monotonic ms) an attempt must have ended: at most half of `timeoutMs` if another attempt may follow, otherwise all
 * that is left. A background renewal may be followed by the request of a waiting caller.
 */
export function attemptEndsAt(
  { clock, retries, timeoutMs }: ResolvedOptions,
  { attempt, deadline, background }: { attempt: number; deadline: number; background: boolean },
): number {
  const isLast = attempt > retries && !background
  return isLast ? deadline : Math.min(clock.monotonicMs() + timeoutMs / 2, deadline)
}

/** The error for a token that expired before it could be used; `endpoint` is shown as it is. */
export function expiredOnArrival(endpoint: string): TokenResponseError {
  return new TokenResponseError(
    `POST ${endpoint} returned a token that expired before it could be used. ` +
      'Its lifetime is shorter than the request took.',
    [{ field: 'expires_in', reason: 'is shorter than the request took' }],
  )
}

/** The error for a process that shares the pause of another process, which the token endpoint refused. */
export function refusedElsewhere(endpoint: string): TokenRequestError {
  return new TokenRequestError(
    `POST ${endpoint} returned 429 to another process that shares the store. ${TOO_MANY}`,
    { code: 'ERR_TOKEN_STATUS', status: 429, retryable: true, attempts: 1 },
  )
}

/** The token request was sent by another call, which ended before it, as on Cloudflare Workers. */
export function lostRequest(endpoint: string): TokenRequestError {
  return new TokenRequestError(`POST ${endpoint} was lost: use waitUntil().`, {
    code: 'ERR_TOKEN_TIMEOUT',
    retryable: true,
    attempts: 1,
  })
}

/** Whether a framework steers itself by this error, as Next.js does while it prerenders a page. */
export function isFrameworkError(error: unknown): boolean {
  return typeof (error as { readonly digest?: unknown } | undefined)?.digest === 'string'
}

/** The credential for one token: a client secret, or what a function of the caller returns. */
export class ClientCredential {
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  /** The last one that was obtained. */
  last: string | undefined
  #ahead: Promise<string> | undefined

  constructor(options: ResolvedOptions, context: ProviderContext) {
    this.#options = options
    this.#context = context
  }

  /** Whether the function may return another one. */
  get mayChange(): boolean {
    return typeof this.#options.credential.value === 'function'
  }

  /**
   * The credential, if it is available before `endsAt` (monotonic ms).
   *
   * @throws an error whose message completes "The … function …"
   */
  ask(endsAt: number): Promise<string> {
    const asked = this.#ahead ?? this.#askNow(endsAt)
    this.#ahead = undefined
    return asked
  }

  /** Like `ask`, but resolves with undefined on failure. The next `ask` reuses the result. */
  async askAhead(endsAt: number): Promise<string | undefined> {
    this.#ahead = this.#askNow(endsAt)
    return await this.#ahead.catch(() => undefined)
  }

  async #askNow(endsAt: number): Promise<string> {
    const { credential } = this.#options
    const { option, value } = credential
    this.last = typeof value === 'string' ? value : await this.#call(value, endsAt)
    if (option === 'clientSecret' && this.mayChange) warnIfWeak(this.last)
    this.#context.secrets.add(this.last)
    return this.last
  }

  async #call(credential: () => string | Promise<string>, endsAt: number): Promise<string> {
    const { closed, secrets } = this.#context
    const ask = async (): Promise<unknown> => {
      try {
        return await credential()
      } catch (error) {
        if (isFrameworkError(error)) throw error
        throw new Error('threw', { cause: redactedCause(error, secrets) })
      }
    }
    const late = (): Error => new Error('did not answer in time')
    const returned = (await within(this.#options.clock, { endsAt, closed }, ask, late)) ?? ''
    if (typeof returned !== 'string') throw new Error('returned no string')
    // Files end with line breaks, and a JWT has none.
    const value = this.#options.credential.option === 'clientAssertion' ? returned.trim() : returned
    if (value === '') throw new Error('returned nothing')
    return value
  }
}

class TokenRequest {
  readonly #options: ResolvedOptions
  readonly #context: TokenRequestContext
  #attempts = 0
  /** What the last response said about quotas. */
  #quotas: readonly Quota[] = []
  #askedForAnother = false

  constructor(options: ResolvedOptions, context: TokenRequestContext) {
    this.#options = options
    this.#context = context
  }

  get #endpoint(): string {
    return shownUrl(this.#options.endpoint, this.#context.secrets)
  }

  async send(): Promise<CachedToken> {
    const { background, closed } = this.#context
    const retries = background ? 0 : this.#options.retries
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#attempt(attempt)
      } catch (error) {
        closed.throwIfAborted()
        if (isFrameworkError(error)) throw error
        const pauseMs = attempt <= retries ? this.#pauseAfter(error, attempt - 1) : undefined
        this.#emitFailed(error, pauseMs)
        if (pauseMs === undefined) throw error
        await untilAborted(this.#options.clock.sleep(pauseMs, closed), closed)
        if (this.#options.clock.monotonicMs() < this.#context.deadline) continue
        this.#emitFailed(error, undefined) // the process was suspended: no attempt follows
        throw error
      }
    }
  }

  /** Exponential backoff with full jitter, or Retry-After; undefined if no attempt follows. */
  #pauseAfter(error: unknown, retry: number): number | undefined {
    if (!(error instanceof TokenRequestError) || !error.retryable || !this.#context.mayRetry())
      return undefined
    const spentMs = spentForMs(error.answer?.quotas)
    // A service that counts refused requests would refuse the next ones, too.
    if (error.status === 429 && error.retryAfterMs === undefined && spentMs === 0) return undefined
    const backoffMs = Math.random() * FIRST_PAUSE_MS * 2 ** retry
    const pauseMs = Math.max(backoffMs, error.retryAfterMs ?? 0, spentMs)
    return this.#options.clock.monotonicMs() + pauseMs < this.#context.deadline ? pauseMs : undefined
  }

  async #attempt(attempt: number): Promise<CachedToken> {
    const until = (): number => attemptEndsAt(this.#options, { ...this.#context, attempt })
    const endsAt = until()
    this.#attempts += 1
    this.#quotas = []
    const credential = await this.#askForCredential(endsAt)
    try {
      return await this.#post(credential, endsAt)
    } catch (error) {
      const another = await this.#anotherCredential(error, credential, until())
      if (another === undefined) throw error
      this.#emitFailed(error, 0)
      this.#attempts += 1
      return await this.#post(another, until())
    }
  }

  async #askForCredential(endsAt: number): Promise<string> {
    try {
      return await this.#context.credential.ask(endsAt)
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
  async #anotherCredential(error: unknown, rejected: string, endsAt: number): Promise<string | undefined> {
    const { background, credential: asked } = this.#context
    if (!asked.mayChange || this.#askedForAnother || !isRejectedClient(error)) return
    // Each assertion is another one, and so says nothing about a rotation: in the background the next attempt will do.
    if (background && this.#options.credential.option === 'clientAssertion') return
    this.#askedForAnother = true
    const credential = await this.#askForCredential(endsAt).catch(() => undefined) // the rejection says more
    return credential === rejected ? undefined : credential
  }

  async #post(credential: string, endsAt: number): Promise<CachedToken> {
    const { clock } = this.#options
    const leftMs = Math.max(0, Math.round(endsAt - clock.monotonicMs()))
    return await within(
      clock,
      { endsAt, closed: this.#context.closed },
      (signal) => this.#exchange(credential, endsAt, signal),
      () =>
        this.#failure(
          `POST ${this.#endpoint} returned no response within ${leftMs} ms. ` +
            'The token endpoint hangs or is slow: try again later, or raise timeoutMs.',
          { code: 'ERR_TOKEN_TIMEOUT', retryable: true },
        ),
    )
  }

  async #exchange(credential: string, endsAt: number, signal: AbortSignal): Promise<CachedToken> {
    const { emit, secrets } = this.#context
    emit({ type: 'token-requested', attempt: this.#attempts, url: this.#endpoint })
    const sentAt = readClock(this.#options.clock)
    let response: Response | undefined
    this.#quotas = []
    try {
      response = await this.#fetch(credential, signal)
      this.#quotas = await quotasIn(response, secrets)
      this.#context.quotas.note(this.#quotas, this.#options.clock.monotonicMs())
      if (isRedirect(response)) throw this.#redirectFailure(response)
      if (!response.ok) throw await this.#statusFailure(response, endsAt, signal)
      const read = await readTokenResponse(response, sentAt, secrets)
      if (Array.isArray(read)) throw this.#badResponse(read)
      const cached = new CachedToken({ ...read, quotas: this.#quotas }, this.#options, secrets)
      if (cached.servableForMs(this.#options.clock) > 0) return cached
      throw expiredOnArrival(this.#endpoint)
    } catch (error) {
      if (error instanceof MerchantAuthError || isFrameworkError(error)) throw error
      throw this.#networkFailure(redactedCause(error, secrets), response !== undefined)
    }
  }

  #fetch(value: string, signal: AbortSignal): Promise<Response> {
    const { bodyFormat, clientId, credential, endpoint, environment, tokenParameters } = this.#options
    const proof =
      credential.option === 'clientSecret'
        ? { client_secret: value }
        : { client_assertion_type: ASSERTION_TYPE, client_assertion: value }
    const fields = {
      client_id: clientId,
      ...proof,
      audience: environment.audience,
      grant_type: 'client_credentials',
      ...tokenParameters,
    }
    const json = bodyFormat === 'json'
    // The global one is looked up at each use: tests and tools replace it.
    const send = this.#options.fetch ?? globalThis.fetch
    return send(endpoint, {
      method: 'POST',
      headers: {
        'content-type': json ? 'application/json' : 'application/x-www-form-urlencoded',
        accept: 'application/json',
      },
      body: json ? JSON.stringify(fields) : new URLSearchParams(fields).toString(),
      redirect: 'manual', // a 307 would forward the secret to another host
      cache: 'no-store', // Next.js caches POSTs of its fetch
      signal,
    })
  }

  /** There was no response, or an incomplete one. */
  #networkFailure(cause: Error | undefined, began: boolean): TokenRequestError {
    const code = codeOf(cause)
    const [what, advice] = began
      ? ['received an incomplete response', 'Try again later, or check the network, proxies and firewalls.']
      : ['received no response', 'Check authUrl and the network.']
    const reason = code === undefined ? '' : ` (${code})`
    const message = `POST ${this.#endpoint} ${what}${reason}. ${advice}`
    return this.#failure(message, { code: 'ERR_TOKEN_NETWORK', retryable: true, cause })
  }

  #badResponse(issues: ResponseIssue[]): TokenResponseError {
    const what = issues.map(({ field, reason }) => `${field} ${reason}`).join('; ')
    return new TokenResponseError(
      `POST ${this.#endpoint} returned no token response: ${what}. Check authUrl.`,
      issues,
    )
  }

  #redirectFailure(response: Response): TokenRequestError {
    const { status } = response
    const retryAfterMs = readRetryAfter(response, this.#options.clock.epochMs())
    const location = redirectTarget(response, this.#context.secrets)
    return this.#failure(
      `POST ${this.#endpoint} returned a redirect${location && ` to ${location}`}, which is never followed: ` +
        'it would forward the credentials. Check authUrl.',
      {
        code: 'ERR_TOKEN_REDIRECT',
        retryable: false,
        status,
        retryAfterMs,
        answer: { location, retryAfterMs },
      },
    )
  }

  async #statusFailure(response: Response, endsAt: number, signal: AbortSignal): Promise<TokenRequestError> {
    const { status } = response
    const oauth = await this.#oauthError(response, endsAt, signal)
    const retryAfterMs = readRetryAfter(response, this.#options.clock.epochMs())
    const details = [oauth.error, oauth.errorDescription].filter((part) => part !== undefined).join(': ')
    const pause = retryAfterMs === undefined ? '' : ` It asks for a pause of ${retryAfterMs} ms.`
    const quotas = status === 429 ? this.#quotas.filter(({ remaining }) => remaining === 0) : []
    return this.#failure(
      `POST ${this.#endpoint} returned ${status}${details && ` (${details})`}.${pause} ` +
        quotas.map((quota) => `${quotaInText(quota)} `).join('') +
        adviceFor(status, oauth, this.#options),
      {
        code: 'ERR_TOKEN_STATUS',
        retryable: status === 408 || status === 429 || status >= 500,
        status,
        ...oauth,
        retryAfterMs,
        answer: { retryAfterMs, quotas },
      },
    )
  }

  /** The error body, if it arrives in time: the status alone is enough. */
  async #oauthError(response: Response, endsAt: number, signal: AbortSignal): Promise<OAuthError> {
    const { clock } = this.#options
    const half = { endsAt: (clock.monotonicMs() + endsAt) / 2, closed: signal }
    const read = (): Promise<OAuthError> => readOAuthError(response, this.#context.secrets)
    return await within(clock, half, read, () => new Error()).catch(() => ({}))
  }

  #failure(message: string, failure: Omit<TokenRequestFailure, 'attempts'>): TokenRequestError {
    return new TokenRequestError(message, { ...failure, attempts: this.#attempts })
  }

  #emitFailed(error: unknown, nextTryMs: number | undefined): void {
    const { code, status, error: oauth } = error as Partial<TokenRequestError>
    this.#context.emit({
      type: 'token-request-failed',
      attempt: this.#attempts,
      code: String(code),
      ...(status === undefined ? undefined : { status }),
      ...(oauth === undefined ? undefined : { error: oauth }),
      ...(nextTryMs === undefined ? undefined : { nextTryMs }),
      ...(this.#quotas.length === 0 ? undefined : { quota: this.#quotas }),
    })
  }
}

/** The first code in a chain of causes, such as ECONNREFUSED. */
function codeOf(cause: Error | undefined): string | undefined {
  for (let error: unknown = cause; error instanceof Error; error = error.cause) {
    if ('code' in error) return String(error.code)
  }
  return undefined
}

/** Whether the token endpoint rejected the client, perhaps because the secret was rotated since it was read. */
function isRejectedClient(error: unknown): boolean {
  return (
    error instanceof TokenRequestError &&
    (error.status === 401 || error.error === 'invalid_client' || error.error === 'access_denied')
  )
}

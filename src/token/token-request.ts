/** One token request: a POST to the token endpoint, its faults, and its retries. */
import pRetry from 'p-retry'
import { type Instant, readClock } from '../clock.ts'
import { tokenEndpoint } from '../environments.ts'
import {
  MerchantAuthError,
  type ResponseIssue,
  TokenRequestError,
  type TokenRequestFailure,
  TokenResponseError,
} from '../errors.ts'
import type { Emit } from '../events.ts'
import type { ResolvedOptions } from '../options.ts'
import { redactedCause, shownUrl, type UsedSecrets } from '../redact.ts'
import { untilAborted, within } from '../waiting.ts'
import { readTokenResponse, type TokenGrant } from './access-token.ts'
import { type ClientSecret, isRefusedSecret } from './client-secret.ts'
import {
  adviceFor,
  codeOf,
  isWrongEncoding,
  MAX_ANSWER_BYTES,
  readAnswerText,
  readOAuthError,
  readRetryAfter,
  redirectTarget,
} from './token-answer.ts'
import { postToken } from './token-wire.ts'

const FIRST_PAUSE_MS = 200

/** A grant, and when the request for it was sent. */
export interface SentGrant extends TokenGrant {
  readonly sentAt: Instant
}

/** What a token request goes by, besides the options. */
export interface TokenRequestContext<Token> {
  readonly emit: Emit
  /** When (monotonic ms) the last attempt must have ended. */
  readonly deadline: number
  /** Whether it is a renewal in the background. */
  readonly ahead: boolean
  /** Ends the request, whatever it waits for. */
  readonly closed: AbortSignal
  readonly clientSecret: ClientSecret
  readonly secrets: UsedSecrets
  /** Makes a token of a grant; throws a TokenResponseError where it is of no use. */
  accept(grant: SentGrant): Token
}

/**
 * Asks the token endpoint, with up to `retries` further attempts before the deadline.
 *
 * @throws TokenRequestError
 * @throws TokenResponseError
 */
export function requestToken<Token>(
  options: ResolvedOptions,
  context: TokenRequestContext<Token>,
): Promise<Token> {
  return new TokenRequest(options, context).send()
}

/**
 * When (monotonic ms) an attempt must have ended: one that another may follow gets at most half of `timeoutMs`, the last
 * one all that is left. After a background renewal comes the request of whoever then waits.
 */
export function attemptEndsAt(
  { clock, retries, timeoutMs }: ResolvedOptions,
  { attempt, deadline, ahead }: { attempt: number; deadline: number; ahead: boolean },
): number {
  const isLast = attempt > retries && !ahead
  return isLast ? deadline : Math.min(clock.monotonicMs() + timeoutMs / 2, deadline)
}

class TokenRequest<Token> {
  readonly #options: ResolvedOptions
  readonly #context: TokenRequestContext<Token>
  #attempts = 0
  #askedForAnother = false

  constructor(options: ResolvedOptions, context: TokenRequestContext<Token>) {
    this.#options = options
    this.#context = context
  }

  /** Fit to be shown: a secret may stand in the path by mistake. */
  get #endpoint(): string {
    const { environment } = this.#options
    return tokenEndpoint({ ...environment, authUrl: shownUrl(environment.authUrl, this.#context.secrets) })
  }

  send(): Promise<Token> {
    const { closed } = this.#context
    return pRetry((attempt) => this.#attempt(attempt), {
      retries: this.#options.retries,
      signal: closed,
      minTimeout: 0, // the pause is taken below, on the provider's clock
      onFailedAttempt: async ({ error, retriesLeft, retriesConsumed }) => {
        const pauseMs = retriesLeft > 0 ? this.#pauseAfter(error, retriesConsumed) : undefined
        this.#tellFailed(error, pauseMs)
        if (pauseMs === undefined) throw error
        await untilAborted(this.#options.clock.sleep(pauseMs, closed), closed)
      },
    })
  }

  /** Exponential backoff with full jitter, or what Retry-After asks for; undefined where no attempt follows. */
  #pauseAfter(error: unknown, retriesConsumed: number): number | undefined {
    if (!(error instanceof TokenRequestError) || !error.retryable) return undefined
    const backoffMs = Math.random() * FIRST_PAUSE_MS * 2 ** retriesConsumed
    const pauseMs = Math.max(backoffMs, error.retryAfterMs ?? 0)
    return this.#options.clock.monotonicMs() + pauseMs < this.#context.deadline ? pauseMs : undefined
  }

  async #attempt(attempt: number): Promise<Token> {
    const until = (): number => attemptEndsAt(this.#options, { ...this.#context, attempt })
    const endsAt = until()
    this.#attempts += 1
    const secret = await this.#askForSecret(endsAt)
    try {
      return await this.#post(secret, endsAt)
    } catch (error) {
      const another = await this.#anotherSecret(error, secret, until())
      if (another === undefined) throw error
      this.#tellFailed(error, 0)
      this.#attempts += 1
      return await this.#post(another, until())
    }
  }

  #askForSecret(endsAt: number): Promise<string> {
    const { clientSecret, closed } = this.#context
    return clientSecret.ask(this.#options.clock, { endsAt, closed }, (what, cause) =>
      this.#failure(
        `The clientSecret function ${what}, so no token was asked for at ${shownUrl(this.#endpoint)}.`,
        { code: 'ERR_CLIENT_SECRET', retryable: true, cause },
      ),
    )
  }

  /** A secret other than the refused one, once: it may have been replaced since it was read. */
  async #anotherSecret(error: unknown, refused: string, endsAt: number): Promise<string | undefined> {
    if (!this.#context.clientSecret.mayChange || this.#askedForAnother || !isRefusedSecret(error)) return
    this.#askedForAnother = true
    try {
      const secret = await this.#askForSecret(endsAt)
      return secret === refused ? undefined : secret
    } catch {
      return undefined // the refusal says more
    }
  }

  async #post(secret: string, endsAt: number): Promise<Token> {
    const leftMs = Math.max(0, Math.round(endsAt - this.#options.clock.monotonicMs()))
    return await within(
      this.#options.clock,
      { endsAt, closed: this.#context.closed },
      (signal) => this.#exchange(secret, endsAt, signal),
      () =>
        this.#failure(
          `POST ${shownUrl(this.#endpoint)} was not answered within ${leftMs} ms. ` +
            'The token endpoint hangs or is slow: try again later, or raise timeoutMs.',
          { code: 'ERR_TOKEN_TIMEOUT', retryable: true },
        ),
    )
  }

  async #exchange(secret: string, endsAt: number, signal: AbortSignal): Promise<Token> {
    this.#context.emit({
      type: 'token-requested',
      attempt: this.#attempts,
      url: shownUrl(this.#endpoint),
    })
    const sentAt = readClock(this.#options.clock)
    let response: Response | undefined
    try {
      response = await postToken(this.#options, secret, signal)
      if (response.ok && !response.redirected) {
        const grant = this.#grantOf(await readAnswerText(response))
        return this.#context.accept({ ...grant, sentAt })
      }
      throw this.#statusFailure(response, await this.#errorText(response, endsAt, signal))
    } catch (error) {
      if (error instanceof MerchantAuthError) throw error
      throw this.#networkFailure(redactedCause(error, this.#context.secrets), response !== undefined)
    }
  }

  /** There was no answer, or one that cannot be read to its end. */
  #networkFailure(cause: Error | undefined, began: boolean): MerchantAuthError {
    const code = codeOf(cause)
    if (isWrongEncoding(code)) return this.#badAnswer([{ field: 'body', reason: 'cannot be decompressed' }])
    const [what, advice] = began
      ? [
          'got an answer that broke off before its end',
          'Try again later, or check the network, proxies and firewalls.',
        ]
      : ['got no answer', 'Check authUrl and the network.']
    const reason = code === undefined ? '' : ` (${code})`
    const message = `POST ${shownUrl(this.#endpoint)} ${what}${reason}. ${advice}`
    return this.#failure(message, { code: 'ERR_TOKEN_NETWORK', retryable: true, cause })
  }

  /** The text of an error answer, where it comes in good time: the status says enough without it. */
  async #errorText(response: Response, endsAt: number, signal: AbortSignal): Promise<string | undefined> {
    if (response.status < 400) return undefined
    const { clock } = this.#options
    const half = { endsAt: (clock.monotonicMs() + endsAt) / 2, closed: signal }
    const late = (): Error => new Error('The error body is slow')
    return await within(clock, half, () => readAnswerText(response), late).catch(() => undefined)
  }

  /** Reads a token response: its text, undefined when it was too long. */
  #grantOf(text: string | undefined): TokenGrant {
    const grant =
      text === undefined
        ? [{ field: 'body', reason: `must not be longer than ${MAX_ANSWER_BYTES} bytes` }]
        : readTokenResponse(text)
    if (Array.isArray(grant)) throw this.#badAnswer(grant)
    return grant
  }

  #badAnswer(issues: ResponseIssue[]): TokenResponseError {
    const what = issues.map(({ field, reason }) => `${field} ${reason}`).join('; ')
    return new TokenResponseError(
      `POST ${shownUrl(this.#endpoint)} gave an answer that is no token response: ${what}. Check authUrl.`,
      issues,
    )
  }

  #statusFailure(response: Response, text: string | undefined): TokenRequestError {
    const { status } = response
    const retryAfterMs = readRetryAfter(response, this.#options.clock.epochMs())
    const answered = { status, retryAfterMs, answer: { retryAfterMs } }
    const where = `POST ${shownUrl(this.#endpoint)}`
    if (response.redirected || response.type === 'opaqueredirect' || (status >= 300 && status < 400)) {
      const to = redirectTarget(response, this.#context.secrets)
      return this.#failure(
        `${where} answered with a redirect${to && ` to ${to}`}, which is never followed: the secret would go along. Check authUrl.`,
        { ...answered, code: 'ERR_TOKEN_REDIRECT', retryable: false, answer: { location: to, retryAfterMs } },
      )
    }
    const oauth = readOAuthError(text, this.#context.secrets)
    const details = [oauth.error, oauth.errorDescription].filter((part) => part !== undefined).join(': ')
    const pause = retryAfterMs === undefined ? '' : ` It asks to be left alone for ${retryAfterMs} ms.`
    return this.#failure(
      `${where} answered ${status}${details && ` (${details})`}.${pause} ${adviceFor(status, oauth, this.#options.bodyFormat)}`,
      {
        ...answered,
        ...oauth,
        code: 'ERR_TOKEN_STATUS',
        retryable: status === 408 || status === 429 || status >= 500,
      },
    )
  }

  #failure(message: string, failure: Omit<TokenRequestFailure, 'attempts'>): TokenRequestError {
    return new TokenRequestError(message, { ...failure, attempts: this.#attempts })
  }

  #tellFailed(error: unknown, nextTryMs: number | undefined): void {
    const { code, status, error: oauth } = error as Partial<TokenRequestError>
    this.#context.emit({
      type: 'token-request-failed',
      attempt: this.#attempts,
      code: String(code),
      ...(status === undefined ? undefined : { status }),
      ...(oauth === undefined ? undefined : { error: oauth }),
      ...(nextTryMs === undefined ? undefined : { nextTryMs }),
    })
  }
}

/** What undici tells of each attempt of a call, on its way to the caller's handler. */
import type { AccessToken } from '../token/access-token.ts'
import { lacksScope } from './authorized-call.ts'
import type { UndiciCall } from './undici-call.ts'
import { type AnswerStart, HeldAnswer } from './undici-held.ts'
import type { AnswerHeaders, DispatchController, DispatchHandler, MaybeController } from './undici-types.ts'

/** The last attempt: the caller gets what comes. */
export class Attempt implements DispatchHandler {
  readonly call: UndiciCall

  constructor(call: UndiciCall) {
    this.call = call
  }

  onRequestStart(controller: DispatchController, context: unknown): void {
    const { call } = this
    if (call.begin(controller)) call.handler.onRequestStart?.(call, context)
  }

  onRequestUpgrade(_: DispatchController, status: number, headers: AnswerHeaders, socket: unknown): unknown {
    return this.call.handler.onRequestUpgrade?.(this.call, status, headers, socket)
  }

  onResponseStarted(): void {
    this.call.handler.onResponseStarted?.()
  }

  onResponseStart(_: MaybeController, status: number, headers: AnswerHeaders, statusText?: string): void {
    this.call.handler.onResponseStart?.(this.call, status, headers, statusText)
  }

  onResponseData(_: MaybeController, chunk: Uint8Array): void {
    this.call.handler.onResponseData?.(this.call, chunk)
  }

  onResponseEnd(_: MaybeController, trailers: unknown): void {
    this.call.handler.onResponseEnd?.(this.call, trailers)
  }

  onResponseError(_: MaybeController, error: unknown): void {
    this.call.fail(error)
  }

  onBodySent(chunk: unknown, total?: unknown): void {
    this.call.handler.onBodySent?.(chunk, total)
  }

  onRequestSent(): void {
    this.call.handler.onRequestSent?.()
  }
}

/** The first attempt: a refused token is renewed, and its answer is held back meanwhile. */
export class FirstAttempt extends Attempt {
  readonly #token: AccessToken
  /** Where undici's redirect interceptor has been; with the place that answered. */
  #history: unknown
  #held: HeldAnswer | undefined

  constructor(call: UndiciCall, token: AccessToken) {
    super(call)
    this.#token = token
    this.#history = undefined
    this.#held = undefined
  }

  override onRequestStart(controller: DispatchController, context: unknown): void {
    if (typeof context === 'object' && context !== null && 'history' in context)
      this.#history = context.history
    super.onRequestStart(controller, context)
  }

  override onResponseStart(
    controller: MaybeController,
    status: number,
    headers: AnswerHeaders,
    statusText?: string,
  ): void {
    if (this.#isRejection(status, headers)) this.#hold(controller, { status, headers, statusText })
    else this.call.handler.onResponseStart?.(this.call, status, headers, statusText)
  }

  override onResponseData(_: MaybeController, chunk: Uint8Array): void {
    if (this.#held === undefined) this.call.handler.onResponseData?.(this.call, chunk)
    else this.#held.onData(chunk)
  }

  override onResponseEnd(_: MaybeController, trailers: unknown): void {
    if (this.#held === undefined) this.call.handler.onResponseEnd?.(this.call, trailers)
    else this.#held.onEnd(trailers)
  }

  override onResponseError(controller: MaybeController, error: unknown): void {
    if (this.#held !== undefined) this.#held.onError(error)
    else if (isAnswerError(error) && this.#isRejection(error.statusCode, error.headers ?? {}))
      this.#hold(controller, { error })
    else super.onResponseError(controller, error)
  }

  /** A refusal that another token may mend, by the place that was called. */
  #isRejection(status: number, headers: AnswerHeaders): boolean {
    return (
      this.call.context.renewOnStatus.includes(status) &&
      !(Array.isArray(this.#history) && this.#history.length > 1) &&
      !lacksScope(String(headers['www-authenticate'] ?? ''))
    )
  }

  #hold(controller: MaybeController, start: AnswerStart): void {
    const held = new HeldAnswer(this.call, controller, start)
    this.#held = held
    const { context, url } = this.call
    this.call
      .waitFor(() => context.tokens.renewToken(this.#token, { url }))
      .then(
        (renewed) => this.#decide(held, renewed),
        () => this.#decide(held, undefined), // without another token, the API's own answer is the best there is
      )
  }

  #decide(held: HeldAnswer, renewed: AccessToken | undefined): void {
    const { call } = this
    if (call.done) return
    const isNew = renewed !== undefined && renewed.value !== this.#token.value
    if (isNew && call.isRepeatable) {
      held.drop()
      call.sendAgain(renewed)
    } else held.handOut()
  }
}

/** The error that undici's responseError interceptor makes of an answer. */
interface AnswerError {
  readonly statusCode: number
  readonly headers?: AnswerHeaders | null
}

function isAnswerError(error: unknown): error is AnswerError {
  return (
    typeof error === 'object' &&
    error !== null &&
    'code' in error &&
    error.code === 'UND_ERR_RESPONSE' &&
    'statusCode' in error &&
    typeof error.statusCode === 'number'
  )
}

/** One call of undici's with the token, as its caller steers it: before, between and during its attempts. */
import type { AccessToken } from '../token/access-token.ts'
import { type AttachContext, headerValue } from './context.ts'
import { canSendAgain, isNodeStream } from './replay.ts'
import { Attempt, FirstAttempt } from './undici-attempts.ts'
import { type RequestHeaders, withHeader } from './undici-headers.ts'
import type { HeldAnswer } from './undici-held.ts'
import {
  type Dispatch,
  type DispatchController,
  type DispatchHandler,
  type DispatchOptions,
  type MaybeController,
  requestAborted,
} from './undici-types.ts'

/** What a call is made with: a copy of the caller's, so that a second attempt is like the first. */
export interface CallOptions extends DispatchOptions {
  headers: RequestHeaders
}

/** What a call is made of. */
export interface CallParts {
  readonly context: AttachContext
  readonly dispatch: Dispatch
  readonly options: CallOptions
  readonly handler: DispatchHandler
  /** Where it goes, as it stands before the path. */
  readonly origin: string
}

/**
 * The controller that the caller's handler gets: one and the same while a token is waited for, for both attempts, and
 * between them, where undici has none.
 */
export class UndiciCall implements DispatchController {
  readonly context: AttachContext
  readonly handler: DispatchHandler
  /** undici's controller of the attempt that is under way, or that has answered. */
  target: MaybeController
  /** Whether that attempt is under way, and so to be aborted by undici. */
  live: boolean
  /** Whether the handler has been told the end. */
  done: boolean
  paused: boolean
  /** The first answer, once it is being handed out. */
  held: HeldAnswer | undefined
  /** Private, so that no print shows it: it has the token, once the call is sent. */
  #options: CallOptions
  readonly #dispatch: Dispatch
  readonly #origin: string
  #leave: ((reason: unknown) => void) | undefined
  /** Whether, and why, the caller aborted while no attempt was under way. */
  #aborted: boolean
  #reason: unknown

  constructor(parts: CallParts) {
    this.context = parts.context
    this.#options = parts.options
    this.handler = parts.handler
    this.target = undefined
    this.live = false
    this.done = false
    this.paused = false
    this.held = undefined
    this.#dispatch = parts.dispatch
    this.#origin = parts.origin
    this.#leave = undefined
    this.#aborted = false
    this.#reason = null
  }

  get url(): string {
    return this.#origin + String(this.#options.path)
  }

  /** Whether the same can be sent a second time. */
  get isRepeatable(): boolean {
    return canSendAgain(this.#options.body)
  }

  /** Makes the first attempt. */
  send(token: AccessToken): boolean {
    const renews = this.context.renewOnStatus.length > 0
    return this.#attempt(token, renews ? new FirstAttempt(this, token) : new Attempt(this))
  }

  /** Makes it when there is a token. Until then, too, the caller can abort. */
  sendLater(): void {
    try {
      this.handler.onRequestStart?.(this, null)
    } catch (error) {
      this.fail(error) // as undici has it
    }
    if (this.done) return
    const { body } = this.#options
    const onError = (error: unknown): void => this.abort(error)
    // undici itself listens once it has the body: without a listener an error of a stream ends the process.
    if (isNodeStream(body)) body.on('error', onError)
    this.waitFor(() => this.context.tokens.getToken())
      .finally(() => {
        if (isNodeStream(body)) body.off('error', onError)
      })
      .then((token) => this.done || this.send(token))
      .catch((error: unknown) => this.fail(error))
  }

  /** Makes the second attempt. */
  sendAgain(token: AccessToken): void {
    this.target = undefined
    this.#options = { ...this.#options }
    try {
      this.#attempt(token, new Attempt(this))
    } catch (error) {
      this.fail(error)
    }
  }

  #attempt(token: AccessToken, attempt: DispatchHandler): boolean {
    putOn(this.#options, this.context, token)
    return this.#dispatch(this.#options, attempt)
  }

  /** Waits for what others wait for too, until the caller aborts. A signal for each of many would cost more than the wait. */
  waitFor<T>(start: () => Promise<T>): Promise<T> {
    this.live = false
    return new Promise((resolve, reject) => {
      this.#leave = reject
      start().then(resolve, reject)
    })
  }

  /** Takes over undici's controller of an attempt. False: the call has ended meanwhile. */
  begin(controller: DispatchController): boolean {
    if (this.done) {
      controller.abort(this.#reason)
      return false
    }
    this.target = controller
    this.live = true
    if (this.paused) controller.pause()
    return true
  }

  /** Tells the handler that all of the answer has been told. */
  finish(trailers: unknown): void {
    this.done = true
    try {
      this.handler.onResponseEnd?.(this, trailers)
    } catch (error) {
      this.handler.onResponseError?.(this, error) // as undici has it
    }
  }

  /** Tells the handler of an error, unless it knows of one. */
  fail(error: unknown): void {
    if (this.done) return
    this.done = true
    this.handler.onResponseError?.(this, error)
  }

  abort(reason?: unknown): void {
    if (this.live) this.target?.abort(reason)
    else if (!this.aborted) {
      this.#aborted = true
      this.#reason = reason
      if (this.done) return
      const { body } = this.#options
      if (isNodeStream(body)) body.destroy?.()
      this.#leave?.(reason)
      this.target?.abort(reason) // the attempt whose answer is held back
      this.fail(reason ?? requestAborted())
    }
  }

  pause(): void {
    this.paused = true
    this.target?.pause()
  }

  resume(): void {
    this.paused = false
    if (this.held === undefined) this.target?.resume()
    else this.held.pump()
  }

  get aborted(): boolean {
    return this.#aborted || this.target?.aborted === true
  }

  get reason(): unknown {
    return this.#aborted || !this.target ? this.#reason : this.target.reason
  }

  get rawHeaders(): unknown {
    return this.target?.rawHeaders
  }

  set rawHeaders(headers: unknown) {
    if (this.target) this.target.rawHeaders = headers
  }

  get rawTrailers(): unknown {
    return this.target?.rawTrailers
  }

  set rawTrailers(trailers: unknown) {
    if (this.target) this.target.rawTrailers = trailers
  }
}

/** Puts the token on a call, in place of the one that may be there. */
export function putOn(options: CallOptions, context: AttachContext, token: AccessToken): void {
  options.headers = withHeader(options.headers, context.header, headerValue(context, token))
  // Only Authorization is taken off by undici's redirect interceptor when a redirect leads to another origin.
  if (!context.isAuthorization) options.maxRedirections = 0
}

/** One undici call with the token. */
import { AsyncResource } from 'node:async_hooks'
import type { Api } from '../../environment/environment.ts'
import {
  type Attempt,
  firstAttempt,
  mayRenew,
  nextAttempt,
  type Rejection,
  report,
  type Wait,
  waitForToken,
} from '../authorize.ts'
import { canSendAgain, isNodeStream } from '../body.ts'
import type { AttachContext } from '../context.ts'
import { isHeaderList, withHeader } from '../headers.ts'
import { isTooLarge } from '../held-body.ts'
import { CallController, requestAborted } from './controller.ts'
import { HeldResponse } from './held-response.ts'
import type {
  Controller,
  Dispatch,
  DispatchContext,
  DispatchHandler,
  DispatchOptions,
  PlainHeaders,
  ResponseHeaders,
} from './types.ts'

/** The parts of one call. */
export interface CallParts {
  readonly context: AttachContext
  readonly dispatch: Dispatch
  readonly handler: DispatchHandler
  readonly url: string
  readonly options: DispatchOptions
  /** The headers in the options. */
  readonly headers: PlainHeaders
}

/** One call: undici's handler for all of its sends. */
export class UndiciCall implements DispatchHandler {
  readonly url: string
  readonly api: Api | undefined
  readonly #context: AttachContext
  readonly #dispatch: Dispatch
  readonly #handler: DispatchHandler
  /** Those of the caller until the call waits or is sent, because callers use one object for several calls. */
  #options: DispatchOptions
  #headers: PlainHeaders
  /** The last send. */
  #attempt: Attempt | undefined
  /** What the caller's handler gets. */
  readonly #controller = new CallController(this)
  /** undici's controller of the current attempt. */
  #target: Controller | undefined
  /** The URLs that undici's redirect interceptor has called; the response is that of the last one. */
  #history: readonly unknown[] | undefined
  /** The held responses, by their controllers: the rest of a discarded one may still arrive. */
  #held: WeakMap<Controller, HeldResponse> | undefined
  /** The async context of the caller: undici calls its handlers in that of whoever opened the connection. */
  readonly #asyncContext = new AsyncResource('MERCHANT_AUTH')
  /** What the caller pauses: undici's controller, nothing while a response is held, then the held body. */
  #flow: Pick<Controller, 'pause' | 'resume'> | undefined
  /** Ends the wait for a token. */
  #waiting: AbortController | undefined
  /** Whether the caller's handler has received the end of the response, or an error. */
  #isDone = false

  constructor({ context, dispatch, handler, url, options, headers }: CallParts) {
    this.url = url
    this.api = context.destinations(url).api
    this.#context = context
    this.#dispatch = dispatch
    this.#handler = handler
    this.#options = options
    this.#headers = headers
  }

  get body(): unknown {
    return this.#options.body
  }

  get method(): string {
    return this.#options.method
  }

  startWait(): Wait {
    const waiting = new AbortController()
    this.#waiting = waiting
    return { signal: waiting.signal, end: () => {} }
  }

  /** Makes the call. Returns what the dispatcher returns. */
  start(): boolean {
    const token = this.#context.tokens.currentToken()
    if (token !== undefined) return this.#send(firstAttempt(token, this.body))
    this.#waitForToken().catch((error: unknown) => this.#fail(error))
    return true
  }

  #send(attempt: Attempt): boolean {
    const { token, body } = attempt
    this.#attempt = attempt
    this.#target = undefined
    this.#flow = undefined
    const headers = withHeader(this.#headers, this.#context.headerFor(token))
    this.#options = { ...this.#options, body, headers }
    // On a redirect to another origin, undici's redirect interceptor removes no header but Authorization.
    if (!this.#context.isAuthorization) this.#options = { ...this.#options, maxRedirections: 0 }
    this.#headers = headers
    return this.#dispatch(this.#options, this)
  }

  async #waitForToken(): Promise<void> {
    this.#headers = isHeaderList(this.#headers) ? [...this.#headers] : { ...this.#headers }
    this.#options = { ...this.#options }
    this.#guarded(() => this.#handler.onRequestStart(this.#controller, null)) // from now on the caller can abort
    if (this.#isDone) return
    const attempt = await waitForToken(this, this.#context.tokens)
    if (!this.#isDone) this.#send(attempt)
  }

  async #sendAgain(attempt: Attempt, held: HeldResponse, canWait: boolean): Promise<void> {
    const next = await nextAttempt(attempt, this, {
      held: canWait ? held : undefined,
      context: this.#context,
    })
    if (next !== undefined) {
      if (!this.#isDone) this.#send(next)
      return
    }
    this.#guarded(held.passStart)
    this.#flow = held.flow((chunk) =>
      this.#guarded(() => this.#handler.onResponseData?.(this.#controller, chunk)),
    )
    if (this.#controller.paused) this.#flow.pause()
  }

  onRequestStart(controller: Controller, context: DispatchContext): void {
    this.#target = controller
    this.#flow = controller
    this.#history = context?.history
    if (this.#isDone) {
      controller.abort(this.#controller.reason) // aborted while undici had it in its queue
      return
    }
    if (this.#controller.paused) controller.pause()
    this.#handler.onRequestStart(this.#controller, context)
  }

  onRequestUpgrade(controller: Controller, status: number, headers: ResponseHeaders, socket: unknown): void {
    this.#controller.rawHeaders = controller.rawHeaders
    report(this.#attempt as Attempt, this, { status, context: this.#context }) // it was sent
    this.#handler.onRequestUpgrade?.(this.#controller, status, headers, socket)
    this.#isDone = true
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.()
  }

  onResponseStart(controller: Controller, status: number, headers: ResponseHeaders, text?: string): void {
    this.#controller.rawHeaders = controller.rawHeaders
    const passStart = (): void => this.#handler.onResponseStart?.(this.#controller, status, headers, text)
    if (status < 200) {
      passStart() // the answer follows
      return
    }
    const attempt = this.#attempt as Attempt // it was sent
    const context = this.#context
    const isRejection = report(attempt, this, { status, context })
    if (!isRejection || !mayRenew(attempt, this, { rejection: this.#rejectionOf(headers), context })) {
      passStart()
      return
    }
    const held = new HeldResponse(controller, passStart)
    this.#held ??= new WeakMap()
    this.#held.set(controller, held)
    this.#flow = undefined
    controller.resume()
    const canWait = canSendAgain(this.body) && !isTooLarge(headers['content-length'])
    this.#asyncContext
      .runInAsyncScope(() => this.#sendAgain(attempt, held, canWait))
      .catch((error: unknown) => this.#fail(error))
  }

  #rejectionOf(headers: ResponseHeaders): Rejection {
    const [, ...redirects] = this.#history ?? []
    const last = redirects.at(-1)
    return { challenge: headers['www-authenticate'], redirectedTo: last === undefined ? last : String(last) }
  }

  /** The held response that this is a part of, if any. */
  #heldOf(controller: Controller | null): HeldResponse | undefined {
    return controller === null ? undefined : this.#held?.get(controller)
  }

  onResponseData(controller: Controller, chunk: Uint8Array): void {
    const held = this.#heldOf(controller)
    if (held !== undefined) held.onData(chunk)
    else if (!this.#isDone) this.#handler.onResponseData?.(this.#controller, chunk)
  }

  onResponseEnd(controller: Controller, trailers: unknown): void {
    const held = this.#heldOf(controller)
    if (held !== undefined) held.onEnd(() => this.#end(controller, trailers))
    else this.#end(controller, trailers)
  }

  onResponseError(controller: Controller | null, error: unknown): void {
    const held = this.#heldOf(controller)
    if (held !== undefined && !this.#controller.aborted) held.onEnd(() => this.#fail(error))
    else this.#fail(error)
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk)
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.()
  }

  /** As in undici, what the handler throws at the end is an error of the call. */
  #end(controller: Controller, trailers: unknown): void {
    if (this.#isDone) return
    this.#isDone = true
    this.#controller.rawTrailers = controller.rawTrailers
    try {
      this.#handler.onResponseEnd?.(this.#controller, trailers)
    } catch (error) {
      this.#handler.onResponseError?.(this.#controller, error)
    }
  }

  #fail(error: unknown): void {
    if (this.#isDone) return
    this.#isDone = true
    this.#handler.onResponseError?.(this.#controller, error)
  }

  /** As in undici, a handler that throws aborts its call. */
  #guarded(callHandler: () => void): void {
    if (this.#isDone) return
    try {
      callHandler()
    } catch (error) {
      this.#controller.abort(error)
    }
  }

  /** The caller aborts, by the controller. */
  abort(reason: unknown): void {
    if (this.#isDone) return
    const error = reason ?? requestAborted()
    if (this.#target !== undefined) this.#target.abort(reason)
    else destroyBody(this.body, error)
    this.#fail(error) // if undici has not: it does so for a response that is not complete
    this.#waiting?.abort(error)
  }

  /** The caller pauses the response. */
  pause(): void {
    this.#flow?.pause()
  }

  /** The caller resumes the response. */
  resume(): void {
    this.#flow?.resume()
  }
}

/** Ends the body of a call that was aborted before undici got it. */
function destroyBody(body: unknown, error: unknown): void {
  if (!isNodeStream(body)) return
  body.on('error', () => {})
  body.destroy(error)
}

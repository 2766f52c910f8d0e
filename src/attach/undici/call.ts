/** One undici call with the token, and a response that is held while the token is renewed. */
import { AsyncResource } from 'node:async_hooks'
import { Readable } from 'node:stream'
import { startTimer } from '../../base/clock.ts'
import type { AccessToken } from '../../token/request/access-token.ts'
import {
  type Attempt,
  mayRenew,
  type Rejection,
  renew,
  reportAnswer,
  type Wait,
  waitForToken,
} from '../authorize.ts'
import { canSendAgain, isNodeStream } from '../body.ts'
import type { AttachContext } from '../context.ts'
import { isHeaderList, withHeader } from '../headers.ts'
import { type HeldBody, isTooLarge, MAX_DRAINING_MS, MAX_HELD_BYTES } from '../held-body.ts'
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

/**
 * One call. It is undici's handler for both attempts, and the controller that the caller's handler gets: the same one while
 * the call waits for a token, for both attempts, and between them, where undici has none.
 */
export class UndiciCall implements DispatchHandler, Controller {
  readonly url: string
  aborted = false
  reason: unknown = null
  paused = false
  rawHeaders: unknown = null
  rawTrailers: unknown = null
  readonly #context: AttachContext
  readonly #dispatch: Dispatch
  readonly #handler: DispatchHandler
  /** Those of the caller until the call waits or is sent, because callers use one object for several calls. */
  #options: DispatchOptions
  #headers: PlainHeaders
  /** The token of the present attempt. */
  #token: AccessToken | undefined
  /** The token of the first attempt; the response of the second one is not held. */
  #rejected: AccessToken | undefined
  /** undici's controller of the current attempt. */
  #target: Controller | undefined
  /** The URLs that undici's redirect interceptor has called; the response is that of the last one. */
  #history: readonly unknown[] | undefined
  #held: HeldResponse | undefined
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

  /** Makes the call: at most twice. Returns what the dispatcher returns. */
  start(): boolean {
    const token = this.#context.tokens.currentToken()
    if (token !== undefined) return this.#send({ token, body: this.body })
    this.#waitForToken().catch((error: unknown) => this.#fail(error))
    return true
  }

  #send({ token, body }: Attempt): boolean {
    this.#token = token
    this.#target = undefined
    this.#flow = undefined
    const headers = withHeader(this.#headers, this.#context.headerFor(token))
    this.#options = { ...this.#options, body, headers }
    // On a redirect to another origin, undici's redirect interceptor removes no header but Authorization.
    if (!this.#context.isAuthorization) this.#options = { ...this.#options, maxRedirections: 0 }
    this.#headers = headers
    const { sender } = this.#context
    sender.start()
    try {
      return this.#dispatch(this.#options, this)
    } finally {
      sender.end()
    }
  }

  async #waitForToken(): Promise<void> {
    this.#headers = isHeaderList(this.#headers) ? [...this.#headers] : { ...this.#headers }
    this.#options = { ...this.#options }
    this.#guarded(() => this.#handler.onRequestStart(this, null)) // from now on the caller can abort
    if (this.#isDone) return
    const attempt = await waitForToken(this, this.#context.tokens)
    if (!this.#isDone) this.#send(attempt)
  }

  async #renew(rejected: AccessToken, held: HeldResponse, mayWait: boolean): Promise<void> {
    const renewal = { context: this.#context, held: mayWait ? held : undefined }
    const renewed = await renew(rejected, this, renewal)
    if (renewed !== undefined) {
      held.discard()
      this.#rejected = rejected
      if (!this.#isDone) this.#send({ token: renewed, body: this.body })
      return
    }
    this.#guarded(held.passStart)
    this.#flow = held.flow((chunk) => this.#guarded(() => this.#handler.onResponseData?.(this, chunk)))
    if (this.paused) this.#flow.pause()
  }

  onRequestStart(controller: Controller, context: DispatchContext): void {
    this.#target = controller
    this.#flow = controller
    this.#history = context?.history
    if (this.#isDone) {
      controller.abort(this.reason) // aborted while undici had it in its queue
      return
    }
    if (this.paused) controller.pause()
    this.#handler.onRequestStart(this, context)
  }

  onRequestUpgrade(controller: Controller, status: number, headers: ResponseHeaders, socket: unknown): void {
    this.rawHeaders = controller.rawHeaders
    this.#handler.onRequestUpgrade?.(this, status, headers, socket)
    this.#isDone = true
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.()
  }

  onResponseStart(controller: Controller, status: number, headers: ResponseHeaders, text?: string): void {
    this.rawHeaders = controller.rawHeaders
    const passStart = (): void => this.#handler.onResponseStart?.(this, status, headers, text)
    if (status < 200) {
      passStart() // the answer follows
      return
    }
    const token = this.#token as AccessToken // it was sent
    const isRejection = reportAnswer(this.#context, this, { token, status, rejected: this.#rejected })
    if (
      this.#rejected !== undefined ||
      !isRejection ||
      !mayRenew(this, this.#rejectionOf(headers), this.#context)
    ) {
      passStart()
      return
    }
    const held = new HeldResponse(controller, passStart)
    this.#held = held
    this.#flow = undefined
    controller.resume()
    const mayWait = canSendAgain(this.body) && !isTooLarge(headers['content-length'])
    this.#asyncContext
      .runInAsyncScope(() => this.#renew(token, held, mayWait))
      .catch((error: unknown) => this.#fail(error))
  }

  #rejectionOf(headers: ResponseHeaders): Rejection {
    const [, ...redirects] = this.#history ?? []
    const last = redirects.at(-1)
    return { challenge: headers['www-authenticate'], redirectedTo: last === undefined ? last : String(last) }
  }

  /** The held response, if this is a part of it. */
  #heldOf(controller: Controller | null): HeldResponse | undefined {
    return this.#held?.controller === controller ? this.#held : undefined
  }

  onResponseData(controller: Controller, chunk: Uint8Array): void {
    const held = this.#heldOf(controller)
    if (held !== undefined) held.onData(chunk)
    else if (!this.#isDone) this.#handler.onResponseData?.(this, chunk)
  }

  onResponseEnd(controller: Controller, trailers: unknown): void {
    const held = this.#heldOf(controller)
    if (held !== undefined) held.onEnd(() => this.#end(controller, trailers))
    else this.#end(controller, trailers)
  }

  onResponseError(controller: Controller | null, error: unknown): void {
    const held = this.#heldOf(controller)
    if (held !== undefined && !this.aborted) held.onEnd(() => this.#fail(error))
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
    this.rawTrailers = controller.rawTrailers
    try {
      this.#handler.onResponseEnd?.(this, trailers)
    } catch (error) {
      this.#handler.onResponseError?.(this, error)
    }
  }

  #fail(error: unknown): void {
    if (this.#isDone) return
    this.#isDone = true
    this.#handler.onResponseError?.(this, error)
  }

  /** As in undici, a handler that throws aborts its call. */
  #guarded(callHandler: () => void): void {
    if (this.#isDone) return
    try {
      callHandler()
    } catch (error) {
      this.abort(error)
    }
  }

  abort(reason?: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    if (this.#isDone) return
    const error = reason ?? requestAborted()
    if (this.#target !== undefined) this.#target.abort(reason)
    else destroyBody(this.body, error)
    this.#fail(error) // if undici has not: it does so for a response that is not complete
    this.#waiting?.abort(error)
  }

  pause(): void {
    this.paused = true
    this.#flow?.pause()
  }

  resume(): void {
    this.paused = false
    this.#flow?.resume()
  }
}

/** Ends the body of a call that was aborted before undici got it. */
function destroyBody(body: unknown, error: unknown): void {
  if (!isNodeStream(body)) return
  body.on('error', () => {})
  body.destroy(error)
}

/** A response that rejects the token, while the token is renewed: then it flows to the caller, or it is discarded. */
class HeldResponse implements HeldBody {
  readonly controller: Controller
  readonly passStart: () => void
  readonly overflow: Promise<undefined>
  #resolveOverflow = (): void => {}
  /** Undefined if it is discarded. */
  #body: Readable | undefined
  #bytes = 0
  #passEnd: (() => void) | undefined
  #stopTimer = (): void => {}

  constructor(controller: Controller, passStart: () => void) {
    this.controller = controller
    this.passStart = passStart
    this.overflow = new Promise((resolve) => {
      this.#resolveOverflow = () => resolve(undefined)
    })
    this.#body = new Readable({ highWaterMark: MAX_HELD_BYTES + 1, read: () => controller.resume() })
  }

  onData(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength
    if (this.#body === undefined) {
      if (this.#bytes > MAX_HELD_BYTES) this.controller.abort()
    } else if (!this.#body.push(chunk)) {
      this.controller.pause()
      this.#resolveOverflow()
    }
  }

  onEnd(passEnd: () => void): void {
    this.#passEnd = passEnd
    this.#stopTimer()
    this.#body?.push(null)
  }

  /** Passes on what has arrived, and the rest as it arrives. */
  flow(passData: (chunk: Uint8Array) => void): Readable {
    return (this.#body as Readable).on('data', passData).on('end', () => this.#passEnd?.())
  }

  /** Frees its connection: the rest is read if it is small and fast, else the request is aborted. */
  discard(): void {
    this.#body = undefined
    if (this.#passEnd === undefined)
      this.#stopTimer = startTimer(() => this.controller.abort(), MAX_DRAINING_MS)
  }
}

/**
 * undici's error for an abort without a reason, with the symbols that its `instanceof` checks: undici itself is not
 * imported here, because that may change Node's built-in fetch.
 */
function requestAborted(): Error {
  return Object.assign(new Error('Request aborted'), {
    name: 'AbortError',
    code: 'UND_ERR_ABORTED',
    [Symbol.for('undici.error.UND_ERR')]: true,
    [Symbol.for('undici.error.UND_ERR_ABORT')]: true,
    [Symbol.for('undici.error.UND_ERR_ABORTED')]: true,
  })
}

/** One undici call with the token: its controller, its attempts, and the response that waits for a renewal. */
import { startTimer } from '../clock.ts'
import type { AccessToken } from '../token/access-token.ts'
import {
  type AttachContext,
  isRejection,
  MAX_DRAINED_BYTES,
  MAX_DRAINING_MS,
  renewalFor,
} from './authorize.ts'
import { canSendAgain, isNodeStream } from './body.ts'
import { type UndiciHeaders, withUndiciHeader } from './headers.ts'
import {
  type Dispatch,
  type DispatchController,
  type DispatchHandler,
  type DispatchOptions,
  type MaybeController,
  type ResponseHeaders,
  requestAborted,
} from './undici-types.ts'

/** A copy of the caller's options, so that a second attempt is like the first. */
export interface CallOptions extends DispatchOptions {
  headers: UndiciHeaders
}

/** The parts of one call. */
export interface CallParts {
  readonly context: AttachContext
  readonly dispatch: Dispatch
  readonly options: CallOptions
  readonly handler: DispatchHandler
  /** The origin that is called, without a slash at its end; on a redirected call that of its first request. */
  readonly origin: string
  readonly redirects: RedirectWatch
}

/** A response that sends its caller to another URL. */
interface Redirect {
  /** The origin of the first request of the call. */
  readonly from: string
  readonly to: string
}

/**
 * Recognizes calls that follow a redirect. undici's redirect interceptor makes them while it receives the end of the
 * response, and with the same handler, unless an interceptor between them makes a new one for each call.
 */
export class RedirectWatch {
  readonly #origins = new WeakMap<DispatchHandler, string>()
  /** The redirect that is being received. */
  #receiving: Redirect | undefined

  /** The origin of the first request of a call. */
  firstOrigin(handler: DispatchHandler, origin: string, url: string): string {
    const follows = this.#receiving?.to === url ? this.#receiving : undefined
    const first = this.#origins.get(handler) ?? follows?.from ?? origin
    this.#origins.set(handler, first)
    return first
  }

  /** Passes the end of a response to a handler, which may follow it if it is a redirect. */
  receive(redirect: Redirect | undefined, passEnd: () => void): void {
    const outer = this.#receiving
    this.#receiving = redirect
    try {
      passEnd()
    } finally {
      this.#receiving = outer
    }
  }
}

/**
 * The controller that the caller's handler gets: the same one during the wait for a token, for both attempts, and between
 * them, where undici has none.
 */
export class UndiciCall implements DispatchController {
  readonly context: AttachContext
  readonly handler: DispatchHandler
  /** undici's controller of the latest attempt. */
  #target: DispatchController | undefined
  /** The same while that attempt is under way: then undici pauses and aborts it. */
  active: DispatchController | undefined
  /** Whether the handler has received the end or an error. */
  done: boolean
  paused: boolean
  #redirect: Redirect | undefined
  /** The first response, once it is passed to the handler after a renewal failed. */
  held: HeldResponse | undefined
  /** Private, so that inspection does not show the token in it. */
  #options: CallOptions
  readonly #dispatch: Dispatch
  readonly #origin: string
  /** The URL of the current request. */
  #sentTo: string
  readonly #redirects: RedirectWatch
  #endWait: ((reason: unknown) => void) | undefined
  /** Whether, and why, the caller aborted while no attempt was under way. */
  #aborted: boolean
  #reason: unknown

  constructor(parts: CallParts) {
    this.context = parts.context
    this.#options = parts.options
    this.handler = parts.handler
    this.#target = undefined
    this.active = undefined
    this.done = false
    this.paused = false
    this.#redirect = undefined
    this.held = undefined
    this.#dispatch = parts.dispatch
    this.#origin = parts.origin
    this.#sentTo = parts.origin + String(parts.options.path)
    this.#redirects = parts.redirects
    this.#endWait = undefined
    this.#aborted = false
    this.#reason = null
  }

  get url(): string {
    return this.#sentTo
  }

  get repeatable(): boolean {
    return canSendAgain(this.#options.body)
  }

  /** Makes the first attempt. */
  send(token: AccessToken): boolean {
    return this.#attempt(token, new FirstAttempt(this, token))
  }

  /** Makes the first attempt once there is a token. The caller can abort before that. */
  sendLater(): void {
    try {
      this.handler.onRequestStart(this, null)
    } catch (error) {
      this.fail(error) // as undici does
    }
    if (this.done) return
    const { body } = this.#options
    const onError = (error: unknown): void => this.abort(error)
    // undici listens once it has the body; without a listener, a stream's error would end the process.
    if (isNodeStream(body)) body.on('error', onError)
    this.wait(() => this.context.tokens.getToken())
      .finally(() => {
        if (isNodeStream(body)) body.off('error', onError)
      })
      .then((token) => this.done || this.send(token))
      .catch((error: unknown) => this.fail(error))
  }

  /** Makes the second attempt. */
  sendAgain(token: AccessToken): void {
    this.#target = undefined
    this.#options = { ...this.#options }
    try {
      this.#attempt(token, new Attempt(this))
    } catch (error) {
      this.fail(error)
    }
  }

  /** Makes a call that follows a redirect, without a token. */
  sendUnchanged(options: DispatchOptions, url: string): boolean {
    this.#sentTo = url
    return this.#dispatch(options, new Attempt(this))
  }

  #attempt(token: AccessToken, attempt: DispatchHandler): boolean {
    addToken(this.#options, this.context, token)
    return this.#dispatch(this.#options, attempt)
  }

  /** Waits until the caller aborts. With many callers, a signal for each would cost more than the wait. */
  wait<T>(start: (signal: undefined) => Promise<T>): Promise<T> {
    this.active = undefined
    return new Promise((resolve, reject) => {
      this.#endWait = reject
      start(undefined).then(resolve, reject)
    })
  }

  /** Adopts undici's controller of an attempt. False: the call has ended meanwhile. */
  begin(controller: DispatchController): boolean {
    if (this.done) {
      controller.abort(this.#reason)
      return false
    }
    this.#target = controller
    this.active = controller
    if (this.paused) controller.pause()
    return true
  }

  /** Passes the start of a response to the handler. */
  start(status: number, headers: ResponseHeaders, statusText?: string): void {
    const { location } = headers
    const isRedirect = status >= 300 && status < 400 && location !== undefined
    this.#redirect = isRedirect ? this.#redirectTo(String(location)) : undefined
    this.handler.onResponseStart?.(this, status, headers, statusText)
  }

  /** Passes the end of the response to the handler. */
  end(trailers: unknown): void {
    this.#redirects.receive(this.#redirect, () => this.handler.onResponseEnd?.(this, trailers))
  }

  #redirectTo(location: string): Redirect | undefined {
    if (!URL.canParse(location, this.#sentTo)) return undefined
    const { origin, pathname, search } = new URL(location, this.#sentTo)
    return { from: this.#origin, to: origin + pathname + search }
  }

  /** Does the same for a response that was held. */
  finish(trailers: unknown): void {
    this.done = true
    try {
      this.end(trailers)
    } catch (error) {
      this.handler.onResponseError(this, error) // as undici does
    }
  }

  /** Passes an error to the handler, unless the call has ended. */
  fail(error: unknown): void {
    if (this.done) return
    this.done = true
    this.handler.onResponseError(this, error)
  }

  abort(reason?: unknown): void {
    if (this.active) this.active.abort(reason)
    else if (!this.#aborted) {
      this.#aborted = true
      this.#reason = reason
      if (this.done) return // the body may be in use elsewhere by now
      const { body } = this.#options
      if (isNodeStream(body)) body.destroy?.()
      this.#endWait?.(reason)
      this.fail(reason ?? requestAborted())
    }
  }

  pause(): void {
    this.paused = true
    this.active?.pause()
  }

  resume(): void {
    this.paused = false
    this.held?.pump()
    if (!this.paused) this.active?.resume() // which may deliver more synchronously
  }

  get aborted(): boolean {
    return this.#aborted || this.#target?.aborted === true
  }

  get reason(): unknown {
    return this.#aborted || !this.#target ? this.#reason : this.#target.reason
  }

  get rawHeaders(): unknown {
    return this.#target?.rawHeaders
  }

  set rawHeaders(headers: unknown) {
    if (this.#target) this.#target.rawHeaders = headers
  }

  get rawTrailers(): unknown {
    return this.#target?.rawTrailers
  }

  set rawTrailers(trailers: unknown) {
    if (this.#target) this.#target.rawTrailers = trailers
  }
}

/** Adds the token to a call, or replaces the one there. */
function addToken(options: CallOptions, context: AttachContext, token: AccessToken): void {
  options.headers = withUndiciHeader(options.headers, context.header, context.headerValue(token))
  // On a redirect to another origin, undici's redirect interceptor removes no header but Authorization.
  if (!context.isAuthorization) options.maxRedirections = 0
}

/** The last attempt: the caller gets its response. */
class Attempt implements DispatchHandler {
  readonly call: UndiciCall

  constructor(call: UndiciCall) {
    this.call = call
  }

  onRequestStart(controller: DispatchController, context: unknown): void {
    const { call } = this
    if (call.begin(controller)) call.handler.onRequestStart(call, context)
  }

  onRequestUpgrade(
    _: DispatchController,
    status: number,
    headers: ResponseHeaders,
    socket: unknown,
  ): unknown {
    return this.call.handler.onRequestUpgrade?.(this.call, status, headers, socket)
  }

  onResponseStarted(): void {
    this.call.handler.onResponseStarted?.()
  }

  onResponseStart(
    _: DispatchController,
    status: number,
    headers: ResponseHeaders,
    statusText?: string,
  ): void {
    this.call.start(status, headers, statusText)
  }

  onResponseData(_: DispatchController, chunk: Uint8Array): void {
    this.call.handler.onResponseData?.(this.call, chunk)
  }

  onResponseEnd(_: DispatchController, trailers: unknown): void {
    this.call.end(trailers)
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

/** The first attempt: a response that rejects the token is held while the token is renewed. */
class FirstAttempt extends Attempt {
  readonly #token: AccessToken
  /** The URLs that undici's redirect interceptor has called; the last one answered. */
  #history: unknown
  #held: HeldResponse | undefined

  constructor(call: UndiciCall, token: AccessToken) {
    super(call)
    this.#token = token
    this.#history = undefined
    this.#held = undefined
  }

  override onRequestStart(controller: DispatchController, context: unknown): void {
    this.#history = (context as { readonly history?: unknown } | null | undefined)?.history
    super.onRequestStart(controller, context)
  }

  override onResponseStart(
    controller: DispatchController,
    status: number,
    headers: ResponseHeaders,
    statusText?: string,
  ): void {
    if (this.#isRejection(status, headers)) {
      const length = Number(headers['content-length'])
      const passStart = (): void => super.onResponseStart(controller, status, headers, statusText)
      this.#held = new HeldResponse(this.call, controller, length, passStart)
      this.#renew(this.#held)
      if (this.call.paused) controller.resume() // the caller gets none of it yet
    } else super.onResponseStart(controller, status, headers, statusText)
  }

  override onResponseData(controller: DispatchController, chunk: Uint8Array): void {
    if (this.#held === undefined) super.onResponseData(controller, chunk)
    else this.#held.onData(chunk)
  }

  override onResponseEnd(controller: DispatchController, trailers: unknown): void {
    if (this.#held === undefined) super.onResponseEnd(controller, trailers)
    else this.#held.onEnd(trailers)
  }

  override onResponseError(controller: MaybeController, error: unknown): void {
    const { call } = this
    if (this.#held !== undefined) this.#held.onError(error)
    else if (isResponseError(error) && this.#isRejection(error.statusCode, error.headers ?? {}))
      this.#renew({ handOut: () => ignoringErrors(() => call.fail(error)), discard: () => {} })
    else super.onResponseError(controller, error)
  }

  #isRejection(status: number, headers: ResponseHeaders): boolean {
    const challenge = String(headers['www-authenticate'] ?? '')
    const redirected = Array.isArray(this.#history) && this.#history.length > 1
    return isRejection({ status, challenge, redirected }, this.call.context)
  }

  #renew(rejected: Pick<HeldResponse, 'handOut' | 'discard'>): void {
    const { call } = this
    renewalFor(this.#token, rejected, call, call.context).then(
      (renewed) => {
        // The caller may have aborted since the renewal ended.
        if (call.done) rejected.discard()
        else if (renewed === undefined) rejected.handOut()
        else {
          rejected.discard()
          call.sendAgain(renewed)
        }
      },
      () => {}, // the caller aborted and has its error
    )
  }
}

/** The error that undici's responseError interceptor makes of a response; the response itself does not arrive. */
interface ResponseError {
  readonly statusCode: number
  readonly headers?: ResponseHeaders | null
}

function isResponseError(error: unknown): error is ResponseError {
  return (error as { readonly code?: unknown } | null | undefined)?.code === 'UND_ERR_RESPONSE'
}

type ResponseEnd = { readonly trailers: unknown } | BrokenEnd
type BrokenEnd = { readonly error: unknown }

function isBroken(end: ResponseEnd | undefined): end is BrokenEnd {
  return end !== undefined && 'error' in end
}

/** A response that is held while the token is renewed: then it is passed to the handler or discarded. */
class HeldResponse {
  readonly #call: UndiciCall
  readonly #controller: DispatchController
  readonly #passStart: () => void
  readonly #chunks: Uint8Array[] = []
  /** The size of it that has arrived, or the announced one if that is large. */
  #bytes: number
  /** Stops a large one from being read. */
  #onLarge: () => void
  #isHandedOut = false
  /** Whether the handler is receiving a part of it, or must not receive any yet. */
  #isBusy = true
  /** Set once the response is complete: then there is nothing to pause or abort. */
  #end: ResponseEnd | undefined
  #stopDraining = (): void => {}

  constructor(call: UndiciCall, controller: DispatchController, length: number, passStart: () => void) {
    this.#call = call
    this.#controller = controller
    this.#passStart = passStart
    this.#bytes = length > MAX_DRAINED_BYTES ? length : 0
    this.#onLarge = () => controller.pause()
  }

  onData(chunk: Uint8Array): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.byteLength
    if (this.#isHandedOut) this.pump()
    else if (this.#bytes > MAX_DRAINED_BYTES) this.#onLarge()
  }

  onEnd(trailers: unknown): void {
    this.#end = { trailers }
    this.#stopDraining()
    if (!this.#isHandedOut) return
    this.#call.active = undefined
    this.pump()
  }

  onError(error: unknown): void {
    this.#end = { error }
    this.#stopDraining()
    if (this.#isHandedOut) this.#call.fail(error)
  }

  /** Passes all of it to the handler, as fast as the handler accepts it. */
  handOut(): void {
    const call = this.#call
    this.#isHandedOut = true
    call.held = this
    if (this.#end === undefined) call.active = this.#controller
    this.#guarded(this.#passStart)
    if (isBroken(this.#end)) {
      // undici's fetch misses an error that comes in the same tick as the start: its body would never end.
      setImmediate(() => {
        this.#isBusy = false
        this.pump()
      })
    } else {
      this.#isBusy = false
      if (call.paused) call.pause()
      else call.resume()
    }
  }

  /** Frees its connection: the rest is read if it is small and fast, else the request is aborted. */
  discard(): void {
    if (this.#end !== undefined) return
    this.#onLarge = () => this.#controller.abort()
    if (this.#bytes > MAX_DRAINED_BYTES) this.#onLarge()
    else this.#stopDraining = startTimer(this.#onLarge, MAX_DRAINING_MS)
  }

  /** Continues to pass it on, until the caller pauses. */
  pump(): void {
    if (this.#isBusy) return
    this.#isBusy = true
    this.#guarded(() => this.#passRest())
    this.#isBusy = false
    // No more can come, so this does not wait for a caller that has paused.
    if (isBroken(this.#end) && this.#chunks.length === 0) this.#call.fail(this.#end.error)
  }

  #passRest(): void {
    const call = this.#call
    while (!call.done && !call.paused) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) call.handler.onResponseData?.(call, chunk)
      else if (this.#end === undefined || isBroken(this.#end)) return
      else call.finish(this.#end.trailers)
    }
  }

  /** As in undici, a handler that throws aborts its call. */
  #guarded(run: () => void): void {
    try {
      run()
    } catch (error) {
      ignoringErrors(() => (this.#end === undefined ? this.#controller.abort(error) : this.#call.fail(error)))
    }
  }
}

/** undici ignores what a handler throws when it receives an error that it threw itself, or one made of a response. */
function ignoringErrors(run: () => void): void {
  try {
    run()
  } catch {}
}

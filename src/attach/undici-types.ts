/** undici as far as it is used here, by its shape: its declarations differ between its major versions. */

/**
 * An interceptor for `dispatcher.compose(…)` of undici, of whichever copy of its types.
 *
 * @typeParam Dispatch the dispatch function of that version of undici
 */
export type UndiciInterceptor = <Dispatch extends (options: never, handler: never) => boolean>(
  dispatch: Dispatch,
) => Dispatch

/** What one call is made with. */
export interface DispatchOptions {
  origin?: unknown
  path?: unknown
  method?: unknown
  headers?: unknown
  query?: unknown
  body?: unknown
  maxRedirections?: unknown
}

/** Starts a call. False: the dispatcher would rather have the next one later. */
export type Dispatch = (options: DispatchOptions, handler: DispatchHandler) => boolean

/** The headers of an answer. */
export type AnswerHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** What a handler steers its call with. */
export interface DispatchController {
  readonly aborted: boolean
  readonly paused: boolean
  readonly reason: unknown
  rawHeaders?: unknown
  rawTrailers?: unknown
  abort(reason?: unknown): void
  pause(): void
  resume(): void
}

/** undici has none for an error before the call's start. */
export type MaybeController = DispatchController | null | undefined

/** Who is told of a call's answer. */
export interface DispatchHandler {
  onRequestStart?(controller: DispatchController, context: unknown): void
  onRequestUpgrade?(
    controller: DispatchController,
    status: number,
    headers: AnswerHeaders,
    socket: unknown,
  ): unknown
  onResponseStarted?(): void
  onResponseStart?(
    controller: DispatchController,
    status: number,
    headers: AnswerHeaders,
    statusText?: string,
  ): void
  onResponseData?(controller: DispatchController, chunk: Uint8Array): void
  onResponseEnd?(controller: DispatchController, trailers: unknown): void
  onResponseError?(controller: MaybeController, error: unknown): void
  onBodySent?(chunk: unknown, total?: unknown): void
  onRequestSent?(): void
}

/**
 * undici's own error for an abort without a reason, by the marks that its `instanceof` goes by: undici itself is
 * not imported here, because that may change Node's built-in fetch.
 */
export function requestAborted(): Error {
  const error = Object.assign(new Error('Request aborted'), { code: 'UND_ERR_ABORTED' })
  const hidden = { configurable: true, enumerable: false, writable: true }
  Object.defineProperty(error, 'name', { ...hidden, value: 'AbortError' })
  for (const mark of ['UND_ERR', 'UND_ERR_ABORT', 'UND_ERR_ABORTED'])
    Object.defineProperty(error, Symbol.for(`undici.error.${mark}`), { ...hidden, value: true })
  return error
}

/** The parts of undici used here, typed structurally: its declarations differ between major versions. */

/**
 * An interceptor for undici's `dispatcher.compose(…)`, for any copy of its types.
 *
 * @typeParam Dispatch the dispatch function of that version of undici
 */
export type UndiciInterceptor = <Dispatch extends (options: never, handler: never) => boolean>(
  dispatch: Dispatch,
) => Dispatch

/** The options of one call. */
export interface DispatchOptions {
  origin?: unknown
  path?: unknown
  method?: unknown
  headers?: unknown
  query?: unknown
  body?: unknown
  maxRedirections?: unknown
}

/** Starts a call. False: the dispatcher is busy (see undici's `drain` event). */
export type Dispatch = (options: DispatchOptions, handler: DispatchHandler) => boolean

/** The headers of a response. */
export type ResponseHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** Controls a call: undici passes it to handlers. */
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

/** undici has none for an error before the start of a call. */
export type MaybeController = DispatchController | null | undefined

/** Receives the response of a call. undici rejects handlers without the two that are required. */
export interface DispatchHandler {
  onRequestStart(controller: DispatchController, context: unknown): void
  onRequestUpgrade?(
    controller: DispatchController,
    status: number,
    headers: ResponseHeaders,
    socket: unknown,
  ): unknown
  onResponseStarted?(): void
  onResponseStart?(
    controller: DispatchController,
    status: number,
    headers: ResponseHeaders,
    statusText?: string,
  ): void
  onResponseData?(controller: DispatchController, chunk: Uint8Array): void
  onResponseEnd?(controller: DispatchController, trailers: unknown): void
  onResponseError(controller: MaybeController, error: unknown): void
  onBodySent?(chunk: unknown, total?: unknown): void
  onRequestSent?(): void
}

/**
 * undici's error for an abort without a reason, with the symbols that its `instanceof` checks: undici itself is not
 * imported here, because that may change Node's built-in fetch.
 */
export function requestAborted(): Error {
  const error = Object.assign(new Error('Request aborted'), { code: 'UND_ERR_ABORTED' })
  const hidden = { configurable: true, enumerable: false, writable: true }
  Object.defineProperty(error, 'name', { ...hidden, value: 'AbortError' })
  for (const mark of ['UND_ERR', 'UND_ERR_ABORT', 'UND_ERR_ABORTED'])
    Object.defineProperty(error, Symbol.for(`undici.error.${mark}`), { ...hidden, value: true })
  return error
}

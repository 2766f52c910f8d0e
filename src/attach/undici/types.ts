/** The parts of undici used here, typed structurally: its declarations differ between major versions. */

/**
 * An interceptor for undici's `dispatcher.compose(…)`, for any copy of its types.
 *
 * @typeParam Dispatch the dispatch function of that version of undici
 */
export type UndiciInterceptor = <Dispatch extends (options: never, handler: never) => boolean>(
  dispatch: Dispatch,
) => Dispatch

export interface DispatchOptions {
  readonly origin?: string | URL
  readonly path: string
  readonly method: string
  readonly headers?: UndiciHeaders
  readonly body?: unknown
  readonly maxRedirections?: number
}

export type HeaderValue = string | readonly string[] | undefined
/** A record, or a flat list of names and values. */
export type PlainHeaders = Readonly<Record<string, HeaderValue>> | readonly HeaderValue[]
/** A Map, a `Headers`, a generator, a list of pairs. */
export type HeaderPairs = Iterable<readonly [string, HeaderValue]>
export type UndiciHeaders = PlainHeaders | HeaderPairs | null | undefined

/** Starts a call. False: the dispatcher is busy (see undici's `drain` event). */
export type Dispatch = (options: DispatchOptions, handler: DispatchHandler) => boolean

export type ResponseHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** What undici adds to a call: its redirect interceptor, the URLs that were called. */
export type DispatchContext = { readonly history?: readonly URL[] } | null | undefined

/** Controls a call: undici passes it to handlers. */
export interface Controller {
  readonly aborted: boolean
  readonly paused: boolean
  readonly reason: unknown
  rawHeaders?: unknown
  rawTrailers?: unknown
  abort(reason?: unknown): void
  pause(): void
  resume(): void
}

/** Receives the response of a call. Older versions have handlers without `onRequestStart`. */
export interface DispatchHandler {
  onRequestStart(controller: Controller, context: DispatchContext): void
  onRequestUpgrade?(controller: Controller, status: number, headers: ResponseHeaders, socket: unknown): void
  onResponseStarted?(): void
  onResponseStart?(controller: Controller, status: number, headers: ResponseHeaders, text?: string): void
  onResponseData?(controller: Controller, chunk: Uint8Array): void
  onResponseEnd?(controller: Controller, trailers: unknown): void
  onResponseError?(controller: Controller | null, error: unknown): void
  onBodySent?(chunk: unknown): void
  onRequestSent?(): void
}

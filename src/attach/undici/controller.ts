/** The controller that the handler of an undici call gets. */
import type { Controller } from './types.ts'

/** What a caller does with its call. */
interface ControlledCall {
  abort(reason: unknown): void
  pause(): void
  resume(): void
}

/** One controller for both attempts of a call, and for its waits, in which undici has none. */
export class CallController implements Controller {
  aborted = false
  reason: unknown = null
  paused = false
  rawHeaders: unknown = null
  rawTrailers: unknown = null
  readonly #call: ControlledCall

  constructor(call: ControlledCall) {
    this.#call = call
  }

  abort(reason?: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    this.#call.abort(reason)
  }

  pause(): void {
    this.paused = true
    this.#call.pause()
  }

  resume(): void {
    this.paused = false
    this.#call.resume()
  }
}

/**
 * undici's error for an abort without a reason, with the symbols that its `instanceof` checks: undici itself is not
 * imported here, because that may change Node's built-in fetch.
 */
export function requestAborted(): Error {
  return Object.assign(new Error('Request aborted'), {
    name: 'AbortError',
    code: 'UND_ERR_ABORTED',
    [Symbol.for('undici.error.UND_ERR')]: true,
    [Symbol.for('undici.error.UND_ERR_ABORT')]: true,
    [Symbol.for('undici.error.UND_ERR_ABORTED')]: true,
  })
}

/** The response of an undici call whose token is renewed. */
import { Readable } from 'node:stream'
import { startTimer } from '../../base/clock.ts'
import { type HeldBody, MAX_DRAINING_MS, MAX_HELD_BYTES } from '../held-body.ts'
import type { Controller } from './types.ts'

/** A response that rejects the token, while the token is renewed: then it flows to the caller, or it is discarded. */
export class HeldResponse implements HeldBody {
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

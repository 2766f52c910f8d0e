/** An API's 401 that is held back while the token is renewed: then it is handed out as it came, or dropped. */
import { startTimer } from '../clock.ts'
import { MAX_DRAINED_BYTES, MAX_DRAINING_MS } from './authorized-call.ts'
import type { UndiciCall } from './undici-call.ts'
import type { AnswerHeaders, MaybeController } from './undici-types.ts'

/** How an answer began. Where an interceptor made an error of it, that error is all there is. */
export type AnswerStart =
  | { readonly status: number; readonly headers: AnswerHeaders; readonly statusText: string | undefined }
  | { readonly error: unknown }

type AnswerEnd = { readonly trailers: unknown } | { readonly error: unknown }

/** The rest of the attempt that brought the answer comes here. */
export class HeldAnswer {
  readonly #call: UndiciCall
  readonly #controller: MaybeController
  readonly #start: AnswerStart
  readonly #chunks: Uint8Array[] = []
  #bytes = 0
  #fate: 'open' | 'handed out' | 'dropped' = 'open'
  #isPumping = false
  /** Known when undici has told all of the answer: nothing is left to be paused or aborted. */
  #end: AnswerEnd | undefined
  #stopDraining = (): void => {}

  constructor(call: UndiciCall, controller: MaybeController, start: AnswerStart) {
    this.#call = call
    this.#controller = controller
    this.#start = start
    if ('error' in start) this.#end = start
  }

  onData(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength
    if (this.#fate === 'dropped') {
      if (this.#bytes > MAX_DRAINED_BYTES) this.#controller?.abort()
      return
    }
    this.#chunks.push(chunk)
    if (this.#fate === 'handed out') this.pump()
    else if (this.#bytes > MAX_DRAINED_BYTES) this.#controller?.pause()
  }

  onEnd(trailers: unknown): void {
    this.#end = { trailers }
    this.#stopDraining()
    if (this.#fate !== 'handed out') return
    this.#call.live = false
    this.pump()
  }

  onError(error: unknown): void {
    this.#end = { error }
    this.#stopDraining()
    if (this.#fate === 'handed out') this.#call.fail(error)
  }

  /** Gives the caller all of it, as fast as the caller takes it. */
  handOut(): void {
    const call = this.#call
    const start = this.#start
    this.#fate = 'handed out'
    call.live = this.#end === undefined
    call.held = this
    this.#guarded(() => {
      if ('status' in start)
        call.handler.onResponseStart?.(call, start.status, start.headers, start.statusText)
    })
    this.pump()
  }

  /** Frees its connection: what is left of it is read if it is small and comes soon, else its request is aborted. */
  drop(): void {
    this.#fate = 'dropped'
    this.#chunks.length = 0
    if (this.#end !== undefined || 'error' in this.#start) return
    const length = Number(this.#start.headers['content-length'])
    if (length > MAX_DRAINED_BYTES || this.#bytes > MAX_DRAINED_BYTES) this.#controller?.abort()
    else {
      this.#stopDraining = startTimer(() => this.#controller?.abort(), MAX_DRAINING_MS)
    }
  }

  /** Goes on with handing out, until the caller pauses. */
  pump(): void {
    if (this.#isPumping) return
    this.#isPumping = true
    this.#guarded(() => this.#giveAll())
    this.#isPumping = false
    const { done, paused } = this.#call
    if (!done && !paused && this.#end === undefined) this.#controller?.resume() // which may bring more at once
  }

  #giveAll(): void {
    const call = this.#call
    while (!call.done && !call.paused) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) call.handler.onResponseData?.(call, chunk)
      else if (this.#end === undefined) return
      else if ('error' in this.#end) call.fail(this.#end.error)
      else call.finish(this.#end.trailers)
    }
  }

  /** As undici has it: a handler that throws has aborted its call, and what it throws at that error is dropped. */
  #guarded(run: () => void): void {
    try {
      run()
    } catch (error) {
      try {
        if (this.#end === undefined) this.#controller?.abort(error)
        else this.#call.fail(error)
      } catch {}
    }
  }
}

/**
 * The requests that a server is answering, as Cloudflare Workers treat them: whatever a request started (timers, fetches)
 * is dropped without a word when that request ends, and what waits there is never continued. A call runs in the context of its
 * request.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { ScheduledClock } from '../support/clock.ts'

const contexts = new AsyncLocalStorage<IncomingRequest>()

export class IncomingRequest {
  readonly #onEnd = new Set<() => void>()
  readonly #aborting = new AbortController()
  #ended = false

  /** Aborted when it ends: Node.js continues what waits unless that is aborted. */
  get signal(): AbortSignal {
    return this.#aborting.signal
  }

  /** Whether it has ended. What it starts from then on never happens, either. */
  get ended(): boolean {
    return this.#ended
  }

  /** Runs what belongs to the request. */
  run<T>(work: () => T): T {
    return contexts.run(this, work)
  }

  /** Ends it, and drops all it started. */
  end(): void {
    this.#ended = true
    for (const drop of this.#onEnd) drop()
    this.#onEnd.clear()
    this.#aborting.abort()
  }

  /** Whether nothing that it started is under way. */
  get isIdle(): boolean {
    return this.#onEnd.size === 0
  }

  /** Begins something that is dropped when the request ends. The returned function says that it is over. */
  starts(drop: () => void): () => void {
    this.#onEnd.add(drop)
    return () => void this.#onEnd.delete(drop)
  }
}

/** The request that runs. */
export function currentRequest(): IncomingRequest | undefined {
  return contexts.getStore()
}

/** A clock whose sleeps belong to the request that started them. */
export class IncomingClock extends ScheduledClock {
  /** By how much (ms) the wall clock was set ahead so far, without the steps back. */
  aheadMs = 0
  #moments = 0

  /** The number of this moment: a later one has a larger number, even if no time has passed. */
  nextMoment(): number {
    this.#moments += 1
    return this.#moments
  }

  override stepWallClock(ms: number): void {
    super.stepWallClock(ms)
    this.aheadMs += Math.max(0, ms)
  }

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const request = currentRequest()
    if (request === undefined) return super.sleep(ms, signal)
    if (request.ended) return new Promise(() => {})
    const ended = new AbortController()
    const isOver = request.starts(() => ended.abort())
    if (signal?.aborted) ended.abort(signal.reason)
    signal?.addEventListener('abort', () => ended.abort(signal.reason))
    return new Promise((resolve, reject) => {
      const onAbort = (reason: unknown): void => {
        if (!request.ended) reject(reason)
      }
      super.sleep(ms, ended.signal).then(resolve, onAbort).finally(isOver)
    })
  }
}

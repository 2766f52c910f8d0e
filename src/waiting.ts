/** Many callers, one promise: each may leave when its own signal says so, and nobody else notices. */
import { type Clock, MAX_TIMER_MS } from './clock.ts'
import { ownCopy } from './errors.ts'

// One derived promise for each promise and signal: ten thousand calls with one signal add one listener, not ten thousand.
const waits = new WeakMap<Promise<unknown>, WeakMap<AbortSignal, Promise<unknown>>>()

/** The promise, or a rejection with the signal's reason, whichever comes first. Leaves no listener behind. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  if (signal.aborted) {
    promise.catch(() => {}) // nobody else may be waiting for it
    return Promise.reject(signal.reason)
  }
  let bySignal = waits.get(promise)
  if (bySignal === undefined) {
    bySignal = new WeakMap()
    waits.set(promise, bySignal)
  }
  let wait = bySignal.get(signal) as Promise<T> | undefined
  if (wait === undefined) {
    wait = new Promise<T>((resolve, reject) => {
      const onAbort = (): void => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
    })
    wait.catch(() => {})
    bySignal.set(signal, wait)
  }
  return wait
}

/**
 * Runs something that must end at `endsAt` (monotonic ms) or when `closed` is aborted, even if it does not
 * listen to the signal that it is given.
 */
export async function within<T>(
  clock: Pick<Clock, 'monotonicMs' | 'sleep'>,
  { endsAt, closed }: { endsAt: number; closed?: AbortSignal },
  run: (signal: AbortSignal) => Promise<T>,
  late: () => Error,
): Promise<T> {
  const over = new AbortController()
  const signal = closed === undefined ? over.signal : AbortSignal.any([over.signal, closed])
  const timeUp = clock.sleep(Math.max(0, endsAt - clock.monotonicMs()), signal).then(() => {
    throw late()
  })
  try {
    return await untilAborted(Promise.race([run(signal), timeUp]), closed)
  } finally {
    over.abort()
  }
}

/** Those who wait for a token. While there are any, the process stays alive. */
export class Waiters {
  #waiting = 0
  #awake: NodeJS.Timeout | undefined

  /** Waits for what others wait for too, with an error object of one's own. */
  async wait(shared: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    this.#waiting += 1
    this.#awake ??= setInterval(() => {}, MAX_TIMER_MS)
    try {
      await untilAborted(shared, signal)
    } catch (error) {
      throw signal?.aborted && error === signal.reason ? error : ownCopy(error)
    } finally {
      this.#waiting -= 1
      if (this.#waiting === 0) {
        clearInterval(this.#awake)
        this.#awake = undefined
      }
    }
  }
}

/** As AbortSignal.throwIfAborted, which the signals of older libraries do not have. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw signal.reason
}

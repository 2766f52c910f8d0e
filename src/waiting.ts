/** Many callers, one promise: each may leave when its own signal says so, and nobody else notices. */
import { type Clock, MAX_TIMER_MS, startTimer } from './clock.ts'
import { ownCopy } from './errors.ts'

type OnAbort = (reason: unknown) => void

/** What the one listener of a signal runs, and how it is removed. */
interface Followers {
  readonly runs: Set<OnAbort>
  readonly end: () => void
}

const followed = new WeakMap<AbortSignal, Followers>()

/**
 * Runs something when a signal is aborted: at once where it is already, never after the returned function was called.
 * However many follow a signal, it has one listener, and none after the last one has stopped.
 */
export function onAbort(signal: AbortSignal | null | undefined, run: OnAbort): () => void {
  if (!signal) return () => {}
  if (signal.aborted) {
    run(signal.reason)
    return () => {}
  }
  const { runs, end } = followed.get(signal) ?? follow(signal)
  runs.add(run)
  return () => {
    if (runs.delete(run) && runs.size === 0) end()
  }
}

function follow(signal: AbortSignal): Followers {
  const runs = new Set<OnAbort>()
  const end = (): void => {
    signal.removeEventListener('abort', listener)
    followed.delete(signal)
  }
  const listener = (): void => {
    end()
    for (const run of runs) run(signal.reason)
  }
  signal.addEventListener('abort', listener)
  const followers = { runs, end }
  followed.set(signal, followers)
  return followers
}

/** The promise, or a rejection with the signal's reason, whichever comes first. Leaves no listener behind. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  return new Promise<T>((resolve, reject) => {
    const stop = onAbort(signal, reject)
    promise.then(resolve, reject).finally(stop)
  })
}

/**
 * Runs something that must end at `endsAt` (monotonic ms) or when `closed` is aborted, even if it does not
 * listen to the signal that it is given. After `endsAt` (the process was suspended, say) it is not started.
 */
export async function within<T>(
  clock: Pick<Clock, 'monotonicMs' | 'sleep'>,
  { endsAt, closed }: { endsAt: number; closed?: AbortSignal },
  run: (signal: AbortSignal) => Promise<T>,
  late: () => Error,
): Promise<T> {
  if (clock.monotonicMs() >= endsAt) throw late()
  const over = new AbortController()
  const stop = onAbort(closed, (reason) => over.abort(reason))
  const timeUp = clock.sleep(Math.max(0, endsAt - clock.monotonicMs()), over.signal).then(() => {
    throw late()
  })
  try {
    return await untilAborted(Promise.race([run(over.signal), timeUp]), closed)
  } finally {
    stop()
    over.abort()
  }
}

/** The callers that wait for a token. While there are any, the process stays alive. */
export class Waiters {
  #waiting = 0
  #letExit = (): void => {}

  /** Waits for what others wait for too, with a separate error object. */
  async wait(shared: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    if (this.#waiting === 0) this.#letExit = startTimer(() => {}, MAX_TIMER_MS, { keepsAlive: true })
    this.#waiting += 1
    try {
      await untilAborted(shared, signal)
    } catch (error) {
      throw signal?.aborted && error === signal.reason ? error : ownCopy(error)
    } finally {
      this.#waiting -= 1
      if (this.#waiting === 0) this.#letExit()
    }
  }
}

/** As AbortSignal.throwIfAborted, which the signals of older libraries do not have. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw signal.reason
}

/** Waiting: many callers share one promise, and each can stop waiting by its own signal without affecting the others. */
import { type Clock, MAX_TIMER_MS, startTimer } from './clock.ts'
import { copyForCaller } from './errors.ts'

type OnAbort = (reason: unknown) => void

/** The functions that the single listener of a signal runs. */
const followers = new WeakMap<AbortSignal, Set<OnAbort>>()

/**
 * Runs a function when a signal is aborted, or immediately if it already is. The returned function cancels this. All
 * functions share one listener on the signal, which is removed with the last one.
 */
export function onAbort(signal: AbortSignal | null | undefined, run: OnAbort): () => void {
  if (signal?.aborted) run(signal.reason)
  if (!signal || signal.aborted) return () => {}
  const runs = followers.get(signal) ?? new Set()
  if (runs.size === 0) signal.addEventListener('abort', runFollowers, { once: true })
  followers.set(signal, runs.add(run))
  return () => {
    if (runs.delete(run) && runs.size === 0) signal.removeEventListener('abort', runFollowers)
  }
}

function runFollowers(this: AbortSignal): void {
  const runs = followers.get(this) ?? new Set()
  followers.delete(this)
  for (const run of runs) run(this.reason)
}

/** Settles with the promise, or rejects with the signal's reason if that comes first. Leaves no listener behind. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  return new Promise<T>((resolve, reject) => {
    const stop = onAbort(signal, reject)
    promise.then(resolve, reject).finally(stop)
  })
}

/**
 * Runs a function, and stops waiting for it at `endsAt` (monotonic ms) or when `closed` is aborted, even if the function
 * ignores its signal. After either (for example, because the process was suspended) the function is not started.
 */
export async function within<T>(
  clock: Pick<Clock, 'monotonicMs' | 'sleep'>,
  { endsAt, closed }: { endsAt: number; closed?: AbortSignal },
  run: (signal: AbortSignal) => Promise<T>,
  late: () => Error,
): Promise<T> {
  closed?.throwIfAborted()
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

/**
 * Waits for a shared promise; after `limitMs`, rejects with undefined. Keeps the process alive meanwhile. If the promise
 * rejects, each caller gets a separate error object.
 */
export async function waitFor(
  shared: Promise<void>,
  { signal, limitMs }: { signal?: AbortSignal | undefined; limitMs: number | undefined },
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onTime = (): void => {
    if (limitMs !== undefined) reject() // otherwise fake timers may run it early
  }
  const stopTimer = startTimer(onTime, limitMs ?? MAX_TIMER_MS, { keepsAlive: true })
  const stopSignal = onAbort(signal, reject)
  shared.then(resolve, reject)
  try {
    await promise
  } catch (error) {
    throw signal?.aborted && error === signal.reason ? error : copyForCaller(error)
  } finally {
    stopTimer()
    stopSignal()
  }
}

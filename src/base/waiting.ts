/** Waiting: many callers share one promise, and each can stop waiting by its own signal without affecting the others. */
import { type Clock, MAX_TIMER_MS, startTimer } from './clock.ts'
import { copyForCaller } from './errors.ts'

type OnAbort = (reason: unknown) => void

/** What runs when a signal is aborted, by its single listener. */
interface Followers {
  readonly runs: Set<OnAbort>
  readonly listener: () => void
}

const followersBySignal = new WeakMap<AbortSignal, Followers>()

function follow(signal: AbortSignal): Followers {
  const runs = new Set<OnAbort>()
  // Signals of other packages call their listeners with another `this`, or without an event.
  const listener = (): void => {
    followersBySignal.delete(signal)
    signal.removeEventListener('abort', listener)
    for (const run of runs) run(reasonOf(signal))
  }
  const followers = { runs, listener }
  followersBySignal.set(signal, followers)
  signal.addEventListener('abort', listener)
  return followers
}

/** Signals of other packages may have neither a reason nor `throwIfAborted`. */
function reasonOf(signal: AbortSignal): unknown {
  const { reason } = signal
  return reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason
}

/** Throws the reason of a signal that is aborted. */
export function throwIfAborted(signal: AbortSignal | null | undefined): void {
  if (signal?.aborted) throw reasonOf(signal)
}

/**
 * Runs a function when a signal is aborted, or immediately if it already is. The returned function cancels this. All
 * functions share one listener on the signal, which is removed with the last one.
 */
export function onAbort(signal: AbortSignal | null | undefined, run: OnAbort): () => void {
  if (signal?.aborted) run(reasonOf(signal))
  if (!signal || signal.aborted) return () => {}
  const { runs, listener } = followersBySignal.get(signal) ?? follow(signal)
  runs.add(run)
  return () => {
    if (!runs.delete(run) || runs.size > 0) return
    signal.removeEventListener('abort', listener)
    followersBySignal.delete(signal)
  }
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
  { endsAt, closed }: { endsAt: number; closed?: AbortSignal | undefined },
  run: (signal: AbortSignal) => Promise<T>,
  late: () => Error,
): Promise<T> {
  closed?.throwIfAborted()
  if (clock.monotonicMs() >= endsAt) throw late()
  const over = new AbortController()
  const ended = new AbortController()
  const stop = onAbort(closed, (reason) => over.abort(reason))
  const timeUp = clock.sleep(Math.max(0, endsAt - clock.monotonicMs()), ended.signal).then(() => {
    throw late()
  })
  try {
    return await untilAborted(Promise.race([run(over.signal), timeUp]), closed)
  } catch (error) {
    over.abort() // not after a success: mocks and wrappers of fetch would take it for a request that was aborted
    throw error
  } finally {
    stop()
    ended.abort()
  }
}

let waiting = 0
let stopTimer = (): void => {}

/** Keeps the process alive, by one timer for all who wait. The returned function ends that. */
function stayAlive(): () => void {
  waiting += 1
  if (waiting === 1) stopTimer = startTimer(() => {}, MAX_TIMER_MS, { keepsAlive: true })
  return () => {
    waiting -= 1
    if (waiting === 0) stopTimer()
  }
}

/**
 * Waits for a shared promise, and keeps the process alive meanwhile. If the promise rejects, each caller gets a separate
 * error object.
 */
export async function waitFor<T>(shared: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  const release = stayAlive()
  try {
    return await untilAborted(shared, signal)
  } catch (error) {
    throw signal?.aborted && error === signal.reason ? error : copyForCaller(error)
  } finally {
    release()
  }
}

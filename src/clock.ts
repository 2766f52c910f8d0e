/** Time: two clocks and a sleep, which tests can replace. */

/** A source of time. Replace it in tests: everything that waits or expires uses it. */
export interface Clock {
  /** Milliseconds on a clock that never goes backward, such as `performance.now()`. */
  monotonicMs(): number
  /** Milliseconds since the epoch, such as `Date.now()`. */
  epochMs(): number
  /** Resolves after `ms`. If the signal is aborted first, rejects with the signal's reason and leaves no timer behind. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** A reading of both clocks at one moment. */
export interface Instant {
  readonly monotonicMs: number
  readonly epochMs: number
}

/** Reads both clocks. */
export function readClock(clock: Clock): Instant {
  return { monotonicMs: clock.monotonicMs(), epochMs: clock.epochMs() }
}

/** The longest delay that setTimeout supports; a longer one would fire immediately. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1

/** Runs a function after `ms`. The returned function cancels this, even if fake timers replaced the global functions. */
export function startTimer(
  run: () => void,
  ms: number,
  { keepsAlive = false }: { keepsAlive?: boolean } = {},
): () => void {
  const { clearTimeout } = globalThis
  const timer = setTimeout(run, Math.min(ms, MAX_TIMER_MS))
  if (!keepsAlive) timer.unref?.() // timers are numbers in some runtimes
  return () => clearTimeout(timer)
}

/**
 * The system clocks. Both are looked up at each use, so that fake timers work. A sleep does not keep the process alive;
 * callers that wait for a token do.
 */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  epochMs: () => Date.now(),
  sleep: async (ms, signal) => {
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onAbort = (): void => reject(signal?.reason)
    const stop = startTimer(resolve, ms)
    signal?.addEventListener('abort', onAbort)
    await promise.finally(() => {
      stop()
      signal?.removeEventListener('abort', onAbort)
    })
  },
}

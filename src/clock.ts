/** Time as the package reads it: two clocks and a sleep, exchangeable in tests. */

/** A source of time. Give one of your own in tests; everything that waits or expires goes by it. */
export interface Clock {
  /** Milliseconds on a clock that never goes back, such as `performance.now()`. */
  monotonicMs(): number
  /** Milliseconds since the epoch, such as `Date.now()`. */
  epochMs(): number
  /** Resolves after `ms`. Rejects with the signal's reason, and leaves no timer, when the signal is aborted first. */
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

/** setTimeout takes no longer delay; a longer one would fire at once. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1

/**
 * Runs something after `ms`, unless what it returns is called first. That stays the timer's own function when fake timers
 * replace the global one in between.
 */
export function startTimer(
  run: () => void,
  ms: number,
  { keepsAlive = false }: { keepsAlive?: boolean } = {},
): () => void {
  const { clearTimeout } = globalThis
  const timer = setTimeout(run, Math.min(ms, MAX_TIMER_MS))
  if (!keepsAlive) timer.unref?.() // some runtimes' timers are numbers
  return () => clearTimeout(timer)
}

/**
 * The clocks of this machine. Both are looked up at each use, so that fake timers work. No sleep keeps the process
 * alive: a caller that waits for a token does.
 */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  epochMs: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const onAbort = (): void => {
        stop()
        reject(signal?.reason)
      }
      const onTime = (): void => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }
      const stop = startTimer(onTime, ms)
      signal?.addEventListener('abort', onAbort, { once: true })
    }),
}

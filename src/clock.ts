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

/** setTimeout takes no longer delay; a longer one would fire at once. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1

/** The clocks of this machine. Both are looked up at each use, so that fake timers work. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  epochMs: () => Date.now(),
  sleep: (ms, signal) => sleep(ms, signal, true),
}

const unattendedSystemClock: Clock = { ...systemClock, sleep: (ms, signal) => sleep(ms, signal, false) }

/** The clock for work that nobody waits for: on this machine's clocks, its timers do not keep the process alive. */
export function unattended(clock: Clock): Clock {
  return clock === systemClock ? unattendedSystemClock : clock
}

function sleep(ms: number, signal: AbortSignal | undefined, keepAlive: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const onAbort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const onTime = (): void => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }
    const timer = setTimeout(onTime, Math.min(ms, MAX_TIMER_MS))
    if (!keepAlive) timer.unref()
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

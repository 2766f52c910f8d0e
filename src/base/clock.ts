/** Time: two clocks and a sleep, which tests can replace, and the units of durations. */
import * as timers from 'node:timers'

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

export const SECOND_MS = 1_000
export const MINUTE_MS: number = 60 * SECOND_MS
export const HOUR_MS: number = 60 * MINUTE_MS

/** The longest delay that setTimeout supports; a longer one would fire immediately. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1

// Read once: a test's fake timers, which are installed later, must not end a wait for a real response.
const { setTimeout, clearTimeout } = timers
const now = performance.now.bind(performance)

/** A timer that fires later than this (ms) fires in a process that stood still. */
const LATE_MS = 50
/** How long (ms) such a timer waits again, and how often: less than what waits for a run, which ends by such timers. */
export const LATE_WAIT_MS = 60
const MAX_AGAIN = 3

/**
 * Runs a function after `ms`. The returned function cancels this. After the process stood still, Node.js runs due timers
 * before it reads what has arrived. A timer that fires late therefore waits again.
 */
export function startTimer(
  run: () => void,
  ms: number,
  { keepsAlive = false }: { keepsAlive?: boolean } = {},
): () => void {
  let timer: ReturnType<typeof setTimeout>
  const start = (delayMs: number, again: number): void => {
    const dueAt = now() + delayMs
    const onTime = (): void => {
      if (now() - dueAt <= LATE_MS || again === 0) run()
      else start(LATE_WAIT_MS, again - 1)
    }
    timer = setTimeout(onTime, delayMs)
    if (!keepsAlive) timer.unref?.() // timers are numbers in some runtimes
  }
  start(Math.min(ms, MAX_TIMER_MS), MAX_AGAIN)
  return () => clearTimeout(timer)
}

/**
 * The system clocks. Both are looked up at each use, so that expiry follows a test's fake clock. A sleep does not keep the
 * process alive; callers that wait for a token do.
 */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  epochMs: () => Date.now(),
  sleep: async (ms, signal) => {
    signal?.throwIfAborted()
    await new Promise<void>((resolve, reject) => {
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
    })
  },
}

const realClock: Clock = { ...systemClock, monotonicMs: now }

/**
 * The clock for limits of what is under way, such as a token request: where `clock` is that of the system, a test's fake timers,
 * which fake `performance`, too, do not move it.
 */
export function limitClockOf(clock: Clock): Clock {
  return clock === systemClock ? realClock : clock
}

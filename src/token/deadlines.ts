/** How long one attempt at a token request may take. */
import type { ResolvedOptions } from '../options.ts'

/** One attempt of an acquisition. */
export interface Attempt {
  /** 1 for the first one. */
  readonly attempt: number
  /** When (monotonic ms) the acquisition must have ended. */
  readonly deadline: number
  readonly background: boolean
}

/**
 * When (monotonic ms) an attempt must have ended: at most half of `timeoutMs` if another attempt may follow, otherwise all
 * that is left. A background renewal may be followed by the request of a waiting caller.
 */
export function attemptEndsAt(
  { clock, retries, timeoutMs }: ResolvedOptions,
  { attempt, deadline, background }: Attempt,
): number {
  const isLast = attempt > retries && !background
  return isLast ? deadline : Math.min(clock.monotonicMs() + timeoutMs / 2, deadline)
}

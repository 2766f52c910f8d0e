/** Periods of time, and how often something happened within one. */

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/** The largest number of these times (ms) within any period of this length. */
export function mostWithin(periodMs: number, times: readonly number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + periodMs).length))
}

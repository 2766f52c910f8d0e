/** How long (ms) a test waits for what must happen eventually: long enough for the busiest machine. */
export const PATIENCE_MS = 120_000

/**
 * Runs an attempt that has a limit (ms) in real time, and repeats it with a longer limit while the machine is too slow
 * for the expected result. Resolves with the result of the last attempt.
 */
export async function withRoom<T>(
  limitMs: number,
  attempt: (limitMs: number) => Promise<T>,
  isAsExpected: (result: T) => boolean,
): Promise<T> {
  const result = await attempt(limitMs)
  if (isAsExpected(result) || limitMs > PATIENCE_MS / 10) return result
  return await withRoom(2 * limitMs, attempt, isAsExpected)
}

/**
 * How long (ms) a test waits for what must come at last, on a machine however busy: only what never comes makes it fail.
 */
export const PATIENCE_MS = 120_000

/**
 * Lets something happen within a limit (ms) that is really to pass: where the machine is so slow that the limit ends
 * before what should come first, it gets a longer one. Resolves with what came of the last attempt.
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

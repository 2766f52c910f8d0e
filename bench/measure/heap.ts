/** What is kept in memory, once everything that nobody needs is gone. */
import { setImmediate as turn } from 'node:timers/promises'

/** Bytes of the heap that are in use after full collections. Needs `--expose-gc`. */
export async function keptBytes(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 4; round += 1) {
    collect()
    await turn() // weak references and finalizers take a turn of their own
    collect()
    least = Math.min(least, process.memoryUsage().heapUsed)
  }
  return least
}

/** One full collection, at once. */
export function collect(): void {
  if (globalThis.gc === undefined) throw new Error('This program needs --expose-gc')
  globalThis.gc()
}

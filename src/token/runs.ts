/** The runs of a provider: callers with the same key share one, and runs follow one another. */
import { Mutex } from 'async-mutex'
import pMemoize from 'p-memoize'
import { isFrameworkError, MerchantAuthError } from '../errors.ts'

/**
 * Single flight and order. A run that was lost keeps its key and its turn for ever: then this object is replaced.
 */
export class Runs {
  readonly #turn = new Mutex()
  readonly #keys = new Set<string>()

  /** Settles as the run with this key does: the one that is under way, or else a new one, after all earlier runs. */
  readonly share: (key: string, run: () => Promise<void>) => Promise<void> = pMemoize(
    async (key: string, run: () => Promise<void>) => {
      this.#keys.add(key)
      try {
        await this.#turn.runExclusive(run)
      } finally {
        this.#keys.delete(key)
      }
    },
    { cache: false },
  )

  /** Whether a run is under way, or waits for its turn: the one with this key, or any. */
  has(key?: string): boolean {
    return key === undefined ? this.#keys.size > 0 : this.#keys.has(key)
  }
}

/** Cloudflare Workers drop what a request started when that request ends. Nothing else loses a run. */
export function canLoseRuns(): boolean {
  return globalThis.navigator?.userAgent === 'Cloudflare-Workers'
}

/**
 * Whether an error says that a run was lost, rather than how it failed: the wait for it took too long, or, in newer
 * runtimes, its promise rejects with an error of the runtime.
 */
export function isLost(error: unknown): boolean {
  return canLoseRuns() && !(error instanceof MerchantAuthError) && !isFrameworkError(error)
}

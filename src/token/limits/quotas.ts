/** The quotas of the token endpoint that are nearly spent: what is left of them is for callers without a token. */
import { isReserved, keyOf, type Quota } from '../../base/quota.ts'

/** The quotas of the most recent responses. */
export class ReservedQuotas {
  /** When (monotonic ms) each of them is full again. */
  readonly #fullAt = new Map<string, number>()

  /** Records the quotas of a response that arrived now. */
  note(quotas: readonly Quota[], now: number): void {
    for (const [key, fullAt] of this.#fullAt)
      if (fullAt === Number.POSITIVE_INFINITY) this.#fullAt.delete(key) // it never said when
    for (const quota of quotas) {
      if (isReserved(quota))
        this.#fullAt.set(keyOf(quota), now + (quota.resetsInMs ?? Number.POSITIVE_INFINITY))
      else this.#fullAt.delete(keyOf(quota))
    }
  }

  /** When (monotonic ms) the last of them is full again. */
  get reservedUntil(): number {
    return Math.max(Number.NEGATIVE_INFINITY, ...this.#fullAt.values())
  }
}

/** The two APIs of a world: which tokens they accept. */

import type { Grant } from './grant.ts'

export const APIS = ['https://api.test.example/merchant', 'https://api.test.example/in-store'] as const
/** A URL below none of `apiUrls`. */
export const ELSEWHERE = 'https://other.test.example'

export class Apis {
  readonly #issued: ReadonlyMap<string, Pick<Grant, 'remainsMs'>>
  readonly #revoked = new Set<string>()
  readonly #rejecting = new Set<string>()
  /** The tokens that the APIs know, until all of these have ended; undefined: all. */
  #known: ReadonlySet<string> | undefined

  /** `issued`: the tokens by value, oldest first, to which the endpoint adds. */
  constructor(issued: ReadonlyMap<string, Pick<Grant, 'remainsMs'>>) {
    this.#issued = issued
  }

  accepts(value: string | undefined, api: string): boolean {
    if (value === undefined || !this.#issued.has(value)) return false
    return this.#knows(value) && !this.#revoked.has(value) && !this.#rejecting.has(api)
  }

  /** What a client cannot hide is an API that knows none of the tokens that may be used. */
  #knows(value: string): boolean {
    if (this.#known === undefined || this.#known.has(value)) return true
    return [...this.#known].every((known) => (this.#issued.get(known)?.remainsMs ?? 0) <= 0)
  }

  /** All tokens issued so far are rejected from now on. */
  revoke(): void {
    for (const value of this.#issued.keys()) this.#revoked.add(value)
  }

  /** Whether there is a token, and none that was issued after the last revocation. */
  get isRevoked(): boolean {
    return [...this.#issued.keys()].every((value) => this.#revoked.has(value))
  }

  /** From now on an API rejects every token, or none because of this. */
  rejectAll(api: string, rejects: boolean): void {
    if (rejects) this.#rejecting.add(api)
    else this.#rejecting.delete(api)
  }

  /** From now on the APIs learn of no new token, or know all. */
  lag(lags: boolean): void {
    this.#known = lags ? new Set(this.#issued.keys()) : undefined
  }

  get isLagging(): boolean {
    return this.#known !== undefined
  }

  /** Both work again. A token that was revoked stays invalid. */
  heal(): void {
    this.#rejecting.clear()
    this.#known = undefined
  }
}

/** The two APIs of a world: which tokens they accept. */

export const APIS = ['https://api.test.example/merchant', 'https://api.test.example/in-store'] as const
/** A URL below none of `apiUrls`. */
export const ELSEWHERE = 'https://other.test.example'

export class Apis {
  readonly #issued: ReadonlyMap<string, unknown>
  readonly #revoked = new Set<string>()
  readonly #rejecting = new Set<string>()
  /** The tokens that the APIs know; undefined: all. */
  #known: ReadonlySet<string> | undefined

  /** `issued`: the tokens by value, oldest first, to which the endpoint adds. */
  constructor(issued: ReadonlyMap<string, unknown>) {
    this.#issued = issued
  }

  accepts(value: string | undefined, api: string): boolean {
    const isKnown = value !== undefined && (this.#known ?? this.#issued).has(value)
    return isKnown && !this.#revoked.has(value) && !this.#rejecting.has(api)
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

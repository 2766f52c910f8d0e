/**
 * Which of the last tokens is in use. A new token does not displace one that works: an API may learn of it later, while it
 * still accepts the one before.
 */
import type { Clock } from '../base/clock.ts'
import type { CachedToken } from './request/access-token.ts'

/** The tokens of one provider. One that was replaced stays available until its own expiry margin, whatever the reason. */
export class KnownTokens {
  readonly #clock: Clock
  #current: CachedToken | undefined
  #before: CachedToken | undefined
  #newer: CachedToken | undefined
  #count = 0
  /** The number of each token, in the order in which they were acquired, from 1. */
  readonly #nthOf = new WeakMap<object, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The token in use, even if it may not be used any more. */
  get current(): CachedToken | undefined {
    return this.#current
  }

  /** The previous token, as long as it may be used. */
  get before(): CachedToken | undefined {
    return this.#ifServable(this.#before)
  }

  /** A newer token that an API rejected, while it accepted the one in use: it waits to be tried again, if it may be used. */
  get newer(): CachedToken | undefined {
    return this.#ifServable(this.#newer)
  }

  /** How many tokens were acquired so far: identifies the last one where its value must not appear. */
  get count(): number {
    return this.#count
  }

  /** `isAccepted`: whether an API has accepted a call with a token. */
  acquired(token: CachedToken, isAccepted: (token: CachedToken | undefined) => boolean): void {
    const { before } = this
    const displaced = this.#current
    const isSame = displaced?.token.value === token.token.value // some endpoints issue one token until it ends
    const isBetter = isAccepted(before) && !isAccepted(displaced)
    if (!isSame && !isBetter) this.#before = displaced
    this.#current = token
    this.#newer = undefined
    this.#count += 1
    this.#nthOf.set(token.token, this.#count)
  }

  /** Whether a token, as it was handed out, was acquired after another one. */
  isNewer(token: object, other: object): boolean {
    return (this.#nthOf.get(token) ?? 0) > (this.#nthOf.get(other) ?? 0)
  }

  /** The previous token is in use again, and the present one waits. */
  restoreBefore(): void {
    this.#newer = this.#current
    this.#current = this.#before
    this.#before = undefined
  }

  /** The newer token is in use again, if there is one. */
  tryNewer(): void {
    if (this.newer === undefined) return
    this.#before = this.#current
    this.#current = this.#newer
    this.#newer = undefined
  }

  /** Forgets all of them. */
  clear(): void {
    this.#current = undefined
    this.#before = undefined
    this.#newer = undefined
  }

  #ifServable(token: CachedToken | undefined): CachedToken | undefined {
    return token !== undefined && token.servableForMs(this.#clock) > 0 ? token : undefined
  }
}

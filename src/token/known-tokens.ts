/**
 * The last two tokens, and which of them is in use. A new token does not displace one that works: an API may learn of it later,
 * while it still accepts the one before.
 */
import type { Clock } from '../base/clock.ts'
import type { AccessToken, CachedToken } from './request/access-token.ts'

/** The request of this process that a token came from. */
export interface Origin {
  /** Its number: the order of a process' own requests does not depend on a clock. */
  readonly request: number
  /** The base URL of the API whose 401 it was sent for, if it was. */
  readonly api: string | undefined
}

/** The tokens of one provider. */
export class KnownTokens {
  readonly #clock: Clock
  #latest: CachedToken | undefined
  /** The one before it, available until its own expiry margin, whatever it was replaced for. */
  #previous: CachedToken | undefined
  /** Whether the previous one is in use: an API rejected the latest one, and accepts the previous one. */
  #isBack = false
  #count = 0
  /** The number of each token, in the order in which they were acquired, from 1. */
  readonly #nthOf = new WeakMap<AccessToken, number>()
  readonly #originOf = new WeakMap<AccessToken, Origin | undefined>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The token in use, even if it may not be used any more. */
  get current(): CachedToken | undefined {
    return this.#isBack ? this.#previous : this.#latest
  }

  /** How long (ms) it may still be used. */
  get servableForMs(): number {
    return this.current?.servableForMs(this.#clock) ?? 0
  }

  /** The token in use, if it may be used. */
  get servable(): AccessToken | undefined {
    return this.servableForMs > 0 ? this.current?.token : undefined
  }

  /** The previous token, unless it is in use or may not be used. */
  get before(): CachedToken | undefined {
    return this.#isBack ? undefined : this.#ifServable(this.#previous)
  }

  /** The latest token, where the previous one is in use: it waits to be tried again, if it may be used. */
  get newer(): CachedToken | undefined {
    return this.#isBack ? this.#ifServable(this.#latest) : undefined
  }

  /** How many tokens were acquired so far. */
  get count(): number {
    return this.#count
  }

  /**
   * @param origin the request that it came from; undefined if the store had it
   * @param isAccepted whether an API has accepted a call with a token
   */
  acquired(
    token: CachedToken,
    origin: Origin | undefined,
    isAccepted: (token: CachedToken | undefined) => boolean,
  ): void {
    const { before, current } = this
    const isBetter = isAccepted(before) && !isAccepted(current)
    const isSame = current?.token.value === token.token.value // some endpoints issue one token until it ends
    if (!isBetter && !isSame) this.#previous = current
    this.#latest = token
    this.#isBack = false
    this.#count += 1
    this.#nthOf.set(token.token, this.#count)
    this.#originOf.set(token.token, origin)
  }

  /** The request of this process that a token came from, if it did. */
  originOf(token: AccessToken): Origin | undefined {
    return this.#originOf.get(token)
  }

  /** Whether a token was acquired after another one. */
  isNewer(token: AccessToken, other: AccessToken): boolean {
    return (this.#nthOf.get(token) ?? 0) > (this.#nthOf.get(other) ?? 0)
  }

  /** Uses this one of the two from now on. */
  use(token: AccessToken): void {
    if (token === this.newer?.token) this.#isBack = false
    else if (token === this.before?.token) this.#isBack = true
  }

  /** Forgets both. */
  clear(): void {
    this.#latest = undefined
    this.#previous = undefined
    this.#isBack = false
  }

  #ifServable(token: CachedToken | undefined): CachedToken | undefined {
    return token !== undefined && token.servableForMs(this.#clock) > 0 ? token : undefined
  }
}

/** The calls of an attachment that go without the token: their events, and one warning for what looks like a mistake. */
import type { Destinations } from '../destinations.ts'
import { apisOf } from '../environments.ts'
import { emitterOf, type TokenWithheldEvent } from '../events.ts'
import { shownUrl } from '../redact.ts'
import type { TokenProvider } from '../token/provider.ts'
import { type CallWithoutToken, warnWithheld } from '../warnings.ts'

/** Why a call goes without the token. */
export type WithheldReason = TokenWithheldEvent['reason']

/** So many calls with a header of their own, where no call needs the token, are a mistake. */
const MOST_OWN_HEADERS = 10

export class WithheldCalls {
  readonly #tokens: TokenProvider
  readonly #header: string
  readonly #renewOnStatus: readonly number[]
  readonly #destinations: Destinations
  #ownHeaders = 0
  #hasWarned = false

  constructor(
    tokens: TokenProvider,
    {
      destinations,
      header,
      renewOnStatus,
    }: {
      readonly destinations: Destinations
      readonly header: string
      readonly renewOnStatus: readonly number[]
    },
  ) {
    this.#tokens = tokens
    this.#destinations = destinations
    this.#header = header
    this.#renewOnStatus = renewOnStatus
  }

  /** A call gets the token: a header of its own on another one may be meant. */
  tokenNeeded(): void {
    this.#ownHeaders = Number.POSITIVE_INFINITY
  }

  /** A call is sent without the token. */
  sent(reason: WithheldReason, url: string): void {
    const { emit, secrets } = emitterOf(this.#tokens)
    emit(() => ({ type: 'token-withheld', reason, url: shownUrl(url, secrets) }))
    if (reason === 'own-header') this.#ownHeaders += 1
    if (this.#ownHeaders === MOST_OWN_HEADERS) this.#warn(reason, url, { calls: MOST_OWN_HEADERS })
    if (reason === 'destination' && this.#destinations(url).isOnApiOrigin) this.#warn(reason, url, {})
  }

  /** A response to a call that was sent without the token arrived. */
  answered(reason: WithheldReason, url: string, status: number | undefined): void {
    if (status !== undefined && this.#renewOnStatus.includes(status)) this.#warn(reason, url, { status })
  }

  #warn(reason: WithheldReason, url: string, seen: Pick<CallWithoutToken, 'calls' | 'status'>): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const { environment } = this.#tokens
    const { secrets } = emitterOf(this.#tokens)
    warnWithheld({
      reason,
      url: shownUrl(url, secrets),
      header: this.#header,
      baseUrls: apisOf(environment).map((api) => api.url),
      ...seen,
    })
  }
}

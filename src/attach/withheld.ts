/** The calls of an attachment that go without the token: their events, and one warning for what looks like a mistake. */

import { shownUrl } from '../base/redact.ts'
import { type Destinations, isAnyTokenEndpoint } from '../environment/destinations.ts'
import { apisOf } from '../environment/environment.ts'
import { type CallWithoutToken, warnWithheld } from '../events/warnings.ts'
import type { ResolvedAttach } from '../options/options.ts'
import { attachedProviderOf } from '../token/attached-provider.ts'
import type { TokenProvider } from '../token/provider.ts'
import { type Decision, isWithheld, type WithheldReason } from './admit.ts'

/** So many calls with a header of their own, where no call needs the token, are a mistake. */
const MOST_OWN_HEADERS = 10

export class WithheldCalls {
  readonly #tokens: TokenProvider
  readonly #destinations: Destinations
  readonly #attach: ResolvedAttach
  #ownHeaders = 0
  #hasWarned = false

  constructor(tokens: TokenProvider, destinations: Destinations, attach: ResolvedAttach) {
    this.#tokens = tokens
    this.#destinations = destinations
    this.#attach = attach
  }

  /** Notes what was decided on a call, and emits an event where it goes without the token. */
  decided(decision: Decision, url: string): void {
    if (decision === 'attach') this.#ownHeaders = Number.POSITIVE_INFINITY // one of its own may be meant on another call
    if (decision === 'other-service') this.#emit('destination', url)
    if (!isWithheld(decision)) return
    this.#emit(decision, url)
    if (decision === 'own-header') {
      this.#ownHeaders += 1
      if (this.#ownHeaders === MOST_OWN_HEADERS) this.#warn(decision, url, { calls: MOST_OWN_HEADERS })
    }
    if (this.#destinations(url).isOnApiOrigin) this.#warn(decision, url, {})
  }

  /** A response to a call that was sent without the token arrived. */
  answered(reason: WithheldReason, url: string, status: number | undefined): void {
    if (!(this.#attach.renewOnStatus as readonly unknown[]).includes(status)) return
    // The token request of a provider for another environment may pass through the same global fetch.
    if (!isAnyTokenEndpoint(url)) this.#warn(reason, url, { status })
  }

  #emit(reason: WithheldReason, url: string): void {
    const { emit, secrets } = attachedProviderOf(this.#tokens)
    emit(() => ({ type: 'token-withheld', reason, url: shownUrl(url, secrets) }))
  }

  #warn(reason: WithheldReason, url: string, seen: Pick<CallWithoutToken, 'calls' | 'status'>): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const { environment } = this.#tokens
    const { secrets } = attachedProviderOf(this.#tokens)
    warnWithheld({
      reason,
      url: shownUrl(url, secrets),
      header: this.#attach.header,
      baseUrls: apisOf(environment).map((api) => api.url),
      ...seen,
    })
  }
}

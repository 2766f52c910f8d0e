/** The calls of an attachment that go without the token: their events, and one warning for what looks like a mistake. */

import { shownUrl } from '../base/redact.ts'
import type { Destinations } from '../environment/destinations.ts'
import { apisOf } from '../environment/environment.ts'
import type { TokenWithheldEvent } from '../events/events.ts'
import { type CallWithoutToken, warnWithheld } from '../events/warnings.ts'
import type { ResolvedAttach } from '../options/options.ts'
import { attachedProviderOf } from '../token/attached-provider.ts'
import type { TokenProvider } from '../token/provider.ts'

/** Why a call goes without the token. */
export type WithheldReason = TokenWithheldEvent['reason']

/** So many calls with a header of their own, where no call needs the token, are a mistake. */
const MOST_OWN_HEADERS = 10

/** The URL of a token request, such as that of a provider for another environment through one global fetch. */
const TOKEN_REQUEST = /^[^?#]*\/oauth\/token(?:$|[?#])/

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

  /** A call gets the token: a header of its own on another one may be meant. */
  tokenNeeded(): void {
    this.#ownHeaders = Number.POSITIVE_INFINITY
  }

  /** A call is sent without the token; `isForeign`: it has credentials of its own for another service. */
  sent(reason: WithheldReason, url: string, { isForeign }: { readonly isForeign?: boolean } = {}): void {
    const { emit, secrets } = attachedProviderOf(this.#tokens)
    emit(() => ({ type: 'token-withheld', reason, url: shownUrl(url, secrets) }))
    if (reason === 'own-header') {
      this.#ownHeaders += 1
      if (this.#ownHeaders === MOST_OWN_HEADERS) this.#warn(reason, url, { calls: MOST_OWN_HEADERS })
    }
    if (!isForeign && this.#destinations(url).isOnApiOrigin) this.#warn(reason, url, {})
  }

  /** A response to a call that was sent without the token arrived. */
  answered(reason: WithheldReason, url: string, status: number | undefined): void {
    if (!(this.#attach.renewOnStatus as readonly unknown[]).includes(status)) return
    if (!TOKEN_REQUEST.test(url)) this.#warn(reason, url, { status })
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

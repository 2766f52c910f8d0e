/** The events as measurements. */
import type { Attributes, MeterProvider } from '@opentelemetry/api'
import type { AuthEvent } from '../events.ts'
import { type Counters, type Instruments, instrumentsOf } from './instruments.ts'
import type { Quietly } from './quietly.ts'
import { failureOf, oauthErrorOf, serverOf, storeFailureOf } from './semantics.ts'
import { TokenLife } from './token-life.ts'
import type { EndedRequest } from './token-requests.ts'

/** The measurements of one provider. */
export class Measurements {
  /** Asked each time: the metrics API has no proxy whose instruments would come to life when an SDK is registered. */
  readonly #meters: () => MeterProvider
  readonly #quietly: Quietly
  readonly #life = new TokenLife()
  #watchedBy: Instruments | undefined

  constructor(meters: () => MeterProvider, quietly: Quietly) {
    this.#meters = meters
    this.#quietly = quietly
  }

  note(event: AuthEvent, request: EndedRequest | undefined, common: Attributes): void {
    const acquired = event.type === 'token-acquired'
    if (acquired) this.#life.begin(event.remainsMs, common)
    this.#quietly(() => {
      const instruments = instrumentsOf(this.#meters())
      if (acquired || instruments !== this.#watchedBy) instruments.watch(this.#life)
      this.#watchedBy = instruments
      if (request !== undefined) {
        const { url, durationMs, failure } = request
        const attributes = { ...common, ...serverOf(url), ...(failure && failureOf(failure)) }
        instruments.requestDuration.record(durationMs / 1000, attributes)
      }
      if (acquired) {
        const { durationMs, source } = event
        const attributes = { ...common, 'merchant_auth.token.source': source }
        instruments.acquisitionDuration.record(durationMs / 1000, attributes)
      }
      const count = countOf(event)
      if (count !== undefined) instruments[count[0]].add(1, { ...common, ...count[1] })
    })
  }
}

/** The counter that an event belongs to, and the event's own attributes; undefined for those that are timed. */
function countOf(event: AuthEvent): readonly [keyof Counters, Attributes] | undefined {
  switch (event.type) {
    case 'token-request-failed':
      return [
        'requestFailures',
        { ...failureOf(event), ...oauthErrorOf(event), 'merchant_auth.final': event.nextTryMs === undefined },
      ]
    case 'token-rejected':
      return ['rejections', apiOf(event)]
    case 'token-renewed':
      return ['renewals', { 'merchant_auth.renewal.reason': event.reason }]
    case 'renewal-suppressed':
      return ['suppressedRenewals', apiOf(event)]
    case 'token-withheld':
      return ['withheld', { 'merchant_auth.withheld.reason': event.reason }]
    case 'store-failed':
      return ['storeFailures', storeFailureOf(event)]
    default:
      return undefined
  }
}

function apiOf({ api }: { readonly api?: string | undefined }): Attributes {
  return api === undefined ? {} : { 'merchant_auth.api': api }
}

/** The events as measurements. */
import type { Attributes, MeterProvider } from '@opentelemetry/api'
import type { AuthEvent, TokenAcquiredEvent } from '../events.ts'
import { type Counters, type Instruments, instrumentsOf } from './instruments.ts'
import { quietly } from './quietly.ts'
import { failureOf, oauthErrorOf, serverOf, storeFailureOf } from './semantics.ts'
import { TokenLife } from './token-life.ts'
import type { EndedRequest } from './token-requests.ts'

/** The measurements of one provider. */
export class Measurements {
  /** Asked each time: the metrics API has no proxy whose instruments would come to life when an SDK is registered. */
  readonly #meters: () => MeterProvider
  readonly #life = new TokenLife()
  #watchedBy: Instruments | undefined

  constructor(meters: () => MeterProvider) {
    this.#meters = meters
  }

  note(event: AuthEvent, request: EndedRequest | undefined, common: Attributes): void {
    const acquired = event.type === 'token-acquired'
    if (acquired) this.#life.begin(event.remainsMs, common)
    quietly(() => {
      const instruments = instrumentsOf(this.#meters())
      if (acquired || instruments !== this.#watchedBy) instruments.watch(this.#life)
      this.#watchedBy = instruments
      if (request !== undefined) measureRequest(instruments, request, common)
      if (acquired) measureAcquisition(instruments, event, common)
      const count = countOf(event)
      if (count !== undefined) instruments[count[0]].add(1, { ...common, ...count[1] })
    })
  }
}

function measureRequest(
  { requestDuration }: Instruments,
  { url, durationMs, failure }: EndedRequest,
  common: Attributes,
): void {
  requestDuration.record(durationMs / 1000, {
    ...common,
    ...serverOf(url),
    ...(failure && failureOf(failure)),
  })
}

function measureAcquisition(
  { acquisitionDuration }: Instruments,
  { durationMs, source }: TokenAcquiredEvent,
  common: Attributes,
): void {
  acquisitionDuration.record(durationMs / 1000, { ...common, 'merchant_auth.token.source': source })
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

/** The token requests as spans. */
import {
  type Attributes,
  type Context,
  context,
  type HrTime,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
} from '@opentelemetry/api'
import type { AuthEvent, TokenRequestedEvent, TokenRequestFailedEvent } from '../events.ts'
import { SCOPE } from './instruments.ts'
import { quietly } from './quietly.ts'
import { failureOf, oauthErrorOf, serverOf } from './semantics.ts'

// The path that this package puts after authUrl.
const TEMPLATE = '/oauth/token'

interface Begun {
  readonly event: TokenRequestedEvent
  readonly epochMs: number
  readonly monotonicMs: number
  readonly parent: Context | undefined
}

/** An attempt at the token endpoint that has ended. */
export interface EndedRequest {
  readonly url: string
  readonly durationMs: number
  readonly failure: TokenRequestFailedEvent | undefined
}

/**
 * The token requests of one provider, which makes one at a time. No event tells of a request that was cut short because
 * its provider was closed. So a span is made when its request has ended, with the time and the parent noted at
 * its beginning: there is never an open one that nobody would end.
 */
export class TokenRequests {
  readonly #tracers: () => TracerProvider
  #begun: Begun | undefined

  constructor(tracers: () => TracerProvider) {
    this.#tracers = tracers
  }

  /** The request that ends with this event, where one does. */
  note(event: AuthEvent, common: Attributes): EndedRequest | undefined {
    if (event.type === 'token-requested') this.#begun = begin(event)
    const failure = event.type === 'token-request-failed' ? event : undefined
    const ends = failure !== undefined || (event.type === 'token-acquired' && event.source === 'endpoint')
    const begun = this.#begun
    if (!ends || begun === undefined) return undefined
    this.#begun = undefined
    const durationMs = performance.now() - begun.monotonicMs
    const ended = { url: begun.event.url, durationMs, failure }
    quietly(() => this.#trace(begun, ended, common))
    return ended
  }

  #trace({ event, epochMs, parent }: Begun, { durationMs, failure }: EndedRequest, common: Attributes): void {
    const attributes = {
      ...common,
      'http.request.method': 'POST',
      'url.full': event.url,
      'url.template': TEMPLATE,
      ...serverOf(event.url),
      ...(event.attempt > 1 && { 'http.request.resend_count': event.attempt - 1 }),
      ...(failure && { ...failureOf(failure), ...oauthErrorOf(failure) }),
    }
    const startTime = hrTimeOf(epochMs)
    const span = this.#tracers()
      .getTracer(SCOPE)
      .startSpan(`POST ${TEMPLATE}`, { kind: SpanKind.CLIENT, startTime, attributes }, parent)
    try {
      if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
    } finally {
      span.end(hrTimeOf(epochMs + durationMs))
    }
  }
}

function begin(event: TokenRequestedEvent): Begun {
  const parent = quietly(() => context.active())
  return { event, epochMs: Date.now(), monotonicMs: performance.now(), parent }
}

/** In seconds and nanoseconds: a plain number may be taken for one of `performance.now()`. */
function hrTimeOf(epochMs: number): HrTime {
  const seconds = Math.floor(epochMs / 1000)
  return [seconds, Math.floor((epochMs - seconds * 1000) * 1e6)]
}

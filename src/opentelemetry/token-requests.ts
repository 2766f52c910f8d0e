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
import type { Quietly } from './quietly.ts'
import { failureOf, oauthErrorOf, serverOf } from './semantics.ts'

interface Begun {
  readonly event: TokenRequestedEvent
  readonly epochMs: number
  readonly monotonicMs: number
  readonly parent: Context | undefined
  /** How many requests went out before this one, for the same token. */
  readonly resends: number
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
  readonly #tracers: TracerProvider
  readonly #quietly: Quietly
  #begun: Begun | undefined
  /** Those sent for the token that is wanted now. An attempt for which there was no client secret sends nothing. */
  #sent = 0

  constructor(tracers: TracerProvider, quietly: Quietly) {
    this.#tracers = tracers
    this.#quietly = quietly
  }

  /** The request that ends with this event, where one does. */
  note(event: AuthEvent, common: Attributes): EndedRequest | undefined {
    if (event.type === 'token-requested') this.#begin(event)
    const failure = event.type === 'token-request-failed' ? event : undefined
    if (event.type === 'token-acquired' || (failure && failure.nextTryMs === undefined)) this.#sent = 0
    const ends = failure !== undefined || (event.type === 'token-acquired' && event.source === 'endpoint')
    const begun = this.#begun
    if (!ends || begun === undefined) return undefined
    this.#begun = undefined
    const durationMs = performance.now() - begun.monotonicMs
    const ended = { url: begun.event.url, durationMs, failure }
    this.#quietly(() => this.#trace(begun, ended, common))
    return ended
  }

  #begin(event: TokenRequestedEvent): void {
    const parent = this.#quietly(() => context.active())
    const resends = this.#sent++
    this.#begun = { event, epochMs: Date.now(), monotonicMs: performance.now(), parent, resends }
  }

  #trace(begun: Begun, { durationMs, failure }: EndedRequest, common: Attributes): void {
    const { event, epochMs, parent, resends } = begun
    const { pathname } = new URL(event.url)
    const attributes = {
      ...common,
      'http.request.method': 'POST',
      'url.full': event.url,
      'url.template': pathname,
      ...serverOf(event.url),
      ...(resends > 0 && { 'http.request.resend_count': resends }),
      ...(failure && { ...failureOf(failure), ...oauthErrorOf(failure) }),
    }
    const startTime = hrTimeOf(epochMs)
    const span = this.#tracers
      .getTracer(SCOPE)
      .startSpan(`POST ${pathname}`, { kind: SpanKind.CLIENT, startTime, attributes }, parent)
    try {
      if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
    } finally {
      span.end(hrTimeOf(epochMs + durationMs))
    }
  }
}

/** In seconds and nanoseconds: a plain number may be taken for one of `performance.now()`. */
function hrTimeOf(epochMs: number): HrTime {
  const seconds = Math.floor(epochMs / 1000)
  return [seconds, Math.floor((epochMs - seconds * 1000) * 1e6)]
}

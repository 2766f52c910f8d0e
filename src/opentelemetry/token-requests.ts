/** The attempts at the token endpoint: when each began and ended, its span, and the attributes that describe it. */
import {
  type Attributes,
  type Context,
  context,
  type HrTime,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
} from '@opentelemetry/api'
import type { AuthEvent, TokenRequestFailedEvent } from '../events.ts'

/** The instrumentation scope of all metrics and spans. */
export const SCOPE = 'merchant-auth'

/** OpenTelemetry's value for whatever is not on a list. */
export const OTHER = '_OTHER'

interface PendingRequest {
  readonly url: string
  readonly startedAt: { readonly epochMs: number; readonly monotonicMs: number }
  /** The span context that was active when the request began. */
  readonly parent: Context | undefined
  /** How many requests were sent before this one for the same token. */
  readonly resends: number
}

/** An attempt at the token endpoint that has ended. */
export interface EndedRequest extends PendingRequest {
  readonly durationMs: number
  readonly failure: TokenRequestFailedEvent | undefined
}

/**
 * The token requests of one provider, which sends one at a time. No event says that a request was aborted because its
 * provider was closed. So a span is created only when its request has ended, with the start time and the parent
 * of its beginning: no span can stay open.
 */
export class TokenRequests {
  readonly #safely: (read: () => Context) => Context | undefined
  #pending: PendingRequest | undefined
  /** Requests sent for the token that is wanted now. An attempt without a client secret sends nothing. */
  #sent = 0

  constructor(safely: (read: () => Context) => Context | undefined) {
    this.#safely = safely
  }

  /** Follows the events. Returns the request that ends with this event, if one does. */
  next(event: AuthEvent): EndedRequest | undefined {
    if (event.type === 'token-requested') {
      const startedAt = { epochMs: Date.now(), monotonicMs: performance.now() }
      const parent = this.#safely(() => context.active())
      this.#pending = { url: event.url, startedAt, parent, resends: this.#sent++ }
      return undefined
    }
    if (event.type !== 'token-acquired' && event.type !== 'token-request-failed') return undefined
    const failure = event.type === 'token-request-failed' ? event : undefined
    if (failure?.nextTryMs === undefined) this.#sent = 0
    const pending = this.#pending
    if (pending === undefined || (event.type === 'token-acquired' && event.source === 'store'))
      return undefined
    this.#pending = undefined
    return { ...pending, durationMs: performance.now() - pending.startedAt.monotonicMs, failure }
  }
}

/** Records the span of an ended request. */
export function recordSpan(tracers: TracerProvider, request: EndedRequest, common: Attributes): void {
  const { url, startedAt, durationMs, parent, resends, failure } = request
  const { pathname } = new URL(url)
  const attributes = {
    ...common,
    'http.request.method': 'POST',
    'url.full': url,
    'url.template': pathname,
    ...serverAttributes(url),
    ...(resends > 0 && { 'http.request.resend_count': resends }),
    ...(failure && { ...failureAttributes(failure), ...oauthAttributes(failure) }),
  }
  const startTime = hrTimeOf(startedAt.epochMs)
  const span = tracers
    .getTracer(SCOPE)
    .startSpan(`POST ${pathname}`, { kind: SpanKind.CLIENT, startTime, attributes }, parent)
  try {
    if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
  } finally {
    span.end(hrTimeOf(startedAt.epochMs + durationMs))
  }
}

/** Seconds and nanoseconds: an SDK may take a plain number for a reading of `performance.now()`. */
function hrTimeOf(epochMs: number): HrTime {
  const seconds = Math.floor(epochMs / 1000)
  return [seconds, Math.floor((epochMs - seconds * 1000) * 1e6)]
}

/** The host and port of the token endpoint. */
export function serverAttributes(url: string): Attributes {
  const { hostname, port, protocol } = new URL(url)
  return {
    'server.address': hostname.replace(/^\[(.*)\]$/, '$1'),
    'server.port': port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
  }
}

/** Why an attempt failed. */
export function failureAttributes({ code, status }: TokenRequestFailedEvent): Attributes {
  return {
    'error.type': code.startsWith('ERR_') ? code : OTHER,
    ...(status !== undefined && { 'http.response.status_code': status }),
  }
}

/** The error codes of RFC 6749 (§4.1.2.1, §5.2). */
const OAUTH_ERRORS = new Set([
  'access_denied',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'server_error',
  'temporarily_unavailable',
  'unauthorized_client',
  'unsupported_grant_type',
  'unsupported_response_type',
])

/** The OAuth error of the answer, if it had one. */
export function oauthAttributes({ error }: TokenRequestFailedEvent): Attributes {
  return error === undefined ? {} : { 'merchant_auth.oauth.error': OAUTH_ERRORS.has(error) ? error : OTHER }
}

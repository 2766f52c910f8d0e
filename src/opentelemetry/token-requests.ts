/** The attempts at the token endpoint: when each began and ended, its span, and the attributes that describe it. */
import {
  type Attributes,
  type Context,
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

/** An attempt at the token endpoint that has ended. */
export interface EndedRequest {
  readonly url: string
  /** Epoch ms. */
  readonly startedAt: number
  readonly durationMs: number
  /** The span context that was active when the request began. */
  readonly parent: Context | undefined
  /** How many requests were sent before this one for the same token. */
  readonly resends: number
  readonly failure: TokenRequestFailedEvent | undefined
}

/**
 * Follows the events of one provider, which sends one token request at a time. Returns the request that ends with an
 * event, if one does. No event says that a request was aborted because its provider was closed. So a span is created
 * only when its request has ended, with the start time and the parent of its beginning: no span can stay open.
 */
export function followRequests(
  activeContext: () => Context | undefined,
): (event: AuthEvent) => EndedRequest | undefined {
  let end: ((failure: EndedRequest['failure']) => EndedRequest) | undefined
  /** Requests sent for the token that is wanted now. An attempt without a client secret sends nothing. */
  let sent = 0
  return (event) => {
    if (event.type === 'token-requested') {
      const begun = { url: event.url, startedAt: Date.now(), parent: activeContext(), resends: sent++ }
      const startedAt = performance.now()
      end = (failure) => ({ ...begun, durationMs: performance.now() - startedAt, failure })
      return undefined
    }
    if (event.type !== 'token-acquired' && event.type !== 'token-request-failed') return undefined
    const failure = event.type === 'token-request-failed' ? event : undefined
    if (failure?.nextTryMs === undefined) sent = 0
    if (event.type === 'token-acquired' && event.source === 'store') return undefined
    const ended = end?.(failure)
    end = undefined
    return ended
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
  const startTime = hrTimeOf(startedAt)
  const span = tracers
    .getTracer(SCOPE)
    .startSpan(`POST ${pathname}`, { kind: SpanKind.CLIENT, startTime, attributes }, parent)
  try {
    if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
  } finally {
    span.end(hrTimeOf(startedAt + durationMs))
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

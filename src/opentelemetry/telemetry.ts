/** What the events of a provider become: the attempts at the token endpoint with their spans, and the metrics. */
import {
  type Attributes,
  type Context,
  type Counter,
  type Histogram,
  type HrTime,
  type Meter,
  type MeterProvider,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
} from '@opentelemetry/api'
import { readClock, systemClock } from '../base/clock.ts'
import { ElapsedTime } from '../base/elapsed-time.ts'
import { VERSION } from '../base/version.ts'
import type { AuthEvent, TokenRequestFailedEvent } from '../events/events.ts'

/** The instrumentation scope of all metrics and spans, with the semantic conventions that their names follow. */
const SCOPE = ['merchant-auth', VERSION, { schemaUrl: 'https://opentelemetry.io/schemas/1.37.0' }] as const

/** OpenTelemetry's value for what is not on a list. */
const OTHER = '_OTHER'

/** An attempt at the token endpoint that has ended. */
interface EndedRequest {
  readonly url: string
  /** Epoch ms. */
  readonly startedAt: number
  readonly durationMs: number
  /** The span context that was active when the request began. */
  readonly parent: Context
  /** How many requests were sent before this one for the same token. */
  readonly resends: number
  readonly failure: TokenRequestFailedEvent | undefined
}

/**
 * Follows the events of one provider, which sends one token request at a time. Returns the request that ends with an
 * event, if one does. A span is created only then, because no event says that closing a provider aborted its request.
 */
export function followRequests(activeContext: () => Context): (event: AuthEvent) => EndedRequest | undefined {
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
    .getTracer(...SCOPE)
    .startSpan(`POST ${pathname}`, { kind: SpanKind.CLIENT, startTime, attributes }, parent)
  if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
  span.end(hrTimeOf(startedAt + durationMs))
}

/** Seconds and nanoseconds: an SDK may take a plain number for a reading of `performance.now()`. */
function hrTimeOf(epochMs: number): HrTime {
  const seconds = Math.floor(epochMs / 1000)
  return [seconds, Math.floor((epochMs - seconds * 1000) * 1e6)]
}

function serverAttributes(url: string): Attributes {
  const { hostname, port, protocol } = new URL(url)
  return {
    'server.address': hostname.replace(/^\[(.*)\]$/, '$1'),
    'server.port': port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
  }
}

function failureAttributes({ code, status }: TokenRequestFailedEvent): Attributes {
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

function oauthAttributes({ error }: TokenRequestFailedEvent): Attributes {
  return error === undefined ? {} : { 'merchant_auth.oauth.error': OAUTH_ERRORS.has(error) ? error : OTHER }
}

type CountedEvent = Exclude<AuthEvent, { readonly type: 'token-requested' | 'token-acquired' }>

/** The counter of each event that is counted: name, unit and description. */
const COUNTERS: Readonly<Record<CountedEvent['type'], readonly [string, string, string]>> = {
  'token-request-failed': ['token.request.failures', 'failure', 'Failed attempts to get a token.'],
  'token-rejected': ['token.rejections', 'rejection', 'Calls whose token an API rejected.'],
  'token-renewed': ['token.renewals', 'renewal', 'Tokens replaced before they expired.'],
  'renewal-suppressed': ['token.suppressed_renewals', 'renewal', 'Rejected calls that renewed nothing.'],
  'token-withheld': ['token.withheld', 'request', 'Calls sent without the token.'],
  'store-failed': ['store.failures', 'failure', 'Failed operations of the token store.'],
}

/** The boundaries that OpenTelemetry advises for HTTP requests. The SDK's defaults are meant for milliseconds. */
const BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

/** The most series of the gauge. The SDK for Node.js keeps 2 000 of each metric by default. */
const MAX_SERIES = 10_000

type CurrentToken = {
  readonly remainsMs: number
  /** Since the token was acquired. */
  readonly age: ElapsedTime
  readonly attributes: Attributes
}

type Instruments = ReturnType<typeof createInstruments>

const known = new WeakMap<MeterProvider, Instruments>()

function instrumentsOf(provider: MeterProvider): Instruments {
  const instruments = known.get(provider) ?? createInstruments(provider.getMeter(...SCOPE))
  known.set(provider, instruments)
  return instruments
}

function createInstruments(meter: Meter) {
  const advice = { explicitBucketBoundaries: BOUNDARIES }
  const histogram = (name: string, description: string): Histogram =>
    meter.createHistogram(`merchant_auth.token.${name}.duration`, { description, unit: 's', advice })
  const counters = Object.entries(COUNTERS).map(([type, [name, unit, description]]) => {
    return [type, meter.createCounter(`merchant_auth.${name}`, { description, unit: `{${unit}}` })] as const
  })
  return {
    requestDuration: histogram('request', 'Duration of one attempt at the token endpoint.'),
    acquisitionDuration: histogram('acquisition', 'Time to get a token, with all attempts and pauses.'),
    counters: new Map<string, Counter>(counters),
    quotaRemaining: meter.createGauge('merchant_auth.token.quota.remaining', {
      description: 'Token requests left of a quota.',
      unit: '{request}',
    }),
    countDown: createGauge(meter),
  }
}

/**
 * Lets the gauge count down the lifetime of a token, instead of an earlier one with the same attributes. One callback for
 * all listeners: an SDK keeps its callbacks, and a callback of each listener would keep the listener.
 */
function createGauge(meter: Meter): (token: CurrentToken) => void {
  const tokens = new Map<string, CurrentToken>()
  const options = { description: 'Time until the current token expires.', unit: 's' }
  meter.createObservableGauge('merchant_auth.token.remaining_lifetime', options).addCallback((result) => {
    for (const { remainsMs, age, attributes } of tokens.values())
      result.observe(Math.max(0, remainsMs - age.ms(systemClock)) / 1000, attributes)
  })
  return (token) => {
    const key = JSON.stringify(token.attributes)
    tokens.delete(key) // the newest comes last, and the oldest is dropped first
    tokens.set(key, token)
    if (tokens.size > MAX_SERIES) tokens.delete(tokens.keys().next().value as string)
  }
}

/** Records the events of one provider. `meters` is called at each event, because an SDK may be registered later. */
export function createMetrics(meters: () => MeterProvider) {
  let token: CurrentToken | undefined
  /** The instruments whose gauge has the token. */
  let shownBy: Instruments | undefined
  return (event: AuthEvent, ended: EndedRequest | undefined, common: Attributes): void => {
    if (event.type === 'token-acquired') {
      const { remainsMs } = event
      token = { remainsMs, age: new ElapsedTime(readClock(systemClock)), attributes: common }
      shownBy = undefined
    }
    const instruments = instrumentsOf(meters())
    if (token !== undefined && shownBy !== instruments) instruments.countDown(token)
    shownBy = instruments
    if (ended !== undefined) {
      const failure = ended.failure && failureAttributes(ended.failure)
      const attributes = { ...common, ...serverAttributes(ended.url), ...failure }
      instruments.requestDuration.record(ended.durationMs / 1000, attributes)
    }
    if (event.type === 'token-acquired' || event.type === 'token-request-failed') {
      for (const { scope, name, remaining } of event.quota ?? []) {
        const quota = { 'merchant_auth.quota.scope': scope, 'merchant_auth.quota.name': quotaName(name) }
        instruments.quotaRemaining.record(remaining, { ...common, ...quota })
      }
    }
    if (event.type === 'token-acquired') {
      const attributes = { ...common, 'merchant_auth.token.source': event.source }
      instruments.acquisitionDuration.record(event.durationMs / 1000, attributes)
    } else if (event.type !== 'token-requested') {
      instruments.counters.get(event.type)?.add(1, { ...common, ...attributesOf(event) })
    }
  }
}

/** Not the URL of the call, of which there may be any number. */
function apiAttributes({ api }: { readonly api?: string | undefined }): Attributes {
  return api === undefined ? {} : { 'merchant_auth.api': api }
}

/** The attributes that an event has besides those of its provider. */
function attributesOf(event: CountedEvent): Attributes {
  switch (event.type) {
    case 'token-request-failed': {
      const isFinal = event.nextTryMs === undefined
      return { ...failureAttributes(event), ...oauthAttributes(event), 'merchant_auth.final': isFinal }
    }
    case 'token-rejected':
      return apiAttributes(event)
    case 'renewal-suppressed':
      return { ...apiAttributes(event), 'merchant_auth.suppressed.reason': event.reason }
    case 'token-renewed':
      return { 'merchant_auth.renewal.reason': event.reason }
    case 'token-withheld':
      return { 'merchant_auth.withheld.reason': event.reason }
    case 'store-failed':
      return { 'merchant_auth.store.operation': event.operation, 'error.type': storeCode(event.code ?? '') }
  }
}

const MAX_VALUES = 30

/** Lets the first values of a pattern become values of an attribute: stores and services may make up any number. */
function firstValues(pattern: RegExp): (value: string) => string {
  const values = new Set<string>()
  return (value) => {
    if (!pattern.test(value) || (!values.has(value) && values.size >= MAX_VALUES)) return OTHER
    values.add(value)
    return value
  }
}

const storeCode = firstValues(/^[A-Z]\w{1,39}$/)
const quotaName = firstValues(/^[\w.:-]{1,40}$/)

/** The metrics: one set of instruments for each meter provider, and what each event records. */
import type { Attributes, Counter, Histogram, Meter, MeterProvider } from '@opentelemetry/api'
import { readClock, systemClock } from '../clock.ts'
import type { AuthEvent } from '../events.ts'
import type { Quota } from '../quota.ts'
import { Lifetime } from '../token/access-token.ts'
import {
  type EndedRequest,
  failureAttributes,
  OTHER,
  oauthAttributes,
  SCOPE,
  serverAttributes,
} from './token-requests.ts'

type CountedEvent = Exclude<AuthEvent, { readonly type: 'token-requested' | 'token-acquired' }>

/** The counter of each event that is counted: name, unit and description. */
const COUNTERS: Readonly<Record<CountedEvent['type'], readonly [string, string, string]>> = {
  'token-request-failed': ['token.request.failures', 'failure', 'Failed attempts to get a token.'],
  'token-rejected': ['token.rejections', 'rejection', 'Calls whose token an API rejected.'],
  'token-renewed': ['token.renewals', 'renewal', 'Tokens replaced before they expired.'],
  'renewal-suppressed': ['token.suppressed_renewals', 'renewal', 'Renewals suppressed by the rate limit.'],
  'token-withheld': ['token.withheld', 'request', 'Calls sent without the token.'],
  'store-failed': ['store.failures', 'failure', 'Failed operations of the token store.'],
}

/** The boundaries that OpenTelemetry advises for HTTP requests. The SDK's defaults are meant for milliseconds. */
const BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

/** The most series of the gauge. The SDK for Node.js keeps 2 000 of each metric by default. */
const MAX_SERIES = 10_000

const EXPIRY_ONLY = { refreshAheadMs: 0, expiryMarginMs: 0 }

interface CurrentToken {
  readonly lifetime: Lifetime
  readonly attributes: Attributes
}

type Instruments = ReturnType<typeof createInstruments>

const known = new WeakMap<MeterProvider, Instruments>()

/** The instruments of this meter provider, created at first use. */
function instrumentsOf(provider: MeterProvider): Instruments {
  const instruments = known.get(provider) ?? createInstruments(provider.getMeter(SCOPE))
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
      description: 'Token requests left of a quota, as the last response of the token endpoint said.',
      unit: '{request}',
    }),
    countDown: createGauge(meter),
  }
}

/**
 * Returns what lets the gauge count down the lifetime of a token, instead of an earlier one with the same attributes.
 * The gauge is observable, so that it counts down between events. One callback and one entry for each combination of
 * attributes, for all listeners: an SDK keeps its callbacks, and a callback of each listener would keep the listener.
 */
function createGauge(meter: Meter): (token: CurrentToken) => void {
  const tokens = new Map<string, CurrentToken>()
  const options = { description: 'Time until the current token expires; 0 if it has expired.', unit: 's' }
  meter.createObservableGauge('merchant_auth.token.remaining_lifetime', options).addCallback((result) => {
    for (const { lifetime, attributes } of tokens.values())
      result.observe(Math.max(0, lifetime.remainsMs(systemClock)) / 1000, attributes)
  })
  return (token) => {
    const key = JSON.stringify(token.attributes)
    tokens.delete(key) // the newest comes last, and the oldest is dropped first
    tokens.set(key, token)
    for (const oldest of tokens.keys()) {
      if (tokens.size <= MAX_SERIES) break
      tokens.delete(oldest)
    }
  }
}

/**
 * Records the events of one provider, each with the token request that ended with it.
 *
 * @param meters asked at each event, because an SDK may be registered later
 */
export function createMetrics(
  meters: () => MeterProvider,
): (event: AuthEvent, ended: EndedRequest | undefined, common: Attributes) => void {
  let token: CurrentToken | undefined
  /** The instruments whose gauge has the token. */
  let shownBy: Instruments | undefined
  return (event, ended, common) => {
    if (event.type === 'token-acquired') {
      const lifetime = new Lifetime(readClock(systemClock), event.remainsMs, EXPIRY_ONLY, 0)
      token = { lifetime, attributes: common }
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
      for (const quota of event.quota ?? [])
        instruments.quotaRemaining.record(quota.remaining, { ...common, ...quotaAttributes(quota) })
    }
    if (event.type === 'token-acquired') {
      const attributes = { ...common, 'merchant_auth.token.source': event.source }
      instruments.acquisitionDuration.record(event.durationMs / 1000, attributes)
    } else if (event.type !== 'token-requested') {
      instruments.counters.get(event.type)?.add(1, { ...common, ...attributesOf(event) })
    }
  }
}

/** The attributes that an event has besides those of its provider. */
function attributesOf(event: CountedEvent): Attributes {
  switch (event.type) {
    case 'token-request-failed': {
      const isFinal = event.nextTryMs === undefined
      return { ...failureAttributes(event), ...oauthAttributes(event), 'merchant_auth.final': isFinal }
    }
    case 'token-rejected':
    case 'renewal-suppressed':
      return event.api === undefined ? {} : { 'merchant_auth.api': event.api }
    case 'token-renewed':
      return { 'merchant_auth.renewal.reason': event.reason }
    case 'token-withheld':
      return { 'merchant_auth.withheld.reason': event.reason }
    case 'store-failed':
      return { 'merchant_auth.store.operation': event.operation, 'error.type': storeCode(event.code ?? '') }
  }
}

function quotaAttributes({ scope, name }: Quota): Attributes {
  return { 'merchant_auth.quota.scope': scope, 'merchant_auth.quota.name': quotaName(name) }
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

const storeCode = firstValues(/^[A-Z][A-Z0-9_]{1,39}$/)
const quotaName = firstValues(/^[\w.:-]{1,40}$/)

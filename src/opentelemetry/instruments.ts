/** The instruments: one set for each meter provider, however many listeners use it. */
import type { Attributes, Counter, Histogram, Meter, MeterProvider } from '@opentelemetry/api'

/** The instrumentation scope of everything that comes from here. */
export const SCOPE = 'merchant-auth'

/** Something that the gauge asks for its value whenever metrics are collected. */
export interface Observed {
  readonly ref: WeakRef<Observed>
  /** Seconds, and what they are told with; undefined: nothing to tell. */
  observe(): { readonly seconds: number; readonly attributes: Attributes } | undefined
}

/** What is counted. */
export interface Counters {
  readonly requestFailures: Counter
  readonly rejections: Counter
  readonly renewals: Counter
  readonly suppressedRenewals: Counter
  readonly withheld: Counter
  readonly storeFailures: Counter
}

/** The instruments of one meter provider. */
export interface Instruments extends Counters {
  readonly requestDuration: Histogram
  readonly acquisitionDuration: Histogram
  /**
   * Lets the gauge ask this one for as long as somebody else keeps it, and after all others: where two have the same
   * attributes, the last word counts.
   */
  watch(observed: Observed): void
}

/** Those that OpenTelemetry has for the duration of an HTTP request. The SDK's own would be for milliseconds. */
const BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

const made = new WeakMap<MeterProvider, Instruments>()

/** The instruments of this meter provider, made at first use. */
export function instrumentsOf(provider: MeterProvider): Instruments {
  let instruments = made.get(provider)
  if (instruments === undefined) {
    instruments = makeInstruments(provider.getMeter(SCOPE))
    made.set(provider, instruments)
  }
  return instruments
}

function makeInstruments(meter: Meter): Instruments {
  const histogram = (name: string, description: string): Histogram =>
    meter.createHistogram(`merchant_auth.${name}`, {
      description,
      unit: 's',
      advice: { explicitBucketBoundaries: BOUNDARIES },
    })
  const counter = (name: string, unit: string, description: string): Counter =>
    meter.createCounter(`merchant_auth.${name}`, { description, unit: `{${unit}}` })
  return {
    requestDuration: histogram('token.request.duration', 'Duration of one attempt at the token endpoint.'),
    requestFailures: counter('token.request.failures', 'failure', 'Failed attempts to get a token.'),
    acquisitionDuration: histogram(
      'token.acquisition.duration',
      'Time from wanting a token to having it, with all attempts.',
    ),
    rejections: counter('token.rejections', 'rejection', 'Calls whose token an API refused.'),
    renewals: counter('token.renewals', 'renewal', 'Tokens replaced before their end.'),
    suppressedRenewals: counter(
      'token.suppressed_renewals',
      'renewal',
      'Renewals not made, because they are rationed.',
    ),
    withheld: counter('token.withheld', 'request', 'Calls that went out without the token.'),
    storeFailures: counter('store.failures', 'failure', 'Failed operations of the token store.'),
    watch: makeGauge(meter),
  }
}

/**
 * One callback for all that are watched, over weak references: the SDK keeps its callbacks for ever, and one callback
 * for each listener would keep that one, too. Where temporality is cumulative the SDK also goes on with the last value
 * of what is not observed any more, so that value is made 0.
 */
function makeGauge(meter: Meter): Instruments['watch'] {
  /** With the attributes that each was told with. */
  const watched = new Map<WeakRef<Observed>, Attributes | undefined>()
  const gone: Attributes[] = []
  const dropped = new FinalizationRegistry<WeakRef<Observed>>((ref) => {
    const told = watched.get(ref)
    if (told !== undefined) gone.push(told)
    watched.delete(ref)
  })
  const options = { description: 'Time until the current token expires; 0 when it has.', unit: 's' }
  meter.createObservableGauge('merchant_auth.token.remaining_lifetime', options).addCallback((result) => {
    for (const attributes of gone.splice(0)) result.observe(0, attributes)
    for (const ref of watched.keys()) {
      const observation = ref.deref()?.observe()
      if (observation === undefined) continue
      watched.set(ref, observation.attributes)
      result.observe(observation.seconds, observation.attributes)
    }
  })
  return (observed) => {
    const { ref } = observed
    const told = watched.get(ref)
    if (!watched.delete(ref)) dropped.register(observed, ref)
    watched.set(ref, told)
  }
}

/**
 * A provider's events as OpenTelemetry metrics and spans.
 *
 * @module merchant-auth/opentelemetry
 */
import { type Attributes, type MeterProvider, metrics, type TracerProvider, trace } from '@opentelemetry/api'
import type { AuthEvent } from '../events.ts'
import { Measurements } from './measurements.ts'
import { TokenRequests } from './token-requests.ts'

/** Options of `createTelemetry`. */
export interface TelemetryOptions {
  /**
   * Put on every measurement and span, for example a merchant's id where each merchant has a provider of its own. Each
   * combination of values is a time series of its own: keep to values of which there are few. The package's own
   * attributes win over those of the same name.
   * @default none
   */
  readonly attributes?: Attributes | undefined
  /**
   * Where the metrics go.
   * @default the global meter provider, looked up at each event
   */
  readonly meterProvider?: MeterProvider | undefined
  /**
   * Where the spans go.
   * @default the global tracer provider, looked up at each event
   */
  readonly tracerProvider?: TracerProvider | undefined
}

/**
 * Makes a listener that turns a provider's events into OpenTelemetry metrics and spans. Each provider needs a listener
 * of its own: it remembers the token request that has begun, and the current token's lifetime. It never throws.
 *
 * Without options it uses the global providers of `@opentelemetry/api`. They may be registered later, but what happened
 * before is not told: the metrics and spans begin with the next event.
 *
 * @example
 * const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: createTelemetry() })
 */
export function createTelemetry(options: TelemetryOptions = {}): (event: AuthEvent) => void {
  const attributes = { ...options.attributes }
  const requests = new TokenRequests(() => options.tracerProvider ?? trace.getTracerProvider())
  const measurements = new Measurements(() => options.meterProvider ?? metrics.getMeterProvider())
  return (event) => {
    const { environment } = event
    const common = { ...attributes, ...(environment && { 'merchant_auth.environment': environment }) }
    const request = requests.note(event, common)
    measurements.note(event, request, common)
  }
}

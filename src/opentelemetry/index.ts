/**
 * A provider's events as OpenTelemetry metrics and spans.
 *
 * @module merchant-auth/opentelemetry
 */
import { metrics, trace } from '@opentelemetry/api'
import type { AuthEvent } from '../events.ts'
import { Measurements } from './measurements.ts'
import { checkTelemetry, type TelemetryOptions } from './options.ts'
import { createQuietly } from './quietly.ts'
import { TokenRequests } from './token-requests.ts'

export type { TelemetryOptions } from './options.ts'

/**
 * Makes a listener that turns a provider's events into OpenTelemetry metrics and spans. Each provider needs a listener
 * of its own: it remembers the token request that has begun, and the current token's lifetime. It never throws: the
 * first fault of an SDK is told to `diag.warn` of `@opentelemetry/api`.
 *
 * Without options it uses the global providers of `@opentelemetry/api`. They may be registered later, but what happened
 * before is not told: the metrics and spans begin with the next event.
 *
 * @param options attributes of your own, and providers other than the global ones
 * @returns the listener, to be given to `createTokenProvider` as `onEvent`
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every problem of the options
 * @example
 * const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: createTelemetry() })
 */
export function createTelemetry(options: TelemetryOptions = {}): (event: AuthEvent) => void {
  checkTelemetry(options)
  // trace looks the global provider up at each use; a meter of metrics would stay with the one that it found.
  const { meterProvider, tracerProvider = trace } = options
  const attributes = { ...options.attributes }
  const quietly = createQuietly()
  const requests = new TokenRequests(tracerProvider, quietly)
  const measurements = new Measurements(() => meterProvider ?? metrics.getMeterProvider(), quietly)
  return (event) => {
    const { environment } = event
    const common = { ...attributes, ...(environment && { 'merchant_auth.environment': environment }) }
    const request = requests.note(event, common)
    measurements.note(event, request, common)
  }
}

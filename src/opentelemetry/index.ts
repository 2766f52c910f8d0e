/**
 * A provider's events as OpenTelemetry metrics and spans.
 *
 * @module merchant-auth/opentelemetry
 */
import {
  type Attributes,
  context,
  diag,
  type MeterProvider,
  metrics,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import { ConfigurationError, type Problem } from '../base/errors.ts'
import { unknownOption } from '../base/similar-name.ts'
import type { AuthEvent } from '../events/events.ts'
import { createMetrics, followRequests, recordSpan } from './telemetry.ts'

/** Options of `createTelemetry`. */
export interface TelemetryOptions {
  /**
   * Added to every measurement and span, for example a merchant's id if each merchant has its own provider. Each
   * combination of values is a separate time series: use attributes with few values. The package's own attributes, such as
   * those that begin with `error.` or `merchant_auth.`, override attributes of the same name.
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
 * Creates a listener that turns a provider's events into OpenTelemetry metrics and spans. Each provider needs its own
 * listener, because the listener keeps the pending token request and the current token's lifetime. It never throws:
 * an error of the SDK is logged with `diag.warn` of `@opentelemetry/api`. Events that are emitted before the providers of
 * metrics and spans are registered are not recorded.
 *
 * @returns the listener, for `onEvent` of `createTokenProvider`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem of the options
 * @example
 * const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: createTelemetry() })
 */
export function createTelemetry(options: TelemetryOptions = {}): (event: AuthEvent) => void {
  const problems = problemsOf(options)
  if (problems.length > 0) throw new ConfigurationError('The telemetry options cannot be used', problems)
  // `trace` looks the global provider up at each use; `metrics` does not, so its provider is looked up at each event.
  const { meterProvider, tracerProvider = trace } = options
  const attributes = { ...options.attributes }
  const requestEndedBy = followRequests(() => context.active())
  const measure = createMetrics(() => meterProvider ?? metrics.getMeterProvider())
  return (event) => {
    const { environment } = event
    const common = { ...attributes, ...(environment && { 'merchant_auth.environment': environment }) }
    try {
      const ended = requestEndedBy(event)
      if (ended !== undefined) recordSpan(tracerProvider, ended, common)
      measure(event, ended, common)
    } catch (error) {
      diag.warn('merchant-auth: the OpenTelemetry SDK threw', error)
    }
  }
}

/** Every problem of the options. No schema: it would be most of this entry's size. */
function problemsOf(options: unknown): Problem[] {
  if (!isObject(options))
    return [{ option: 'options', kind: 'invalid', reason: 'must be an object of options' }]
  // `metrics` and `trace` have the functions that are checked for.
  const { attributes = {}, meterProvider = metrics, tracerProvider = trace, ...others } = options
  const names = ['attributes', 'meterProvider', 'tracerProvider']
  const problems = Object.keys(others).map((option) => unknownOption(option, names))
  const check = (isValid: boolean, option: string, reason: string): void => {
    if (!isValid) problems.push({ option, kind: 'invalid', reason })
  }
  check(isObject(attributes), 'attributes', 'must be an object')
  check(has(meterProvider, 'getMeter'), 'meterProvider', 'must have the function getMeter')
  check(has(tracerProvider, 'getTracer'), 'tracerProvider', 'must have the function getTracer')
  return problems
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function has(value: unknown, name: string): boolean {
  return typeof (value as Record<string, unknown> | null)?.[name] === 'function'
}

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
import { ConfigurationError, type Problem } from '../errors.ts'
import type { AuthEvent } from '../events.ts'
import { unknownOption } from '../names.ts'
import { createMetrics, followRequests, recordSpan } from './telemetry.ts'

/** Options of `createTelemetry`. */
export interface TelemetryOptions {
  /**
   * Added to every measurement and span, for example a merchant's id if each merchant has its own provider. Each
   * combination of values is a separate time series: use attributes with few values. Names that begin with
   * `error.` or `merchant_auth.` are reserved, and the package's own attributes override attributes of the same name.
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
 * the first error of an SDK is logged with `diag.warn` of `@opentelemetry/api`, later ones are suppressed.
 *
 * Without options it uses the global providers of `@opentelemetry/api`. They may be registered later; metrics and spans
 * begin with the next event, and earlier events are not recorded.
 *
 * @param options attributes to add, and providers other than the global ones
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
  const safely = createSafely()
  const requestEndedBy = followRequests(() => safely(() => context.active()))
  const measure = createMetrics(() => meterProvider ?? metrics.getMeterProvider())
  return (event) => {
    const { environment } = event
    const common = { ...attributes, ...(environment && { 'merchant_auth.environment': environment }) }
    const ended = requestEndedBy(event)
    if (ended !== undefined) safely(() => recordSpan(tracerProvider, ended, common))
    safely(() => measure(event, ended, common))
  }
}

/** Suppresses what an SDK throws. One for each listener, because each logs its first error only. */
function createSafely(): <T>(act: () => T) => T | undefined {
  let isLogged = false
  return (act) => {
    try {
      return act()
    } catch (error) {
      try {
        if (!isLogged) diag.warn('merchant-auth: the OpenTelemetry SDK threw', error)
      } catch {} // the logger is the application's, and may throw, too
      isLogged = true
      return undefined
    }
  }
}

/** Every problem of the options. No schema: it would be most of this entry's size. */
function problemsOf(options: unknown): Problem[] {
  // A provider given in place of the options may have no own property that reveals the mistake.
  if (!isObject(options) || has(options, 'getMeter') || has(options, 'getTracer'))
    return [{ option: 'options', reason: 'must be an object of options' }]
  // `metrics` and `trace` have the functions that are checked for.
  const { attributes = {}, meterProvider = metrics, tracerProvider = trace, ...others } = options
  const names = ['attributes', 'meterProvider', 'tracerProvider']
  const problems = Object.keys(others).map((option) => unknownOption(option, names))
  const check = (isValid: boolean, option: string, reason: string): void => {
    if (!isValid) problems.push({ option, reason })
  }
  check(isObject(attributes), 'attributes', 'must be an object')
  check(has(meterProvider, 'getMeter'), 'meterProvider', 'must have the function getMeter')
  check(has(tracerProvider, 'getTracer'), 'tracerProvider', 'must have the function getTracer')
  return problems
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a value has a function of this name; false if reading it throws. */
function has(value: unknown, name: string): boolean {
  try {
    return typeof (value as Record<string, unknown>)[name] === 'function'
  } catch {
    return false
  }
}

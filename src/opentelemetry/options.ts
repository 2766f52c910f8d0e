/** The options of the listener, and what is wrong with them: checked without a schema, to keep this entry small. */
import { type Attributes, type MeterProvider, metrics, type TracerProvider, trace } from '@opentelemetry/api'
import { ConfigurationError, type Problem } from '../errors.ts'

/** Options of `createTelemetry`. */
export interface TelemetryOptions {
  /**
   * Put on every measurement and span, for example a merchant's id where each merchant has a provider of its own. Each
   * combination of values is a time series of its own: keep to values of which there are few. Names that begin with
   * `error.` or `merchant_auth.` are reserved, and the package's own attributes win over those of the same name.
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
 * Checks the options of a listener.
 *
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every problem
 */
export function checkTelemetry(options: unknown): void {
  const problems = problemsOf(options)
  if (problems.length > 0) throw new ConfigurationError('The telemetry options cannot be used', problems)
}

function problemsOf(options: unknown): Problem[] {
  // A provider in the place of the options may have no property that shows it to be none of them.
  if (!isObject(options) || can(options, 'getMeter') || can(options, 'getTracer'))
    return [{ option: 'options', reason: 'must be an object of options' }]
  // metrics and trace stand for what is not given: they have these functions.
  const { attributes = {}, meterProvider = metrics, tracerProvider = trace, ...others } = options
  const problems = Object.keys(others).map((option) => ({ option, reason: 'is not an option' }))
  if (!isObject(attributes)) problems.push({ option: 'attributes', reason: 'must be an object' })
  if (!can(meterProvider, 'getMeter'))
    problems.push({ option: 'meterProvider', reason: 'must have the function getMeter' })
  if (!can(tracerProvider, 'getTracer'))
    problems.push({ option: 'tracerProvider', reason: 'must have the function getTracer' })
  return problems
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether it has a function of this name; not where it will not say. */
function can(value: unknown, name: string): boolean {
  try {
    return typeof (value as Record<string, unknown>)[name] === 'function'
  } catch {
    return false
  }
}

/** The telemetry listener: its options, the global providers, and an SDK that throws. */
import { DiagLogLevel, diag, metrics, trace } from '@opentelemetry/api'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { TracerProvider } from '@opentelemetry/sdk-trace'
import { createTelemetry, type TelemetryOptions } from 'merchant-auth/opentelemetry'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { problemsIn } from '../support/problems.ts'
import { ACQUIRED, Collected, REQUESTED } from './harness.ts'

describe('the options of createTelemetry', () => {
  const problemsOf = (options: unknown) =>
    problemsIn(() => createTelemetry(options as TelemetryOptions)).map(({ option, reason }) => [
      option,
      reason,
    ])

  it('are rejected as a whole if they are not an object, or are a provider', () => {
    const providers = [new MeterProvider(), new TracerProvider(), metrics.getMeterProvider(), trace]
    for (const value of [5, null, 'options', true, [], () => {}, ...providers])
      expect(problemsOf(value)).toEqual([['options', 'must be an object of options']])
  })

  it.each([
    ['meterProvider', 'must have the function getMeter', [{}, () => {}, new TracerProvider()]],
    ['tracerProvider', 'must have the function getTracer', [{}, () => {}, new MeterProvider()]],
    ['attributes', 'must be an object', ['merchant', ['merchant']]],
  ])('are rejected if %s is invalid', (option, reason, values) => {
    for (const value of [null, 5, ...values])
      expect(problemsOf({ [option]: value })).toEqual([[option, reason]])
  })

  it('are rejected with every problem, unknown options included', () => {
    const options = { attributes: 1, meterProvider: 2, tracerProvider: 3, meterprovider: 4, onEvent: 5 }
    const names = problemsOf(options).map(([option]) => option)
    expect(names.sort()).toEqual(Object.keys(options).sort())
    expect(problemsOf({ merchant: 'm-1', attribute: 5 })).toEqual([
      ['merchant', 'is not an option'],
      ['attribute', 'is not an option; did you mean attributes?'],
    ])
  })

  it('may be undefined, individually and as a whole', () => {
    const nothing = { attributes: undefined, meterProvider: undefined, tracerProvider: undefined }
    for (const options of [undefined, {}, nothing]) expect(createTelemetry(options)).toBeTypeOf('function')
  })
})

describe('a listener without options', () => {
  afterEach(() => {
    metrics.disable()
    trace.disable()
  })

  it('uses the global providers, even if they are registered after its first events', async () => {
    const listener = createTelemetry()
    listener(REQUESTED)
    listener(ACQUIRED)
    for (let round = 0; round < 2; round += 1) {
      const collected = new Collected()
      metrics.setGlobalMeterProvider(collected.meterProvider)
      trace.setGlobalTracerProvider(collected.tracerProvider)
      listener({ type: 'token-rejected' })
      expect((await collected.series('token.remaining_lifetime'))[0]?.value).toBeGreaterThan(0)
      listener(REQUESTED)
      listener(ACQUIRED)
      expect((await collected.series('token.request.duration'))[0]?.value).toHaveProperty('count', 1)
      expect((await collected.series('token.rejections'))[0]?.value).toBe(1)
      expect(collected.spans()).toHaveLength(1)
      metrics.disable()
      trace.disable()
      await collected.shutdown()
    }
  })
})

it('an SDK that throws does not affect the caller, and is logged', () => {
  const warn = vi.fn()
  const ignore = () => {}
  diag.setLogger({ verbose: ignore, debug: ignore, info: ignore, error: ignore, warn }, DiagLogLevel.ALL)
  const error = new Error('a fault of the SDK')
  const getMeter = (): never => {
    throw error
  }
  createTelemetry({ meterProvider: { getMeter } })(REQUESTED)
  expect(warn).toHaveBeenLastCalledWith(expect.stringMatching(/^merchant-auth: /), error)
  diag.disable()
})

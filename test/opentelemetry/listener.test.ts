/** The telemetry listener: its options, the global providers, and an SDK that throws. */
import { createNoopMeter, DiagLogLevel, diag, metrics, trace } from '@opentelemetry/api'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { createTelemetry, type TelemetryOptions } from 'merchant-auth/opentelemetry'
import { afterEach, describe, expect, it, vi } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { problemsIn } from '../support/problems.ts'
import { ACQUIRED, Collected, REQUESTED } from './harness.ts'

describe('the options of createTelemetry', () => {
  const problemsOf = (options: unknown) =>
    problemsIn(() => createTelemetry(options as TelemetryOptions)).map(Object.values)

  it.each([5, null, 'options', []])('are rejected as a whole if they are %j', (value) => {
    expect(problemsOf(value)).toEqual([['options', 'invalid', 'must be an object of options']])
  })

  it('are rejected with every problem', () => {
    const tracerProvider = new MeterProvider()
    expect(problemsOf({ attributes: ['m-1'], meterProvider: {}, tracerProvider, attribute: 5 })).toEqual([
      ['attribute', 'unknown', 'is not an option; did you mean attributes?'],
      ['attributes', 'invalid', 'must be an object'],
      ['meterProvider', 'invalid', 'must have the function getMeter'],
      ['tracerProvider', 'invalid', 'must have the function getTracer'],
    ])
  })

  it('may be undefined', () => {
    const nothing = { attributes: undefined, meterProvider: undefined, tracerProvider: undefined }
    expect(createTelemetry(nothing)).toBeTypeOf('function')
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

it('metrics and spans say which version of the package they come from, and which conventions they follow', () => {
  const scope = [
    'merchant-auth',
    packageJson.version,
    { schemaUrl: expect.stringMatching(/^https:\/\/opentelemetry\.io\/schemas\/1\.\d+\.0$/) },
  ]
  const getMeter = vi.fn(() => createNoopMeter())
  const getTracer = vi.fn(() => trace.getTracer('none'))
  const listener = createTelemetry({ meterProvider: { getMeter }, tracerProvider: { getTracer } })
  listener(REQUESTED)
  listener(ACQUIRED)
  expect(getMeter.mock.calls).toEqual([scope])
  expect(getTracer.mock.calls).toEqual([scope])
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

/** The options of a listener: all that is wrong with them, at once, when they are given. */
import { metrics, trace } from '@opentelemetry/api'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { TracerProvider } from '@opentelemetry/sdk-trace'
import { ConfigurationError } from 'merchant-auth'
import { createTelemetry, type TelemetryOptions } from 'merchant-auth/opentelemetry'
import { describe, expect, it } from 'vitest'

function problemsOf(options: unknown): [string, string][] {
  try {
    createTelemetry(options as TelemetryOptions)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error).toHaveProperty('code', 'ERR_CONFIGURATION')
    return (error as ConfigurationError).problems.map(({ option, reason }) => [option, reason])
  }
  throw new Error('was accepted')
}

const closed = new Proxy(
  {},
  {
    get: () => {
      throw new Error('it will not say')
    },
  },
)

describe('the options of a listener', () => {
  it.each([[5], [null], ['options'], [true], [[]], [() => {}]])('must be an object: %s', (options) => {
    expect(problemsOf(options)).toEqual([['options', 'must be an object of options']])
  })

  it.each([
    ['a meter provider', new MeterProvider()],
    ['a tracer provider', new TracerProvider()],
    ['the global meter provider', metrics.getMeterProvider()],
    ['the global tracer provider', trace.getTracerProvider()],
  ])('are not %s itself', (_, provider) => {
    expect(problemsOf(provider)).toEqual([['options', 'must be an object of options']])
  })

  it.each([[{}], [null], [5], [() => {}], [new TracerProvider()], [closed]])(
    'have a meter provider',
    (value) => {
      expect(problemsOf({ meterProvider: value })).toEqual([
        ['meterProvider', 'must have the function getMeter'],
      ])
    },
  )

  it.each([[{}], [null], [5], [() => {}], [new MeterProvider()], [closed]])(
    'have a tracer provider',
    (value) => {
      expect(problemsOf({ tracerProvider: value })).toEqual([
        ['tracerProvider', 'must have the function getTracer'],
      ])
    },
  )

  it.each([['merchant'], [null], [5], [['merchant']]])(
    'have attributes that are an object: not %s',
    (value) => {
      expect(problemsOf({ attributes: value })).toEqual([['attributes', 'must be an object']])
    },
  )

  it('have every problem told, and those that there are not', () => {
    const options = { attributes: 1, meterProvider: 2, tracerProvider: 3, meterprovider: 4, onEvent: 5 }
    expect(
      problemsOf(options)
        .map(([option]) => option)
        .sort(),
    ).toEqual(Object.keys(options).sort())
    expect(problemsOf({ merchant: 'm-1' })).toEqual([['merchant', 'is not an option']])
  })

  it('may be undefined, each and all', () => {
    const nothing = { attributes: undefined, meterProvider: undefined, tracerProvider: undefined }
    for (const options of [undefined, {}, nothing]) expect(createTelemetry(options)).toBeTypeOf('function')
  })
})

/** The telemetry listener: its options, the global providers, and an SDK that throws. */
import {
  type ContextManager,
  context,
  DiagLogLevel,
  diag,
  type MeterProvider as MeterProviderApi,
  metrics,
  ROOT_CONTEXT,
  type TracerProvider as TracerProviderApi,
  trace,
} from '@opentelemetry/api'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { TracerProvider } from '@opentelemetry/sdk-trace'
import type { AuthEvent } from 'merchant-auth'
import { createTelemetry, type TelemetryOptions } from 'merchant-auth/opentelemetry'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { problemsIn } from '../support/problems.ts'
import { ACQUIRED, Collected, FAILED, REQUESTED, useCollected } from './harness.ts'

const unreadable = new Proxy(
  {},
  {
    get: () => {
      throw new Error('cannot be read')
    },
  },
)

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
    ['meterProvider', 'must have the function getMeter', [{}, () => {}, unreadable, new TracerProvider()]],
    ['tracerProvider', 'must have the function getTracer', [{}, () => {}, unreadable, new MeterProvider()]],
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

describe('an SDK that throws', () => {
  const use = useCollected()
  const broken = (): never => {
    throw new Error('a fault of the SDK')
  }
  const log = { verbose: () => {}, debug: () => {}, info: () => {}, error: () => {} }
  const all: readonly AuthEvent[] = [REQUESTED, FAILED, REQUESTED, ACQUIRED, { type: 'token-rejected' }]
  afterEach(() => {
    context.disable()
    diag.disable()
  })

  it('is logged once for each listener, whatever fails', () => {
    const warn = vi.fn()
    diag.setLogger({ ...log, warn }, DiagLogLevel.ALL)
    for (const listeners of [1, 2]) {
      const listener = createTelemetry({
        meterProvider: { getMeter: broken },
        tracerProvider: { getTracer: broken },
      })
      for (const event of all) listener(event)
      expect(warn).toHaveBeenCalledTimes(listeners)
    }
    expect(warn.mock.lastCall).toEqual([
      expect.stringMatching(/^merchant-auth: /),
      expect.objectContaining({ message: 'a fault of the SDK' }),
    ])
  })

  it('does not affect the caller, even if the logger throws, too', () => {
    diag.setLogger({ ...log, warn: broken }, DiagLogLevel.ALL)
    const listener = createTelemetry({ meterProvider: { getMeter: broken } })
    for (const event of all) expect(listener(event)).toBeUndefined()
  })

  const instruments = { createHistogram: () => ({ record: broken }), createCounter: () => ({ add: broken }) }
  const gauges = { createGauge: () => ({}), createObservableGauge: () => ({ addCallback: () => {} }) }
  it.each([
    ['for a meter', broken],
    ['for an instrument', () => ({ createHistogram: broken })],
    ['for a measurement', () => ({ ...instruments, ...gauges })],
  ])('when asked %s affects neither the caller nor the spans', (_, getMeter) => {
    const listener = use.listener({ meterProvider: { getMeter } as unknown as MeterProviderApi })
    for (const event of all) expect(listener(event)).toBeUndefined()
    expect(use.collected.spans()).toHaveLength(2)
  })

  it.each([
    ['for a tracer', broken],
    ['for a span', () => ({ startSpan: broken })],
    ['to end a span', () => ({ startSpan: () => ({ setStatus: () => {}, end: broken }) })],
  ])('when asked %s affects neither the caller nor the metrics', async (_, getTracer) => {
    const listener = use.listener({ tracerProvider: { getTracer } as unknown as TracerProviderApi })
    for (const event of all) expect(listener(event)).toBeUndefined()
    expect(await use.collected.series('token.request.duration')).toHaveLength(2)
    expect((await use.collected.series('token.rejections'))[0]?.value).toBe(1)
  })

  it('when asked to set the status of a span does not leave the span open', () => {
    const end = vi.fn()
    const getTracer = () => ({ startSpan: () => ({ setStatus: broken, end }) })
    const listener = createTelemetry({ tracerProvider: { getTracer } as unknown as TracerProviderApi })
    listener(REQUESTED)
    listener(FAILED)
    expect(end).toHaveBeenCalledOnce()
  })

  it('when asked for the active context does not prevent the span', () => {
    let throws = true
    const manager: ContextManager = {
      active: () => (throws ? broken() : ROOT_CONTEXT),
      with: (_, act, self, ...given) => act.call(self as never, ...given),
      bind: (_, target) => target,
      enable: () => manager,
      disable: () => manager,
    }
    context.setGlobalContextManager(manager)
    const listener = use.listener()
    listener(REQUESTED)
    throws = false
    listener(ACQUIRED)
    expect(use.collected.spans()).toHaveLength(1)
  })
})

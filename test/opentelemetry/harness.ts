/** What the telemetry tests share: an SDK that exports to memory, events, and a provider on the sandbox. */
import { type Attributes, context } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AggregationTemporality,
  type Histogram,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import {
  type AuthEvent,
  createTokenProvider,
  type TokenAcquiredEvent,
  type TokenProvider,
  type TokenProviderOptions,
  type TokenRequestedEvent,
  type TokenRequestFailedEvent,
} from 'merchant-auth'
import { createTelemetry, type TelemetryOptions } from 'merchant-auth/opentelemetry'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest'
import { StandingClock } from '../support/clock.ts'
import { outcomes } from '../support/recorded.ts'

const HOUR_MS = 3_600_000

/** Events for listeners that a test calls directly. */
export const REQUESTED: TokenRequestedEvent = {
  type: 'token-requested',
  attempt: 1,
  url: 'https://auth.example.com/oauth/token',
}
export const ACQUIRED: TokenAcquiredEvent = {
  type: 'token-acquired',
  source: 'endpoint',
  durationMs: 5,
  lifetimeMs: HOUR_MS,
  remainsMs: HOUR_MS,
}
export const FAILED: TokenRequestFailedEvent = {
  type: 'token-request-failed',
  attempt: 1,
  code: 'ERR_TOKEN_STATUS',
  status: 503,
}

/** A series: its attributes and its value; the value of a histogram is its count and its sum. */
export interface Series {
  readonly attributes: Attributes
  readonly value: number | { readonly count: number; readonly sum: number | undefined }
}

/** An SDK whose exporters keep everything in memory. */
export class Collected {
  readonly #exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  readonly #spans = new InMemorySpanExporter()
  readonly meterProvider: MeterProvider
  readonly tracerProvider: TracerProvider = new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter: this.#spans })],
  })

  constructor() {
    const reader = { exporter: this.#exporter, exportIntervalMillis: HOUR_MS }
    this.meterProvider = new MeterProvider({ readers: [new PeriodicExportingMetricReader(reader)] })
  }

  /** The current values of all metrics. */
  async metrics() {
    this.#exporter.reset()
    await this.meterProvider.forceFlush()
    const [exported] = this.#exporter.getMetrics()
    outcomes.push(exported)
    return (exported?.scopeMetrics ?? []).flatMap(({ metrics }) => metrics)
  }

  /** The series of one metric, named without `merchant_auth.`. */
  async series(name: string): Promise<Series[]> {
    const all = await this.metrics()
    const metric = all.find(({ descriptor }) => descriptor.name === `merchant_auth.${name}`)
    return (metric?.dataPoints ?? []).map(({ attributes, value }) => {
      if (typeof value === 'number') return { attributes, value }
      const { count, sum } = value as Histogram
      return { attributes, value: { count, sum } }
    })
  }

  /** The spans of the listeners. */
  spans(): ReadableSpan[] {
    const spans = this.#spans
      .getFinishedSpans()
      .filter(({ instrumentationScope }) => instrumentationScope.name === 'merchant-auth')
    outcomes.push(spans.map(({ name, attributes, status, events }) => [name, attributes, status, events]))
    return spans
  }

  async shutdown(): Promise<void> {
    await Promise.all([this.meterProvider.shutdown(), this.tracerProvider.shutdown()])
  }
}

/** A new SDK for each test, and listeners for it that a test calls directly. */
export function useCollected() {
  let collected = new Collected()
  beforeEach(() => {
    collected = new Collected()
  })
  afterEach(async () => {
    vi.useRealTimers()
    vi.restoreAllMocks()
    await collected.metrics()
    collected.spans()
    await collected.shutdown()
  })
  return {
    get collected() {
      return collected
    },
    listener(options: TelemetryOptions = {}) {
      const { meterProvider, tracerProvider } = collected
      return createTelemetry({ meterProvider, tracerProvider, ...options })
    },
    /** The values of one attribute in a metric, each with the value of its series. */
    async valuesOf(name: string, attribute: string) {
      return (await collected.series(name)).map(({ attributes, value }) => [attributes[attribute], value])
    },
  }
}

/** One sandbox for all tests of a file, and providers on its test environment whose telemetry is collected. */
export function useProviders(use: ReturnType<typeof useCollected>) {
  let sandbox: Sandbox | undefined
  const open: TokenProvider[] = []
  beforeAll(async () => {
    sandbox = await startSandbox()
    context.setGlobalContextManager(new AsyncLocalStorageContextManager())
  })
  afterAll(async () => {
    context.disable()
    await sandbox?.close()
  })
  afterEach(async () => {
    await Promise.all(open.splice(0).map((tokens) => tokens.close()))
    sandbox?.test.clearFaults()
  })
  const service = () => {
    if (sandbox === undefined) throw new Error('The sandbox has not been started')
    return sandbox.test
  }
  return {
    get service() {
      return service()
    },
    provide(options?: Partial<TokenProviderOptions>, telemetry: TelemetryOptions = {}) {
      const { environment, clientId, clientSecret } = service()
      const listener = use.listener(telemetry)
      const events: AuthEvent[] = []
      const onEvent = (event: AuthEvent): void => {
        listener(event)
        events.push(event)
      }
      const clock = new StandingClock()
      const tokens = createTokenProvider({
        environment,
        clientId,
        clientSecret,
        clock,
        onEvent,
        ...options,
      } as TokenProviderOptions)
      open.push(tokens)
      return { tokens, events }
    },
  }
}

/** What the tests of the telemetry share: the SDK with its exporters in memory, and a provider on the sandbox. */
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
import { type Sandbox, type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest'
import { StandingClock } from '../support/clock.ts'
import { outcomes } from '../support/recorded.ts'

const HOUR_MS = 3_600_000

/** Events for listeners that are told by hand. */
export const REQUESTED: TokenRequestedEvent = {
  type: 'token-requested',
  attempt: 1,
  url: 'https://auth.example.com/oauth/token',
}
export const ACQUIRED: TokenAcquiredEvent = {
  type: 'token-acquired',
  source: 'endpoint',
  durationMs: 5,
  lifetimeMs: 3_600_000,
  remainsMs: 3_600_000,
}
export const FAILED: TokenRequestFailedEvent = {
  type: 'token-request-failed',
  attempt: 1,
  code: 'ERR_TOKEN_STATUS',
  status: 503,
}

/** One series: what it is told with, and its value; of a histogram, its count. */
export interface Series {
  readonly attributes: Attributes
  readonly value: number
}

/** An SDK whose exporters keep everything in memory. */
export class Collected {
  readonly #exporter: InMemoryMetricExporter
  readonly #spans = new InMemorySpanExporter()
  readonly meterProvider: MeterProvider
  readonly tracerProvider: TracerProvider = new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter: this.#spans })],
  })

  constructor(temporality: AggregationTemporality = AggregationTemporality.CUMULATIVE) {
    this.#exporter = new InMemoryMetricExporter(temporality)
    const reader = { exporter: this.#exporter, exportIntervalMillis: HOUR_MS }
    this.meterProvider = new MeterProvider({ readers: [new PeriodicExportingMetricReader(reader)] })
  }

  /** All metrics as they are now, by name without `merchant_auth.`. */
  async metrics() {
    this.#exporter.reset()
    await this.meterProvider.forceFlush()
    const [exported] = this.#exporter.getMetrics()
    outcomes.push(exported)
    return (exported?.scopeMetrics ?? []).flatMap(({ metrics }) => metrics)
  }

  /** The series of one metric. */
  async series(name: string): Promise<Series[]> {
    const metric = (await this.metrics()).find(
      ({ descriptor }) => descriptor.name === `merchant_auth.${name}`,
    )
    return (metric?.dataPoints ?? []).map(({ attributes, value }) => ({
      attributes,
      value: typeof value === 'number' ? value : (value as Histogram).count,
    }))
  }

  async sumOf(name: string): Promise<number | undefined> {
    const metric = (await this.metrics()).find(
      ({ descriptor }) => descriptor.name === `merchant_auth.${name}`,
    )
    return (metric?.dataPoints[0]?.value as Histogram | undefined)?.sum
  }

  spans(): ReadableSpan[] {
    const spans = this.#spans.getFinishedSpans()
    outcomes.push(spans.map(({ name, attributes, status, events }) => ({ name, attributes, status, events })))
    return spans
  }

  async shutdown(): Promise<void> {
    await Promise.all([this.meterProvider.shutdown(), this.tracerProvider.shutdown()])
  }
}

/** A token provider on the sandbox's test environment, and what its telemetry has told. */
export interface Watched {
  readonly tokens: TokenProvider
  readonly events: AuthEvent[]
}

export interface Bench {
  readonly service: SandboxEnvironment
  readonly collected: Collected
  watch(options?: Partial<TokenProviderOptions>, telemetry?: TelemetryOptions): Watched
}

/** A fresh SDK for each test, and one sandbox for all of them. */
export function setUp(): Bench {
  let sandbox: Sandbox | undefined
  let collected = new Collected()
  const open: TokenProvider[] = []
  beforeAll(async () => {
    sandbox = await startSandbox()
    context.setGlobalContextManager(new AsyncLocalStorageContextManager())
  })
  afterAll(async () => {
    context.disable()
    await sandbox?.close()
  })
  beforeEach(() => {
    collected = new Collected()
  })
  afterEach(async () => {
    vi.restoreAllMocks()
    await collected.metrics()
    collected.spans()
    await Promise.all(open.splice(0).map((tokens) => tokens.close()))
    await collected.shutdown()
    sandbox?.test.clearFaults()
    sandbox?.test.configure({ rejectAllTokens: false })
  })
  const service = (): SandboxEnvironment => {
    if (sandbox === undefined) throw new Error('The sandbox has not been started')
    return sandbox.test
  }
  return {
    get service() {
      return service()
    },
    get collected() {
      return collected
    },
    watch(options, telemetry) {
      const { environment, clientId, clientSecret } = service()
      const { meterProvider, tracerProvider } = collected
      const tell = createTelemetry({ meterProvider, tracerProvider, ...telemetry })
      const events: AuthEvent[] = []
      const onEvent = (event: AuthEvent): void => {
        tell(event)
        events.push(event)
      }
      const clock = new StandingClock()
      const tokens = createTokenProvider({ environment, clientId, clientSecret, clock, onEvent, ...options })
      open.push(tokens)
      return { tokens, events }
    },
  }
}

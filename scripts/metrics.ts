/** The metrics of merchant-auth/opentelemetry, as a meter gets them that takes notes: which there are, and with which attributes. */
import type { Attributes, MeterProvider, ObservableCallback } from '@opentelemetry/api'
import type { AuthEvent } from '../src/index.ts'
import { createTelemetry } from '../src/opentelemetry/index.ts'

/** An instrument, and the attributes of all that was recorded by it. */
export interface RecordedMetric {
  readonly name: string
  readonly type: string
  readonly unit: string
  readonly description: string
  readonly attributes: Set<string>
}

/** An event of each type, with every field: one without a field of a new attribute does not compile. */
const EVENTS: { readonly [T in AuthEvent as T['type']]: Required<T> } = {
  'token-requested': {
    type: 'token-requested',
    environment: 'test',
    attempt: 1,
    url: 'https://auth.example.com',
  },
  'token-request-failed': {
    type: 'token-request-failed',
    environment: 'test',
    attempt: 1,
    code: 'ERR_TOKEN_STATUS',
    status: 400,
    error: 'invalid_client',
    nextTryMs: 1,
    quota: [],
  },
  'token-acquired': {
    type: 'token-acquired',
    environment: 'test',
    source: 'endpoint',
    durationMs: 1,
    lifetimeMs: 1,
    remainsMs: 1,
    quota: [{ scope: 'client', name: 'per_hour', remaining: 1 }],
  },
  'token-rejected': { type: 'token-rejected', environment: 'test', api: 'merchant', method: 'GET', url: '' },
  'token-renewed': { type: 'token-renewed', environment: 'test', reason: 'expiring' },
  'renewal-suppressed': {
    type: 'renewal-suppressed',
    environment: 'test',
    api: 'merchant',
    method: 'GET',
    url: '',
    reason: 'limited',
    nextRenewalMs: 1,
  },
  'token-withheld': { type: 'token-withheld', environment: 'test', reason: 'destination', url: '' },
  'store-failed': { type: 'store-failed', environment: 'test', operation: 'get', code: 'OOM' },
}

/** The metrics in the order in which they are created. */
export function recordedMetrics(): readonly RecordedMetric[] {
  const metrics: RecordedMetric[] = []
  const callbacks: (() => void)[] = []
  const instrument = (type: string) => (name: string, options: { unit: string; description: string }) => {
    const attributes = new Set<string>()
    metrics.push({ name, type, ...options, attributes })
    const record = (_: number, given: Attributes = {}): void => {
      for (const attribute of Object.keys(given)) attributes.add(attribute)
    }
    const addCallback = (callback: ObservableCallback): void => {
      callbacks.push(() => callback({ observe: record }))
    }
    return { add: record, record, addCallback }
  }
  const meter = {
    createCounter: instrument('counter'),
    createGauge: instrument('gauge'),
    createHistogram: instrument('histogram'),
    createObservableGauge: instrument('gauge'),
  }
  const meterProvider = { getMeter: () => meter } as unknown as MeterProvider
  const listen = createTelemetry({ meterProvider })
  for (const event of Object.values(EVENTS)) listen(event)
  for (const callback of callbacks) callback()
  return metrics
}

/** The listener itself: where it tells, what it keeps to itself, and that it never throws. */
import {
  type ContextManager,
  context,
  DiagLogLevel,
  diag,
  metrics,
  ROOT_CONTEXT,
  trace,
} from '@opentelemetry/api'
import { type AuthEvent, createAuthFetch, createTokenProvider } from 'merchant-auth'
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { rejection } from '../token/harness.ts'
import { ACQUIRED, Collected, FAILED, REQUESTED, setUp } from './harness.ts'

describe('a listener without options', () => {
  afterEach(() => {
    metrics.disable()
    trace.disable()
  })

  it('tells the global providers, also where they are registered after its first events', async () => {
    const tell = createTelemetry()
    tell(REQUESTED)
    tell(ACQUIRED)
    for (let round = 0; round < 2; round += 1) {
      const collected = new Collected()
      metrics.setGlobalMeterProvider(collected.meterProvider)
      trace.setGlobalTracerProvider(collected.tracerProvider)
      tell({ type: 'token-rejected' })
      const [remaining] = await collected.series('token.remaining_lifetime')
      expect(remaining?.value).toBeGreaterThan(0)
      tell(REQUESTED)
      tell(ACQUIRED)
      expect((await collected.series('token.request.duration'))[0]?.value).toBe(1)
      expect((await collected.series('token.rejections'))[0]?.value).toBe(1)
      expect(collected.spans()).toHaveLength(1)
      metrics.disable()
      trace.disable()
      await collected.shutdown()
    }
  })
})

describe('an SDK that throws', () => {
  const broken = (): never => {
    throw new Error('a fault of the SDK')
  }
  const all: AuthEvent[] = [REQUESTED, FAILED, REQUESTED, ACQUIRED, { type: 'token-rejected' }]
  afterEach(() => {
    context.disable()
    diag.disable()
  })

  it('is told once for each listener, whatever fails', () => {
    const warn = vi.fn()
    const silent = { verbose: vi.fn(), debug: vi.fn(), info: vi.fn(), error: vi.fn() }
    diag.setLogger({ ...silent, warn }, DiagLogLevel.ALL)
    const options = { meterProvider: { getMeter: broken }, tracerProvider: { getTracer: broken } }
    for (const listeners of [1, 2]) {
      const tell = createTelemetry(options)
      for (const event of all) tell(event)
      expect(warn).toHaveBeenCalledTimes(listeners)
    }
    const [message, error] = warn.mock.lastCall ?? []
    expect(message).toMatch(/^merchant-auth: /)
    expect(error).toMatchObject({ message: 'a fault of the SDK' })
  })

  it('disturbs nobody where the log throws, too', () => {
    const log = { verbose: () => {}, debug: () => {}, info: () => {}, error: () => {}, warn: broken }
    diag.setLogger(log, DiagLogLevel.ALL)
    const tell = createTelemetry({ meterProvider: { getMeter: broken } })
    for (const event of all) expect(tell(event)).toBeUndefined()
  })

  it.each([
    ['has no meter', { getMeter: broken }],
    ['makes no instruments', { getMeter: () => ({ createHistogram: broken }) }],
    [
      'takes no measurements',
      {
        getMeter: () => ({
          createHistogram: () => ({ record: broken }),
          createCounter: () => ({ add: broken }),
          createObservableGauge: () => ({ addCallback: () => {} }),
        }),
      },
    ],
  ])('and %s disturbs neither the caller nor the spans', async (_, faulty) => {
    const collected = new Collected()
    const meterProvider = faulty as unknown as Collected['meterProvider']
    const tell = createTelemetry({ tracerProvider: collected.tracerProvider, meterProvider })
    for (const event of all) expect(tell(event)).toBeUndefined()
    expect(collected.spans()).toHaveLength(2)
    await collected.shutdown()
  })

  it.each([
    ['has no tracer', broken],
    ['begins no span', () => ({ startSpan: broken })],
    ['ends no span', () => ({ startSpan: () => ({ setStatus: () => {}, end: broken }) })],
  ])('and %s disturbs neither the caller nor the metrics', async (_, getTracer) => {
    const collected = new Collected()
    const tracerProvider = { getTracer } as unknown as Collected['tracerProvider']
    const tell = createTelemetry({ meterProvider: collected.meterProvider, tracerProvider })
    for (const event of all) expect(tell(event)).toBeUndefined()
    expect((await collected.series('token.request.duration')).map(({ value }) => value)).toEqual([1, 1])
    expect((await collected.series('token.rejections'))[0]?.value).toBe(1)
    await collected.shutdown()
  })

  it('when a span is to have a status leaves none open', () => {
    const end = vi.fn()
    const span = { setStatus: broken, end }
    const tracerProvider = {
      getTracer: () => ({ startSpan: () => span }),
    } as unknown as Collected['tracerProvider']
    const tell = createTelemetry({ tracerProvider })
    tell(REQUESTED)
    tell(FAILED)
    expect(end).toHaveBeenCalledOnce()
  })

  it('when it is asked for the active context costs the span only its parent', async () => {
    const collected = new Collected()
    let throws = true
    const manager: ContextManager = {
      active: () => (throws ? broken() : ROOT_CONTEXT),
      with: (_, act, self, ...given) => act.call(self as never, ...given),
      bind: (_, target) => target,
      enable: () => manager,
      disable: () => manager,
    }
    context.setGlobalContextManager(manager)
    const tell = createTelemetry(collected)
    tell(REQUESTED)
    throws = false
    tell(ACQUIRED)
    expect(collected.spans()).toHaveLength(1)
    await collected.shutdown()
  })
})

describe('two providers', () => {
  const bench = setUp()

  it('are told apart by the attributes of their listeners', async () => {
    const one = bench.watch({}, { attributes: { merchant: 'm-1' } })
    const other = bench.watch({}, { attributes: { merchant: 'm-2' } })
    await Promise.all([one.tokens.getToken(), other.tokens.getToken()])
    for (const name of ['token.acquisition.duration', 'token.remaining_lifetime']) {
      const merchants = (await bench.collected.series(name)).map(({ attributes }) => attributes['merchant'])
      expect(merchants.sort()).toEqual(['m-1', 'm-2'])
    }
    const merchants = bench.collected.spans().map(({ attributes }) => attributes['merchant'])
    expect(merchants.sort()).toEqual(['m-1', 'm-2'])
  })

  it('tell no token and no secret, whatever happens', async () => {
    const { service, collected } = bench
    const seen: string[] = [service.clientSecret, 'a-wrong-secret', 'elsewhere']
    const { tokens } = bench.watch()
    const refused = bench.watch({ clientSecret: 'a-wrong-secret' })
    const body = { error: 'a-wrong-secret', error_description: 'a-wrong-secret' }
    service.fail('token', { kind: 'json', body, status: 400 })
    await rejection(refused.tokens.getToken())
    const authFetch = createAuthFetch(tokens)
    for (let call = 0; call < 3; call += 1) {
      await authFetch(`${service.merchantUrl}/orders?token=elsewhere`)
      seen.push(tokens.currentToken()?.value ?? '')
      service.revoke()
    }
    await createAuthFetch(tokens, { fetch: async () => new Response('') })(
      'https://x.example/?token=elsewhere',
    )
    expect(new Set(seen).size).toBe(5)
    const spans = collected.spans().map(({ name, attributes, status, events, links }) => ({
      name,
      attributes,
      status,
      events,
      links,
    }))
    const exported = JSON.stringify([await collected.metrics(), spans])
    expect(exported).toContain('merchant_auth.token.rejections')
    expect(exported).toContain('POST /oauth/token')
    for (const secret of seen) expect(exported).not.toContain(secret)
  })
})

describe('what onEvent takes', () => {
  it('is a listener of this kind, as it is', async () => {
    const collected = new Collected()
    const fetch = (async () =>
      Response.json({
        access_token: 'a.b.c',
        expires_in: 60,
        token_type: 'Bearer',
      })) as typeof globalThis.fetch
    const environment = {
      authUrl: 'https://auth.example.com',
      audience: 'https://api.example.com',
      apiUrls: ['https://api.example.com'],
    }
    const onEvent = createTelemetry(collected)
    await createTokenProvider({
      environment,
      clientId: 'c',
      clientSecret: 'swordfish',
      fetch,
      onEvent,
    }).getToken()
    expect((await collected.series('token.acquisition.duration'))[0]?.attributes).toEqual({
      'merchant_auth.token.source': 'endpoint',
    })
    await collected.shutdown()
  })
})

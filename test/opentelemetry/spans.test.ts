/** The spans that a listener derives from the token requests of a provider. */
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { ProviderClosedError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { ACQUIRED, FAILED, REQUESTED, useCollected, useProviders } from './harness.ts'

const use = useCollected()
const bench = useProviders(use)

/** Calls a function within an active span of its caller, and returns the context of that span. */
async function within<T>(act: () => T) {
  const span = use.collected.tracerProvider.getTracer('caller').startSpan('caller')
  await context.with(trace.setSpan(context.active(), span), act)
  span.end()
  return span.spanContext()
}

const spans = () => use.collected.spans()
const resendCounts = () => spans().map(({ attributes }) => attributes['http.request.resend_count'])
const msOf = ([seconds, nanos]: readonly [number, number]): number => seconds * 1000 + nanos / 1e6

describe('the span of a token request', () => {
  it('follows the conventions for HTTP clients, and has no parent if none is active', async () => {
    const before = Date.now()
    await bench.provide().tokens.getToken()
    const after = Date.now()
    const [span, ...others] = spans()
    expect(others).toEqual([])
    expect(span).toMatchObject({
      name: 'POST /oauth/token',
      kind: SpanKind.CLIENT,
      status: { code: SpanStatusCode.UNSET },
      ended: true,
      parentSpanContext: undefined,
    })
    const { authUrl } = bench.service.environment
    expect(span?.attributes).toEqual({
      'merchant_auth.environment': 'test',
      'http.request.method': 'POST',
      'url.full': `${authUrl}/oauth/token`,
      'url.template': '/oauth/token',
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(authUrl).port),
    })
    expect(msOf(span?.startTime ?? [0, 0])).toBeGreaterThanOrEqual(before)
    expect(msOf(span?.duration ?? [0, 0])).toBeGreaterThan(0)
    expect(msOf(span?.endTime ?? [0, 0])).toBeLessThanOrEqual(after + 1)
  })

  it('is a child of the span of the call that needed the token', async () => {
    const { tokens } = bench.provide()
    const { spanId, traceId } = await within(() => tokens.getToken())
    expect(spans()[0]?.parentSpanContext).toMatchObject({ spanId, traceId })
    expect(spans()[0]?.spanContext().traceId).toBe(traceId)
  })

  it('of a background renewal is a child of the call that started it', async () => {
    const clock = new ManualClock()
    const { tokens, events } = bench.provide({ clock, refreshAheadMs: 60_000 })
    await tokens.getToken()
    await clock.advance(3_580_000)
    const { spanId } = await within(() => tokens.currentToken())
    await vi.waitUntil(() => events.some(({ type }) => type === 'token-renewed'))
    expect(spans()[1]?.parentSpanContext?.spanId).toBe(spanId)
    expect(await use.valuesOf('token.renewals', 'merchant_auth.renewal.reason')).toEqual([['expiring', 1]])
  })

  it('has the path of the token endpoint in its name and template', () => {
    const listener = use.listener()
    listener({ ...REQUESTED, url: 'https://login.example.com/tenant-1/oauth/token' })
    listener(ACQUIRED)
    expect(spans()[0]?.name).toBe('POST /tenant-1/oauth/token')
    expect(spans()[0]?.attributes['url.template']).toBe('/tenant-1/oauth/token')
  })

  it('has the status ERROR and the reason of a failure', async () => {
    await rejection(bench.provide({ clientSecret: 'not-the-secret' }).tokens.getToken())
    expect(spans()[0]?.status).toEqual({ code: SpanStatusCode.ERROR })
    expect(spans()[0]?.attributes).toMatchObject({
      'error.type': 'ERR_TOKEN_STATUS',
      'http.response.status_code': 401,
      'merchant_auth.oauth.error': 'invalid_client',
    })
  })

  it('does not end when a token is acquired from a store', () => {
    const listener = use.listener()
    for (const event of [REQUESTED, { ...ACQUIRED, source: 'store' as const }]) listener(event)
    expect(spans()).toEqual([])
    listener(ACQUIRED)
    expect(spans()).toHaveLength(1)
  })

  it.each([
    ['a token was acquired', ACQUIRED],
    ['the last attempt failed', FAILED],
  ])('counts the previous requests for the same token, and restarts at 0 after %s', (_, end) => {
    const listener = use.listener()
    const retried = { ...FAILED, nextTryMs: 0 }
    for (const event of [REQUESTED, retried, REQUESTED, retried, REQUESTED, end, REQUESTED, ACQUIRED])
      listener(event)
    expect(resendCounts()).toEqual([undefined, 1, 2, undefined])
  })

  it('is absent for an attempt without a client secret, which sends no request', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    let calls = 0
    const clientSecret = (): string => {
      calls += 1
      if (calls === 1 || calls === 3) throw new Error('the vault is locked')
      return bench.service.clientSecret
    }
    bench.service.fail('token', { kind: 'status', status: 503 })
    const { tokens, events } = bench.provide({ clientSecret, retries: 3 })
    await tokens.getToken()
    const attempts = events.flatMap((event) => (event.type === 'token-requested' ? [event.attempt] : []))
    expect(attempts).toEqual([2, 4])
    expect(resendCounts()).toEqual([undefined, 1])
    expect(await use.collected.series('token.request.duration')).toHaveLength(2)
    expect(await use.valuesOf('token.request.failures', 'error.type')).toEqual([
      ['ERR_CLIENT_SECRET', 2],
      ['ERR_TOKEN_STATUS', 1],
    ])
  })

  it('is not started if the provider closes during the request, so that no span stays open', async () => {
    const startSpan = vi.fn()
    const tracerProvider = { getTracer: () => ({ startSpan, startActiveSpan: startSpan }) }
    bench.service.fail('token', { kind: 'hang' })
    const { tokens, events } = bench.provide({}, { tracerProvider })
    const waiting = rejection(tokens.getToken())
    await vi.waitUntil(() => events.length > 0)
    await tokens.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(events.map(({ type }) => type)).toEqual(['token-requested'])
    expect(startSpan).not.toHaveBeenCalled()
  })
})

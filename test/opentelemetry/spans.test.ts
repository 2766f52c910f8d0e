/** What token requests become as spans. */
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import { ProviderClosedError } from 'merchant-auth'
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { ACQUIRED, FAILED, REQUESTED, setUp } from './harness.ts'

const bench = setUp()

function attributes() {
  const { authUrl } = bench.service.environment
  return {
    'merchant_auth.environment': 'test',
    'http.request.method': 'POST',
    'url.full': `${authUrl}/oauth/token`,
    'url.template': '/oauth/token',
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(authUrl).port),
  }
}

/** Within a span of the caller's own. */
async function within<T>(act: () => Promise<T>) {
  const span = bench.collected.tracerProvider.getTracer('caller').startSpan('caller')
  const result = await context.with(trace.setSpan(context.active(), span), act)
  span.end()
  return { result, span }
}

const ours = (): ReadableSpan[] =>
  bench.collected.spans().filter(({ instrumentationScope }) => instrumentationScope.name === 'merchant-auth')
const msOf = ([seconds, nanos]: readonly [number, number]): number => seconds * 1000 + nanos / 1e6

describe('the span of a token request', () => {
  it('is one of a client, named and described by the conventions for HTTP', async () => {
    const { tokens } = bench.watch()
    const before = Date.now()
    await tokens.getToken()
    const after = Date.now()
    const [span, ...others] = ours()
    expect(others).toEqual([])
    expect(span).toMatchObject({
      name: 'POST /oauth/token',
      kind: SpanKind.CLIENT,
      status: { code: SpanStatusCode.UNSET },
      ended: true,
    })
    expect(span?.attributes).toEqual(attributes())
    expect(msOf(span?.startTime ?? [0, 0])).toBeGreaterThanOrEqual(before)
    expect(msOf(span?.duration ?? [0, 0])).toBeGreaterThan(0)
    expect(msOf(span?.endTime ?? [0, 0])).toBeLessThanOrEqual(after + 1)
  })

  it('is a child of the one that was active when it began', async () => {
    const { tokens } = bench.watch()
    const { span: parent } = await within(() => tokens.getToken())
    expect(ours()[0]?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId)
    expect(ours()[0]?.spanContext().traceId).toBe(parent.spanContext().traceId)
  })

  it('is a child of that one also where another is active when it ends', async () => {
    const { collected } = bench
    const tell = createTelemetry(collected)
    const { span: parent } = await within(async () => tell(REQUESTED))
    await within(async () => tell(ACQUIRED))
    expect(ours()[0]?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId)
  })

  it('is as long as the metric says, in seconds', async () => {
    await bench.watch().tokens.getToken()
    const seconds = msOf(ours()[0]?.duration ?? [0, 0]) / 1000
    expect(await bench.collected.sumOf('token.request.duration')).toBeCloseTo(seconds, 5)
  })

  it('does not end with a token from a store', () => {
    const tell = createTelemetry(bench.collected)
    tell(REQUESTED)
    tell({ ...ACQUIRED, source: 'store' })
    expect(ours()).toEqual([])
    tell(ACQUIRED)
    expect(ours()).toHaveLength(1)
  })

  it('has no parent where none is active', async () => {
    await bench.watch().tokens.getToken()
    expect(ours()[0]?.parentSpanContext).toBeUndefined()
  })

  it('of a renewal in the background is a child of the call that set it off', async () => {
    const clock = new ManualClock()
    const { tokens, events } = bench.watch({ clock, refreshAheadMs: 60_000 })
    await tokens.getToken()
    await clock.advance(3_580_000)
    const { span: parent } = await within(async () => tokens.currentToken())
    await vi.waitUntil(() => events.some(({ type }) => type === 'token-renewed'))
    expect(ours()[1]?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId)
  })

  it('is one for each attempt, with the number of repetitions', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    bench.service.fail('token', { kind: 'status', status: 503 }, { times: 2 })
    await bench.watch().tokens.getToken()
    const failure = { 'error.type': 'ERR_TOKEN_STATUS', 'http.response.status_code': 503 }
    expect(ours().map((span) => [span.attributes, span.status.code])).toEqual([
      [{ ...attributes(), ...failure }, SpanStatusCode.ERROR],
      [{ ...attributes(), ...failure, 'http.request.resend_count': 1 }, SpanStatusCode.ERROR],
      [{ ...attributes(), 'http.request.resend_count': 2 }, SpanStatusCode.UNSET],
    ])
  })

  it('counts no attempt as a repetition that sent nothing', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    let asked = 0
    const clientSecret = (): string => {
      asked += 1
      if (asked === 1 || asked === 3) throw new Error('the vault is sealed')
      return bench.service.clientSecret
    }
    bench.service.fail('token', { kind: 'status', status: 503 })
    const { tokens, events } = bench.watch({ clientSecret, retries: 3 })
    await tokens.getToken()
    const sent = events.flatMap((event) => (event.type === 'token-requested' ? [event.attempt] : []))
    expect(sent).toEqual([2, 4])
    expect(ours().map((span) => span.attributes['http.request.resend_count'])).toEqual([undefined, 1])
  })

  it.each([
    ['came', ACQUIRED],
    ['failed for good', FAILED],
  ])('begins to count anew after one that %s', (_, end) => {
    const tell = createTelemetry(bench.collected)
    for (const event of [REQUESTED, { ...FAILED, nextTryMs: 0 }, { ...REQUESTED, attempt: 2 }, end])
      tell(event)
    for (const event of [REQUESTED, ACQUIRED]) tell(event)
    const counts = ours().map((span) => span.attributes['http.request.resend_count'])
    expect(counts).toEqual([undefined, 1, undefined])
  })

  it('has the path of the token endpoint in its name and template', () => {
    const tell = createTelemetry(bench.collected)
    tell({ ...REQUESTED, url: 'https://login.example.com/tenant-1/oauth/token' })
    tell(ACQUIRED)
    const [span] = ours()
    expect(span?.name).toBe('POST /tenant-1/oauth/token')
    expect(span?.attributes['url.template']).toBe('/tenant-1/oauth/token')
  })

  it('tells the OAuth error of a refused secret', async () => {
    await rejection(bench.watch({ clientSecret: 'not-the-secret' }).tokens.getToken())
    expect(ours()[0]?.attributes).toEqual({
      ...attributes(),
      'error.type': 'ERR_TOKEN_STATUS',
      'http.response.status_code': 401,
      'merchant_auth.oauth.error': 'invalid_client',
    })
    expect(ours()[0]?.status).toEqual({ code: SpanStatusCode.ERROR })
  })

  it('of a hanging token endpoint is as long as the attempt', async () => {
    bench.service.fail('token', { kind: 'hang' })
    await rejection(bench.watch({ retries: 0, timeoutMs: 100 }).tokens.getToken())
    expect(ours()[0]?.attributes).toMatchObject({ 'error.type': 'ERR_TOKEN_TIMEOUT' })
    expect(msOf(ours()[0]?.duration ?? [0, 0])).toBeGreaterThanOrEqual(49)
  })

  it('is not there for a secret that could not be had', async () => {
    await rejection(bench.watch({ clientSecret: () => '', retries: 0 }).tokens.getToken())
    expect(ours()).toEqual([])
  })

  it('is not begun, so that none is left open, where the provider is closed meanwhile', async () => {
    const startSpan = vi.fn()
    const tracerProvider = { getTracer: () => ({ startSpan, startActiveSpan: startSpan }) }
    bench.service.fail('token', { kind: 'hang' })
    const { tokens, events } = bench.watch({}, { tracerProvider })
    const waiting = rejection(tokens.getToken())
    await vi.waitUntil(() => events.length > 0)
    await tokens.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(events.map(({ type }) => type)).toEqual(['token-requested'])
    expect(startSpan).not.toHaveBeenCalled()
  })
})

/** What the events of a provider become as metrics. */
import { createAuthFetch, type TokenStore } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { setUp } from './harness.ts'

const bench = setUp()
const environment = { 'merchant_auth.environment': 'test' }

/** Where the sandbox's token endpoint is. */
function server() {
  return {
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(bench.service.environment.authUrl).port),
  }
}

describe('the metrics of token requests', () => {
  it('count a token that was asked for and came', async () => {
    const { tokens, events } = bench.watch()
    await tokens.getToken()
    const { collected } = bench
    const series = await collected.series('token.request.duration')
    expect(series).toEqual([{ attributes: { ...environment, ...server() }, value: 1 }])
    expect(await collected.series('token.acquisition.duration')).toEqual([
      { attributes: { ...environment, 'merchant_auth.token.source': 'endpoint' }, value: 1 },
    ])
    const { durationMs } = events.at(-1) as { durationMs: number }
    expect(await collected.sumOf('token.acquisition.duration')).toBe(durationMs / 1000)
    expect(await collected.series('token.request.failures')).toEqual([])
  })

  it('count a failed attempt and the next, which went well', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    bench.service.fail('token', { kind: 'status', status: 503 })
    await bench.watch().tokens.getToken()
    const failure = { 'error.type': 'ERR_TOKEN_STATUS', 'http.response.status_code': 503 }
    expect(await bench.collected.series('token.request.duration')).toEqual([
      { attributes: { ...environment, ...server(), ...failure }, value: 1 },
      { attributes: { ...environment, ...server() }, value: 1 },
    ])
    expect(await bench.collected.series('token.request.failures')).toEqual([
      { attributes: { ...environment, ...failure, 'merchant_auth.final': false }, value: 1 },
    ])
  })

  it('tell the OAuth error of a refused secret, and that no attempt follows', async () => {
    const { tokens } = bench.watch({ clientSecret: 'not-the-secret' })
    await rejection(tokens.getToken())
    expect(await bench.collected.series('token.request.failures')).toEqual([
      {
        attributes: {
          ...environment,
          'error.type': 'ERR_TOKEN_STATUS',
          'http.response.status_code': 401,
          'merchant_auth.oauth.error': 'invalid_client',
          'merchant_auth.final': true,
        },
        value: 1,
      },
    ])
    expect(await bench.collected.series('token.acquisition.duration')).toEqual([])
  })

  it.each([
    ['hangs', { kind: 'hang' }, { 'error.type': 'ERR_TOKEN_TIMEOUT' }],
    ['breaks the connection', { kind: 'reset' }, { 'error.type': 'ERR_TOKEN_NETWORK' }],
    [
      'redirects',
      { kind: 'redirect', location: 'http://127.0.0.1:1/', status: 307 },
      { 'error.type': 'ERR_TOKEN_REDIRECT', 'http.response.status_code': 307 },
    ],
    ['gives no token', { kind: 'json', body: {} }, { 'error.type': 'ERR_TOKEN_RESPONSE' }],
  ] as const)('tell by its code that the token endpoint %s', async (_, fault, failure) => {
    bench.service.fail('token', fault)
    const timeoutMs = fault.kind === 'hang' ? 100 : 10_000
    await rejection(bench.watch({ retries: 0, timeoutMs }).tokens.getToken())
    expect(await bench.collected.series('token.request.failures')).toEqual([
      { attributes: { ...environment, ...failure, 'merchant_auth.final': true }, value: 1 },
    ])
    expect(await bench.collected.series('token.request.duration')).toEqual([
      { attributes: { ...environment, ...server(), ...failure }, value: 1 },
    ])
  })

  it('count a client secret that cannot be had as a failure, but not as a request', async () => {
    const clientSecret = (): string => ''
    await rejection(bench.watch({ clientSecret, retries: 0 }).tokens.getToken())
    expect(await bench.collected.series('token.request.failures')).toEqual([
      {
        attributes: { ...environment, 'error.type': 'ERR_CLIENT_SECRET', 'merchant_auth.final': true },
        value: 1,
      },
    ])
    expect(await bench.collected.series('token.request.duration')).toEqual([])
  })

  it('count no request for an attempt that had no client secret, after one that had', async () => {
    let asked = 0
    const clientSecret = (): string => (asked++ === 0 ? 'first-secret' : '')
    bench.service.fail('token', { kind: 'status', status: 503 })
    vi.spyOn(Math, 'random').mockReturnValue(0)
    await rejection(bench.watch({ clientSecret, retries: 1 }).tokens.getToken())
    expect((await bench.collected.series('token.request.failures')).map(({ value }) => value)).toEqual([1, 1])
    expect((await bench.collected.series('token.request.duration')).map(({ value }) => value)).toEqual([1])
  })

  it('take a hundred waiting callers for one acquisition', async () => {
    const { tokens } = bench.watch()
    await Promise.all(Array.from({ length: 100 }, () => tokens.getToken()))
    expect((await bench.collected.series('token.acquisition.duration'))[0]?.value).toBe(1)
  })
})

describe('the metrics of renewals', () => {
  it('tell of a 401, the renewal after it, and the one that is not made any more', async () => {
    const { tokens } = bench.watch()
    const authFetch = createAuthFetch(tokens)
    const url = `${bench.service.merchantUrl}/orders`
    await authFetch(url)
    bench.service.revoke()
    expect((await authFetch(url)).status).toBe(200)
    const api = { 'merchant_auth.api': bench.service.merchantUrl }
    expect(await bench.collected.series('token.rejections')).toEqual([
      { attributes: { ...environment, ...api }, value: 1 },
    ])
    expect(await bench.collected.series('token.renewals')).toEqual([
      { attributes: { ...environment, 'merchant_auth.renewal.reason': 'rejected' }, value: 1 },
    ])
    expect(await bench.collected.series('token.suppressed_renewals')).toEqual([])
    bench.service.revoke()
    expect((await authFetch(url)).status).toBe(401)
    expect((await bench.collected.series('token.rejections'))[0]?.value).toBe(2)
    expect(await bench.collected.series('token.suppressed_renewals')).toEqual([
      { attributes: { ...environment, ...api }, value: 1 },
    ])
  })

  it('name no API where it is not known', async () => {
    const { tokens } = bench.watch()
    await tokens.renewToken(await tokens.getToken())
    await tokens.renewToken(await tokens.getToken())
    for (const name of ['token.rejections', 'token.suppressed_renewals'])
      expect((await bench.collected.series(name))[0]?.attributes).toEqual(environment)
  })

  it('tell of a renewal in the background', async () => {
    const clock = new ManualClock()
    const { tokens, events } = bench.watch({ clock, refreshAheadMs: 60_000 })
    await tokens.getToken()
    await clock.advance(3_580_000)
    expect(tokens.currentToken()).toBeDefined()
    await vi.waitUntil(() => events.some(({ type }) => type === 'token-renewed'))
    expect(await bench.collected.series('token.renewals')).toEqual([
      { attributes: { ...environment, 'merchant_auth.renewal.reason': 'expiring' }, value: 1 },
    ])
  })
})

describe('the metrics of the other events', () => {
  it('count calls without the token by the reason, and never by the URL', async () => {
    const { tokens } = bench.watch()
    const authFetch = createAuthFetch(tokens, { fetch: async () => new Response('') })
    for (const id of ['one-order', 'another-order']) await authFetch(`https://elsewhere.example/${id}`)
    const headers = { authorization: 'Basic b3duOm93bg==' }
    await authFetch(`${bench.service.merchantUrl}/orders`, { headers })
    expect(await bench.collected.series('token.withheld')).toEqual([
      { attributes: { ...environment, 'merchant_auth.withheld.reason': 'destination' }, value: 2 },
      { attributes: { ...environment, 'merchant_auth.withheld.reason': 'own-header' }, value: 1 },
    ])
    expect(JSON.stringify(await bench.collected.metrics())).not.toContain('-order')
  })

  it('count the failures of a store by operation and code', async () => {
    const store: TokenStore = {
      get: () => Promise.reject(Object.assign(new Error('no'), { code: 'ECONNREFUSED' })),
      set: () => Promise.reject(new Error('no')),
      delete: () => Promise.resolve(),
    }
    const { tokens, events } = bench.watch({ store })
    await tokens.getToken()
    await tokens.close()
    expect(events.map(({ type }) => type)).toContain('store-failed')
    expect(await bench.collected.series('store.failures')).toEqual([
      {
        attributes: {
          ...environment,
          'merchant_auth.store.operation': 'get',
          'error.type': 'ECONNREFUSED',
        },
        value: 1,
      },
    ])
  })

  it('count a token from a store as one', async () => {
    const kept = new Map<string, { value: string; ttlMs: number }>()
    const store: TokenStore = {
      get: async (key) => kept.get(key),
      set: async (key, value, ttlMs) => void kept.set(key, { value, ttlMs }),
      delete: async (key) => void kept.delete(key),
    }
    const first = bench.watch({ store })
    await first.tokens.getToken()
    await vi.waitUntil(() => kept.size > 0)
    await bench.watch({ store }).tokens.getToken()
    expect(await bench.collected.series('token.acquisition.duration')).toEqual([
      { attributes: { ...environment, 'merchant_auth.token.source': 'endpoint' }, value: 1 },
      { attributes: { ...environment, 'merchant_auth.token.source': 'store' }, value: 1 },
    ])
    expect((await bench.collected.series('token.request.duration'))[0]?.value).toBe(1)
    expect(bench.collected.spans()).toHaveLength(1)
  })
})

describe('the instruments', () => {
  it('are made once, however many listeners and events there are', async () => {
    const getMeter = vi.spyOn(bench.collected.meterProvider, 'getMeter')
    for (const { tokens } of [bench.watch(), bench.watch()]) await tokens.renewToken(await tokens.getToken())
    expect(getMeter).toHaveBeenCalledOnce()
    expect(getMeter).toHaveBeenCalledWith('merchant-auth')
  })

  it('have units, descriptions and buckets for seconds', async () => {
    const { tokens } = bench.watch()
    await tokens.renewToken(await tokens.getToken())
    const metrics = await bench.collected.metrics()
    const units = metrics.map(({ descriptor: { name, unit } }) => [name, unit])
    expect(Object.fromEntries(units)).toEqual({
      'merchant_auth.token.request.duration': 's',
      'merchant_auth.token.acquisition.duration': 's',
      'merchant_auth.token.remaining_lifetime': 's',
      'merchant_auth.token.rejections': '{rejection}',
      'merchant_auth.token.renewals': '{renewal}',
    })
    for (const { descriptor } of metrics) expect(descriptor.description).toMatch(/^[A-Z].{10,}\.$/)
    const [{ value } = { value: undefined }] =
      metrics.find(({ descriptor }) => descriptor.name === 'merchant_auth.token.request.duration')
        ?.dataPoints ?? []
    expect(value).toHaveProperty(
      'buckets.boundaries',
      [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
    )
  })
})

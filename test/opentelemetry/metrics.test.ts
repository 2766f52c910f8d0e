/** The metrics that a listener derives from the events of a provider. */
import { type Attributes, createNoopMeter, type Observable } from '@opentelemetry/api'
import { type AuthEvent, createAuthFetch, type Quota } from 'merchant-auth'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { FIRST_DOUBT } from '../../src/token/limits/renewals.ts'
import { ACQUIRED, FAILED, REQUESTED, useCollected, useProviders } from './harness.ts'

const use = useCollected()
const API = 'https://api.example.com'

describe('the counters', () => {
  const status = { 'error.type': 'ERR_TOKEN_STATUS', 'http.response.status_code': 503 }

  it.each<[metric: string, event: AuthEvent, attributes: Attributes]>([
    ['token.request.failures', { ...FAILED, nextTryMs: 0 }, { ...status, 'merchant_auth.final': false }],
    ['token.request.failures', FAILED, { ...status, 'merchant_auth.final': true }],
    [
      'token.request.failures',
      { ...FAILED, status: 401, error: 'invalid_client' },
      {
        'error.type': 'ERR_TOKEN_STATUS',
        'http.response.status_code': 401,
        'merchant_auth.oauth.error': 'invalid_client',
        'merchant_auth.final': true,
      },
    ],
    [
      'token.rejections',
      { type: 'token-rejected', api: API, method: 'GET', url: `${API}/stores/7` },
      { 'merchant_auth.api': API },
    ],
    [
      'token.renewals',
      { type: 'token-renewed', reason: 'expiring' },
      { 'merchant_auth.renewal.reason': 'expiring' },
    ],
    ...(['accepted', 'limited', 'quota', 'cooldown'] as const).map(
      (reason): [string, AuthEvent, Attributes] => [
        'token.suppressed_renewals',
        { type: 'renewal-suppressed', reason, api: API, method: 'GET', url: `${API}/stores/7` },
        { 'merchant_auth.api': API, 'merchant_auth.suppressed.reason': reason },
      ],
    ),
    [
      'token.withheld',
      { type: 'token-withheld', reason: 'own-header', url: `${API}/orders/7` },
      { 'merchant_auth.withheld.reason': 'own-header' },
    ],
    [
      'store.failures',
      { type: 'store-failed', operation: 'get', code: 'ECONNREFUSED' },
      { 'merchant_auth.store.operation': 'get', 'error.type': 'ECONNREFUSED' },
    ],
    [
      'store.failures',
      { type: 'store-failed', operation: 'set', code: 'ClientClosedError' },
      { 'merchant_auth.store.operation': 'set', 'error.type': 'ClientClosedError' },
    ],
  ])('increment %s for %o', async (metric, event, attributes) => {
    const listener = use.listener()
    listener(event)
    expect(await use.collected.series(metric)).toEqual([{ attributes, value: 1 }])
    listener({ ...event, environment: 'test' })
    listener({ ...event, environment: 'test' })
    expect(await use.collected.series(metric)).toEqual([
      { attributes, value: 1 },
      { attributes: { ...attributes, 'merchant_auth.environment': 'test' }, value: 2 },
    ])
  })

  it('use the OAuth errors of RFC 6749 as attributes, and _OTHER for others', async () => {
    for (const error of ['invalid_client', 'access_denied', 'out of milk', 'mfa_required'])
      use.listener()({ ...FAILED, error })
    expect(await use.valuesOf('token.request.failures', 'merchant_auth.oauth.error')).toEqual([
      ['invalid_client', 1],
      ['access_denied', 1],
      ['_OTHER', 2],
    ])
  })

  it('use the first 30 codes of stores as attributes, and _OTHER for others', async () => {
    const listener = use.listener()
    const codes = Array.from({ length: 100 }, (_, index) => `E${index}`)
    // Another test of this file uses the first one.
    for (const code of ['ECONNREFUSED', undefined, 'lower case', ...codes, 'E0'])
      listener({ type: 'store-failed', operation: 'get', code })
    const counts = new Map((await use.valuesOf('store.failures', 'error.type')) as [string, number][])
    expect(counts.get('E0')).toBe(2)
    expect(counts.get('_OTHER')).toBe(74) // the first 30 are ECONNREFUSED, ClientClosedError, and E0 to E27
  })
})

describe('the durations', () => {
  const server = { 'server.address': 'auth.example.com', 'server.port': 443 }
  const failure = { 'error.type': 'ERR_TOKEN_STATUS', 'http.response.status_code': 503 }

  it('are measured in seconds for each attempt, and equal those of the spans', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] })
    const listener = use.listener()
    listener(REQUESTED)
    vi.advanceTimersByTime(250)
    listener({ ...FAILED, nextTryMs: 100 })
    vi.advanceTimersByTime(100)
    listener({ ...REQUESTED, attempt: 2 })
    vi.advanceTimersByTime(500)
    listener({ ...ACQUIRED, durationMs: 850 })
    expect(await use.collected.series('token.request.duration')).toEqual([
      { attributes: { ...server, ...failure }, value: { count: 1, sum: 0.25 } },
      { attributes: server, value: { count: 1, sum: 0.5 } },
    ])
    expect(await use.collected.series('token.acquisition.duration')).toEqual([
      { attributes: { 'merchant_auth.token.source': 'endpoint' }, value: { count: 1, sum: 0.85 } },
    ])
    expect(use.collected.spans().map(({ duration }) => duration)).toEqual([
      [0, 250_000_000],
      [0, 500_000_000],
    ])
  })

  it('include no request, and no span is exported, if none was sent', async () => {
    const listener = use.listener()
    listener({ ...FAILED, code: 'ERR_CLIENT_SECRET' })
    listener({ ...ACQUIRED, source: 'store' })
    expect(await use.collected.series('token.request.duration')).toEqual([])
    expect(await use.valuesOf('token.acquisition.duration', 'merchant_auth.token.source')).toEqual([
      ['store', { count: 1, sum: 0.005 }],
    ])
    expect(use.collected.spans()).toEqual([])
  })

  it.each([
    ['http://auth.example.com/oauth/token', 'auth.example.com', 80],
    ['https://auth.example.com:8443/oauth/token', 'auth.example.com', 8443],
    ['http://[::1]:3000/oauth/token', '::1', 3000],
  ])('have the address and the port of %s', async (url, address, port) => {
    const listener = use.listener()
    for (const event of [{ ...REQUESTED, url }, ACQUIRED]) listener(event)
    const server = { 'server.address': address, 'server.port': port }
    expect((await use.collected.series('token.request.duration'))[0]?.attributes).toEqual(server)
    expect(use.collected.spans()[0]?.attributes).toMatchObject(server)
  })
})

describe('the quotas', () => {
  const quota = (remaining: number, name = 'per_hour', scope: Quota['scope'] = 'client') => ({
    scope,
    name,
    remaining,
  })

  it('are a gauge of the remaining requests per scope and name, updated by successes and failures', async () => {
    const listener = use.listener()
    listener({ ...ACQUIRED, environment: 'test', quota: [quota(7), quota(40, 'per_day', 'organization')] })
    listener({ ...FAILED, environment: 'test', quota: [quota(6)] })
    listener({ ...ACQUIRED, environment: 'test' })
    const series = (scope: string, name: string, value: number) => ({
      attributes: {
        'merchant_auth.environment': 'test',
        'merchant_auth.quota.scope': scope,
        'merchant_auth.quota.name': name,
      },
      value,
    })
    expect(await use.collected.series('token.quota.remaining')).toEqual([
      series('client', 'per_hour', 6),
      series('organization', 'per_day', 40),
    ])
  })

  it('use plain names as attributes, and _OTHER for others', async () => {
    for (const name of ['a name', 'x'.repeat(41), '[hidden]'])
      use.listener()({ ...ACQUIRED, quota: [quota(1, name)] })
    expect(await use.valuesOf('token.quota.remaining', 'merchant_auth.quota.name')).toEqual([['_OTHER', 1]])
  })
})

describe('the remaining lifetime', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance'] }))

  const gauge = () => use.collected.series('token.remaining_lifetime')

  it('counts down to 0 from the lifetime that remained when the token was acquired, and stays at 0', async () => {
    use.listener({ attributes: { merchant: 'm-1' } })({ ...ACQUIRED, source: 'store', remainsMs: 60_000 })
    for (const [laterMs, value] of [
      [0, 60],
      [59_500, 0.5],
      [500, 0],
      [86_400_000, 0],
    ] as const) {
      vi.advanceTimersByTime(laterMs)
      expect(await gauge()).toEqual([{ attributes: { merchant: 'm-1' }, value }])
    }
  })

  it('reaches 0 when the token expires by the wall clock, even if the machine slept', async () => {
    use.listener()(ACQUIRED)
    vi.setSystemTime(Date.now() + 3_600_000)
    expect(await gauge()).toEqual([{ attributes: {}, value: 0 }])
  })

  it('is that of the newest token of all listeners with the same attributes', async () => {
    const [one, other] = [use.listener(), use.listener()]
    use.listener({ attributes: { merchant: 'm-1' } })(ACQUIRED)
    for (const [listener, remainsMs] of [
      [one, 10_000],
      [other, 20_000],
      [one, 30_000],
    ] as const) {
      listener({ ...ACQUIRED, remainsMs })
      for (const each of [one, other]) each({ type: 'token-rejected' })
      expect(await use.valuesOf('token.remaining_lifetime', 'merchant')).toEqual(
        expect.arrayContaining([
          ['m-1', 3_600],
          [undefined, remainsMs / 1000],
        ]),
      )
    }
  })

  it('has at most 10 000 series, those of the newest tokens', () => {
    const meter = createNoopMeter()
    const addCallback = vi.fn<Observable['addCallback']>()
    vi.spyOn(meter, 'createObservableGauge').mockReturnValue({ addCallback, removeCallback: vi.fn() })
    const listener = use.listener({ meterProvider: { getMeter: () => meter } })
    const environments = [...Array.from({ length: 10_000 }, (_, index) => `e${index}`), 'e0', 'e10000']
    for (const environment of environments) listener({ ...ACQUIRED, environment })
    const observe = vi.fn()
    addCallback.mock.calls[0]?.[0]({ observe })
    const observed = observe.mock.calls.map(([, attributes]) => attributes['merchant_auth.environment'])
    expect(observed).toHaveLength(10_000)
    expect([observed[0], ...observed.slice(-2)]).toEqual(['e2', 'e0', 'e10000'])
  })
})

describe('the metrics', () => {
  const all: readonly AuthEvent[] = [
    REQUESTED,
    FAILED,
    REQUESTED,
    { ...ACQUIRED, quota: [{ scope: 'client', name: 'per_hour', remaining: 7 }] },
    { type: 'token-rejected', api: API },
    { type: 'token-renewed', reason: 'rejected' },
    { type: 'renewal-suppressed', reason: 'limited', nextRenewalMs: 1, api: API },
    { type: 'token-withheld', reason: 'destination', url: 'https://other.example.com/' },
    { type: 'store-failed', operation: 'set' },
  ]

  it("have a copy of the caller's attributes, which the package's own attributes override", async () => {
    const attributes = { merchant: 'm-1', 'error.type': 'mine' }
    const listener = use.listener({ attributes })
    attributes.merchant = 'changed'
    for (const event of all) listener(event)
    const points = (await use.collected.metrics()).flatMap(({ dataPoints }) => [...dataPoints])
    for (const { attributes } of [...points, ...use.collected.spans()])
      expect(attributes).toHaveProperty('merchant', 'm-1')
    const failures = await use.valuesOf('token.request.failures', 'error.type')
    expect(failures).toEqual([['ERR_TOKEN_STATUS', 1]])
  })

  it('have units, descriptions and buckets for seconds', async () => {
    const listener = use.listener()
    for (const event of all) listener(event)
    const metrics = await use.collected.metrics()
    expect(Object.fromEntries(metrics.map(({ descriptor: { name, unit } }) => [name, unit]))).toEqual({
      'merchant_auth.token.request.duration': 's',
      'merchant_auth.token.request.failures': '{failure}',
      'merchant_auth.token.acquisition.duration': 's',
      'merchant_auth.token.quota.remaining': '{request}',
      'merchant_auth.token.remaining_lifetime': 's',
      'merchant_auth.token.rejections': '{rejection}',
      'merchant_auth.token.renewals': '{renewal}',
      'merchant_auth.token.suppressed_renewals': '{renewal}',
      'merchant_auth.token.withheld': '{request}',
      'merchant_auth.store.failures': '{failure}',
    })
    for (const { descriptor } of metrics) expect(descriptor.description).toMatch(/^[A-Z].{10,}\.$/)
    const boundaries = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
    for (const { descriptor, dataPoints } of metrics)
      if (/duration$/.test(descriptor.name))
        expect(dataPoints[0]?.value).toHaveProperty('buckets.boundaries', boundaries)
  })
})

describe('the metrics of a provider', () => {
  const bench = useProviders(use)

  it('follow a token from its request to its last rejection', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    const { service } = bench
    const { tokens } = bench.provide()
    const authFetch = createAuthFetch(tokens)
    const url = `${service.merchantUrl}/orders`
    service.fail('token', { kind: 'status', status: 503 })
    await authFetch(url)
    service.revoke()
    expect((await authFetch(url)).status).toBe(200)
    service.configure({ rejectAllTokens: true })
    for (let calls = 0; calls < 1 + FIRST_DOUBT; calls += 1) expect((await authFetch(url)).status).toBe(401)

    expect(await use.valuesOf('token.request.duration', 'error.type')).toMatchObject([
      ['ERR_TOKEN_STATUS', { count: 1 }],
      [undefined, { count: 3 }],
    ])
    expect(await use.valuesOf('token.acquisition.duration', 'merchant_auth.token.source')).toMatchObject([
      ['endpoint', { count: 3 }],
    ])
    expect(await use.valuesOf('token.rejections', 'merchant_auth.api')).toEqual([
      ['merchant', 2 + FIRST_DOUBT],
    ])
    // The first one renewed, too soon for the next ones.
    expect(await use.valuesOf('token.suppressed_renewals', 'merchant_auth.suppressed.reason')).toEqual([
      ['limited', FIRST_DOUBT],
    ])
    const [remaining] = await use.collected.series('token.remaining_lifetime')
    expect(remaining?.attributes).toEqual({ 'merchant_auth.environment': 'test' })
    expect(remaining?.value).toSatisfy((seconds) => seconds > 1_800 && seconds <= 3_600)
  })
})

/** How a token is acquired, shared and renewed in the background; the events; close(). */
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { createAuthFetch, ProviderClosedError } from 'merchant-auth'
import { failureOf, inWorld, MovedClock, until } from '../../clients/world.ts'
import { check, group } from './harness.ts'

group('One token, until it expires')

check('200 concurrent calls make one token request', () =>
  inWorld(async ({ service, provider }) => {
    const tokens = provider()
    const values = await Promise.all(Array.from({ length: 200 }, async () => (await tokens.getToken()).value))
    assert.equal(new Set(values).size, 1)
    assert.deepEqual(service.counts.token, 1)
  }),
)

check('the token request and the token have the documented fields', () =>
  inWorld(async ({ service, provider }) => {
    const { value, tokenType, scope } = await provider().getToken()
    const [request] = service.requests('token')
    assert.equal(request?.method, 'POST')
    assert.equal(request?.headers['content-type'], 'application/json')
    assert.deepEqual(Object.keys(request?.fields ?? {}).sort(), [
      'audience',
      'client_id',
      'client_secret',
      'grant_type',
    ])
    assert.equal(value.split('.').length, 3)
    assert.deepEqual({ tokenType, scope }, { tokenType: 'Bearer', scope: 'merchant' })
  }),
)

check('bodyFormat: form sends the token request as a form', () =>
  inWorld(async ({ service, provider }) => {
    await provider({ bodyFormat: 'form' }).getToken()
    assert.match(
      service.requests('token')[0]?.headers['content-type'] ?? '',
      /^application\/x-www-form-urlencoded/,
    )
    assert.equal(service.requests('token')[0]?.status, 200)
  }),
)

check('a token is cached until its expiry margin, then a new one is acquired', () =>
  inWorld(async ({ service, provider }) => {
    service.configure({ lifetimeSeconds: 100 })
    const clock = new MovedClock()
    const tokens = provider({ clock, refreshAheadMs: 0 })
    const first = await tokens.getToken()
    clock.advance(94_999) // the margin is 5 %
    assert.equal((await tokens.getToken()).value, first.value)
    assert.equal(service.counts.token, 1)
    clock.advance(1)
    assert.equal(tokens.currentToken(), undefined)
    assert.notEqual((await tokens.getToken()).value, first.value)
    assert.equal(service.counts.token, 2)
  }),
)

check('the cached token remains in use while it is renewed in the background', () =>
  inWorld(async ({ service, provider, events }) => {
    service.configure({ lifetimeSeconds: 100 })
    const clock = new MovedClock()
    const tokens = provider({ clock, refreshAheadMs: 20_000 })
    const first = await tokens.getToken()
    clock.advance(90_000)
    service.configure({ tokenLatencyMs: 50 })
    assert.equal(tokens.currentToken()?.value, first.value)
    assert.equal((await tokens.getToken()).value, first.value)
    await until(() => events.some((event) => event.type === 'token-renewed' && event.reason === 'expiring'))
    assert.notEqual(tokens.currentToken()?.value, first.value)
    assert.equal(service.counts.token, 2)
  }),
)

check('a failed background renewal fails no call', () =>
  inWorld(async ({ service, provider, events }) => {
    service.configure({ lifetimeSeconds: 100 })
    const clock = new MovedClock()
    const tokens = provider({ clock, refreshAheadMs: 20_000, retries: 0 })
    const first = await tokens.getToken()
    clock.advance(90_000)
    service.fail('token', { kind: 'status', status: 503 })
    const call = createAuthFetch(tokens)(`${service.merchantUrl}/orders`)
    assert.equal((await call).status, 200)
    await until(() => events.some(({ type }) => type === 'token-request-failed'))
    assert.equal((await tokens.getToken()).value, first.value)
  }),
)

check('events reach onEvent and the diagnostics channel', () =>
  inWorld(async ({ service, provider, events }) => {
    const published: unknown[] = []
    const listen = (message: unknown): unknown => published.push(message)
    subscribe('merchant-auth', listen)
    try {
      const tokens = provider()
      const rejected = await tokens.getToken()
      service.revoke()
      await createAuthFetch(tokens)(`${service.merchantUrl}/orders`)
      await createAuthFetch(tokens, { fetch: async () => new Response() })('https://elsewhere.example/')
      assert.deepEqual(
        events.map(({ type }) => type),
        [
          'token-requested',
          'token-acquired',
          'token-rejected',
          'token-requested',
          'token-acquired',
          'token-renewed',
          'token-withheld',
        ],
      )
      assert.deepEqual(published, events)
      assert.ok(!JSON.stringify(events).includes(rejected.value))
    } finally {
      unsubscribe('merchant-auth', listen)
    }
  }),
)

check('close() rejects every wait with its own ProviderClosedError', () =>
  inWorld(async ({ service, provider }) => {
    const tokens = provider()
    service.fail('token', { kind: 'hang' })
    const waits = Array.from({ length: 3 }, () => failureOf(tokens.getToken()))
    await until(() => service.counts.token === 1)
    await tokens.close()
    const failures = await Promise.all([...waits, failureOf(tokens.getToken())])
    for (const failure of failures) assert.ok(failure instanceof ProviderClosedError, String(failure))
    assert.equal(new Set(failures).size, 4)
  }),
)

check('`await using` closes a provider', () =>
  inWorld(async ({ provider }) => {
    const tokens = provider()
    await tokens.getToken()
    await tokens[Symbol.asyncDispose]()
    assert.ok((await failureOf(tokens.getToken())) instanceof ProviderClosedError)
  }),
)

// The token endpoint and the APIs of a sandbox environment, and how a test configures them.
import { createHash } from 'node:crypto'
import { decodeJwt } from 'jose'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { SandboxSettings } from '../../src/testing/index.ts'
import {
  call,
  callByNodeHttp,
  configurationError,
  echoOf,
  freshToken,
  type Granted,
  goodFields,
  requestToken,
  turn,
  until,
  useSandbox,
} from './calls.ts'

const use = useSandbox()
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const grantOf = async (response: Promise<Response>) => (await (await response).json()) as Granted
const errorOf = async (response: Response) => {
  const body = (await response.json()) as { error: string; error_description: string }
  return { status: response.status, ...body }
}
const lifetimeOf = async () => {
  const { exp = 0, iat = 0 } = decodeJwt(await freshToken(use.env))
  return Math.round(exp - iat)
}

describe('the token endpoint of the sandbox', () => {
  it('issues a new token each time, as in RFC 6749 §5.1', async () => {
    const response = await requestToken(use.env)
    expect(response.status).toBe(200)
    expect(response.headers.get('cache-control')).toBe('no-store')
    const grant = (await response.json()) as Granted
    expect(grant).toEqual({
      access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expires_in: 3600,
      scope: 'merchant',
      token_type: 'Bearer',
    })
    expect(await freshToken(use.env)).not.toBe(grant.access_token)
    expect(use.env.counts.issued).toBe(2)
  })

  it('signs issuer, audience and expiry to the millisecond, with the lifetime as configured at that time', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_123 })
    use.env.configure({ lifetimeSeconds: 7 })
    const { access_token, expires_in } = await grantOf(requestToken(use.env))
    expect(expires_in).toBe(7)
    expect(decodeJwt(access_token)).toEqual({
      iss: use.env.environment.authUrl,
      aud: use.env.environment.audience,
      sub: use.env.clientId,
      scope: 'merchant',
      jti: expect.stringMatching(/^[\da-f-]{36}$/),
      iat: 1_700_000_000.123,
      exp: 1_700_000_007.123,
    })
  })

  it('accepts a form, and a content type with parameters in any case', async () => {
    const form = new URLSearchParams(goodFields(use.env))
    expect((await requestToken(use.env, { body: form, headers: {} })).status).toBe(200)
    const headers = { 'content-type': 'Application/JSON; charset=utf-8' }
    expect((await requestToken(use.env, { headers })).status).toBe(200)
  })

  type Sent = NonNullable<Parameters<typeof requestToken>[1]>
  const good = () => goodFields(use.env)
  const withField = (name: string, value: unknown) => (): Sent => ({ fields: { ...good(), [name]: value } })
  const TYPE = 'The body must be a JSON object or a form, as its content type says'

  it.each<[description: string, request: () => Sent]>([
    [TYPE, () => ({ headers: { 'content-type': 'text/plain' } })],
    [TYPE, () => ({ body: '[]' })],
    ['audience is missing', withField('audience', undefined)],
    ['scope is not expected', withField('scope', 'x')],
    ['audience must be a non-empty string', withField('audience', '')],
  ])('rejects an invalid request: %s', async (error_description, request) => {
    const error = await errorOf(await requestToken(use.env, request()))
    expect(error).toEqual({ status: 400, error: 'invalid_request', error_description })
    expect(use.env.counts.issued).toBe(0)
  })

  it('rejects GET, and says what is allowed', async () => {
    const response = await requestToken(use.env, { method: 'GET', body: null })
    expect(response.headers.get('allow')).toBe('POST')
    expect(await errorOf(response)).toMatchObject({ status: 405, error: 'invalid_request' })
    expect(use.env.counts).toMatchObject({ token: 1, issued: 0, unauthorized: 0 })
  })

  it.each<[what: string, request: () => Sent, status: number, error: string]>([
    ['another grant type', withField('grant_type', 'password'), 400, 'unsupported_grant_type'],
    ['another client', withField('client_id', 'nobody'), 401, 'invalid_client'],
    ['a wrong secret', withField('client_secret', 'wrong'), 401, 'invalid_client'],
    ['another audience', withField('audience', 'https://elsewhere.example'), 403, 'access_denied'],
  ])('rejects %s', async (_, request, status, error) => {
    const response = await requestToken(use.env, request())
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(await errorOf(response)).toEqual({ status, error, error_description: expect.any(String) })
    expect(use.env.counts).toMatchObject({ token: 1, issued: 0, unauthorized: 0 })
  })

  it('answers 404 at any other path', async () => {
    const { authUrl } = use.env.environment
    for (const path of ['/', '/oauth', '/oauth/token/', '/oauth/tokens', '/merchants', '//merchant']) {
      expect((await fetch(authUrl + path, { method: 'POST', body: 'x' })).status, path).toBe(404)
    }
    expect(use.env.counts).toEqual({ token: 0, merchant: 0, 'in-store': 0, issued: 0, unauthorized: 0 })
  })
})

describe('acceptSecrets() of the sandbox', () => {
  it('replaces the accepted secrets, and keeps the tokens issued before valid', async () => {
    const { clientSecret } = use.env
    const token = await freshToken(use.env)
    const statuses = async (...accepted: string[]) => {
      use.env.acceptSecrets(...accepted)
      const answers = [clientSecret, 'next'].map((client_secret) =>
        requestToken(use.env, { fields: { ...goodFields(use.env), client_secret } }),
      )
      return (await Promise.all(answers)).map(({ status }) => status)
    }
    expect(await statuses(clientSecret, 'next')).toEqual([200, 200])
    expect(await statuses('next')).toEqual([401, 200])
    expect(await statuses()).toEqual([401, 401])
    expect((await call(use.env.merchantUrl, token)).status).toBe(200)
  })
})

describe('an API of the sandbox', () => {
  it('answers with what it received', async () => {
    const token = await freshToken(use.env)
    const response = await call(`${use.env.merchantUrl}/orders/7?a=1&a=2`, token, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k-1' },
      body: '{"sum":"12 €"}',
    })
    expect(response.status).toBe(200)
    const { headers, ...echo } = await echoOf(response)
    const jti = decodeJwt(token).jti
    expect(echo).toEqual({
      api: 'merchant',
      method: 'PATCH',
      path: '/merchant/orders/7',
      query: 'a=1&a=2',
      body: '{"sum":"12 €"}',
      bodySha256: createHash('sha256').update('{"sum":"12 €"}').digest('hex'),
      jti,
    })
    expect(headers).toMatchObject({ authorization: `Bearer [token ${jti}]`, 'idempotency-key': 'k-1' })
  })

  it('answers 401 without an error code to a request without a token (RFC 6750 §3.1)', async () => {
    const { merchantUrl, inStoreUrl } = use.env
    expect(challengeOf(await call(merchantUrl, undefined))).toBe('401 Bearer realm="merchant"')
    expect(challengeOf(await call(inStoreUrl, undefined))).toBe('401 Bearer realm="in-store"')
    const basic = await fetch(merchantUrl, { headers: { authorization: 'Basic eDp5' } })
    expect(challengeOf(basic)).toBe('401 Bearer realm="merchant"')
    expect(use.env.counts).toMatchObject({ merchant: 2, 'in-store': 1, unauthorized: 3 })
  })

  const fresh = () => freshToken(use.env)
  const claimsOf = async () => (await fresh()).split('.')[1]
  const forged = async () => (await fresh()).replace(/[^.]*$/, (await fresh()).split('.')[2] ?? '')
  const unsigned = async () => `${btoa('{"alg":"none"}').replace(/=+$/, '')}.${await claimsOf()}.`
  const revoked = async () => {
    const token = await fresh()
    use.env.revoke(token)
    return token
  }
  it.each<[what: string, token: () => string | Promise<string>, description: unknown]>([
    ['a malformed token', () => 'undefined', 'The token is malformed'],
    ['a token with another signature', forged, 'The signature of the token is wrong'],
    ['a token without a signature', unsigned, 'The signature of the token is wrong'],
    ['a revoked token', revoked, 'The token was revoked'],
  ])('rejects %s', async (_, token, description) => {
    const headers = { authorization: `Bearer ${await token()}` }
    const challenge = challengeOf(await fetch(use.env.merchantUrl, { headers }))
    const [, error] = /error="invalid_token", error_description="(.*)"$/.exec(challenge) ?? []
    expect(challenge).toMatch(/^401 Bearer realm="merchant", error=/)
    expect(error).toEqual(description)
  })

  it('rejects a token as soon as it expires, to the millisecond', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_123 })
    use.env.configure({ lifetimeSeconds: 2 })
    const token = await freshToken(use.env)
    vi.setSystemTime(1_700_000_002_122)
    expect((await call(use.env.merchantUrl, token)).status).toBe(200)
    vi.setSystemTime(1_700_000_002_123)
    expect(challengeOf(await call(use.env.merchantUrl, token))).toContain('The token has expired')
  })

  const challengeOf = (response: Response) => `${response.status} ${response.headers.get('www-authenticate')}`
})

describe('revoke() of the sandbox', () => {
  it('revokes one token by its value or its jti, or all, and returns how many were valid', async () => {
    const [first, second, third] = [
      await freshToken(use.env),
      await freshToken(use.env),
      await freshToken(use.env),
    ]
    expect(use.env.revoke(String(decodeJwt(first).jti))).toBe(1)
    expect(use.env.revoke(first)).toBe(0)
    expect((await call(use.env.merchantUrl, first)).status).toBe(401)
    expect((await call(use.env.merchantUrl, second)).status).toBe(200)
    expect(use.env.revoke()).toBe(2)
    expect((await call(use.env.merchantUrl, third)).status).toBe(401)
    expect((await call(use.env.merchantUrl, await freshToken(use.env))).status).toBe(200)
  })
})

describe('configure() of the sandbox', () => {
  it.each([
    [{ header: 'X-Token', scheme: '' }, 'x-token', ''],
    [{ scheme: 'Bearer' }, 'Authorization', 'bEARER '],
  ])('sets where the APIs look for the token: %j', async (settings, header, prefix) => {
    const token = await freshToken(use.env)
    use.env.configure(settings)
    const response = await fetch(use.env.merchantUrl, { headers: { [header]: prefix + token } })
    const { headers, jti } = await echoOf(response)
    expect(response.status).toBe(200)
    expect(headers[header.toLowerCase()]).toBe(`${prefix}[token ${jti}]`)
    const elsewhere = await fetch(use.env.merchantUrl, { headers: { 'x-other': prefix + token } })
    expect(elsewhere.status).toBe(401)
  })

  it('makes one API or both reject every token', async () => {
    const token = await freshToken(use.env)
    const statuses = async (rejectAllTokens: SandboxSettings['rejectAllTokens']) => {
      use.env.configure({ rejectAllTokens })
      const both = [use.env.merchantUrl, use.env.inStoreUrl].map((url) => call(url, token))
      return (await Promise.all(both)).map(({ status }) => status)
    }
    expect(await statuses(['in-store'])).toEqual([200, 401])
    expect(await statuses(true)).toEqual([401, 401])
    expect(await statuses(false)).toEqual([200, 200])
  })

  it('makes the APIs check a token on arrival, and answer after the latency', async () => {
    const token = await freshToken(use.env)
    use.env.configure({ apiLatencyMs: 1_000 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const answer = callByNodeHttp(use.env.merchantUrl, token)
    await until(() => timers.mock.calls.some(([, ms]) => ms === 1_000))
    use.env.revoke()
    vi.advanceTimersByTime(999)
    await turn()
    expect(use.env.requests('merchant')[0]).not.toHaveProperty('status')
    vi.advanceTimersByTime(1)
    expect((await answer).statusCode).toBe(200)
    expect(use.env.requests('merchant')[0]).toHaveProperty('status', 200)
  })

  it.each([
    ['lifetimeSeconds', { lifetimeSeconds: 0 }],
    ['rejectAllTokens', { rejectAllTokens: ['token'] }],
    ['lifetime', { lifetime: 5 }],
  ])('rejects an invalid setting, and changes nothing: %s', async (option, settings) => {
    const given = { lifetimeSeconds: 7, ...settings }
    expect(() => use.env.configure(given as never)).toThrow(configurationError(option))
    expect(await lifetimeOf()).toBe(3600)
  })
})

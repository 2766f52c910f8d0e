// The token endpoint of the sandbox: what it issues, what it refuses, and with which error.
import { decodeJwt } from 'jose'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { call, freshToken, type Granted, goodFields, requestToken, turn, until, useSandbox } from './calls.ts'

const use = useSandbox()
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const errorOf = async (response: Response) => {
  const body = (await response.json()) as { error: string; error_description: string }
  return { status: response.status, ...body }
}

describe('the token endpoint', () => {
  it('issues a token as RFC 6749 §5.1 has it', async () => {
    const response = await requestToken(use.env)
    expect(response.status).toBe(200)
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(await response.json()).toEqual({
      access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expires_in: 3600,
      scope: 'merchant',
      token_type: 'Bearer',
    })
  })

  it('signs who issued the token, for whom, and until when to the millisecond', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_123 })
    use.env.configure({ lifetimeSeconds: 7 })
    const { jti, ...claims } = decodeJwt(await freshToken(use.env))
    expect(claims).toEqual({
      iss: use.env.environment.authUrl,
      aud: use.env.environment.audience,
      sub: use.env.clientId,
      scope: 'merchant',
      iat: 1_700_000_000.123,
      exp: 1_700_000_007.123,
    })
    expect(jti).toMatch(/^[\da-f-]{36}$/)
  })

  it('issues another token each time', async () => {
    expect(await freshToken(use.env)).not.toBe(await freshToken(use.env))
    expect(use.env.counts.issued).toBe(2)
  })

  it('takes a form, too', async () => {
    const body = new URLSearchParams(goodFields(use.env))
    const response = await requestToken(use.env, { body, headers: {} })
    expect(response.status).toBe(200)
  })

  it('takes a content type with parameters, in any case', async () => {
    const headers = { 'content-type': 'Application/JSON; charset=utf-8' }
    expect((await requestToken(use.env, { headers })).status).toBe(200)
  })

  it('tells lifetimes as they are configured now', async () => {
    use.env.configure({ lifetimeSeconds: 36_000 })
    expect(((await (await requestToken(use.env)).json()) as Granted).expires_in).toBe(36_000)
    use.env.configure({ lifetimeSeconds: 86_400 })
    expect(((await (await requestToken(use.env)).json()) as Granted).expires_in).toBe(86_400)
  })

  it('waits for its latency before it issues', async () => {
    use.env.configure({ tokenLatencyMs: 1_000, lifetimeSeconds: 1 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: 1_700_000_000_000 })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const answer = requestToken(use.env)
    await until(() => timers.mock.calls.some(([, ms]) => ms === 1_000))
    vi.advanceTimersByTime(999)
    await turn()
    expect(use.env.counts).toMatchObject({ token: 1, issued: 0 })
    vi.advanceTimersByTime(1)
    const { access_token } = (await (await answer).json()) as Granted
    expect(decodeJwt(access_token).iat).toBe(1_700_000_001)
  })
})

describe('the token endpoint refuses', () => {
  it.each(['GET', 'PUT', 'DELETE'])('the method %s', async (method) => {
    const response = await requestToken(use.env, { method, body: null })
    expect(response.headers.get('allow')).toBe('POST')
    expect(await errorOf(response)).toMatchObject({ status: 405, error: 'invalid_request' })
  })

  it.each(['text/plain', 'multipart/form-data; boundary=x', 'application/jsonp'])(
    'the content type %s',
    async (type) => {
      const response = await requestToken(use.env, { headers: { 'content-type': type } })
      expect(await errorOf(response)).toMatchObject({ status: 400, error: 'invalid_request' })
    },
  )

  it.each(['{"client_id":', '[]', 'null', '"x"', ''])('the body %j', async (body) => {
    const response = await requestToken(use.env, { body })
    expect(await errorOf(response)).toEqual({
      status: 400,
      error: 'invalid_request',
      error_description: 'The body must be a JSON object',
    })
  })

  it.each(['client_id', 'client_secret', 'audience', 'grant_type'])('a request without %s', async (name) => {
    const { [name]: _left, ...fields } = goodFields(use.env)
    expect(await errorOf(await requestToken(use.env, { fields }))).toEqual({
      status: 400,
      error: 'invalid_request',
      error_description: `${name} is missing`,
    })
  })

  it.each(['scope', '__proto__', 'Audience'])('a further field %s', async (name) => {
    const body = `{"${name}":"x",${JSON.stringify(goodFields(use.env)).slice(1)}`
    expect(await errorOf(await requestToken(use.env, { body }))).toEqual({
      status: 400,
      error: 'invalid_request',
      error_description: `${name} is not expected`,
    })
  })

  it.each([5, null, '', ['x']])('a field that is %j', async (audience) => {
    const response = await requestToken(use.env, { fields: { ...goodFields(use.env), audience } })
    expect(await errorOf(response)).toEqual({
      status: 400,
      error: 'invalid_request',
      error_description: 'audience must be a non-empty string',
    })
  })

  it('a form with a field that comes twice', async () => {
    const body = new URLSearchParams([...Object.entries(goodFields(use.env)), ['audience', 'x']])
    expect(await errorOf(await requestToken(use.env, { body, headers: {} }))).toEqual({
      status: 400,
      error: 'invalid_request',
      error_description: 'audience comes twice',
    })
  })

  it.each([
    ['another grant type', { grant_type: 'password' }, 400, 'unsupported_grant_type'],
    ['another client', { client_id: 'nobody' }, 401, 'invalid_client'],
    ['a wrong secret', { client_secret: 'wrong' }, 401, 'invalid_client'],
    ['another audience', { audience: 'https://elsewhere.example' }, 403, 'access_denied'],
  ])('%s', async (_name, wrong, status, error) => {
    const response = await requestToken(use.env, { fields: { ...goodFields(use.env), ...wrong } })
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(await errorOf(response)).toMatchObject({ status, error, error_description: expect.any(String) })
    expect(use.env.counts).toMatchObject({ token: 1, issued: 0, unauthorized: 0 })
  })

  it('a body over 10 MiB', async () => {
    const body = 'x'.repeat(10 * 1024 * 1024 + 1)
    expect((await requestToken(use.env, { body })).status).toBe(413)
  })

  it('other paths', async () => {
    const { authUrl } = use.env.environment
    for (const path of ['/', '/oauth', '/oauth/token/', '/oauth/tokens', '/merchants', '//merchant']) {
      expect((await fetch(authUrl + path, { method: 'POST', body: 'x' })).status, path).toBe(404)
    }
    expect(use.env.counts).toEqual({ token: 0, merchant: 0, 'in-store': 0, issued: 0, unauthorized: 0 })
  })
})

describe('acceptSecrets', () => {
  const statusWith = async (client_secret: string) =>
    (await requestToken(use.env, { fields: { ...goodFields(use.env), client_secret } })).status

  it('takes the place of the secrets before', async () => {
    const { clientSecret } = use.env
    use.env.acceptSecrets(clientSecret, 'next')
    expect([await statusWith(clientSecret), await statusWith('next')]).toEqual([200, 200])
    use.env.acceptSecrets('next')
    expect([await statusWith(clientSecret), await statusWith('next')]).toEqual([401, 200])
    use.env.acceptSecrets()
    expect([await statusWith(clientSecret), await statusWith('next')]).toEqual([401, 401])
  })

  it('leaves the tokens valid that were issued before', async () => {
    const token = await freshToken(use.env)
    use.env.acceptSecrets('next')
    expect((await call(use.env.merchantUrl, token)).status).toBe(200)
  })

  it('refuses a secret that is empty, or no string', () => {
    expect(() => use.env.acceptSecrets('good', '')).toThrow(
      expect.objectContaining({ code: 'ERR_CONFIGURATION' }),
    )
    expect(() => use.env.acceptSecrets(5 as never)).toThrow(
      expect.objectContaining({ code: 'ERR_CONFIGURATION' }),
    )
  })
})

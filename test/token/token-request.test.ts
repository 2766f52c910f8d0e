import { createTokenProvider, type TokenRequestError } from 'merchant-auth'
import nock from 'nock'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ENVIRONMENT, rejection, rig, SECRET, status, TOKEN_ENDPOINT } from './harness.ts'

afterEach(() => {
  nock.cleanAll()
  nock.restore()
  vi.unstubAllGlobals()
})

const client = { environment: ENVIRONMENT, clientId: 'client-1', clientSecret: SECRET }
const GRANT = { access_token: 'a.b.c', expires_in: 36_000, scope: 'merchant', token_type: 'Bearer' }

function tokenEndpoint(matches: (body: unknown) => boolean, headers: Record<string, string>): nock.Scope {
  if (!nock.isActive()) nock.activate()
  return nock(ENVIRONMENT.authUrl, { reqheaders: headers }).post('/oauth/token', matches).reply(200, GRANT)
}

describe('the token request', () => {
  it('is a JSON post of exactly the four fields', async () => {
    let sent: unknown
    const scope = tokenEndpoint(
      (body) => {
        sent = body
        return true
      },
      { 'content-type': 'application/json' },
    )
    const token = await createTokenProvider(client).getToken()
    expect(token).toMatchObject({ value: 'a.b.c', scope: 'merchant', tokenType: 'Bearer' })
    expect(sent).toEqual({
      client_id: 'client-1',
      client_secret: 'swordfish+with/slash=',
      audience: 'https://api.test.example',
      grant_type: 'client_credentials',
    })
    expect(scope.isDone()).toBe(true)
  })

  it('is a form of exactly the four fields with bodyFormat form', async () => {
    const { provider, endpoint } = rig([], { bodyFormat: 'form' })
    await provider.getToken()
    const { headers, body } = endpoint.requests[0]?.init ?? {}
    expect(new Headers(headers).get('content-type')).toBe('application/x-www-form-urlencoded')
    expect(body).toBe(
      'client_id=client-1&client_secret=swordfish%2Bwith%2Fslash%3D&' +
        'audience=https%3A%2F%2Fapi.test.example&grant_type=client_credentials',
    )
  })

  it.each([
    ['json', 'application/json'],
    ['form', 'application/x-www-form-urlencoded'],
  ] as const)('as %s says what it is and that it wants JSON, and nothing else', async (bodyFormat, type) => {
    const { provider, endpoint } = rig([], { bodyFormat })
    await provider.getToken()
    expect(endpoint.requests[0]?.init.headers).toEqual({ 'content-type': type, accept: 'application/json' })
  })

  it('is written the same each time, to the letter', async () => {
    const { provider, endpoint } = rig()
    await provider.getToken()
    expect(endpoint.requests).toHaveLength(1)
    expect(endpoint.requests[0]?.url).toBe(TOKEN_ENDPOINT)
    expect(endpoint.requests[0]?.init).toMatchObject({
      method: 'POST',
      redirect: 'manual',
      body: '{"client_id":"client-1","client_secret":"swordfish+with/slash=","audience":"https://api.test.example","grant_type":"client_credentials"}',
    })
  })

  it.each([
    ['https://auth.test.example', 'https://auth.test.example/oauth/token'],
    ['https://auth.test.example/', 'https://auth.test.example/oauth/token'],
    ['https://idp.example:8443/tenant', 'https://idp.example:8443/tenant/oauth/token'],
    ['https://idp.example/tenant/', 'https://idp.example/tenant/oauth/token'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080/oauth/token'],
  ])('with authUrl %s goes to %s', async (authUrl, url) => {
    const { provider, endpoint } = rig([], { environment: { ...ENVIRONMENT, authUrl } })
    await provider.getToken()
    expect(endpoint.requests.map((request) => request.url)).toEqual([url])
  })

  it('goes by globalThis.fetch, looked up at each use', async () => {
    const provider = createTokenProvider(client)
    const replaced = vi.fn(async () => Response.json(GRANT))
    vi.stubGlobal('fetch', replaced)
    await provider.getToken()
    expect(replaced).toHaveBeenCalledTimes(1)
  })
})

describe('a redirect of the token endpoint', () => {
  it.each([301, 302, 303, 307, 308, 300, 304])('with status %i is a TokenRequestError', async (code) => {
    const { provider, endpoint } = rig([
      status(code === 304 ? 302 : code, '', { location: 'https://evil.example' }),
    ])
    const error = await rejection<TokenRequestError>(provider.getToken())
    expect(error).toMatchObject({ name: 'TokenRequestError', code: 'ERR_TOKEN_REDIRECT', retryable: false })
    expect(error.message).toContain(`POST ${TOKEN_ENDPOINT}`)
    expect(endpoint.count).toBe(1)
  })

  it.each([
    ['followed by a fetch of its own mind', { redirected: true, status: 200, ok: true }],
    ['hidden as a browser does it', { type: 'opaqueredirect', status: 0, ok: false }],
  ])('%s gives no token', async (_, traits) => {
    const answer = () =>
      new Proxy(Response.json(GRANT), {
        get: (target, key) => (key in traits ? Reflect.get(traits, key) : Reflect.get(target, key, target)),
      })
    const { provider } = rig([answer])
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_REDIRECT' })
    expect(provider.currentToken()).toBeUndefined()
  })

  it('is not followed by the real fetch either', async () => {
    if (!nock.isActive()) nock.activate()
    nock(ENVIRONMENT.authUrl)
      .post('/oauth/token')
      .reply(307, '', { location: 'https://elsewhere.example/oauth/token' })
    const elsewhere = nock('https://elsewhere.example').post('/oauth/token').reply(200, GRANT)
    await expect(createTokenProvider(client).getToken()).rejects.toMatchObject({
      code: 'ERR_TOKEN_REDIRECT',
      status: 307,
    })
    expect(elsewhere.isDone()).toBe(false)
  })
})

/** Token endpoints of other services: what the options for them change in a token request, and which error names which option. */
import {
  createAuthFetch,
  createTokenProvider,
  type Environment,
  type TokenProviderOptions,
} from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { kindsIn } from '../support/failures.ts'
import { findLeaks } from '../support/leaks.ts'
import { problemsOf } from '../support/problems.ts'
import { ENVIRONMENT, failed, rig, SECRET, status } from './harness.ts'

const { audience: _, ...NO_AUDIENCE } = ENVIRONMENT
const BASIC = { tokenEndpointAuthMethod: 'client_secret_basic' } as const
const environmentAt = (more: object): Environment => ({ ...NO_AUDIENCE, tokenPath: '', ...more })

/** The only token request of a client. */
async function requestOf(options: Partial<TokenProviderOptions>) {
  const { provider, endpoint } = rig([], options)
  await provider.getToken()
  const [{ url = '', init = {} } = {}] = endpoint.requests
  return { url, headers: new Headers(init.headers), body: String(init.body) }
}

describe('tokenPath', () => {
  it.each([
    ['https://auth.example', '/token', 'https://auth.example/token'],
    ['https://auth.example/', '/o/token/', 'https://auth.example/o/token/'],
    [
      'https://auth.example/realms/shop/',
      '/protocol/token',
      'https://auth.example/realms/shop/protocol/token',
    ],
    ['https://auth.example/oauth/token', '/v2', 'https://auth.example/oauth/token/v2'],
    ['https://auth.example/o/token/', '', 'https://auth.example/o/token/'],
    ['https://auth.example/oauth/token', '', 'https://auth.example/oauth/token'],
  ])('is appended to authUrl %s: %s', async (authUrl, tokenPath, url) => {
    expect((await requestOf({ environment: environmentAt({ authUrl, tokenPath }) })).url).toBe(url)
  })

  it.each(['token', '//token', '/a?b', '/a#b', '/a b', '/a\\b', '/a|b', 5, null])(
    'of %j is refused',
    (tokenPath) => {
      const environment = environmentAt({ tokenPath })
      expect(problemsOf(() => rig([], { environment }))).toEqual(['environment.tokenPath'])
    },
  )

  it('with which the audience may be absent: the request has no such field', async () => {
    const environment = environmentAt({ tokenPath: '/token' })
    expect(JSON.parse((await requestOf({ environment })).body)).toEqual({
      client_id: 'client-1',
      client_secret: SECRET,
      grant_type: 'client_credentials',
    })
    expect(rig([], { environment }).provider.environment).toEqual(environment)
  })

  it('is what makes an audience optional, and an empty one is refused with it, too', () => {
    // @ts-expect-error: without tokenPath there must be an audience
    const wrong: Environment = NO_AUDIENCE
    const problems = (environment: Environment) => problemsOf(() => rig([], { environment }))
    expect(problems(wrong)).toEqual(['environment.audience'])
    expect(problems(environmentAt({ tokenPath: '/token', audience: '' }))).toEqual(['environment.audience'])
  })

  it('leads to the token endpoint that never gets the token, though an API is above it', async () => {
    const made = rig([], {
      environment: environmentAt({ authUrl: 'https://api.test.example/merchant', tokenPath: '/login' }),
    })
    const sent: string[] = []
    const authFetch = createAuthFetch(made.provider, {
      fetch: async (...args) => {
        const request = new Request(...args)
        sent.push(request.headers.get('authorization') ?? 'none')
        return new Response()
      },
    })
    for (const path of ['/login', '/login?x=1', '/logins'])
      await authFetch(`https://api.test.example/merchant${path}`)
    expect(sent).toEqual(['none', 'none', expect.stringMatching(/^Bearer /)])
  })
})

describe('tokenEndpointAuthMethod', () => {
  it.each([
    ['client-1', SECRET, 'client-1:swordfish%2Bwith%2Fslash%3D'],
    ['client:1 %', 'a+b c:d%é"', 'client%3A1+%25:a%2Bb+c%3Ad%25%C3%A9%22'],
  ])(
    'client_secret_basic sends id and secret form-encoded in the header alone: %s',
    async (clientId, clientSecret, shown) => {
      const { headers, body } = await requestOf({
        clientId,
        clientSecret,
        bodyFormat: 'form',
        ...BASIC,
      } as object)
      const [, encoded = ''] = /^Basic (\S+)$/.exec(headers.get('authorization') ?? '') ?? []
      expect(Buffer.from(encoded, 'base64').toString()).toBe(shown)
      expect(body).toBe('audience=https%3A%2F%2Fapi.test.example&grant_type=client_credentials')
    },
  )

  it('client_secret_post is the default', async () => {
    const { headers, body } = await requestOf({ tokenEndpointAuthMethod: 'client_secret_post' })
    expect(headers.has('authorization')).toBe(false)
    expect(JSON.parse(body)).toMatchObject({ client_id: 'client-1', client_secret: SECRET })
  })

  it('is one of two, and not for assertions', () => {
    const problems = (options: object) =>
      problemsOf(() =>
        createTokenProvider({
          environment: ENVIRONMENT,
          clientId: 'c',
          ...options,
        } as unknown as TokenProviderOptions),
      )
    expect(problems({ clientSecret: SECRET, tokenEndpointAuthMethod: 'none' })).toEqual([
      'tokenEndpointAuthMethod',
    ])
    expect(problems({ clientAssertion: () => 'a.b.c', ...BASIC })).toEqual(['tokenEndpointAuthMethod'])
  })

  it('with a header that the endpoint repeats: neither it nor a part of it is shown', async () => {
    const made = rig([], { ...BASIC, retries: 0 } as object)
    made.endpoint.otherwise = ({ headers }) => {
      const echo = new Headers(headers).get('authorization') ?? ''
      return status(401, { error: 'x', error_description: `${echo} ${atob(echo.slice(6))}` })({})
    }
    const error = await failed(made)
    const value = btoa(`client-1:${encodeURIComponent(SECRET)}`)
    expect(
      [error, made.events].flatMap((got) =>
        findLeaks(got, [SECRET, value, value.slice(0, -4), value.slice(12)]),
      ),
    ).toEqual([])
  })
})

describe('the error of a request that another endpoint refuses', () => {
  const asksForBasic = status(401, { error: 'invalid_client' }, { 'www-authenticate': 'Basic realm="x"' })

  it.each<[name: string, answer: ReturnType<typeof status>, kind: string, named: string]>([
    ['404', status(404), 'no-endpoint', 'environment.tokenPath'],
    ['405', status(405), 'no-endpoint', 'environment.tokenPath'],
    ['415', status(415), 'format', "bodyFormat: 'form'"],
    [
      'no grant_type',
      status(400, { error: 'invalid_request', error_description: 'Missing form parameter: grant_type' }),
      'format',
      "bodyFormat: 'form'",
    ],
    ['WWW-Authenticate: Basic', asksForBasic, 'basic', "tokenEndpointAuthMethod: 'client_secret_basic'"],
    [
      'invalid_client',
      status(401, { error: 'invalid_client' }),
      'client',
      "tokenEndpointAuthMethod: 'client_secret_basic'",
    ],
    ['an unknown audience', status(400, { error: 'invalid_target' }), 'audience', 'leave it out'],
  ])('names the option that helps: %s', async (_, answer, kind, named) => {
    const { message } = await failed(rig([answer]))
    expect(kindsIn(message)).toEqual([kind])
    expect(message).toContain(named)
  })

  it('names no option that is set already', async () => {
    expect(kindsIn((await failed(rig([asksForBasic], BASIC as object))).message)).toEqual(['client'])
    const { message } = await failed(rig([status(400)], { ...BASIC, bodyFormat: 'form' } as object))
    expect(message).toContain("bodyFormat: 'json', or tokenEndpointAuthMethod: 'client_secret_post'")
  })
})

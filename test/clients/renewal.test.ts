// The renewal after a 401: the scenarios of all clients, and every spelling of a challenge (RFC 6750 §3, RFC 9110 §11.6.1).
import { type AccessToken, createAuthFetch } from 'merchant-auth'
import { request } from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { conform } from './conform.ts'
import { RENEWAL } from './scenarios/renewal.ts'
import { agentWith, createAuthDispatch } from './undici-calls.ts'

conform(RENEWAL)

const URL_CALLED = 'https://api.test.example/merchant/x'
const ONCE = ['Bearer first.token']
const TWICE = ['Bearer first.token', 'Bearer second.token']

/** A fetch call that gets a 401 with this challenge; what it sent, and its calls of `renewToken`. */
async function rejected(challenge: string, renewed: AccessToken | undefined = token('second.token')) {
  const sent: (string | null)[] = []
  const renew = vi.fn(async () => renewed)
  const fetch: typeof globalThis.fetch = async (_, init) => {
    sent.push(new Headers(init?.headers).get('authorization'))
    return new Response('no', { status: 401, headers: { 'www-authenticate': challenge } })
  }
  const tokens = provided({ current: token('first.token'), renew })
  const { status } = await createAuthFetch(tokens, { fetch })(URL_CALLED)
  expect(status).toBe(401)
  return { sent, renew }
}

describe('a 401', () => {
  it('passes the token and the URL of the call to renewToken', async () => {
    const { renew, sent } = await rejected('')
    const carried = expect.objectContaining({ value: 'first.token' })
    expect(renew.mock.calls).toEqual([[carried, { signal: undefined, url: URL_CALLED }]])
    expect(sent).toEqual(TWICE)
  })

  it.each<[string, () => never]>([
    [
      'throws',
      () => {
        throw new Error('no renewal')
      },
    ],
    ['returns nothing', () => undefined as never],
  ])('is returned to the caller if renewToken of a custom provider %s', async (_, renew) => {
    await using server = await scripted((_, response) => void response.writeHead(401).end('no'))
    const tokens = provided({ current: token('first.token'), apiUrls: [server.url], renew })
    expect((await createAuthFetch(tokens)(server.url)).status).toBe(401)
    const dispatcher = agentWith(createAuthDispatch(tokens))
    expect((await request(server.url, { dispatcher })).statusCode).toBe(401)
    expect(server.seen).toHaveLength(2)
  })

  it('is returned to the caller if the renewal returns the rejected token', async () => {
    expect((await rejected('', token('first.token'))).sent).toEqual(ONCE)
  })

  it.each([
    'Bearer error="insufficient_scope"',
    'Bearer error="insufficient\\_scope"',
    'Bearer error=insufficient_scope',
    'Bearer ERROR="Insufficient_Scope"',
    'BEARER REALM="MERCHANT", ERROR="insufficient_scope"',
    'Bearer error  =  "insufficient_scope"',
    'Bearer error\t=\tinsufficient_scope',
    'Bearer scope="a b",error="insufficient_scope"',
    'Bearer realm="merchant", error="insufficient_scope", scope="refunds orders"',
    'Bearer realm="say \\"error\\", please", error="insufficient_scope"',
    'Bearer realm="\\\\",error=insufficient_scope,scope="a"',
    'Bearer realm="", error="insufficient_scope"',
    'Bearer realm=x.y~z, error="insufficient_scope"',
    'Basic realm="a", Bearer error="insufficient_scope"',
    'Bearer error="insufficient_scope", Basic realm="merchant"',
    'Bearer realm="a";error="insufficient_scope"',
    'error="insufficient_scope"',
    'Bearer error="invalid_token", error="insufficient_scope"',
  ])('with insufficient_scope does not renew the token: %s', async (challenge) => {
    expect((await rejected(challenge)).sent).toEqual(ONCE)
  })

  it.each([
    'Bearer',
    'insufficient_scope',
    'Bearer error',
    'Bearer error=""',
    'Bearer error="invalid_token"',
    'Bearer error="invalid_token", error_description="This is no insufficient_scope"',
    'Bearer error="insufficient_scope_x"',
    'Bearer error="x insufficient_scope"',
    'Bearer error=insufficient_scopes',
    'Bearer error="insufficient',
    'Bearer x-error="insufficient_scope"',
    'Bearer error-x="insufficient_scope"',
    'Bearer an.error=insufficient_scope',
    'Bearer scope="insufficient_scope"',
    'Basic realm="insufficient_scope"',
    'Bearer realm="error=insufficient_scope"',
    'Bearer realm="a, error=insufficient_scope"',
    'Bearer realm=" error=insufficient_scope "',
    'Bearer realm="\\", error=insufficient_scope"',
    'Bearer realm="say \\" error=insufficient_scope, please"',
    'Bearer realm=";error=insufficient_scope"',
  ])('with any other challenge renews the token: %s', async (challenge) => {
    expect((await rejected(challenge)).sent).toEqual(TWICE)
  })
})

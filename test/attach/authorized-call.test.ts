// The policy that all clients share, on a fetch that is scripted: when a call is sent once more, and with which token (contract 5.5, 5.6).
import { type AccessToken, createAuthFetch } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { provided, token } from './provided.ts'

const URL_CALLED = 'https://api.test.example/merchant/x'

/** A call that is refused with this answer; what was sent, and what it was asked for. */
async function refused(
  answer: () => Response,
  renewed: AccessToken | undefined = token('second.token'),
  init?: RequestInit,
  renewOnStatus?: readonly number[],
) {
  const sent: (string | null)[] = []
  const renew = vi.fn(async () => renewed)
  const fetch: typeof globalThis.fetch = async (_, given) => {
    sent.push(new Headers(given?.headers).get('authorization'))
    return answer()
  }
  const tokens = provided({ current: token('first.token'), renew })
  const { status } = await createAuthFetch(tokens, { fetch, renewOnStatus })(URL_CALLED, init)
  return { status, sent, renew }
}

const with401 =
  (headers: Record<string, string> = {}) =>
  () =>
    new Response('no', { status: 401, headers })
const ONCE = ['Bearer first.token']
const TWICE = ['Bearer first.token', 'Bearer second.token']

describe('a 401', () => {
  it('is told to the provider with the token that the call carried, and its URL', async () => {
    const { renew, sent, status } = await refused(with401())
    expect(renew.mock.calls).toEqual([
      [expect.objectContaining({ value: 'first.token' }), { signal: undefined, url: URL_CALLED }],
    ])
    expect([sent, status]).toEqual([TWICE, 401])
  })

  it('is the caller’s where there is no other token', async () => {
    const tokens = provided({ current: token('first.token'), renew: async () => undefined })
    const fetch = vi.fn(async () => with401()())
    expect((await createAuthFetch(tokens, { fetch })(URL_CALLED)).status).toBe(401)
    expect(fetch).toHaveBeenCalledTimes(1)
  })

  it('is the caller’s where the renewal yields the very token that was refused', async () => {
    expect((await refused(with401(), token('first.token'))).sent).toEqual(ONCE)
  })

  it('renews for the calls to come, though this one cannot be sent again', async () => {
    const body = new Blob(['once']).stream()
    const { sent, renew } = await refused(with401(), undefined, { method: 'POST', body, duplex: 'half' })
    expect(sent).toEqual(ONCE)
    expect(renew).toHaveBeenCalledTimes(1)
  })

  it.each<[number[] | undefined, number, string[]]>([
    [undefined, 401, TWICE],
    [undefined, 200, ONCE],
    [undefined, 403, ONCE],
    [[], 401, ONCE],
    [[419], 401, ONCE],
    [[401, 419], 419, TWICE],
  ])('is what renewOnStatus says, %o: %i', async (renewOnStatus, status, expected) => {
    const { sent } = await refused(() => new Response('', { status }), undefined, undefined, renewOnStatus)
    expect(sent).toEqual(expected)
  })
})

describe('a challenge', () => {
  it.each([
    'Bearer error="insufficient_scope"',
    'Bearer error="insufficient\\_scope"',
    'Bearer error=insufficient_scope',
    'Bearer ERROR="Insufficient_Scope"',
    'Bearer error  =  "insufficient_scope"',
    'Bearer error\t=\tinsufficient_scope',
    'Bearer scope="a b",error="insufficient_scope"',
    'Bearer realm="say \\"error\\", please", error="insufficient_scope"',
    'Bearer realm="\\\\",error=insufficient_scope,scope="a"',
    'Bearer realm="", error="insufficient_scope"',
    'Bearer realm=x.y~z, error="insufficient_scope"',
    'Basic realm="a", Bearer error="insufficient_scope"',
    'Bearer realm="a";error="insufficient_scope"',
    'error="insufficient_scope"',
    'Bearer error="invalid_token", error="insufficient_scope"',
  ])('that says insufficient_scope renews nothing: %s', async (challenge) => {
    expect((await refused(with401({ 'www-authenticate': challenge }))).sent).toEqual(ONCE)
  })

  it.each([
    'Bearer',
    'insufficient_scope',
    'Bearer error',
    'Bearer error=""',
    'Bearer error="invalid_token"',
    'Bearer error="insufficient_scope_x"',
    'Bearer error="x insufficient_scope"',
    'Bearer error=insufficient_scopes',
    'Bearer error="insufficient',
    'Bearer x-error="insufficient_scope"',
    'Bearer error-x="insufficient_scope"',
    'Bearer an.error=insufficient_scope',
    'Bearer scope="insufficient_scope"',
    'Bearer realm="error=insufficient_scope"',
    'Bearer realm="a, error=insufficient_scope"',
    'Bearer realm=" error=insufficient_scope "',
    'Bearer realm="\\", error=insufficient_scope"',
    'Bearer realm="say \\" error=insufficient_scope, please"',
    'Bearer realm=";error=insufficient_scope"',
  ])('that says anything else renews the token: %s', async (challenge) => {
    expect((await refused(with401({ 'www-authenticate': challenge }))).sent).toEqual(TWICE)
  })
})

// Which calls of every client carry the token, and which responses of an API renew it.
import { createAuthFetch, ProviderClosedError, TokenRequestError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { FIRST_DOUBT } from '../../../src/token/limits/renewals.ts'
import { apiAt, rejectionOf, scripted, until, useGround } from '../../support/ground.ts'
import { provided, token } from '../../support/provided.ts'
import { CLIENTS } from '../conform.ts'
import { blockedFetch } from '../world.ts'

const ground = useGround()
const reject401 = () => ground.env.fail('merchant', { kind: 'status', status: 401 })
const sentStatuses = () => ground.sent().map(({ status }) => status)
const withheld = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [[event.reason, event.url]] : []))

describe.each(CLIENTS)('$name', ({ create }) => {
  it('sends concurrent calls below each of the apiUrls with one token', async () => {
    const send = create(ground.tokens)
    const urls = [`${ground.env.merchantUrl}/orders?a=1`, `${ground.env.inStoreUrl}/sales`]
    const calls = Array.from({ length: 20 }, (_, nth) => send({ url: urls[nth % 2] ?? '' }))
    for (const { status, text } of await Promise.all(calls)) {
      const { headers, jti } = JSON.parse(text)
      expect([status, headers.authorization]).toEqual([200, `Bearer [token ${jti}]`])
    }
    expect(ground.env.counts.token).toBe(1)
  })

  it('sends the token in a custom header without a scheme, and leaves the caller’s Authorization', async () => {
    const custom = { header: 'X-Access-Token', scheme: '' }
    ground.env.configure(custom)
    reject401()
    const send = create(ground.tokens, custom)
    await send({ url: ground.env.merchantUrl, headers: { Authorization: 'Basic abc' } })
    expect(sentStatuses()).toEqual([401, 200])
    for (const { headers } of ground.sent()) {
      expect(headers['x-access-token']).toMatch(/^\[token .+\]$/)
      expect(headers['authorization']).toBe('[hidden]') // the sandbox hides the caller's own
    }
  })

  it.each(['Authorization', 'aUTHORIZATION'])(
    'leaves a header %s that the caller set, and does not renew',
    async (name) => {
      await using api = await scripted((_, response) => void response.writeHead(401).end())
      const tokens = ground.provider({ environment: apiAt(ground.env, api.url) })
      const { status } = await create(tokens)({ url: api.url, headers: { [name]: 'Own one' } })
      expect([status, ground.env.counts.token]).toEqual([401, 0])
      expect(api.seen.map(({ headers }) => headers.authorization)).toEqual(['Own one'])
      expect(withheld()).toEqual([['own-header', `${api.url}/`]])
    },
  )

  it('sends no token to another origin, and a 401 from there renews nothing', async () => {
    await using other = await scripted((_, response) => void response.writeHead(401).end())
    const { status } = await create(ground.tokens)({ url: `${other.url}/merchant?secret=1` })
    expect([status, ground.env.counts.token]).toEqual([401, 0])
    expect(other.seen.map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ['/merchant?secret=1', undefined],
    ])
    expect(withheld()).toEqual([['destination', `${other.url}/merchant`]])
  })

  it('rejects with the error of the token request, and sends nothing', async () => {
    ground.env.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_client' } })
    const error = await rejectionOf(create(ground.tokens)({ url: ground.env.merchantUrl }))
    expect(error).toBeInstanceOf(TokenRequestError)
    expect(error).toMatchObject({ status: 400, error: 'invalid_client' })
    expect(ground.sent()).toEqual([])
  })

  it('rejects if the provider is closed while the call waits for its first token', async () => {
    const blocked = blockedFetch()
    const tokens = ground.provider({ fetch: blocked.fetch })
    const error = rejectionOf(create(tokens)({ url: ground.env.merchantUrl }))
    await until(() => blocked.count() === 1)
    await tokens.close()
    blocked.release()
    expect(await error).toBeInstanceOf(ProviderClosedError)
    expect(ground.sent()).toEqual([])
  })

  it('renews the token after a 401, and sends the call again', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    expect((await create(ground.tokens)({ url: ground.env.merchantUrl })).status).toBe(200)
    expect(sentStatuses()).toEqual([401, 200])
    expect(ground.env.counts.token).toBe(2)
  })

  it.each([403, 500])('does not renew the token after a %i', async (status) => {
    ground.env.fail('merchant', { kind: 'status', status })
    expect((await create(ground.tokens)({ url: ground.env.merchantUrl })).status).toBe(status)
    expect([sentStatuses(), ground.env.counts.token]).toEqual([[status], 1])
  })

  it('renews the token after a 419 if renewOnStatus contains it', async () => {
    ground.env.fail('merchant', { kind: 'status', status: 419 })
    const send = create(ground.tokens, { renewOnStatus: [401, 419] })
    expect((await send({ url: ground.env.merchantUrl })).status).toBe(200)
    expect(sentStatuses()).toEqual([419, 200])
  })

  it('does not renew the token after a 401 if renewOnStatus is empty', async () => {
    reject401()
    const send = create(ground.tokens, { renewOnStatus: [] })
    expect((await send({ url: ground.env.merchantUrl })).status).toBe(401)
    expect([sentStatuses(), ground.env.counts.token]).toEqual([[401], 1])
  })

  it('does not renew the token after a 401 whose second challenge says insufficient_scope', async () => {
    const challenges = ['Basic realm="merchant"', 'Bearer error="insufficient_scope"']
    await using api = await scripted((_, response) =>
      response.writeHead(401, { 'www-authenticate': challenges }).end(),
    )
    const tokens = ground.provider({ environment: apiAt(ground.env, api.url) })
    expect((await create(tokens)({ url: api.url })).status).toBe(401)
    expect([api.seen.length, ground.env.counts.token]).toEqual([1, 1])
  })

  it('renews the token once for 50 concurrent calls that get a 401 from two APIs', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    const send = create(ground.tokens)
    const urls = [ground.env.merchantUrl, ground.env.inStoreUrl]
    const calls = Array.from({ length: 50 }, (_, nth) => send({ url: urls[nth % 2] ?? '' }))
    expect(new Set((await Promise.all(calls)).map(({ status }) => status))).toEqual(new Set([200]))
    expect(ground.env.counts.token).toBe(2)
  })

  it('limits the renewals for an API that rejects every token, and for no other API', async () => {
    ground.env.configure({ rejectAllTokens: ['merchant'] })
    const send = create(ground.tokens)
    const calls = 1 + FIRST_DOUBT
    for (let nth = 0; nth < calls; nth += 1) {
      const { status, text } = await send({ url: ground.env.merchantUrl })
      expect([status, JSON.parse(text)]).toEqual([401, { error: 'invalid_token' }])
    }
    // Each call is sent twice: the first one with a new token, the others with that and with the one before.
    expect([sentStatuses(), ground.env.counts.token]).toEqual([Array(2 * calls).fill(401), 2])
    const suppressed = {
      type: 'renewal-suppressed',
      reason: 'limited',
      api: 'merchant',
      method: 'GET',
      url: ground.env.merchantUrl,
    }
    expect(ground.events.filter(({ type }) => type === suppressed.type)).toMatchObject(
      Array(FIRST_DOUBT).fill(suppressed),
    )
    ground.env.fail('in-store', { kind: 'status', status: 401 }, { times: 2 })
    expect((await send({ url: ground.env.inStoreUrl })).status).toBe(200)
    expect(ground.env.counts.token).toBe(3)
  })

  it('returns the API’s 401 if the renewal fails', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    ground.env.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_request' } })
    const { status, text } = await create(ground.tokens)({ url: ground.env.merchantUrl })
    expect([status, JSON.parse(text)]).toEqual([401, { error: 'invalid_token' }])
    expect(sentStatuses()).toEqual([401])
  })

  it('returns the API’s 401 if the provider is closed during the renewal', async () => {
    const blocked = blockedFetch(2)
    const tokens = ground.provider({ fetch: blocked.fetch })
    reject401()
    const answer = create(tokens)({ url: ground.env.merchantUrl })
    await until(() => blocked.count() === 2)
    await tokens.close()
    blocked.release()
    expect((await answer).status).toBe(401)
  })

  it('sends a call again at once if its token was renewed before its 401 arrived', async () => {
    await using api = await scripted(async ({ headers }, response) => {
      if (headers.authorization === `Bearer ${rejected.value}`) {
        await tokens.renewToken(rejected)
        response.statusCode = 401
      }
      response.end()
    })
    const tokens = ground.provider({ environment: apiAt(ground.env, api.url) })
    const rejected = await tokens.getToken()
    expect((await create(tokens)({ url: api.url })).status).toBe(200)
    expect([api.seen.length, ground.env.counts.token]).toEqual([2, 2])
  })

  it('does not hold up a call without a 401 while another one waits for the renewal', async () => {
    const blocked = blockedFetch(2)
    const tokens = ground.provider({ fetch: blocked.fetch })
    const send = create(tokens)
    reject401()
    const rejected = send({ url: ground.env.merchantUrl })
    await until(() => blocked.count() === 2)
    expect((await send({ url: ground.env.merchantUrl })).status).toBe(200)
    blocked.release()
    expect((await rejected).status).toBe(200)
  })
})

describe('a challenge (RFC 6750 §3, RFC 9110 §11.6.1)', () => {
  const URL_CALLED = 'https://api.test.example/merchant/x'
  const renew = vi.fn(async () => undefined)

  /** Makes a call that gets a 401 with this challenge. Resolves with the calls of `renewToken`. */
  async function renewals(challenge: string) {
    renew.mockClear()
    const fetch = async () => new Response('no', { status: 401, headers: { 'www-authenticate': challenge } })
    await createAuthFetch(provided({ current: token('first.token'), renew }), { fetch })(URL_CALLED)
    return renew.mock.calls
  }

  it('without insufficient_scope renews the token that was sent, for the URL that was called', async () => {
    const carried = expect.objectContaining({ value: 'first.token' })
    expect(await renewals('Bearer')).toEqual([
      [carried, { signal: undefined, url: URL_CALLED, method: 'GET' }],
    ])
  })

  it.each([
    'Bearer error="insufficient_scope"',
    'Bearer error="insufficient\\_scope"',
    'Bearer error=insufficient_scope',
    'BEARER REALM="MERCHANT", ERROR="Insufficient_Scope"',
    'Bearer error\t=  "insufficient_scope"',
    'Bearer scope="a b",error="insufficient_scope"',
    'Bearer realm="say \\"error\\", please", error="insufficient_scope"',
    'Bearer realm="\\\\",error=insufficient_scope,scope="a"',
    'Basic realm="a", Bearer error="insufficient_scope"',
    'Bearer error="insufficient_scope", Basic realm="merchant"',
    'Bearer error="invalid_token", error="insufficient_scope"',
  ])('with insufficient_scope renews nothing: %s', async (challenge) => {
    expect(await renewals(challenge)).toEqual([])
  })

  it.each([
    'insufficient_scope',
    'Bearer error=""',
    'Bearer error="invalid_token", error_description="This is no insufficient_scope"',
    'Bearer error="insufficient_scope_x"',
    'Bearer error=insufficient_scope_x',
    'Bearer error="insufficient',
    'Bearer x-error="insufficient_scope"',
    'Bearer scope="insufficient_scope"',
    'Bearer realm="error=insufficient_scope"',
    'Bearer realm="a, error=insufficient_scope"',
    'Bearer realm="error=insufficient_scope, a"',
    'Bearer realm="\\", error=insufficient_scope"',
  ])('with that text in another place renews the token: %s', async (challenge) => {
    expect(await renewals(challenge)).toHaveLength(1)
  })
})

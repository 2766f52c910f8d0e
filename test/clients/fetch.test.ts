// What createAuthFetch takes and gives (contract 5.1, 5.3, 5.8).
import { ConfigurationError, createAuthFetch, TokenRequestError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { type HeadersGiven, rejectionOf, scripted, until, useGround } from '../support/ground.ts'

const ground = useGround()
const withheld = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))
const url = (path = '/orders') => ground.env.merchantUrl + path

describe('a fetch with the token', () => {
  it.each<[string, () => string | URL | Request]>([
    ['a string', () => url()],
    ['a URL', () => new URL(url())],
    ['a Request', () => new Request(url(), { headers: { 'x-mine': '1' } })],
  ])(
    'takes %s',
    async (name, input) => {
      const answer = await createAuthFetch(ground.tokens)(
        input(),
        name === 'a Request' ? {} : { headers: { 'x-mine': '1' } },
      )
      expect(answer).toBeInstanceOf(Response)
      expect(await answer.json()).toMatchObject({
        headers: { authorization: expect.stringMatching(/^Bearer \[token /), 'x-mine': '1' },
        path: '/merchant/orders',
      })
    },
    5_000,
  )

  it.each<[string, HeadersGiven]>([
    ['a record', { 'X-Mine': '1' }],
    [
      'an array',
      [
        ['X-Mine', '1'],
        ['X-Mine', '2'],
      ],
    ],
    ['Headers', new Headers({ 'X-Mine': '1' })],
  ])('leaves headers given as %s as they are', async (_, headers) => {
    const before = JSON.stringify([...new Headers(headers)])
    const init: RequestInit = Object.freeze({ headers, method: 'PUT', body: 'x' })
    const request = new Request(url(), init)
    const authFetch = createAuthFetch(ground.tokens)
    expect((await authFetch(url(), init)).status).toBe(200)
    expect((await authFetch(request)).status).toBe(200)
    expect((await authFetch(new Request(url()), { headers })).status).toBe(200)
    expect(JSON.stringify([...new Headers(headers)])).toBe(before)
    expect(request.headers.has('authorization')).toBe(false)
    expect(ground.sent().every(({ headers: sent }) => sent['x-mine']?.startsWith('1'))).toBe(true)
  })

  it.each<[string, HeadersGiven]>([
    ['a record', { aUTHORIZATION: 'Own one' }],
    ['an array', [['authorization', 'Own one']]],
    ['Headers', new Headers({ Authorization: 'Own one' })],
  ])('leaves a header of the caller, given as %s, and does not renew', async (_, headers) => {
    const authFetch = createAuthFetch(ground.tokens)
    expect((await authFetch(url(), { headers })).status).toBe(401)
    expect((await authFetch(new Request(url(), { headers }))).status).toBe(401)
    expect(withheld()).toEqual(['own-header', 'own-header'])
    expect(ground.env.counts.token).toBe(0)
  })

  it("takes the token where init.headers replace a Request's own", async () => {
    const request = new Request(url(), { headers: { Authorization: 'Own one' } })
    const answer = await createAuthFetch(ground.tokens)(request, { headers: { a: 'b' } })
    expect(answer.status).toBe(200)
  })

  it('passes all other places on, untouched', async () => {
    await using other = await scripted((_, response) => void response.writeHead(401).end())
    const wrapped = vi.fn<typeof fetch>(fetch)
    const init = { headers: { a: 'b' } }
    const input = new URL(other.url)
    expect((await createAuthFetch(ground.tokens, { fetch: wrapped })(input, init)).status).toBe(401)
    expect(wrapped.mock.calls).toEqual([[input, init]])
    expect(wrapped.mock.calls[0]?.[1]).toBe(init)
    expect(other.seen[0]?.headers.authorization).toBeUndefined()
    expect(withheld()).toEqual(['destination'])
  })

  it('withholds it where the URL has user info', async () => {
    const wrapped = vi.fn<typeof fetch>(async () => new Response())
    await createAuthFetch(ground.tokens, { fetch: wrapped })(url().replace('//', '//u:p@'))
    expect(withheld()).toEqual(['own-credentials'])
  })

  it('sends it bare in a header of another name', async () => {
    ground.env.configure({ header: 'X-Custom', scheme: '' })
    const authFetch = createAuthFetch(ground.tokens, { header: 'X-Custom', scheme: '' })
    const answer = await authFetch(url(), { headers: { authorization: 'Basic x' } })
    expect(await answer.json()).toMatchObject({ headers: { 'x-custom': expect.stringMatching(/^\[token /) } })
  })

  it('judges and sends what a URL object was at the time of the call', async () => {
    await using other = await scripted((_, response) => void response.end())
    const input = new URL(url('/first'))
    const call = createAuthFetch(ground.tokens)(input)
    input.href = `${other.url}/second`
    expect(await (await call).json()).toMatchObject({ path: '/merchant/first' })
    expect(other.seen).toEqual([])
  })

  it('looks globalThis.fetch up at each call', async () => {
    const authFetch = createAuthFetch(ground.tokens)
    await ground.tokens.getToken()
    const spy = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('mocked'))
    try {
      expect(await (await authFetch(url())).text()).toBe('mocked')
    } finally {
      spy.mockRestore()
    }
    expect((await authFetch(url())).status).toBe(200)
  })

  it('rejects, and never throws', async () => {
    const wrapped = vi.fn<typeof fetch>(() => {
      throw new TypeError('synchronous')
    })
    const authFetch = createAuthFetch(ground.tokens, { fetch: wrapped })
    await expect(authFetch('https://elsewhere.example')).rejects.toThrow('synchronous')
    await ground.tokens.getToken()
    await expect(authFetch(url())).rejects.toThrow('synchronous')
    await expect(
      authFetch({
        toString: () => {
          throw new Error('odd')
        },
      } as never),
    ).rejects.toThrow('odd')
    await expect(createAuthFetch(ground.tokens)('not a url')).rejects.toThrow(TypeError)
    await expect(createAuthFetch(ground.tokens)(undefined as never)).rejects.toThrow(TypeError)
  })

  it('rejects as getToken does where no token can be had', async () => {
    ground.env.fail('token', { kind: 'status', status: 400 })
    await expect(createAuthFetch(ground.tokens)(url())).rejects.toBeInstanceOf(TokenRequestError)
  })

  it('is refused with wrong options', () => {
    expect(() => createAuthFetch(ground.tokens, { scheme: 'a b' })).toThrow(ConfigurationError)
    expect(() => createAuthFetch(undefined as never)).toThrow(ConfigurationError)
  })

  it.each<[string, () => unknown, string[]]>([
    [
      'a fetch that is not a function',
      () => createAuthFetch(ground.tokens, { fetch: 'no' as never }),
      ['fetch'],
    ],
    ['null for its options', () => createAuthFetch(ground.tokens, null as never), ['options']],
    ['a text for its options', () => createAuthFetch(ground.tokens, 'X-Token' as never), ['options']],
    [
      'all of it wrong',
      () => createAuthFetch({} as never, { fetch: 1, header: '', other: 1 } as never),
      ['tokens', 'header', 'fetch', 'other'],
    ],
  ])('is refused with every problem: %s', (_, make, options) => {
    try {
      make()
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigurationError)
      expect((error as ConfigurationError).problems.map(({ option }) => option)).toEqual(options)
    }
  })
})

describe('its signal', () => {
  it('ends the wait for a token at once, with its reason, and nobody else’s', async () => {
    ground.env.configure({ tokenLatencyMs: 200 })
    const authFetch = createAuthFetch(ground.tokens)
    const abort = new AbortController()
    const other = authFetch(url('/other'))
    const mine = rejectionOf(authFetch(url('/mine'), { signal: abort.signal }))
    const asRequest = rejectionOf(authFetch(new Request(url('/mine'), { signal: abort.signal })))
    await until(() => ground.env.counts.token === 1)
    const reason = { why: 'enough' }
    abort.abort(reason)
    expect(await mine).toBe(reason)
    expect(await asRequest).toBe(reason)
    expect((await other).status).toBe(200)
    expect(ground.sent().map(({ path }) => path)).toEqual(['/merchant/other'])
  })

  it('may be a time-out, or aborted before', async () => {
    ground.env.fail('token', { kind: 'hang' })
    const authFetch = createAuthFetch(ground.tokens)
    const late = await rejectionOf(authFetch(url(), { signal: AbortSignal.timeout(20) }))
    expect(late).toMatchObject({ name: 'TimeoutError' })
    expect(await rejectionOf(authFetch(url(), { signal: AbortSignal.abort() }))).toMatchObject({
      name: 'AbortError',
    })
  })

  it.each([[null], ['text'], [{ status: 401 }]])(
    'may have any reason, during the call too: %o',
    async (reason) => {
      ground.env.fail('merchant', { kind: 'hang' })
      const abort = new AbortController()
      const call = rejectionOf(createAuthFetch(ground.tokens)(url(), { signal: abort.signal }))
      await until(() => ground.sent().length === 1)
      abort.abort(reason)
      expect(await call).toBe(reason)
      expect(ground.env.counts.token).toBe(1)
    },
  )

  it('null in init takes that of a Request away', async () => {
    const request = new Request(url(), { signal: AbortSignal.abort() })
    expect((await createAuthFetch(ground.tokens)(request, { signal: null })).status).toBe(200)
  })

  it('ends the wait for a renewal, and the call itself', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    ground.env.fail('token', { kind: 'hang' })
    const abort = new AbortController()
    const call = rejectionOf(createAuthFetch(ground.tokens)(url(), { signal: abort.signal }))
    await until(() => ground.env.counts.token === 2)
    abort.abort()
    expect(await call).toMatchObject({ name: 'AbortError' })
    expect(ground.sent().length).toBe(1)
  })
})

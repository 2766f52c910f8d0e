// What createAuthFetch takes, what the wrapped fetch gets and gives, and when.
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { rejectionOf, useGround } from '../support/ground.ts'
import { problemsOf } from '../support/problems.ts'
import { provided, token } from '../support/provided.ts'

type HeadersGiven = NonNullable<RequestInit['headers']>

const URL_CALLED = 'https://api.test.example/merchant/x'
const TOKENS = provided({ current: token('current.token') })
const AUTHORIZATION = 'Bearer current.token'

/** A fetch that answers with these in turn, and then with 200. */
function answering(...answers: unknown[]) {
  let at = 0
  return vi.fn<typeof fetch>(async () => {
    at += 1
    return (answers[at - 1] ?? new Response('fine')) as Response
  })
}

async function given(
  input: string | URL | Request,
  init?: RequestInit,
  attach: Parameters<typeof createAuthFetch>[1] = {},
): Promise<{ input: unknown; init: RequestInit }> {
  const wrapped = answering()
  await createAuthFetch(TOKENS, { ...attach, fetch: wrapped })(input, init)
  const [target, final = {}] = wrapped.mock.calls[0] ?? []
  return { input: target, init: final }
}

describe('the fetch that is wrapped', () => {
  it.each([URL_CALLED, 'https://elsewhere.example/x'])(
    'gets headers that were an iterator, and members that Node’s fetch does not know: %s',
    async (url) => {
      const headers = new Headers({ 'X-Mine': '1' }).entries() as unknown as HeadersGiven
      const { init } = await given(url, { headers, next: { revalidate: 60 } } as RequestInit)
      expect(new Headers(init.headers).get('X-Mine')).toBe('1')
      expect(init).toMatchObject({ next: { revalidate: 60 } })
    },
  )

  it('is called at once where there is a token: no promise, no wait', async () => {
    const wrapped = answering()
    const getToken = vi.spyOn(TOKENS, 'getToken')
    const call = createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED)
    expect(wrapped).toHaveBeenCalledTimes(1)
    await call
    expect(getToken).not.toHaveBeenCalled()
    getToken.mockRestore()
  })

  it('gets nothing that the caller did not give, but the token', async () => {
    const headers = { Authorization: AUTHORIZATION }
    expect(await given(URL_CALLED)).toStrictEqual({ input: URL_CALLED, init: { headers } })
    const byUrl = await given(new URL(URL_CALLED), { method: 'PUT' })
    expect(byUrl).toStrictEqual({ input: URL_CALLED, init: { method: 'PUT', headers } })
    const request = new Request(URL_CALLED, { headers: { 'x-mine': '1' } })
    const { input, init } = await given(request)
    expect(input).toBe(request)
    expect(Object.keys(init)).toEqual(['headers'])
    expect(request.headers.has('authorization')).toBe(false)
  })

  it.each<[string, HeadersGiven]>([
    ['a record', { 'X-Mine': '1', aUTHORIZATION: 'Own one', Accept: 'a/b' }],
    ['an array', [['X-Mine', '1'], ['aUTHORIZATION', 'Own one']]], // biome-ignore format: one line for each
    ['Headers', new Headers({ 'X-Mine': '1', aUTHORIZATION: 'Own one' })],
    ['an iterable', new Map([['aUTHORIZATION', 'Own one']]) as never],
    ['pairs that are no arrays', [new Set(['aUTHORIZATION', 'Own one'])] as never],
  ])('gets the very same, where a header of the caller’s is among those of %s', async (_, headers) => {
    const init: RequestInit = { headers }
    expect((await given(URL_CALLED, init)).init).toBe(init)
    const request = new Request(URL_CALLED, { headers })
    expect(await given(request)).toEqual({ input: request, init: {} })
    // Headers of init replace those of a Request.
    const replaced = await given(request, { headers: { a: 'b' } })
    expect(replaced.init.headers).toEqual({ a: 'b', Authorization: AUTHORIZATION })
  })

  it('gets calls to other places as they are', async () => {
    const wrapped = answering({ status: 401 })
    const [input, init] = [new URL('https://elsewhere.example/x'), { headers: { a: 'b' } }]
    expect((await createAuthFetch(TOKENS, { fetch: wrapped })(input, init)).status).toBe(401)
    expect(wrapped.mock.calls).toEqual([[input, init]])
    expect(wrapped.mock.calls[0]?.[1]).toBe(init)
  })

  it('is asked not to follow redirects where the header is another one than Authorization', async () => {
    const custom = { header: 'X-Access', scheme: '' }
    const erring = new Request(URL_CALLED, { redirect: 'error' })
    const redirectOf = async (...args: Parameters<typeof given>) => (await given(...args)).init.redirect
    expect(await redirectOf(URL_CALLED, { redirect: 'follow' }, custom)).toBe('manual')
    expect(await redirectOf(URL_CALLED, undefined, custom)).toBe('manual')
    expect(await redirectOf(new Request(URL_CALLED), undefined, custom)).toBe('manual')
    expect(await redirectOf(URL_CALLED, { redirect: 'error' }, custom)).toBe('error')
    expect(await redirectOf(erring, undefined, custom)).toBeUndefined()
    expect(await redirectOf(erring, { redirect: 'follow' }, custom)).toBe('manual')
    expect(await redirectOf(URL_CALLED, { redirect: 'manual' })).toBe('manual')
    expect(await redirectOf(URL_CALLED, { redirect: 'follow' })).toBe('follow')
    expect(await redirectOf(URL_CALLED)).toBeUndefined()
  })

  it('gets a body itself where none is sent again', async () => {
    const body = Buffer.from('a body')
    const attach = { renewOnStatus: [] }
    expect((await given(URL_CALLED, { method: 'POST', body }, attach)).init.body).toBe(body)
    expect((await given(URL_CALLED, { body: null })).init).toHaveProperty('body', null)
    const request = new Request(URL_CALLED, { method: 'POST', body: 'x' })
    const clone = vi.spyOn(request, 'clone')
    await given(request, undefined, attach)
    expect(clone).not.toHaveBeenCalled()
  })

  it('may be a mock whose answers have no headers and no body', async () => {
    const answer = { status: 200 }
    const wrapped = answering({ status: 401 }, answer)
    expect(await createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED, { body: null })).toBe(answer)
    expect(wrapped.mock.calls.map(([, init]) => init?.headers)).toEqual([
      { Authorization: AUTHORIZATION },
      { Authorization: 'Bearer second.token' },
    ])
  })

  it('may answer a HEAD with a 401 that has a length and no body', async () => {
    const rejected = new Response(null, { status: 401, headers: { 'content-length': '100000' } })
    const authFetch = createAuthFetch(TOKENS, { fetch: answering(rejected) })
    expect((await authFetch(URL_CALLED, { method: 'HEAD' })).status).toBe(200)
  })

  it('gets a Request that is used up once, even where it takes it', async () => {
    const request = new Request(URL_CALLED, { method: 'POST', body: 'once' })
    await request.text()
    const wrapped = answering({ status: 401 })
    expect(await createAuthFetch(TOKENS, { fetch: wrapped })(request)).toEqual({ status: 401 })
    expect(wrapped).toHaveBeenCalledTimes(1)
  })

  it('is looked up on globalThis at each call', async () => {
    const spy = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('mocked'))
    const authFetch = createAuthFetch(TOKENS)
    try {
      expect(await (await authFetch(URL_CALLED)).text()).toBe('mocked')
      spy.mockResolvedValue(new Response('again'))
      expect(await (await authFetch(URL_CALLED)).text()).toBe('again')
    } finally {
      spy.mockRestore()
    }
  })
})

describe('a fetch with the token', () => {
  const ground = useGround()

  it('rejects, and never throws', async () => {
    const wrapped = vi.fn<typeof fetch>(() => {
      throw new TypeError('synchronous')
    })
    for (const url of ['https://elsewhere.example', URL_CALLED])
      await expect(createAuthFetch(TOKENS, { fetch: wrapped })(url)).rejects.toThrow('synchronous')
    const odd = {
      toString: () => {
        throw new Error('odd')
      },
    }
    await expect(createAuthFetch(TOKENS)(odd as never)).rejects.toThrow('odd')
  })

  it('gives the very answers and errors of the wrapped fetch', async () => {
    const [response, failure] = [new Response('own'), new TypeError('own failure')]
    const wrapped = vi.fn<typeof fetch>().mockResolvedValueOnce(response).mockRejectedValueOnce(failure)
    const authFetch = createAuthFetch(TOKENS, { fetch: wrapped })
    expect(await authFetch(URL_CALLED)).toBe(response)
    expect(await rejectionOf(authFetch(URL_CALLED))).toBe(failure)
  })

  it.each(['while it waits for its token', 'before it is sent again'])(
    'is sent as it was called, though the caller changes all that he gave %s',
    async (when) => {
      if (when === 'before it is sent again') {
        await ground.tokens.getToken()
        ground.env.revoke()
      }
      const [headers, body, form] = [new Headers(), Buffer.alloc(4), new URLSearchParams()]
      const url = new URL(ground.env.merchantUrl)
      const authFetch = createAuthFetch(ground.tokens)
      const calls = [1, 2, 3].map((n) => {
        headers.set('idempotency-key', `key-${n}`)
        body.fill(String(n))
        form.set('n', String(n))
        url.pathname = `/merchant/${n}`
        const init = { method: 'POST', headers, body: n === 3 ? form : body }
        const call = authFetch(url, init)
        init.body = Buffer.from('late')
        return call
      })
      headers.set('idempotency-key', 'late')
      body.fill('x')
      form.set('n', 'x')
      url.href = 'https://elsewhere.example/merchant/late'
      await Promise.all(calls)
      const sent = ground
        .sent()
        .map(({ path, headers, body }) => `${path} ${headers['idempotency-key']} ${body}`)
      expect([...new Set(sent)].sort()).toEqual([
        '/merchant/1 key-1 1111',
        '/merchant/2 key-2 2222',
        '/merchant/3 key-3 n=3',
      ])
    },
  )
})

it('createAuthFetch rejects every problem at once', () => {
  const wrong = { fetch: 1, header: '', other: 1 } as never
  const expected = ['tokens', 'header', 'fetch', 'other']
  expect(problemsOf(() => createAuthFetch({} as never, wrong))).toEqual(expected)
  expect(problemsOf(() => createAuthFetch(TOKENS, null as never))).toEqual(['options'])
})

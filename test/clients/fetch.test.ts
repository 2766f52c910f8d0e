// createAuthFetch: its arguments, what the wrapped fetch gets and when, and what the caller gets back.
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { rejectionOf, useGround } from '../support/ground.ts'
import { problemsOf } from '../support/problems.ts'
import { provided, token } from '../support/provided.ts'

type HeadersGiven = NonNullable<RequestInit['headers']>

const URL_CALLED = 'https://api.test.example/merchant/x'
const TOKENS = provided({ current: token('current.token') })
const AUTHORIZATION = 'Bearer current.token'

/** A fetch that resolves with these responses in turn, then with a 200. */
function answering(...answers: unknown[]) {
  let at = 0
  return vi.fn<typeof fetch>(async () => {
    at += 1
    return (answers[at - 1] ?? new Response('fine')) as Response
  })
}

async function argumentsFor(
  input: string | URL | Request,
  init?: RequestInit,
  attach: Parameters<typeof createAuthFetch>[1] = {},
): Promise<{ input: unknown; init: RequestInit }> {
  const wrapped = answering()
  await createAuthFetch(TOKENS, { ...attach, fetch: wrapped })(input, init)
  const [target, final = {}] = wrapped.mock.calls[0] ?? []
  return { input: target, init: final }
}

describe('the wrapped fetch', () => {
  it.each([URL_CALLED, 'https://elsewhere.example/x'])(
    'gets headers from an iterator, and init members that Node’s fetch does not know: %s',
    async (url) => {
      const headers = new Headers({ 'X-Mine': '1' }).entries() as unknown as HeadersGiven
      const { init } = await argumentsFor(url, { headers, next: { revalidate: 60 } } as RequestInit)
      expect(new Headers(init.headers).get('X-Mine')).toBe('1')
      expect(init).toMatchObject({ next: { revalidate: 60 } })
    },
  )

  it('is called synchronously if there is a cached token', async () => {
    const wrapped = answering()
    const getToken = vi.spyOn(TOKENS, 'getToken')
    const call = createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED)
    expect(wrapped).toHaveBeenCalledTimes(1)
    await call
    expect(getToken).not.toHaveBeenCalled()
    getToken.mockRestore()
  })

  it('gets the arguments of the caller, and nothing more than the token', async () => {
    const headers = { Authorization: AUTHORIZATION }
    expect(await argumentsFor(URL_CALLED)).toStrictEqual({ input: URL_CALLED, init: { headers } })
    const byUrl = await argumentsFor(new URL(URL_CALLED), { method: 'PUT' })
    expect(byUrl).toStrictEqual({ input: URL_CALLED, init: { method: 'PUT', headers } })
    const request = new Request(URL_CALLED, { headers: { 'x-mine': '1' } })
    const { input, init } = await argumentsFor(request)
    expect(input).toBe(request)
    expect(Object.keys(init)).toEqual(['headers'])
    expect(request.headers.has('authorization')).toBe(false)
  })

  it.each<[string, HeadersGiven]>([
    ['a record', { 'X-Mine': '1', aUTHORIZATION: 'Own one', Accept: 'a/b' }],
    ['an array', [['X-Mine', '1'], ['aUTHORIZATION', 'Own one']]], // biome-ignore format: one line for each
    ['Headers', new Headers({ 'X-Mine': '1', aUTHORIZATION: 'Own one' })],
    ['an iterable', new Map([['aUTHORIZATION', 'Own one']]) as never],
    ['pairs that are Sets', [new Set(['aUTHORIZATION', 'Own one'])] as never],
  ])('gets the caller’s own arguments if its headers include Authorization, in %s', async (_, headers) => {
    const init: RequestInit = { headers }
    expect((await argumentsFor(URL_CALLED, init)).init).toBe(init)
    const request = new Request(URL_CALLED, { headers })
    expect(await argumentsFor(request)).toEqual({ input: request, init: {} })
    // Headers of init replace those of a Request.
    const replaced = await argumentsFor(request, { headers: { a: 'b' } })
    expect(replaced.init.headers).toEqual({ a: 'b', Authorization: AUTHORIZATION })
  })

  it('gets calls to other URLs unchanged', async () => {
    const wrapped = answering({ status: 401 })
    const [input, init] = [new URL('https://elsewhere.example/x'), { headers: { a: 'b' } }]
    expect((await createAuthFetch(TOKENS, { fetch: wrapped })(input, init)).status).toBe(401)
    expect(wrapped.mock.calls).toEqual([[input, init]])
    expect(wrapped.mock.calls[0]?.[1]).toBe(init)
  })

  it('gets redirect: manual if the token is in another header than Authorization', async () => {
    const custom = { header: 'X-Access', scheme: '' }
    const errorRequest = new Request(URL_CALLED, { redirect: 'error' })
    const redirectOf = async (...args: Parameters<typeof argumentsFor>) =>
      (await argumentsFor(...args)).init.redirect
    expect(await redirectOf(URL_CALLED, { redirect: 'follow' }, custom)).toBe('manual')
    expect(await redirectOf(URL_CALLED, undefined, custom)).toBe('manual')
    expect(await redirectOf(new Request(URL_CALLED), undefined, custom)).toBe('manual')
    expect(await redirectOf(URL_CALLED, { redirect: 'error' }, custom)).toBe('error')
    expect(await redirectOf(errorRequest, undefined, custom)).toBeUndefined()
    expect(await redirectOf(errorRequest, { redirect: 'follow' }, custom)).toBe('manual')
    expect(await redirectOf(URL_CALLED, { redirect: 'manual' })).toBe('manual')
    expect(await redirectOf(URL_CALLED, { redirect: 'follow' })).toBe('follow')
    expect(await redirectOf(URL_CALLED)).toBeUndefined()
  })

  it('gets the caller’s own body if renewOnStatus is empty', async () => {
    const body = Buffer.from('a body')
    const attach = { renewOnStatus: [] }
    expect((await argumentsFor(URL_CALLED, { method: 'POST', body }, attach)).init.body).toBe(body)
    expect((await argumentsFor(URL_CALLED, { body: null })).init).toHaveProperty('body', null)
    const request = new Request(URL_CALLED, { method: 'POST', body: 'x' })
    const clone = vi.spyOn(request, 'clone')
    await argumentsFor(request, undefined, attach)
    expect(clone).not.toHaveBeenCalled()
  })

  it('may be a mock whose responses have neither headers nor body', async () => {
    const answer = { status: 200 }
    const wrapped = answering({ status: 401 }, answer)
    expect(await createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED, { body: null })).toBe(answer)
    expect(wrapped.mock.calls.map(([, init]) => init?.headers)).toEqual([
      { Authorization: AUTHORIZATION },
      { Authorization: 'Bearer second.token' },
    ])
  })

  it('may resolve a HEAD with a 401 that has a content-length and no body', async () => {
    const rejected = new Response(null, { status: 401, headers: { 'content-length': '100000' } })
    const authFetch = createAuthFetch(TOKENS, { fetch: answering(rejected) })
    expect((await authFetch(URL_CALLED, { method: 'HEAD' })).status).toBe(200)
  })

  it('is called only once with a Request whose body was read, even after a 401', async () => {
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

describe('createAuthFetch', () => {
  const ground = useGround()

  it('rejects instead of throwing synchronously', async () => {
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

  it('returns the response and error objects of the wrapped fetch', async () => {
    const [response, failure] = [new Response('own'), new TypeError('own failure')]
    const wrapped = vi.fn<typeof fetch>().mockResolvedValueOnce(response).mockRejectedValueOnce(failure)
    const authFetch = createAuthFetch(TOKENS, { fetch: wrapped })
    expect(await authFetch(URL_CALLED)).toBe(response)
    expect(await rejectionOf(authFetch(URL_CALLED))).toBe(failure)
  })

  it.each(['during the wait for its token', 'before the second send'])(
    'ignores changes that the caller makes to its arguments %s',
    async (when) => {
      if (when === 'before the second send') {
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

it('createAuthFetch reports all invalid options in one error', () => {
  const invalid = { fetch: 1, header: '', other: 1 } as never
  const expected = ['tokens', 'header', 'fetch', 'other']
  expect(problemsOf(() => createAuthFetch({} as never, invalid))).toEqual(expected)
  expect(problemsOf(() => createAuthFetch(TOKENS, null as never))).toEqual(['options'])
})

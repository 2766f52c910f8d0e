// What the wrapped fetch gets, and when (contract 5.3, 5.5, 5.8). No network.
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import type { HeadersGiven } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'

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
    expect(await given(URL_CALLED)).toStrictEqual({
      input: URL_CALLED,
      init: { headers: { Authorization: AUTHORIZATION } },
    })
    expect(await given(new URL(URL_CALLED), { method: 'PUT' })).toStrictEqual({
      input: URL_CALLED,
      init: { method: 'PUT', headers: { Authorization: AUTHORIZATION } },
    })
    const request = new Request(URL_CALLED, { headers: { 'x-mine': '1' } })
    const { input, init } = await given(request)
    expect(input).toBe(request)
    expect(Object.keys(init)).toEqual(['headers'])
  })

  it('gets headers of a record by the names that they have there', async () => {
    const headers = { 'X-Mine': '1', aCCEPT: 'a/b' }
    const { init } = await given(URL_CALLED, { headers })
    expect(init.headers).toStrictEqual({ 'X-Mine': '1', aCCEPT: 'a/b', Authorization: AUTHORIZATION })
    expect(headers).toEqual({ 'X-Mine': '1', aCCEPT: 'a/b' })
  })

  it('is the one to refuse a header that is none', async () => {
    const { init } = await given(URL_CALLED, { headers: { 'X-Mine': '€' } })
    expect(init.headers).toStrictEqual({ 'X-Mine': '€', Authorization: AUTHORIZATION })
  })

  it.each<[string, HeadersGiven]>([
    ['an array', [['X-Mine', '1']]],
    ['Headers', new Headers({ 'X-Mine': '1' })],
    ['an iterable', new Map([['X-Mine', '1']]) as never],
  ])('gets headers of %s too', async (_, headers) => {
    const { init } = await given(URL_CALLED, { headers })
    expect([...new Headers(init.headers)]).toEqual([
      ['authorization', AUTHORIZATION],
      ['x-mine', '1'],
    ])
    expect([...new Headers(headers)]).toEqual([['x-mine', '1']])
  })

  it.each<[string, HeadersGiven]>([
    ['a record', { 'X-Mine': '1', aUTHORIZATION: 'Own one', Accept: 'a/b' }],
    ['an array', [['X-Mine', '1'], ['aUTHORIZATION', 'Own one']]], // biome-ignore format: one line for each
    ['Headers', new Headers({ 'X-Mine': '1', aUTHORIZATION: 'Own one' })],
    ['an iterable', new Map([['aUTHORIZATION', 'Own one']]) as never],
  ])('gets the very same, where a header of the caller’s is among those of %s', async (_, headers) => {
    const init: RequestInit = { headers }
    expect((await given(URL_CALLED, init)).init).toBe(init)
  })

  it.each([null, undefined, 12, {}])('gets what is no URL as it is: %o', async (input) => {
    expect((await given(input as never)).input).toBe(input)
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
    expect(await redirectOf(URL_CALLED, { redirect: 'follow' })).toBe('follow')
    expect(await redirectOf(URL_CALLED)).toBeUndefined()
  })

  it('gets a copy of a body that it may be given again, and else the body itself', async () => {
    const body = Buffer.from('a body')
    const kept = await given(URL_CALLED, { method: 'POST', body })
    expect(kept.init.body).toEqual(body)
    expect(kept.init.body).not.toBe(body)
    const once = await given(URL_CALLED, { method: 'POST', body }, { renewOnStatus: [] })
    expect(once.init.body).toBe(body)
    expect((await given(URL_CALLED, { body: null })).init).toHaveProperty('body', null)
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
    const refusal = new Response(null, { status: 401, headers: { 'content-length': '100000' } })
    const wrapped = answering(refusal)
    const answer = await createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED, { method: 'HEAD' })
    expect(answer.status).toBe(200)
  })
})

describe('a Request whose body is used up', () => {
  it('is sent no second time, even to a fetch that takes it', async () => {
    const request = new Request(URL_CALLED, { method: 'POST', body: 'once' })
    await request.text()
    const wrapped = answering({ status: 401 })
    expect(await createAuthFetch(TOKENS, { fetch: wrapped })(request)).toEqual({ status: 401 })
    expect(wrapped).toHaveBeenCalledTimes(1)
  })
})

describe('the wait for a token', () => {
  it.each<[string, () => [string | Request, RequestInit?], boolean]>([
    ['no signal', () => [URL_CALLED], false],
    ['a signal', () => [URL_CALLED, { signal: AbortSignal.abort() }], true],
    ['the signal null', () => [URL_CALLED, { signal: null }], false],
    ['a Request’s', () => [new Request(URL_CALLED, { signal: AbortSignal.abort() })], true],
    [
      'a Request’s, and null',
      () => [new Request(URL_CALLED, { signal: AbortSignal.abort() }), { signal: null }],
      false,
    ],
  ])('is that of the signal that counts: %s', async (_, args, aborted) => {
    const get = vi.fn<TokenProvider['getToken']>(async () => token('first.token'))
    const wrapped = answering()
    await createAuthFetch(provided({ get }), { fetch: wrapped })(...args())
    const [options] = get.mock.calls[0] ?? []
    expect(options).toHaveProperty('signal')
    expect(options?.signal?.aborted ?? false).toBe(aborted)
    expect(options?.signal).not.toBeNull()
    expect(new Headers(wrapped.mock.calls[0]?.[1]?.headers).get('authorization')).toBe('Bearer first.token')
  })
})

// Where an axios request really goes, and which of its headers are set: what is judged is what axios sends (contract 5.1 to 5.3).
import axios, { type AxiosRequestConfig } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { urlOf } from '../../src/attach/axios-config.ts'
import type { AxiosConfig } from '../../src/attach/axios-types.ts'
import { getHeader } from '../../src/attach/headers.ts'
import { provided, token } from './provided.ts'

const BASE = 'https://api.test.example/merchant'

describe('the URL of an axios request', () => {
  it.each<[AxiosRequestConfig, string]>([
    [{ url: `${BASE}/x` }, 'https://api.test.example/merchant/x'],
    [{ baseURL: BASE }, 'https://api.test.example/merchant'],
    [{ baseURL: BASE, url: '' }, 'https://api.test.example/merchant'],
    [{ baseURL: `${BASE}/`, url: '' }, 'https://api.test.example/merchant/'],
    [{ baseURL: BASE, url: null as never }, 'https://api.test.example/merchant'],
    [{ baseURL: BASE, url: 'x' }, 'https://api.test.example/merchant/x'],
    [{ baseURL: `${BASE}///`, url: '/x' }, 'https://api.test.example/merchant/x'],
    [{ baseURL: `${BASE}//a/`, url: 'x//y' }, 'https://api.test.example/merchant//a/x//y'],
    [{ baseURL: BASE, url: 'to?next=https://a.example/' }, `${BASE}/to?next=https://a.example/`],
    [{ baseURL: BASE, url: '//a.example/x' }, '//a.example/x'],
    [{ baseURL: BASE, url: 'HTTPS://a.example/x' }, 'HTTPS://a.example/x'],
    [{ baseURL: BASE, url: 'h2+a-b.c://a.example' }, 'h2+a-b.c://a.example'],
    [{ baseURL: BASE, url: 'a/b://a.example' }, 'https://api.test.example/merchant/a/b://a.example'],
    [{ baseURL: BASE, url: '///x', allowAbsoluteUrls: false }, 'https://api.test.example/merchant/x'],
    [
      { baseURL: BASE, url: 'https://a.example/x', allowAbsoluteUrls: false },
      'https://api.test.example/merchant/https://a.example/x',
    ],
    [{ baseURL: '', url: `${BASE}/x` }, 'https://api.test.example/merchant/x'],
  ])('of %o is %s', (config, url) => {
    expect(urlOf({ headers: {}, ...config } as object as AxiosConfig)).toBe(url)
    expect(axios.create().getUri(config)).toBe(url)
  })

  it('is found in time that grows with its length, whatever slashes are in it', () => {
    const durationOf = (length: number): number => {
      const slashes = `${'/'.repeat(length)}x`
      const config = { headers: {}, baseURL: `${BASE}${slashes}/`, url: `a${slashes}` }
      const startedAt = performance.now()
      expect(urlOf(config)).toBe(`${BASE}${slashes}/a${slashes}`)
      return performance.now() - startedAt
    }
    durationOf(1_000)
    // A hundred times as long, with room for pauses of the machine. The square would be ten thousand times as long.
    expect(durationOf(200_000)).toBeLessThan(100 * (durationOf(2_000) + 10))
  })

  it.each<[object, string]>([
    [{}, ''],
    [{ url: null }, ''],
    [{ url: 12 }, '12'],
    [{ url: new URL(`${BASE}/x`) }, 'https://api.test.example/merchant/x'],
    [{ baseURL: null, url: `${BASE}/x` }, 'https://api.test.example/merchant/x'],
    [{ baseURL: new URL(BASE) }, ''],
    [{ baseURL: BASE, url: new URL(`${BASE}/x`) }, ''],
    [{ baseURL: BASE, url: 12 }, ''],
  ])('of %o, where versions of axios differ or throw, is no guess: %j', (config, url) => {
    expect(urlOf({ headers: {}, ...config } as object as AxiosConfig)).toBe(url)
  })
})

describe("a header of the caller's own", () => {
  const sentWith = async (headers: Record<string, unknown>): Promise<unknown> => {
    let sent: unknown
    const api = axios.create({
      adapter: async (config) => {
        sent = config.headers.get('authorization')
        return { status: 200, statusText: '', data: '', headers: {}, config }
      },
    })
    attachAuth(api, provided({ current: token('current.token') }))
    await api.get(`${BASE}/x`, { headers: headers as Record<string, string> })
    return sent
  }

  it.each<[string, Record<string, unknown>, unknown]>([
    ['as long as the name of the token’s', { 'X-Merchant-Id': '1' }, 'Bearer current.token'],
    ['set to undefined, which axios does not send', { Authorization: undefined }, 'Bearer current.token'],
    ['in another spelling', { aUTHORIZATION: 'Own one' }, 'Own one'],
    ['set to false, which axios takes for "none"', { Authorization: false }, false],
  ])('%s', async (_, headers, sent) => {
    expect(await sentWith(headers)).toBe(sent)
  })
})

describe('a header of an answer', () => {
  it.each<[unknown, string]>([
    [undefined, ''],
    [null, ''],
    ['www-authenticate', ''],
    [{}, ''],
    [{ 'content-type': 'a/b' }, ''],
    [{ 'WWW-Authenticate': 'Bearer' }, 'Bearer'],
    [new axios.AxiosHeaders({ 'Www-Authenticate': 'Basic' }), 'Basic'],
    [{ 'www-authenticate': ['Basic', 'Bearer'] }, 'Basic,Bearer'],
  ])('in %o is %j', (headers, value) => {
    expect(String(getHeader(headers, 'www-authenticate') ?? '')).toBe(value)
  })
})

describe('what is attached to nothing', () => {
  const NO_PROVIDER =
    'The token cannot be attached:\n  - tokens: must be a token provider, as createTokenProvider() makes it'

  it.each([undefined, null, {}, { getToken: 'no' }])('says that the provider is none: %o', (tokens) => {
    expect(() => attachAuth(axios.create(), tokens as never)).toThrow(
      expect.objectContaining({ name: 'ConfigurationError', message: NO_PROVIDER }),
    )
    expect(() => createAuthFetch(tokens as never)).toThrow(
      expect.objectContaining({
        message: NO_PROVIDER,
        problems: [
          { option: 'tokens', reason: 'must be a token provider, as createTokenProvider() makes it' },
        ],
      }),
    )
  })

  it('says that the fetch is no function', () => {
    const tokens = createStaticTokenProvider()
    expect(() => createAuthFetch(tokens, { fetch: {} as never })).toThrow(
      expect.objectContaining({
        code: 'ERR_CONFIGURATION',
        message: 'The token cannot be attached:\n  - fetch: must be a function',
        problems: [{ option: 'fetch', reason: 'must be a function' }],
      }),
    )
  })
})

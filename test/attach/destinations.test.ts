// Which URLs get the token (contract 5.1): verdicts written out, on axios and on fetch.
import axios from 'axios'
import { type AuthEvent, createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { scripted } from './calls.ts'

const environment = {
  authUrl: 'https://auth.example.com',
  audience: 'https://api.example.com',
  apiUrls: [
    'https://api.example.com/merchant',
    'https://api.example.com/instore/v1/',
    'http://127.0.0.1:8080',
    'https://host.example:8443/a/b',
  ],
}

const WITH_TOKEN = [
  'https://api.example.com/merchant',
  'https://api.example.com/merchant/',
  'https://api.example.com/merchant/orders',
  'https://api.example.com/merchant/orders/7?x=1#y',
  'https://api.example.com/merchant?x=1',
  'https://api.example.com/merchant#x',
  'https://API.EXAMPLE.COM/merchant/x',
  'HTTPS://api.example.com/merchant',
  'https://api.example.com:443/merchant/x',
  'https://api.example.com/merchant/./x',
  'https://api.example.com/merchant/a/../b',
  'https://api.example.com/x/../merchant/b',
  'https://api.example.com/merchant/%2e/x',
  'https://api.example.com/merchant/a/%2E%2e/b',
  'https://api.example.com\\merchant\\x',
  'https://api.example.com/merchant//x',
  'https://api.example.com/merchant/%20x',
  'https://api.example.com/merchant/a%252fb',
  'https://api.example.com/merchant/x?next=a%2f..%5cb',
  'https://api.example.com/merchant/x#a%2fb/../..',
  'https://api.example.com/merchant/x?y=/../../..',
  'https://api.example.com/merchant/a.b/.hidden/...',
  'https://api.example.com/merchant/ü',
  'https://api.example.com/mer\tchant/x',
  'https://api.example.com/instore/v1',
  'https://api.example.com/instore/v1/sales',
  'http://127.0.0.1:8080',
  'http://127.0.0.1:8080/',
  'http://127.0.0.1:8080/anything?x',
  'http://127.1:8080/x',
  'http://0x7f000001:8080/x',
  'https://host.example:8443/a/b',
  'https://host.example:8443/a/b/c',
]
const WITHOUT = [
  'https://api.example.com',
  'https://api.example.com/',
  'https://api.example.com/merchants',
  'https://api.example.com/merchant2/x',
  'https://api.example.com/merchant.json',
  'https://api.example.com/Merchant/x',
  'https://api.example.com//merchant/x',
  'https://api.example.com/merchant/..',
  'https://api.example.com/merchant/../x',
  'https://api.example.com/merchant/a/../../x',
  'https://api.example.com/merchant/%2e%2e/x',
  'https://api.example.com/merchant/%2E%2E',
  'https://api.example.com/merchant/.%2e/admin',
  'https://api.example.com/merchant\\..\\admin',
  'https://api.example.com/merchant/.\t./admin',
  'https://api.example.com/merchant/a%2fb',
  'https://api.example.com/merchant/a%2Fb',
  'https://api.example.com/merchant/a%5cb',
  'https://api.example.com/merchant/a%5Cb?x',
  'https://api.example.com/merchant%2forders',
  'https://api.example.com/merchant/..%2fadmin',
  'http://api.example.com/merchant/x',
  'https://api.example.com:8443/merchant/x',
  'https://api.example.com.evil.example/merchant',
  'https://sub.api.example.com/merchant',
  'https://api.example.com./merchant',
  'https://evil.example/https://api.example.com/merchant',
  'https://evil.example?https://api.example.com/merchant',
  'https://evil.example#@api.example.com/merchant',
  'https://api.example.com@evil.example/merchant',
  'https://evil.example\\@api.example.com/merchant',
  'https://api.example.com/instore',
  'https://api.example.com/instore/v1beta',
  'https://api.example.com/instore/v2/x',
  'http://127.0.0.1:8081/x',
  'http://127.0.0.1/x',
  'https://127.0.0.1:8080/x',
  'http://localhost:8080/x',
  'https://host.example/a/b',
  'https://host.example:8443/a',
  'https://host.example:8443/a/bc',
  'blob:https://api.example.com/merchant/x',
  'blob:http://127.0.0.1:8080/x',
  'wss://api.example.com/merchant',
  'ftp://api.example.com/merchant',
  'file:///merchant/x',
  '//api.example.com/merchant/x',
  '/merchant/x',
  'https://',
]
const OWN = [
  'https://u:p@api.example.com/merchant/x',
  'https://u@api.example.com/merchant',
  'http://:p@127.0.0.1:8080/x',
]
const TABLE = [
  ...WITH_TOKEN.map((url) => [url, 'token']),
  ...WITHOUT.map((url) => [url, 'destination']),
  ...OWN.map((url) => [url, 'own-credentials']),
] as [string, string][]

const BASES: [string | undefined, string | undefined, boolean | undefined, string][] = [
  ['https://api.example.com/merchant', '/x', undefined, 'token'],
  ['https://api.example.com/merchant/', 'x', undefined, 'token'],
  ['https://api.example.com/merchant', '', undefined, 'token'],
  ['https://api.example.com/merchant', undefined, undefined, 'token'],
  ['https://api.example.com/merchant', '?x=1', undefined, 'token'],
  ['https://api.example.com', '/merchant/x', undefined, 'token'],
  ['https://api.example.com/merchant?x=', '/y', undefined, 'token'],
  ['https://api.example.com/merchant', 'https://evil.example/x', false, 'token'],
  ['https://api.example.com/merchant', '//evil.example/x', false, 'token'],
  ['https://evil.example', 'https://api.example.com/merchant/x', undefined, 'token'],
  ['https://evil.example', 'https://api.example.com/merchant/x', true, 'token'],
  ['/relative', 'https://api.example.com/merchant/x', undefined, 'token'],
  ['https://evil.example', 'https://api.example.com/merchant/x', false, 'destination'],
  ['https://api.example.com/merchant', 'https://evil.example/x', undefined, 'destination'],
  ['https://api.example.com/merchant', '//evil.example/x', undefined, 'destination'],
  ['https://evil.example', '//api.example.com/merchant', undefined, 'destination'],
  ['https://api.example.com/merchant', '../x', undefined, 'destination'],
  ['https://api.example.com/merchant', '..%2fadmin', undefined, 'destination'],
  ['https://api.example.com/merchant', '%2e%2e/admin', undefined, 'destination'],
  ['https://api.example.com/merchant', '\\..\\..\\evil', undefined, 'destination'],
  ['https://api.example.com', '@evil.example/merchant', undefined, 'destination'],
  ['https://api.example.com', '/admin', undefined, 'destination'],
  ['https://api.example.com/mer', 'chant/x', undefined, 'destination'],
  [undefined, undefined, undefined, 'destination'],
]

const tokens = createStaticTokenProvider({ environment, value: 'abc' })

describe('the token on axios', () => {
  const send = async (how: 'attach' | 'interceptor', config: object) => {
    let sent: unknown = 'nothing'
    const adapter = async (final: { headers: Record<string, unknown> }) => {
      sent = final.headers['Authorization']
      return { status: 200, data: '', statusText: '', headers: {}, config: final }
    }
    const api = axios.create({ adapter: adapter as never })
    if (how === 'attach') attachAuth(api, tokens)
    else api.interceptors.request.use(createAuthInterceptor(tokens))
    await api.request(config)
    return sent
  }
  it.each(TABLE)('for %s: %s', async (url, verdict) => {
    const expected = verdict === 'token' ? 'Bearer abc' : undefined
    expect(await send('attach', { url })).toBe(expected)
    expect(await send('interceptor', { url })).toBe(expected)
  })
  it.each(BASES)(
    'for baseURL %s and url %s (allowAbsoluteUrls: %s): %s',
    async (baseURL, url, allowAbsoluteUrls, verdict) => {
      const config = {
        ...(baseURL === undefined ? {} : { baseURL }),
        ...(url === undefined ? {} : { url }),
        ...(allowAbsoluteUrls === undefined ? {} : { allowAbsoluteUrls }),
      }
      expect(await send('attach', config)).toBe(verdict === 'token' ? 'Bearer abc' : undefined)
    },
  )
})

describe('the token on fetch', () => {
  it.each(TABLE)('for %s: %s', async (url, verdict) => {
    const events: AuthEvent[] = []
    let sent: string | null = null
    const made = createTokenProvider({
      environment,
      clientId: 'c',
      clientSecret: 'the secret',
      onEvent: (event) => events.push(event),
      fetch: async () => Response.json({ access_token: 'a.b.c', token_type: 'Bearer', expires_in: 60 }),
    })
    const authFetch = createAuthFetch(made, {
      fetch: async (_, init) => {
        sent = new Headers(init?.headers).get('authorization')
        return new Response()
      },
    })
    await authFetch(url)
    expect(sent).toBe(verdict === 'token' ? 'Bearer a.b.c' : null)
    const reasons = events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))
    expect(reasons).toEqual(verdict === 'token' ? [] : [verdict])
    await made.close()
  })
})

describe('what arrives', () => {
  const RESTS = [
    '/api',
    '/api/x',
    '/api/../x',
    '/api/%2e%2e/x',
    '/x/../api/y',
    '\\api\\x',
    '/api\\..\\x',
    '/apis',
    '//api/x',
    '/api/a%2fb',
    '/api?x',
    '/API/x',
  ]
  it.each(['http', 'fetch', 'plain fetch'] as const)(
    'with the token by %s is below the API on the wire',
    async (how) => {
      await using server = await scripted((_, response) => void response.end())
      const provider = createStaticTokenProvider({
        environment: { ...environment, apiUrls: [`${server.url}/api`] },
        value: 'abc',
      })
      const api = axios.create(how === 'plain fetch' ? {} : { adapter: how })
      attachAuth(api, provider)
      const authFetch = createAuthFetch(provider)
      for (const rest of RESTS)
        await (how === 'plain fetch' ? authFetch(server.url + rest) : api.get(server.url + rest))
      expect(server.seen.map(({ headers }) => headers.authorization !== undefined)).toEqual([
        true,
        true,
        false,
        false,
        true,
        true,
        false,
        false,
        false,
        false,
        true,
        false,
      ])
      for (const { path, headers } of server.seen) {
        if (headers.authorization !== undefined) expect(path).toMatch(/^\/api([/?]|$)/)
      }
    },
  )
})

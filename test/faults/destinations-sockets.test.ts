// What really arrives, and where: an API and another server on loopback, and their request lines (contract 5.1).
import { networkInterfaces } from 'node:os'
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { agreed, byBothAdapters, inputsOf, openPlaces, outcome, shown } from './places.ts'
import { tell } from './told.ts'

const X = 'token at API /merchant/x'
const NOTHING = 'not sent'

/** A URL, what came of it on axios, and on fetch where that is something else. */
const FORMS: readonly (readonly [form: string, axios: string, fetch?: string])[] = [
  ['http://api.here/merchant', 'token at API /merchant'],
  ['http://api.here/merchant/x?y=1#z', 'token at API /merchant/x?y=1'],
  ['HTTP://api.here/merchant/x', X],
  ['http:api.here/merchant/x', NOTHING, X],
  ['http:/api.here/merchant/x', NOTHING, X],
  ['http:///api.here/merchant/x', X],
  ['http:\\\\api.here\\merchant\\x', NOTHING, X],
  ['http://api.here\\merchant\\x', X],
  ['http://127.1:{API}/merchant/x', X],
  ['http://2130706433:{API}/merchant/x', X],
  ['http://0x7f.1:{API}/merchant/x', X],
  ['http://127.0.0.1.:{API}/merchant/x', X],
  ['http://@api.here/merchant/x', X],
  ['ht\ttp://api.here/merchant/x', X],
  ['http://127.0.0.1\t:{API}/mer\nchant/x', X],
  ['  http://api.here/merchant/x  ', X],
  ['http://api.here/merchant/\r\nX-Evil: 1', 'token at API /merchant/X-Evil:%201'],
  ['http://api.here/merchant/ü', 'token at API /merchant/%C3%BC'],
  ['http://api.here/x/%2e%2e/merchant/y', 'token at API /merchant/y'],
  ['http://api.here/merchant/a/%2e%2e/b', 'token at API /merchant/b'],
  ['http://api.here/merchant/%252e%252e/x', 'token at API /merchant/%252e%252e/x'],
  ['http://api.here/merchant/..;/x', 'token at API /merchant/..;/x'],
  ['http://api.here/merchant?/../../x', 'token at API /merchant?/../../x'],
  ['http://api.here/merchant/.\t./x', 'no token at API /x'],
  ['http://api.here/merchant/../x', 'no token at API /x'],
  ['http://api.here/merchant/%2e%2e/x', 'no token at API /x'],
  ['http://api.here/merchant/%2E%2E', 'no token at API /'],
  ['http://api.here/merchant/.%2e/x', 'no token at API /x'],
  ['http://api.here/merchant\\..\\x', 'no token at API /x'],
  ['http://api.here/merchant/a%2fb', 'no token at API /merchant/a%2fb'],
  ['http://api.here/merchant/..%5cb', 'no token at API /merchant/..%5cb'],
  ['http://api.here/merchants', 'no token at API /merchants'],
  ['http://api.here//merchant/x', 'no token at API //merchant/x'],
  ['http://api.here/Merchant/x', 'no token at API /Merchant/x'],
  ['http://api.here/merchant;x', 'no token at API /merchant;x'],
  ['http://api.here/%6derchant/x', 'no token at API /%6derchant/x'],
  ['http://api.here', 'no token at API /'],
  ['http://api.here?/merchant', 'no token at API /?/merchant'],
  ['http://localhost:{API}/merchant/x', 'no token at API /merchant/x'],
  ['http://u:p@api.here/merchant/x', 'no token at API /merchant/x', NOTHING],
  ['http://api.here@evil.here/merchant', 'no token at evil /merchant', NOTHING],
  ['http://api.here%40evil.here/merchant', NOTHING],
  ['http://api.here\\@evil.here/merchant', 'no token at API /@evil.here/merchant'],
  ['http://evil.here\\@api.here/merchant', 'no token at evil /@api.here/merchant'],
  ['http://evil.here/@api.here/merchant', 'no token at evil /@api.here/merchant'],
  ['http://evil.here#@api.here/merchant', 'no token at evil /'],
  ['http://evil.here?@api.here/merchant', 'no token at evil /?@api.here/merchant'],
  ['http://evil.here/merchant', 'no token at evil /merchant'],
  ['http://localhost:{EVIL}/merchant/x', 'no token at evil /merchant/x'],
  ['//api.here/merchant/x', NOTHING],
  // axios' fetch adapter takes user info out of a URL, and makes an absolute one of it in passing.
  ['//u:p@api.here/merchant/x', 'http: not sent; fetch: no token at API /merchant/x', NOTHING],
  ['//u:p@evil.here/merchant', 'http: not sent; fetch: no token at evil /merchant', NOTHING],
  ['///evil.here/merchant', NOTHING],
  ['/merchant/x', NOTHING],
  ['', NOTHING],
  ['https://api.here/merchant/x', NOTHING],
  ['ws://api.here/merchant', NOTHING],
  ['blob:http://api.here/merchant', NOTHING],
  ['file:///merchant', NOTHING],
  ['data:,merchant', 'answered without a request'],
]

describe('over sockets', () => {
  it.for(FORMS)('%j comes to: %s', async ([form, onAxios, onFetch = onAxios], { task }) => {
    await using places = await openPlaces()
    const url = places.fill(form)
    const byAxios = await byBothAdapters(places, (api) => api.get(url))
    const byFetch: string[] = []
    for (const input of inputsOf(url)) {
      const authFetch = createAuthFetch(places.auth().provider)
      byFetch.push(await outcome(places, () => authFetch(input)))
    }
    expect(byAxios).toBe(onAxios)
    expect(byFetch).toEqual(byFetch.map(() => onFetch))
    const row = {
      table: 'destinations',
      group: 'over sockets: api.here and evil.here are two ports of 127.0.0.1',
      row: shown(form),
    }
    tell(task, { ...row, column: 'axios', cell: byAxios })
    tell(task, { ...row, column: 'fetch', cell: agreed(byFetch) })
  })

  const loopback = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  const ipv6 = loopback.some(({ address }) => address === '::1')
  it.skipIf(!ipv6).each([
    ['http://[::1]:{API}/merchant/x', X],
    ['http://[0:0:0:0:0:0:0:1]:{API}/merchant/x', X],
    ['http://[::0.0.0.1]:{API}\\merchant\\x', X],
    ['http://[::1]:{API}/merchant/%2e%2e/x', 'no token at API /x'],
    ['http://[::1]:{EVIL}/merchant/x', 'no token at evil /merchant/x'],
    ['http://[::1%25lo]:{API}/merchant/x', NOTHING],
  ])('%j, an API on IPv6, comes to: %s', async (form, came) => {
    await using places = await openPlaces(undefined, '::1')
    const url = places.fill(form)
    expect(await byBothAdapters(places, (api) => api.get(url))).toBe(came)
    for (const input of inputsOf(url)) {
      const authFetch = createAuthFetch(places.auth().provider)
      expect(await outcome(places, () => authFetch(input))).toBe(came)
    }
  })

  it('fetch takes a URL object as it was when it was called', async () => {
    await using places = await openPlaces()
    const url = new URL(`${places.api}/merchant/x`)
    const call = createAuthFetch(places.auth().provider)(url)
    url.href = `${places.evil}/merchant/x`
    await call
    expect(places.take()).toEqual([X])
  })

  it('a custom header goes to the API beside credentials of the caller', async () => {
    await using places = await openPlaces()
    const url = places.fill('http://u:p@api.here/merchant/x')
    const elsewhere = places.fill('http://api.here@evil.here/merchant/x')
    const attach = { header: 'X-Access-Token', scheme: '' }
    expect(await byBothAdapters(places, (api) => api.get(url), {}, attach)).toBe(X)
    expect(await byBothAdapters(places, (api) => api.get(elsewhere), {}, attach)).toBe(
      'no token at evil /merchant/x',
    )
  })
})

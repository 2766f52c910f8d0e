// axios' baseURL, url and allowAbsoluteUrls over sockets: api.here and evil.here are two ports of 127.0.0.1 (contract 5.1).
import type { AxiosRequestConfig } from 'axios'
import { describe, expect, it } from 'vitest'
import { byBothAdapters, openPlaces, shown } from './places.ts'
import { tell } from './told.ts'

const ALLOW = [undefined, true, false] as const
const NOTHING = 'not sent'

/** baseURL, url, what comes of them, and what does where `allowAbsoluteUrls` is false, if that is something else. */
type Row = readonly [baseURL: string | undefined, url: string | undefined, came: string, withFalse?: string]

const BELOW: readonly Row[] = [
  ['http://api.here/merchant', '/x', 'token at API /merchant/x'],
  ['http://api.here/merchant/', 'x', 'token at API /merchant/x'],
  ['http://api.here/merchant//', '//x', NOTHING, 'token at API /merchant/x'],
  ['http://api.here/merchant', '?x=1', 'token at API /merchant/?x=1'],
  ['http://api.here/merchant', '#x', 'token at API /merchant/'],
  ['http://api.here/merchant', '', 'token at API /merchant'],
  ['http://api.here/merchant', undefined, 'token at API /merchant'],
  ['http://api.here/merchant', 'a/../b', 'token at API /merchant/b'],
  ['http://api.here/merchant', '..;/x', 'token at API /merchant/..;/x'],
  ['http://api.here/merchant', '\\..\\x', 'token at API /merchant/x'],
  ['http://api.here/merchant', '../x', 'no token at API /x'],
  ['http://api.here/merchant', '%2e%2e/x', 'no token at API /x'],
  ['http://api.here/merchant', '..\\x', 'no token at API /x'],
  ['http://api.here/merchant', '..%2fx', 'no token at API /merchant/..%2fx'],
]

const EVIL = 'http://evil.here/x'
const ELSEWHERE: readonly Row[] = [
  ['http://api.here/merchant', EVIL, 'no token at evil /x', 'token at API /merchant/http://evil.here/x'],
  ['http://api.here/merchant', '//evil.here/x', NOTHING, 'token at API /merchant/evil.here/x'],
  ['http://api.here/merchant', 'http:evil.here/x', NOTHING],
  ['http://api.here/merchant', '\\\\evil.here\\x', 'token at API /merchant///evil.here/x'],
  ['http://api.here/merchant', ` ${EVIL}`, 'token at API /merchant/%20http://evil.here/x'],
  ['http://api.here/merchant', '\t//evil.here/x', 'token at API /merchant///evil.here/x'],
  ['http://api.here/merchant', 'ht\ttp://evil.here/x', 'token at API /merchant/http://evil.here/x'],
  ['http://api.here/merchant', 'javascript:x', 'token at API /merchant/javascript:x'],
  ['http://api.here/merchant', 'data:,x', 'token at API /merchant/data:,x'],
  ['http://api.here/merchant', 'file:///x', NOTHING, 'token at API /merchant/file:///x'],
  [
    'http://api.here/merchant',
    'http://api.here/merchant/x',
    'token at API /merchant/x',
    'token at API /merchant/http://api.here/merchant/x',
  ],
  [
    'http://api.here/merchant',
    'http://api.here/x',
    'no token at API /x',
    'token at API /merchant/http://api.here/x',
  ],
]

const HOSTS: readonly Row[] = [
  ['http://api.here', '/merchant/x', 'token at API /merchant/x'],
  ['http://api.here', '../merchant/x', 'token at API /merchant/x'],
  ['http://api.here/x/..', '/merchant/y', 'token at API /merchant/y'],
  ['http://api.here', '/x', 'no token at API /x'],
  ['http://api.here', '', 'no token at API /'],
  ['http://api.here', '@evil.here/merchant', 'no token at API /@evil.here/merchant'],
  ['http://api.here', ':x@evil.here/merchant', 'no token at API /:x@evil.here/merchant'],
  ['http://api.here', '.evil.example/merchant', 'no token at API /.evil.example/merchant'],
  ['http://api.here', '//evil.here/merchant', NOTHING, 'no token at API /evil.here/merchant'],
  ['http://api.here/mer', 'chant/x', 'no token at API /mer/chant/x'],
  ['http://api.here/merchants', '/x', 'no token at API /merchants/x'],
  ['http://api.here/merchant/..', '/x', 'no token at API /x'],
  ['http://u:p@api.here/merchant', '/x', 'no token at API /merchant/x'],
  ['http://api.here@evil.here/merchant', '/x', 'no token at evil /merchant/x'],
  ['http://evil.here', '/merchant/x', 'no token at evil /merchant/x'],
  ['http://evil.here/merchant', '', 'no token at evil /merchant'],
  ['http://evil.here', '@api.here/merchant', 'no token at evil /@api.here/merchant'],
  ['http://evil.here\\', '@api.here/merchant', 'no token at evil //@api.here/merchant'],
  ['http://evil.here', '//api.here/merchant', NOTHING, 'no token at evil /api.here/merchant'],
  [
    'http://evil.here',
    'http://api.here/merchant/x',
    'token at API /merchant/x',
    'no token at evil /http://api.here/merchant/x',
  ],
]

const QUERIES: readonly Row[] = [
  ['http://api.here/merchant?q=', '/x', 'token at API /merchant?q=/x'],
  ['http://api.here/merchant?q=1', '?r=2', 'token at API /merchant?q=1/?r=2'],
  ['http://api.here/merchant?', '../x', 'token at API /merchant?/../x'],
  ['http://api.here/merchant#', '/../x', 'token at API /merchant'],
  ['http://api.here?', '/merchant/x', 'no token at API /?/merchant/x'],
  ['http://api.here#', '/merchant/x', 'no token at API /'],
]

const NONE: readonly Row[] = [
  [undefined, 'http://api.here/merchant/x', 'token at API /merchant/x'],
  ['', 'http://api.here/merchant/x', 'token at API /merchant/x'],
  ['/merchant', 'http://api.here/merchant/x', 'token at API /merchant/x', NOTHING],
  [undefined, 'http://evil.here/merchant/x', 'no token at evil /merchant/x'],
  [undefined, '/merchant/x', NOTHING],
  [undefined, undefined, NOTHING],
  ['/merchant', '/x', NOTHING],
  ['//api.here', '/merchant/x', NOTHING],
]

const GROUPS: Readonly<Record<string, readonly Row[]>> = {
  'baseURL is the API, url is relative': BELOW,
  'baseURL is the API, url is absolute or means to be': ELSEWHERE,
  'baseURL is something else': HOSTS,
  'baseURL with a query or a fragment': QUERIES,
  'baseURL is none, or relative': NONE,
}

for (const [group, rows] of Object.entries(GROUPS)) {
  describe(group, () => {
    it.for(
      rows.flatMap(([baseURL, url, came, withFalse = came]) =>
        ALLOW.map((allow) => ({ baseURL, url, allow, came: allow === false ? withFalse : came })),
      ),
    )(
      'baseURL $baseURL, url $url, allowAbsoluteUrls $allow: $came',
      async ({ baseURL, url, allow, came }, { task }) => {
        await using places = await openPlaces()
        const config: AxiosRequestConfig = {}
        if (baseURL !== undefined) config.baseURL = places.fill(baseURL)
        if (url !== undefined) config.url = places.fill(url)
        if (allow !== undefined) config.allowAbsoluteUrls = allow
        const cell = await byBothAdapters(places, (api) => api.request(config))
        expect(cell).toBe(came)
        const row = [baseURL, url].map((part) => (part === undefined ? '(none)' : shown(part))).join(' + ')
        const column = allow === undefined ? 'allowAbsoluteUrls left out' : String(allow)
        tell(task, { table: 'base-urls', group, row, column, cell })
      },
    )
  })
}

describe('allowAbsoluteUrls that is no boolean', () => {
  it.each([0, 1, '', 'false', {}])('%j: no token, whatever axios makes of it', async (given) => {
    await using places = await openPlaces()
    const allowAbsoluteUrls = given as unknown as boolean
    for (const [baseURL, url] of [
      ['http://api.here/merchant', 'http://evil.here/x'],
      ['http://evil.here', 'http://api.here/merchant/x'],
      ['http://api.here/merchant', '/x'],
    ] as const) {
      const config = { baseURL: places.fill(baseURL), url: places.fill(url), allowAbsoluteUrls }
      expect(await byBothAdapters(places, (api) => api.request(config))).toMatch(/^no token at/)
    }
  })
})

describe('a baseURL on the instance', () => {
  it('counts where the call has none, and not where it has', async () => {
    await using places = await openPlaces()
    const evil = { baseURL: places.evil }
    const api = { baseURL: `${places.api}/merchant` }
    expect(await byBothAdapters(places, (axios) => axios.get('/x'), api)).toBe('token at API /merchant/x')
    expect(await byBothAdapters(places, (axios) => axios.get('/x', evil), api)).toBe('no token at evil /x')
    expect(await byBothAdapters(places, (axios) => axios.get('/x', api), evil)).toBe(
      'token at API /merchant/x',
    )
  })

  it('counts as it is at the time of the call', async () => {
    await using places = await openPlaces()
    const call = byBothAdapters(
      places,
      (axios) => {
        axios.defaults.baseURL = places.evil
        return axios.get('/merchant/x')
      },
      { baseURL: places.api },
    )
    expect(await call).toBe('no token at evil /merchant/x')
  })
})

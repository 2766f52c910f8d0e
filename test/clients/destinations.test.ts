// Which URLs get the token: every spelling of a URL with every client, and what arrives over sockets.
import { networkInterfaces } from 'node:os'
import type { AxiosAdapter } from 'axios'
import { type AuthEvent, createAuthFetch, type TokenProvider } from 'merchant-auth'
import { createAuthDispatch } from 'merchant-auth/undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rig } from '../token/harness.ts'
import { answering } from './axios-fakes.ts'
import { AXIOS_FETCH, AXIOS_HTTP, type AxiosOptions, axiosWith, FETCH } from './drivers.ts'
import { openPlaces, type Places } from './places.ts'

type Verdict = 'token' | 'withheld: destination' | 'withheld: own-credentials'
const TOKEN: Verdict = 'token'
const DEST: Verdict = 'withheld: destination'
const OWN: Verdict = 'withheld: own-credentials'
type Row = readonly [url: string, verdict: Verdict]

const ENVIRONMENT = {
  authUrl: 'https://auth.example.com',
  audience: 'https://api.example.com',
  apiUrls: [
    'https://api.example.com/merchant',
    'https://api.example.com/in-store/v1/',
    'https://shop.example.com:8443/a/b',
    'https://bücher.example/merchant',
    'https://[2001:db8::a]/merchant',
    'http://127.0.0.1:8080/merchant',
    'http://[::1]:8080/merchant',
    'http://localhost',
  ],
}

type Sent = (authorization: unknown) => void
/** A call that sends nothing and passes on the header that it would send. */
type Call = (url: string, sent: Sent) => unknown

const onAxios =
  (how: AxiosOptions['how']) =>
  (tokens: TokenProvider): Call =>
  (url, sent) => {
    const adapter: AxiosAdapter = (config) => {
      sent(config.headers.get('Authorization'))
      return answering()(config)
    }
    return axiosWith(tokens, { adapter }, { how }).request({ url })
  }

const onFetch =
  (inputOf: (url: string) => string | URL | Request) =>
  (tokens: TokenProvider): Call =>
  (url, sent) => {
    const authFetch = createAuthFetch(tokens, {
      fetch: async (input, init) => {
        const headers = init?.headers ?? (input instanceof Request ? input.headers : undefined)
        sent(new Headers(headers).get('authorization'))
        return new Response()
      },
    })
    return authFetch(inputOf(url))
  }

const onUndici =
  (tokens: TokenProvider): Call =>
  (url, sent) => {
    const dispatch = createAuthDispatch(tokens)(((options: { headers?: Record<string, string> }) => {
      sent(options.headers?.['Authorization'])
      return true
    }) as never) as unknown as (options: object, handler: object) => boolean
    const { origin, pathname, search } = new URL(url) // as undici's request() does
    dispatch(
      { origin, path: pathname + search, method: 'GET' },
      { onRequestStart: () => {}, onResponseError: () => {} },
    )
  }

const isHttp = (url: string): boolean => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
const hasUserInfo = (url: string): boolean => Boolean(new URL(url).username || new URL(url).password)

/** The ways to pass a URL to a client, and which URLs can be passed that way. */
const WAYS: readonly [client: string, (tokens: TokenProvider) => Call, (url: string) => boolean][] = [
  ['axios', onAxios('attachAuth'), () => true],
  ['axios', onAxios('createAuthInterceptor'), () => true],
  ['fetch', onFetch((url) => url), () => true],
  ['fetch', onFetch((url) => new URL(url)), (url) => URL.canParse(url)],
  ['fetch', onFetch((url) => new Request(url)), (url) => URL.canParse(url) && !hasUserInfo(url)],
  // undici strips user info from a URL.
  ['undici', onUndici, (url) => isHttp(url) && !hasUserInfo(url)],
]

/** The verdict that the header and the events agree on. Removes the events. */
function verdictOf(sent: unknown, events: AuthEvent[]): string {
  const reasons = events.splice(0).flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))
  if (typeof sent === 'string' && sent.startsWith('Bearer head.body.') && reasons.length === 0) return TOKEN
  if ((sent ?? undefined) === undefined && reasons.length === 1) return `withheld: ${reasons[0]}`
  return `sent ${String(sent)}, withheld for ${reasons.join()}`
}

function judge(group: string, rows: readonly Row[]): void {
  it(`${group}: every client gives each of ${rows.length} URLs the expected verdict`, async () => {
    expect(new Set(rows.map(([url]) => url)).size).toBe(rows.length)
    const { provider, events } = rig([], { environment: ENVIRONMENT })
    await provider.getToken()
    events.splice(0)
    for (const [client, call, accepts] of WAYS) {
      const verdicts: Row[] = []
      const urls = rows.filter(([url]) => accepts(url))
      for (const [url] of urls) {
        let sent: unknown = 'nothing'
        await call(provider)(url, (authorization) => {
          sent = authorization
        })
        verdicts.push([url, verdictOf(sent, events) as Verdict])
      }
      expect(verdicts, client).toEqual(urls)
    }
  })
}

judge('protocol-relative, and a wrong number of slashes', [
  ['//api.example.com/merchant/x', DEST],
  ['//api.example.com:443/merchant', DEST],
  ['/\\api.example.com/merchant', DEST],
  ['//u:p@api.example.com/merchant', DEST],
  ['://api.example.com/merchant', DEST],
  ['https:api.example.com/merchant', TOKEN],
  ['https:/api.example.com/merchant/x', TOKEN],
  ['https:///api.example.com/merchant', TOKEN],
  ['https:////api.example.com/merchant/x', TOKEN],
  ['https:///evil.example/merchant', DEST],
])

judge('empty and relative', [
  ['', DEST],
  ['/merchant/x', DEST],
  ['merchant/x', DEST],
  ['../merchant', DEST],
  ['?x', DEST],
  ['https://', DEST],
  ['https:', DEST],
  ['api.example.com:443/merchant', DEST],
  ['localhost:80/x', DEST],
  ['undefined', DEST],
])

judge('file: and data:', [
  ['file:///merchant/x', DEST],
  ['file:/merchant', DEST],
  ['file://api.example.com/merchant/x', DEST],
  ['data:,merchant', DEST],
  ['data:text/plain,https://api.example.com/merchant', DEST],
  ['data://api.example.com/merchant', DEST],
])

judge('other schemes', [
  ['blob:https://api.example.com/merchant/x', DEST],
  ['blob:http://localhost/x', DEST],
  ["javascript:fetch('https://api.example.com/merchant')", DEST],
  ['ws://localhost/x', DEST],
  ['wss://api.example.com/merchant', DEST],
  ['httpss://api.example.com/merchant', DEST],
  ['https+unix://api.example.com/merchant', DEST],
  ['filesystem:https://api.example.com/merchant/x', DEST],
  ['unix:/run/merchant.sock:/merchant', DEST],
])

judge('case', [
  ['HTTPS://api.example.com/merchant/x', TOKEN],
  ['hTtPs://aPi.ExAmPlE.cOm/merchant', TOKEN],
  ['https://API.EXAMPLE.COM/merchant/x', TOKEN],
  ['HTTPS://SHOP.EXAMPLE.COM:8443/a/b/C', TOKEN],
  ['HTTP://LOCALHOST/Any/Path', TOKEN],
  ['https://api.example.com/merchant/X', TOKEN],
  ['https://api.example.com/merchant?X=Y', TOKEN],
  ['https://api.example.com/Merchant/x', DEST],
  ['https://api.example.com/MERCHANT', DEST],
  ['https://api.example.com/merchanT/x', DEST],
  ['https://api.example.com/in-store/V1/x', DEST],
  ['https://shop.example.com:8443/A/b', DEST],
])

judge('default ports', [
  ['https://api.example.com:443/merchant/x', TOKEN],
  ['https://api.example.com:0443/merchant/x', TOKEN],
  ['https://shop.example.com:8443/a/b', TOKEN],
  ['http://localhost:80/x', TOKEN],
  ['http://localhost', TOKEN],
  ['https://api.example.com:80/merchant/x', DEST],
  ['https://api.example.com:8443/merchant/x', DEST],
  ['https://api.example.com:4430/merchant', DEST],
  ['https://api.example.com:65979/merchant', DEST],
  ['http://api.example.com/merchant/x', DEST],
  ['http://api.example.com:443/merchant/x', DEST],
  ['https://shop.example.com/a/b', DEST],
  ['https://shop.example.com:443/a/b', DEST],
  ['http://localhost:8080/x', DEST],
  ['http://localhost:443/x', DEST],
  ['https://localhost/x', DEST],
])

judge('user info', [
  ['https://@api.example.com/merchant/x', TOKEN],
  ['https://:@api.example.com/merchant/x', TOKEN],
  ['https://api.example.com/merchant/u:p@evil.example', TOKEN],
  ['https://u:p@api.example.com/merchant/x', OWN],
  ['https://u@api.example.com/merchant', OWN],
  ['https://:p@api.example.com/merchant/x', OWN],
  ['https://u@p@api.example.com/merchant/x', OWN],
  ['https://user%3Apass@api.example.com/merchant', OWN],
  ['https://evil.example@api.example.com/merchant/x', OWN],
  ['http://u@[::1]:8080/merchant', OWN],
  ['https://u:p@api.example.com/x', DEST],
  ['https://u:p@evil.example/merchant', DEST],
  ['https://api.example.com@evil.example/merchant', DEST],
  ['https://api.example.com:443@evil.example/merchant', DEST],
  ['https://api.example.com%40evil.example/merchant/x', DEST],
  ['https://evil.example/@api.example.com/merchant', DEST],
  ['https://evil.example?@api.example.com/merchant', DEST],
  ['https://evil.example#@api.example.com/merchant', DEST],
])

judge('IDN and punycode', [
  ['https://bücher.example/merchant/x', TOKEN],
  ['https://BÜCHER.example/merchant', TOKEN],
  ['https://xn--bcher-kva.example/merchant/x', TOKEN],
  ['https://bu\u0308cher.example/merchant', TOKEN],
  ['https://b%C3%BCcher.example/merchant/x', TOKEN],
  ['https://bücher。example/merchant', TOKEN],
  ['https://bücher\u200b.example/merchant', TOKEN],
  ['https://ａｐｉ.example.com/merchant', TOKEN],
  ['https://api。example。com/merchant/x', TOKEN],
  ['https://bücher.example/merchants', DEST],
  ['https://bucher.example/merchant', DEST],
  ['https://buecher.example/merchant', DEST],
  ['https://büc\u04bber.example/merchant', DEST],
  ['https://\u0430pi.example.com/merchant', DEST],
  ['https://ap\u0456.example.com/merchant', DEST],
  ['https://xn--bcher-kva.example.evil.example/merchant', DEST],
  ['https://xn--bcher-kvb.example/merchant', DEST],
  ['https://xn--pi-7lb.example.com/merchant', DEST],
  ['https://u＠api.example.com/merchant', DEST],
])

judge('IPv6 forms', [
  ['http://[::1]:8080/merchant/x', TOKEN],
  ['http://[0:0:0:0:0:0:0:1]:8080/merchant/x', TOKEN],
  ['http://[::0.0.0.1]:8080/merchant/x', TOKEN],
  ['https://[2001:DB8::A]/merchant/x', TOKEN],
  ['https://[2001:0db8:0:0::000a]:443/merchant', TOKEN],
  ['http://[::1]/merchant', DEST],
  ['http://[::1]:8081/merchant', DEST],
  ['https://[::1]:8080/merchant', DEST],
  ['http://[::]:8080/merchant', DEST],
  ['http://[::2]:8080/merchant', DEST],
  ['http://[::ffff:127.0.0.1]:8080/merchant', DEST],
  ['http://[::1%25lo]:8080/merchant', DEST],
  ['http://::1:8080/merchant', DEST],
  ['http://[::1]:8080@evil.example/merchant', DEST],
  ['https://[2001:db8::b]/merchant', DEST],
])

judge('IPv4 forms', [
  ['http://127.0.0.1:8080/merchant/x', TOKEN],
  ['http://127.1:8080/merchant/x', TOKEN],
  ['http://0x7f.1:8080/merchant', TOKEN],
  ['http://2130706433:8080/merchant/x', TOKEN],
  ['http://0177.0.0.1:8080/merchant', TOKEN],
  ['http://127.0.0.1.:8080/merchant', TOKEN],
  ['http://127.0.0.2:8080/merchant', DEST],
  ['http://127.0.0.1/merchant', DEST],
  ['http://127.0.0.1.example:8080/merchant', DEST],
  ['http://0.0.0.0:8080/merchant', DEST],
  ['http://localhost:8080/merchant', DEST],
  ['http://127.0.0.08:8080/merchant', DEST],
  ['http://256.0.0.1:8080/merchant', DEST],
])

judge('dots at the end of the host', [
  ['https://api%2eexample%2Ecom/merchant/x', TOKEN],
  ['https://api.example.com./merchant/x', DEST],
  ['https://api.example.com../merchant', DEST],
  ['https://api.example.com.:443/merchant', DEST],
  ['https://api.example.com%2e/merchant', DEST],
  ['https://bücher.example./merchant', DEST],
  ['https://shop.example.com.:8443/a/b', DEST],
  ['http://localhost./x', DEST],
  ['https://.api.example.com/merchant', DEST],
  ['https://api..example.com/merchant', DEST],
  ['https://api.example.com.evil.example/merchant', DEST],
])

const M = (paths: readonly string[], verdict: Verdict): Row[] =>
  paths.map((path) => [`https://api.example.com${path}`, verdict])

judge('backslashes', [
  ['https:\\\\api.example.com\\merchant\\x', TOKEN],
  ['https:/\\api.example.com/merchant', TOKEN],
  ...M(['\\merchant\\x', '/merchant\\x', '\\..\\merchant', '/merchant\\..\\merchant\\x'], TOKEN),
  ...M(['/merchants\\..\\merchant\\x', '/merchant?x=\\..\\..', '/merchant#\\..\\'], TOKEN),
  ...M(['/merchant\\..\\admin', '/merchant/..\\admin', '/merchant\\..', '\\merchants\\x'], DEST),
  ...M(['/merchant/a%5cb', '/merchant/..%5Cadmin', '/merchant%5Cx', '/merchant\\%2e%2e\\admin'], DEST),
  ...M(['\\@evil.example/merchant'], DEST),
  ['https://evil.example\\@api.example.com/merchant', DEST],
  ['https://evil.example\\.api.example.com/merchant', DEST],
  ['\\\\api.example.com\\merchant', DEST],
])

judge('dot segments, plain and percent-encoded', [
  ...M(
    [
      '/merchant/./x',
      '/merchant/a/../b',
      '/x/../merchant/y',
      '/../merchant',
      '/merchant/...',
      '/merchant/a.b/.hidden/c~d',
    ],
    TOKEN,
  ),
  ...M(['/merchant/%2e/x', '/merchant/a/%2e%2E/b', '/x/%2e%2e/merchant/y', '/merchant/%2e%2e%2e/x'], TOKEN),
  ...M(['/merchant/..', '/merchant/../x', '/merchant/a/../../x', '/merchant/../merchants'], DEST),
  ...M(['/merchant/%2e%2e/admin', '/merchant/%2E%2E', '/merchant/%2e./admin', '/merchant/.%2E/admin'], DEST),
  ...M(['/merchant/%2E./', '/merchant/%2e%2e?x', '/merchant/%2e%2e#x', '/merchant/a/%2e%2e/%2e%2e/b'], DEST),
  ...M(['/merchant/%2e%2e%2fadmin', '/merchant/..%2Fadmin'], DEST),
])

// These are no dot segments to the URL parser, and leave as they are: what a server makes of them is the server's.
judge('what only looks like a dot segment', [
  ...M(['/merchant/%252e%252e/admin', '/merchant/%252e%252e%252fadmin', '/merchant/..%252fadmin'], TOKEN),
  ...M(['/merchant/%c0%ae%c0%ae/admin', '/merchant/．．/admin', '/merchant/..;/admin'], TOKEN),
  ...M(['/merchant/%2e%2e;/admin', '/merchant/..%00/admin', '/merchant/..\u0000/admin'], TOKEN),
  ...M(['/merchant/.. /admin', '/merchant/.%20./admin'], TOKEN),
  ...M(['/merchants/..;/merchant', '/merchant%2e%2e/x', '/merchant../x', '/..;/merchant'], DEST),
])

judge('tabs, newlines and other control characters', [
  ['ht\ttps://api.example.com/merchant/x', TOKEN],
  ['https:/\n/api.example.com/merchant', TOKEN],
  ['https://api.exa\tmple.com/merchant/x', TOKEN],
  ['https://api.example.com:4\r\n43/merchant', TOKEN],
  ['  https://api.example.com/merchant/x', TOKEN],
  ['\t\n\u0000https://api.example.com/merchant/x', TOKEN],
  ...M(['/mer\nchant/x', '/merchant/x  ', '/merchant/x\u0000', '/merchant/a\tb', '/merchant\t'], TOKEN),
  ...M(['/merchant/.\t./admin', '/merchant/%2\te%2e/admin', '/merchant/.\r\n./admin'], DEST),
  ...M(['/merchant/..\u0000', '/merchant/.. ', '/merchant/..\n', '/merchant/a%\t2fb', '/merchant x'], DEST),
  ...M([' /merchant', '\t.evil.example/merchant', '\n@evil.example/merchant', '/mer\u000bchant'], DEST),
  ['https://api.exam\u0000ple.com/merchant', DEST],
  ['https://evil.example/\nhttps://api.example.com/merchant', DEST],
  ['\u00a0https://api.example.com/merchant', DEST],
  ['\ufeffhttps://api.example.com/merchant', DEST],
  ['https://u\t@api.example.com/merchant', OWN],
  ['https:\n//u:p@api.example.com/merchant/x', OWN],
])

judge('path boundaries', [
  ...M(['/merchant', '/merchant/', '/merchant/orders/7', '/merchant//x', '/merchant/;x'], TOKEN),
  ...M(
    ['/merchant?x', '/merchant#x', '/merchant/?next=https://evil.example/', '/merchant/@evil.example'],
    TOKEN,
  ),
  ...M(['/merchant/x?y=%2f%5c/../..', '/merchant/x#a%2fb/../..', '/merchant/https://evil.example'], TOKEN),
  ...M(['/in-store/v1', '/in-store/v1/', '/in-store/v1/sales'], TOKEN),
  ...M(['', '/', '?/merchant', '#/merchant', '//merchant/x', '/x/merchant/y'], DEST),
  ...M(
    ['/merchants', '/merchant2/x', '/merchant.json', '/merchant-old/x', '/merchant;x', '/merchant;v=1/x'],
    DEST,
  ),
  ...M(
    ['/merchant%2forders', '/merchant/a%2fb', '/merchant/a%2Fb?x', '/merchant%20/x', '/%6derchant/x'],
    DEST,
  ),
  ...M(['/merchant@evil.example/x', '/merchant:x', '/merchant&x', '/merchant%3Fx', '/merchant%23x'], DEST),
  ...M(['/in-store', '/in-store/v10', '/in-store/v1beta/x', '/in-store/v2', '/in-store/x/v1'], DEST),
  ['https://evil.example/?u=https://api.example.com/merchant', DEST],
  ['https://evil.example/https://api.example.com/merchant', DEST],
  ['https://shop.example.com:8443/a', DEST],
  ['https://shop.example.com:8443/a/bc', DEST],
])

const X = 'token at API /merchant/x'
const NOTHING = 'not sent'

/** A URL, its outcome on axios, and its outcome on fetch if that differs. */
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
  ['http://evil.here#@api.here/merchant', 'no token at evil /'],
  ['http://evil.here?@api.here/merchant', 'no token at evil /?@api.here/merchant'],
  ['http://evil.here/merchant', 'no token at evil /merchant'],
  ['http://localhost:{EVIL}/merchant/x', 'no token at evil /merchant/x'],
  ['//api.here/merchant/x', NOTHING],
  // axios' fetch adapter strips user info from a URL and thereby makes it absolute.
  ['//u:p@api.here/merchant/x', 'http: not sent; fetch: no token at API /merchant/x', NOTHING],
  ['//u:p@evil.here/merchant', 'http: not sent; fetch: no token at evil /merchant', NOTHING],
  ['/merchant/x', NOTHING],
  ['', NOTHING],
  ['https://api.here/merchant/x', NOTHING],
  ['blob:http://api.here/merchant', NOTHING],
  ['file:///merchant', NOTHING],
  ['data:,merchant', 'answered without a request'],
]

describe('a URL over sockets', () => {
  let places: Places
  beforeAll(async () => {
    places = await openPlaces()
  })
  afterAll(() => places.close())

  it.for(FORMS)('%j has the outcome: %s', async ([form, onAxios, onFetch = onAxios]) => {
    const url = places.fill(form)
    const outcomeOf = async (driver: typeof FETCH): Promise<string> => {
      const send = driver.create(places.tokens)
      return await places.outcome(() => send({ url }))
    }
    const [http, byFetch] = [await outcomeOf(AXIOS_HTTP), await outcomeOf(AXIOS_FETCH)]
    const byAxios = http === byFetch ? http : `http: ${http}; fetch: ${byFetch}`
    expect([byAxios, await outcomeOf(FETCH)]).toEqual([onAxios, onFetch])
  })

  const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
    all?.some(({ address }) => address === '::1'),
  )
  it.runIf(hasIpv6)('with an IPv6 host gets the token only at the API', async () => {
    const ipv6 = await openPlaces('::1')
    for (const [form, expected] of [
      ['http://[::1]:{API}/merchant/x', X],
      ['http://[0:0:0:0:0:0:0:1]:{API}/merchant/x', X],
      ['http://[::0.0.0.1]:{API}\\merchant\\x', X],
      ['http://[::1]:{API}/merchant/%2e%2e/x', 'no token at API /x'],
      ['http://[::1]:{EVIL}/merchant/x', 'no token at evil /merchant/x'],
      ['http://[::1%25lo]:{API}/merchant/x', NOTHING],
    ] as const) {
      for (const driver of [AXIOS_HTTP, AXIOS_FETCH, FETCH]) {
        const send = driver.create(ipv6.tokens)
        expect([form, await ipv6.outcome(() => send({ url: ipv6.fill(form) }))]).toEqual([form, expected])
      }
    }
    await ipv6.close()
  })
})

it('an apiUrl below another one has its own renewal rate limit', async () => {
  const inner = 'https://api.example.com/merchant/inner'
  const { provider, events } = rig([], {
    environment: { ...ENVIRONMENT, apiUrls: [inner, 'https://api.example.com/merchant'] },
  })
  const authFetch = createAuthFetch(provider, { fetch: async () => new Response('', { status: 401 }) })
  for (const url of ['https://api.example.com/merchant/innermost', `${inner}/1`, `${inner}/2`])
    await authFetch(url)
  const count = (type: string): number => events.filter((event) => event.type === type).length
  expect([count('token-renewed'), count('renewal-suppressed')]).toEqual([2, 1])
})

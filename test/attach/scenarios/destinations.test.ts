// Which URLs get the token: every spelling of a URL in memory, and what arrives over sockets.
import { type AuthEvent, createAuthFetch } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { settled } from '../../support/clock.ts'
import { type Scripted, scripted, useGround } from '../../support/ground.ts'
import { provided, token } from '../../support/provided.ts'
import { outcomes } from '../../support/recorded.ts'
import { rig } from '../../token/harness.ts'
import { answering } from '../axios-fakes.ts'
import { CLIENTS } from '../conform.ts'
import { axiosWith, type Client } from '../drivers.ts'

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
    'http://localhost',
  ],
}

const withheld = (events: readonly AuthEvent[]): string[] =>
  events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))

/** What happens to a call of this URL on axios and on fetch: whether the token is sent, and the reasons why not. */
async function decisionOn(url: string) {
  const { provider, events } = rig([], { environment: ENVIRONMENT })
  const seen: boolean[] = []
  const send = createAuthFetch(provider, {
    fetch: async (input, init) => {
      const headers = init?.headers ?? (input instanceof Request ? input.headers : undefined)
      seen.push(new Headers(headers).has('authorization'))
      return new Response()
    },
  })
  const api = axiosWith(provider, {
    adapter: (config) => {
      seen.push(config.headers.has('authorization'))
      return answering()(config)
    },
  })
  await api.get(url)
  await send(url)
  if (URL.canParse(url)) {
    const parsed = new URL(url)
    await send(parsed)
    if (!parsed.username && !parsed.password) await send(new Request(url))
  }
  const [sent, ...more] = new Set(seen)
  expect(more, 'other decisions of other clients').toEqual([])
  return sent ? 'token' : [...new Set(withheld(events))].join()
}

const below = (...paths: string[]): string[] => paths.map((path) => `https://api.example.com${path}`)

it.each([
  ...below('/merchant', '/merchant/', '/merchant/orders/7', '/merchant//x', '/merchant/;x'),
  ...below('/merchant?x', '/merchant#x', '/merchant/x?y=%2f%5c/../..', '/merchant/https://evil.example'),
  ...below('/in-store/v1', '/in-store/v1/sales', '/merchant/@evil.example'),
  'https:api.example.com/merchant',
  'https:///api.example.com/merchant',
  'hTtPs://aPi.ExAmPlE.cOm/merchant',
  'https://api.example.com:443/merchant/x',
  'https://shop.example.com:8443/a/b',
  'http://localhost:80/x',
  'https://:@api.example.com/merchant/x', // an empty user name
  'https://b%C3%BCcher.example/merchant/x',
  'https://xn--bcher-kva.example/merchant/x',
  'https://ａｐｉ.example.com/merchant',
  'https://[2001:0db8:0:0::000a]:443/merchant',
  'http://127.1:8080/merchant/x',
  'http://2130706433:8080/merchant/x',
  'https:\\\\api.example.com\\merchant\\x',
  ...below('/merchants\\..\\merchant\\x', '/merchant?x=\\..\\..'),
  ...below('/merchant/a/../b', '/x/%2e%2e/merchant/y', '/merchant/%2e/x', '/merchant/...'),
  // These are not dot segments for the URL parser, and are sent as they are.
  ...below('/merchant/%252e%252e/admin', '/merchant/..;/admin', '/merchant/．．/admin'),
  ...below('/mer\nchant/x', '/merchant/x  ', '/merchant/a\tb'),
  '\t\n\u0000https://api.example.com/merchant/x',
])('%j gets the token', async (url) => {
  expect(await decisionOn(url)).toBe('token')
})

it.each([
  ...['', '/merchant/x', '../merchant', '?x', 'https:', 'undefined', 'api.example.com:443/merchant'],
  ...['//api.example.com/merchant/x', '/\\api.example.com/merchant', '://api.example.com/merchant'],
  ...['file:///merchant/x', 'data:,merchant', 'ws://localhost/x', 'blob:https://api.example.com/merchant/x'],
  ...below('', '/', '?/merchant', '#/merchant', '//merchant/x', '/x/merchant/y', '/Merchant/x'),
  ...below('/merchants', '/merchant.json', '/merchant;v=1/x', '/merchant%20/x', '/%6derchant/x'),
  ...below('/in-store', '/in-store/v10', '/in-store/v2', '/in-store/x/v1'),
  ...below('/merchant/a%2fb', '/merchant%2forders', '/merchant/..%2Fadmin', '/merchant/a%5cb'),
  ...below('/merchant/..', '/merchant/a/../../x', '/merchant/%2e%2e/admin', '/merchant/.%2E/admin'),
  ...below('/merchant/.\t./admin', '/merchant/..\n', '/merchant/%2\te%2e/admin'),
  ...below('/merchant\\..\\admin', '/merchant/..\\admin', '/merchant\\%2e%2e\\admin'),
  ...below('\\@evil.example/merchant', '\t.evil.example/merchant', '\n@evil.example/merchant'),
  'http://api.example.com/merchant/x',
  'https://api.example.com:8443/merchant/x',
  'http://localhost:8080/x',
  'https://localhost/x',
  'https://api.example.com./merchant/x',
  'https://api.example.com.evil.example/merchant',
  'https://\u0430pi.example.com/merchant', // a Cyrillic letter
  'https://bucher.example/merchant',
  'https://[2001:db8::b]/merchant',
  'http://127.0.0.2:8080/merchant',
  'http://127.0.0.1.example:8080/merchant',
  'https://u:p@evil.example/merchant',
  'https://api.example.com@evil.example/merchant',
  'https://api.example.com:443@evil.example/merchant',
  'https://api.example.com%40evil.example/merchant/x',
  'https://evil.example/@api.example.com/merchant',
  'https://evil.example?@api.example.com/merchant',
  'https://evil.example#@api.example.com/merchant',
  'https://evil.example\\@api.example.com/merchant',
  'https://evil.example/?u=https://api.example.com/merchant',
])('%j gets no token, because of its destination', async (url) => {
  expect(await decisionOn(url)).toBe('destination')
})

it.each([
  'https://u:p@api.example.com/merchant/x',
  'https://u@api.example.com/merchant',
  'https://:p@api.example.com/merchant/x',
  'https://evil.example@api.example.com/merchant/x',
  'https:\n//u:p@api.example.com/merchant/x',
])('%j gets no token, because of its own credentials', async (url) => {
  expect(await decisionOn(url)).toBe('own-credentials')
})

describe.each(CLIENTS)('$name', ({ create }) => {
  let api: Scripted
  let other: Scripted
  let arrivals: string[]
  beforeEach(async () => {
    arrivals = []
    const serve = (at: string) =>
      scripted(({ path, headers }, response) => {
        arrivals.push(`${at} ${path} ${headers.authorization ?? 'no token'}`)
        response.end()
      })
    api = await serve('API')
    other = await serve('other')
  })
  afterEach(async () => {
    for (const server of [api, other]) await server[Symbol.asyncDispose]()
  })

  const TOKEN = 'Bearer the.one.token'
  it.each([
    ['http://{API}/merchant/x?y=1#z', `API /merchant/x?y=1 ${TOKEN}`],
    ['HTTP://{API}/merchant/x', `API /merchant/x ${TOKEN}`],
    ['ht\ttp://{API}/mer\nchant/x', `API /merchant/x ${TOKEN}`],
    ['http://127.1:{PORT}/merchant/x', `API /merchant/x ${TOKEN}`],
    ['http://{API}/x/%2e%2e/merchant/y', `API /merchant/y ${TOKEN}`],
    ['http://{API}/merchant/%2e%2e/x', 'API /x no token'],
    ['http://{API}/merchant\\..\\x', 'API /x no token'],
    ['http://{API}/merchant/.\t./x', 'API /x no token'],
    ['http://{API}/merchant/a%2fb', 'API /merchant/a%2fb no token'],
    ['http://{API}/merchants', 'API /merchants no token'],
    ['http://localhost:{PORT}/merchant/x', 'API /merchant/x no token'],
    ['http://{API}\\@{OTHER}/merchant', 'API /@{OTHER}/merchant no token'],
    ['http://{OTHER}\\@{API}/merchant', 'other /@{API}/merchant no token'],
    ['http://{OTHER}#@{API}/merchant', 'other / no token'],
    ['http://{OTHER}/merchant', 'other /merchant no token'],
  ])('calls %j: %s', async (template, expected) => {
    const { host, port } = new URL(api.url)
    const fill = (text: string): string =>
      text.replaceAll('{API}', host).replaceAll('{PORT}', port).replaceAll('{OTHER}', new URL(other.url).host)
    const tokens = provided({ current: token('the.one.token'), apiUrls: [`${api.url}/merchant`] })
    await create(tokens)({ url: fill(template) })
    expect(arrivals).toEqual([fill(expected)])
  })
})

describe('a token request', () => {
  const ground = useGround()

  it.each(CLIENTS)('of the client’s own provider gets no token and waits for none: $name', async (client) => {
    const { environment } = ground.env
    const apiUrls = [environment.authUrl, ...Object.values(environment.apiUrls)]
    let send: Client
    const tokens = ground.provider({
      environment: { ...environment, apiUrls },
      fetch: async (input, init) => {
        const headers = Object.fromEntries(new Headers(init?.headers))
        const { status, text } = await send({ url: String(input), method: 'POST', headers, body: init?.body })
        return new Response(text, { status })
      },
    })
    send = client.create(tokens)
    expect((await tokens.getToken()).tokenType).toBe('Bearer')
    expect(ground.env.requests('token')[0]?.headers).not.toHaveProperty('authorization')
    expect(withheld(ground.events)).toEqual([])
    outcomes.length = 0 // the caller gets the token response itself
  })
})

it('an apiUrl below another one has its own renewal rate limit', async () => {
  const inner = 'https://api.example.com/merchant/inner'
  const { provider, events } = rig([], {
    environment: { ...ENVIRONMENT, apiUrls: [inner, 'https://api.example.com/merchant'] },
  })
  const authFetch = createAuthFetch(provider, { fetch: async () => new Response('', { status: 401 }) })
  const outer = 'https://api.example.com/merchant/innermost'
  const renewalsAfter = async (url: string): Promise<number> => {
    for (let nth = 0; nth < 5; nth += 1) await authFetch(url)
    await settled()
    return events.filter(({ type }) => type === 'token-renewed').length
  }
  expect([await renewalsAfter(outer), await renewalsAfter(`${inner}/1`)]).toEqual([1, 2])
})

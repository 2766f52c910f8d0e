/** Redirects of an API: which of them keep the token, and a 401 at their end. */
import assert from 'node:assert/strict'
import type { TokenProvider } from 'merchant-auth'
import type { Driver } from '../drivers.ts'
import { failureOf, MovedClock, type Seen, type World } from '../world.ts'
import type { Scenario } from './scenario.ts'

const STATUSES = [301, 302, 303, 307, 308]
const HEADERS = { Authorization: {}, 'X-Access-Token': { header: 'X-Access-Token', scheme: '' } }
type Header = keyof typeof HEADERS

interface Arrival extends Omit<Seen, 'body'> {
  readonly body: string
  readonly at: 'API' | 'elsewhere'
}

/** An API below /merchant and another server; `answer` decides their responses. `{API}` and `{EVIL}` are their hosts. */
async function openPlaces(
  world: World,
  answer: (arrival: Arrival) => { status: number; location?: string | undefined },
) {
  const arrivals: Arrival[] = []
  const open = (at: Arrival['at']) =>
    world.host((seen, response) => {
      const arrival = { at, ...seen, body: String(seen.body) }
      arrivals.push(arrival)
      const { status, location } = answer(arrival)
      response.writeHead(status, location === undefined ? {} : { location: fill(location) }).end('here')
    })
  const api = await open('API')
  const evil = await open('elsewhere')
  const fill = (template: string): string =>
    template
      .replaceAll('{API}', new URL(api.url).host)
      .replaceAll('{EVIL}', new URL(evil.url).host)
      .replaceAll('{PORT}', new URL(api.url).port)
  return { arrivals, fill, api: `${api.url}/merchant`, evil: `${evil.url}/merchant` }
}

function providerFor(world: World, ...apiUrls: string[]): TokenProvider {
  return world.provider({ environment: { ...world.service.environment, apiUrls }, clock: new MovedClock() })
}

const doesFollow = ({ follows }: Driver, header: Header): boolean =>
  follows === 'always' || (follows === 'authorization' && header === 'Authorization')

const WITH = 'followed with the token'
const WITHOUT = 'followed without it'
const OTHER_API = 'another of the apiUrls, on another port'

/** The target, and whether the token is kept by a client that guards paths, and by one that guards origins. */
const PLACES: readonly [to: string, hops: readonly string[], byPath: string, byOrigin: string][] = [
  ['another path of the API', ['/merchant/y'], WITH, WITH],
  ['two other paths of the API in turn', ['/merchant/a', '/merchant/y'], WITH, WITH],
  ['outside apiUrls, on the same origin', ['/outside'], WITHOUT, WITH],
  ['outside apiUrls through dot segments', ['%2e%2e/outside'], WITHOUT, WITH],
  ['a path of the API with %2f', ['/merchant/..%2fy'], WITHOUT, WITH],
  ['outside apiUrls, and back', ['/outside', '/merchant/y'], WITHOUT, WITH],
  ['another port', ['http://{EVIL}/merchant/y'], WITHOUT, WITHOUT],
  // A direct call there carries the token; a redirect there does not.
  [OTHER_API, ['http://{EVIL}/merchant/y'], WITHOUT, WITHOUT],
  ['another port, protocol-relative', ['//{EVIL}/merchant/y'], WITHOUT, WITHOUT],
  ['another port, with backslashes', ['\\\\{EVIL}\\merchant\\y'], WITHOUT, WITHOUT],
  ['another host name, same port', ['http://localhost:{PORT}/merchant/y'], WITHOUT, WITHOUT],
  [
    'another port, and back to the API',
    ['http://{EVIL}/merchant/x', 'http://{API}/merchant/y'],
    WITHOUT,
    WITHOUT,
  ],
]

/** The scenarios that run in every runtime: the others prove nothing more about a runtime. */
const EVERYWHERE = [
  ...['another path of the API', 'outside apiUrls, on the same origin', 'another port'],
  ...['the API itself, no redirect', 'redirect to another path of the API', 'redirect to another port'],
]

const followed = PLACES.flatMap(([to, hops, byPath, byOrigin]) =>
  Object.entries(HEADERS).map(
    ([header, attach]): Scenario => ({
      group: `A redirect with the token in ${header}`,
      name: to,
      nodeOnly: !EVERYWHERE.includes(to),
      run: async (world, driver) => {
        let [status, hop] = [0, 0]
        const { arrivals, fill, api, evil } = await openPlaces(world, ({ path }) => {
          if (path === '/merchant/to') hop = 0
          const location = hops[hop]
          hop += 1
          return location === undefined ? { status: 200 } : { status, location }
        })
        const tokens = providerFor(world, api, ...(to === OTHER_API ? [evil] : []))
        const { value } = await tokens.getToken()
        const send = driver.create(tokens, attach)
        const isFollowed = doesFollow(driver, header as Header)
        const expected = isFollowed ? (driver.guardsPaths ? byPath : byOrigin) : 'not followed: the 3xx'
        for (status of STATUSES) {
          for (const method of ['GET', 'POST']) {
            const body = method === 'POST' ? 'payload' : undefined
            const answer = await send({ url: `${api}/to`, method, body })
            const [first, ...further] = arrivals.splice(0)
            const hasToken = (one: Arrival | undefined): boolean => JSON.stringify(one).includes(value)
            assert.ok(hasToken(first), 'the token at the API')
            assert.equal(answer.status, isFollowed ? 200 : status)
            assert.equal(further.length, isFollowed ? hops.length : 0)
            if (!isFollowed) assert.equal(answer.header('location'), fill(hops[0] ?? ''))
            assert.deepEqual(
              further.map(hasToken),
              further.map(() => expected === WITH),
            )
            for (const { method: next, body: sent } of driver.name === 'undici' ? [] : further) {
              const isKept = method === 'GET' || status > 303
              assert.deepEqual([next, sent], [isKept ? method : 'GET', (isKept && body) || ''])
            }
          }
        }
        return expected
      },
    }),
  ),
)

const LOCATIONS = [
  'ftp://{EVIL}/x',
  'ws://{EVIL}/x',
  'file:///x',
  'javascript:x',
  'http://[',
  'data:,x',
  '{SAME}',
]

const unreachable = LOCATIONS.flatMap((location) =>
  Object.entries(HEADERS).map(
    ([header, attach]): Scenario => ({
      group: `A redirect to an invalid target or in a circle, with the token in ${header}`,
      name:
        location === '{SAME}' ? 'the same path, in a circle' : `\`${location.replace('{EVIL}', 'evil')}\``,
      nodeOnly: true,
      run: async (world, driver) => {
        const { arrivals, api } = await openPlaces(world, ({ path }) => ({
          status: 302,
          location: location.replace('{SAME}', path),
        }))
        const tokens = providerFor(world, api)
        const { value } = await tokens.getToken()
        const call = driver.create(tokens, attach)({ url: `${api}/x` })
        if (!doesFollow(driver, header as Header)) {
          assert.equal((await call).status, 302)
          assert.equal(arrivals.length, 1)
          return 'not followed: the 3xx'
        }
        await failureOf(call)
        assert.ok(arrivals.length <= 22)
        assert.ok(arrivals.every((one) => one.at === 'API' && JSON.stringify(one).includes(value)))
        assert.equal(world.service.counts.token, 1)
        if (arrivals.length === 1) return 'rejects; nothing more is sent'
        return 'rejects in the end; the token at the API only'
      },
    }),
  ),
)

/** The called URL, and its redirects before the 401. */
const REJECTED: readonly [name: string, url: string, hops: readonly string[], renewed: boolean][] = [
  ['the API itself, no redirect', 'http://{API}/merchant/x', [], true],
  ['outside apiUrls, no redirect', 'http://{API}/outside', [], false],
  ['another port, no redirect', 'http://{EVIL}/merchant/x', [], false],
  ['redirect to another path of the API', 'http://{API}/merchant/to', ['/merchant/y'], false],
  ['redirect to the same path of the API', 'http://{API}/merchant/to', ['/merchant/to?again'], false],
  ['redirect outside apiUrls, on the same origin', 'http://{API}/merchant/to', ['/outside'], false],
  ['redirect to another port', 'http://{API}/merchant/to', ['http://{EVIL}/merchant/y'], false],
  [
    'redirect to another host name',
    'http://{API}/merchant/to',
    ['http://localhost:{PORT}/merchant/y'],
    false,
  ],
  [
    'redirect to another port, and back to the API',
    'http://{API}/merchant/to',
    ['http://{EVIL}/x', 'http://{API}/merchant/y'],
    false,
  ],
]

const rejected = REJECTED.flatMap(([name, url, hops, renewed]) =>
  Object.entries(HEADERS).map(
    ([header, attach]): Scenario => ({
      group: `A 401 after redirects, with the token in ${header}`,
      name,
      nodeOnly: !EVERYWHERE.includes(name),
      run: async (world, driver) => {
        for (const status of STATUSES) {
          let hop = 0
          const { arrivals, fill, api } = await openPlaces(world, () => {
            const location = hops[hop]
            hop += 1
            return location === undefined ? { status: 401 } : { status, location }
          })
          const tokens = providerFor(world, api)
          await tokens.getToken()
          const before = world.service.counts.token
          const answer = await driver.create(tokens, attach)({ url: fill(url) })
          const isFollowed = doesFollow(driver, header as Header) || hops.length === 0
          assert.equal(answer.status, isFollowed ? 401 : status)
          assert.equal(world.service.counts.token - before, renewed ? 1 : 0)
          assert.equal(arrivals.length, renewed ? 2 : isFollowed ? hops.length + 1 : 1)
          if (!isFollowed) return 'not followed; no renewal'
        }
        return renewed ? 'renewed once, sent twice' : '401 handed out; no renewal'
      },
    }),
  ),
)

export const REDIRECTS: readonly Scenario[] = [...followed, ...unreachable, ...rejected].map((one) => ({
  ...one,
  drivers: ['axios http', 'axios fetch', 'fetch', 'undici'],
}))

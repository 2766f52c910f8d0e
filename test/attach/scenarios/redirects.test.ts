// Redirects of an API: which of them keep the token, and a 401 after one. undici itself follows none.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Scripted, scripted } from '../../support/ground.ts'
import { provided, token } from '../../support/provided.ts'
import { AXIOS_FETCH, AXIOS_FUNCTION_FETCH, AXIOS_HTTP, type Driver, FETCH } from '../drivers.ts'

const CUSTOM = { header: 'X-Access-Token', scheme: '' }
const FOLLOWING = [AXIOS_HTTP, AXIOS_FETCH, AXIOS_FUNCTION_FETCH, FETCH]

/** An API below /merchant, and a server elsewhere. The API answers /merchant/to with the first of the locations. */
let api: Scripted
let elsewhere: Scripted
/** Each request: its server and path, and whether it carried the token. */
let arrivals: string[]
let status: number
let locations: string[]
/** The status at the end of the redirects. */
let last: number
const renew = vi.fn(async () => undefined)

beforeEach(async () => {
  arrivals = []
  status = 302
  last = 200
  renew.mockClear()
  const serve = (at: string) =>
    scripted(({ path, headers }, response) => {
      const hasToken = JSON.stringify(headers).includes('current.token')
      arrivals.push(`${at} ${path} ${hasToken ? 'token' : 'none'}`)
      const location = locations.shift()
      if (location === undefined) response.writeHead(last).end('here')
      else response.writeHead(status, { location: fill(location) }).end()
    })
  api = await serve('API')
  elsewhere = await serve('elsewhere')
})
afterEach(async () => {
  for (const server of [api, elsewhere]) await server[Symbol.asyncDispose]()
})

/** Replaces {API}, {OTHER} and {PORT} with the hosts of the servers and the port of the API. */
function fill(location: string): string {
  const { host, port } = new URL(api.url)
  const other = new URL(elsewhere.url).host
  return location.replaceAll('{API}', host).replaceAll('{OTHER}', other).replaceAll('{PORT}', port)
}

/** Calls the API, which redirects to these locations in turn. Resolves with the status and the requests. */
async function follow({ create }: Driver, to: string[], attach = {}, call: object = {}) {
  locations = [...to]
  const apiUrls = [`${api.url}/merchant`, `${elsewhere.url}/other-api`]
  const tokens = provided({ current: token('current.token'), apiUrls, renew })
  const answer = await create(tokens, attach)({ url: `${api.url}/merchant/to`, ...call })
  return [answer.status, ...arrivals]
}

const START = 'API /merchant/to token'

describe.each(FOLLOWING)('$name', (client) => {
  it.each([301, 302, 303, 307, 308])('keeps the token on a %i to another path of the API', async (code) => {
    status = code
    expect(await follow(client, ['/merchant/a', '/merchant/b'])).toEqual([
      200,
      START,
      'API /merchant/a token',
      'API /merchant/b token',
    ])
  })

  it.each([
    ['another port', 'http://{OTHER}/merchant/y', '/merchant/y'],
    ['another port, by a URL without a scheme', '//{OTHER}/merchant/y', '/merchant/y'],
    ['another port, with backslashes', '\\\\{OTHER}\\merchant\\y', '/merchant/y'],
    ['another of the apiUrls, on another port', 'http://{OTHER}/other-api', '/other-api'],
  ])('drops the token on a redirect to %s', async (_, location, path) => {
    expect(await follow(client, [location])).toEqual([200, START, `elsewhere ${path} none`])
  })

  it('drops the token on a redirect to another host name', async () => {
    const arrived = await follow(client, ['http://localhost:{PORT}/merchant/y'])
    expect(arrived).toEqual([200, START, 'API /merchant/y none'])
  })

  it('drops the token on a POST that a 307 redirects to another port', async () => {
    status = 307
    const call = { method: 'POST', body: 'payload' }
    const arrived = await follow(client, ['http://{OTHER}/x'], {}, call)
    expect(arrived).toEqual([200, START, 'elsewhere /x none'])
    expect(String(elsewhere.seen[0]?.body)).toBe('payload')
  })

  it('does not add the token again on a redirect to another port and back', async () => {
    const arrived = await follow(client, ['http://{OTHER}/x', 'http://{API}/merchant/y'])
    expect(arrived).toEqual([200, START, 'elsewhere /x none', 'API /merchant/y none'])
  })

  it('renews after a 401 from another path of the API, such as one that ends with a slash', async () => {
    last = 401
    expect(await follow(client, ['/merchant/to/'])).toEqual([401, START, 'API /merchant/to/ token'])
    expect(renew).toHaveBeenCalledOnce()
  })

  it.each(['http://{OTHER}/x', 'http://{OTHER}/other-api', '/outside'])(
    'renews nothing after a 401 from elsewhere: %s',
    async (location) => {
      last = 401
      expect((await follow(client, [location]))[0]).toBe(401)
      expect(renew).not.toHaveBeenCalled()
    },
  )
})

describe('axios http', () => {
  it.each([
    ['a path outside apiUrls', '/outside', '/outside'],
    ['a path outside apiUrls, by dot segments', '%2e%2e/outside', '/outside'],
    ['a path with %2f', '/merchant/..%2fy', '/merchant/..%2fy'],
  ])('drops the token on a redirect to %s', async (_, location, path) => {
    expect(await follow(AXIOS_HTTP, [location])).toEqual([200, START, `API ${path} none`])
  })

  it('does not add the token again on a redirect outside apiUrls and back', async () => {
    const arrived = await follow(AXIOS_HTTP, ['/outside', '/merchant/y'])
    expect(arrived).toEqual([200, START, 'API /outside none', 'API /merchant/y none'])
  })

  it('keeps a token in another header than Authorization within the API, and drops it elsewhere', async () => {
    const within = await follow(AXIOS_HTTP, ['/merchant/y'], CUSTOM)
    expect(within).toEqual([200, START, 'API /merchant/y token'])
    arrivals = []
    const away = await follow(AXIOS_HTTP, ['http://{OTHER}/x'], CUSTOM)
    expect(away).toEqual([200, START, 'elsewhere /x none'])
    arrivals = []
    const otherApi = await follow(AXIOS_HTTP, ['http://{OTHER}/other-api'], CUSTOM)
    expect(otherApi).toEqual([200, START, 'elsewhere /other-api none'])
  })
})

describe.each([AXIOS_FETCH, AXIOS_FUNCTION_FETCH, FETCH])('$name', (client) => {
  it.each(['/merchant/y', 'http://{OTHER}/x'])(
    'with another header than Authorization returns a redirect to %s to the caller',
    async (location) => {
      expect(await follow(client, [location], CUSTOM)).toEqual([302, START])
    },
  )
})

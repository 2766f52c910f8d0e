// Where a call of axios really goes, whatever names it: baseURL, url, params, interceptors, transforms, proxies.
import { createRequire } from 'node:module'
import axios, { type AxiosInstance, type AxiosRequestConfig, type CreateAxiosDefaults } from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { record } from '../faults/cells.ts'
import { ADAPTERS } from '../support/ground.ts'
import { growth } from '../support/growth.ts'
import { provided, token } from '../support/provided.ts'
import { rig } from '../token/harness.ts'
import { onSocket } from './axios-fakes.ts'
import { type AxiosOptions, axiosWith, HOWS } from './drivers.ts'
import { openPlaces, type Places, shown } from './places.ts'

let places: Places
beforeAll(async () => {
  places = await openPlaces()
})
beforeEach(() => {
  places.answer = () => ({ status: 200 })
})
afterAll(() => places.close())

const client = (how: AxiosOptions['how'], config: CreateAxiosDefaults = {}, attach?: AttachOptions) =>
  axiosWith(places.tokens, { validateStatus: () => true, proxy: false, ...config }, { how, attach })

/** What a call came to by both adapters and both ways of attaching; told apart where the adapters differ. */
async function cameOf(
  call: (api: AxiosInstance) => Promise<unknown>,
  config: CreateAxiosDefaults = {},
): Promise<string> {
  const came: string[] = []
  for (const adapter of ADAPTERS) {
    const ways: string[] = []
    for (const how of HOWS) ways.push(await places.outcome(() => call(client(how, { adapter, ...config }))))
    expect(ways).toEqual([ways[0], ways[0]])
    came.push(ways[0] ?? '')
  }
  return came[0] === came[1] ? (came[0] ?? '') : `http: ${came[0]}; fetch: ${came[1]}`
}

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
  ['http://api.here/merchant', '/../x', 'no token at API /x'],
  ['http://api.here/merchant/', '../x', 'no token at API /x'],
  ['http://api.here/merchant//', '..//x', 'no token at API //x'],
  ['http://api.here/merchant', '%2e%2e/x', 'no token at API /x'],
  ['http://api.here/merchant', '..\\x', 'no token at API /x'],
  ['http://api.here/merchant', '..%2fx', 'no token at API /merchant/..%2fx'],
]

const EVIL_URL = 'http://evil.here/x'
const ELSEWHERE: readonly Row[] = [
  ['http://api.here/merchant', EVIL_URL, 'no token at evil /x', 'token at API /merchant/http://evil.here/x'],
  ['http://api.here/merchant', '//evil.here/x', NOTHING, 'token at API /merchant/evil.here/x'],
  ['http://api.here/merchant', 'http:evil.here/x', NOTHING],
  ['http://api.here/merchant', '\\\\evil.here\\x', 'token at API /merchant///evil.here/x'],
  ['http://api.here/merchant', ` ${EVIL_URL}`, 'token at API /merchant/%20http://evil.here/x'],
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
    it.for(rows)('baseURL %s, url %s: %s', async ([baseURL, url, came, withFalse = came], { task }) => {
      for (const allow of ALLOW) {
        const config: AxiosRequestConfig = {}
        if (baseURL !== undefined) config.baseURL = places.fill(baseURL)
        if (url !== undefined) config.url = places.fill(url)
        if (allow !== undefined) config.allowAbsoluteUrls = allow
        const cell = await cameOf((api) => api.request(config))
        expect(cell, `allowAbsoluteUrls ${allow}`).toBe(allow === false ? withFalse : came)
        const row = [baseURL, url].map((part) => (part === undefined ? '(none)' : shown(part))).join(' + ')
        const column = allow === undefined ? 'allowAbsoluteUrls left out' : String(allow)
        record(task, { table: 'base-urls', group, row, column, cell })
      }
    })
  })
}

describe('allowAbsoluteUrls that is not a boolean', () => {
  it.each([0, 1, '', 'false', {}])('%j: no token, whatever axios makes of it', async (given) => {
    const allowAbsoluteUrls = given as unknown as boolean
    for (const [baseURL, url] of [
      ['http://api.here/merchant', 'http://evil.here/x'],
      ['http://evil.here', 'http://api.here/merchant/x'],
      ['http://api.here/merchant', '/x'],
    ] as const) {
      const config = { baseURL: places.fill(baseURL), url: places.fill(url), allowAbsoluteUrls }
      expect(await cameOf((api) => api.request(config))).toMatch(/^no token at/)
    }
  })
})

describe('a baseURL on the instance', () => {
  it('counts where the call has none, and not where it has', async () => {
    const [evil, api] = [{ baseURL: places.evil }, { baseURL: `${places.api}/merchant` }]
    expect(await cameOf((axios) => axios.get('/x'), api)).toBe(API)
    expect(await cameOf((axios) => axios.get('/x', evil), api)).toBe('no token at evil /x')
    expect(await cameOf((axios) => axios.get('/x', api), evil)).toBe(API)
  })

  it('counts as it is at the time of the call', async () => {
    const call = (api: AxiosInstance) => {
      api.defaults.baseURL = places.evil
      return api.get('/merchant/x')
    }
    expect(await cameOf(call, { baseURL: places.api })).toBe(EVIL)
  })
})

const EVIL = 'no token at evil /merchant/x'
const API = 'token at API /merchant/x'
const group = 'what else changes where a call of axios goes'
const cells = { table: 'destinations', group, column: 'axios' }

type Config = (places: Places) => AxiosRequestConfig

/** A call with params, by axios' own serializer or by the caller's. */
function asking(path: string, q: string, serialized?: string): Config {
  return ({ api, fill }) => {
    const config = { url: api + path, params: { q: fill(q) } }
    return serialized === undefined ? config : { ...config, paramsSerializer: () => fill(serialized) }
  }
}

const CONFIGS: readonly (readonly [row: string, config: Config, came: string])[] = [
  ['params with ../', asking('/merchant/x', '../../y'), `${API}?q=..%2F..%2Fy`],
  ['params with a URL', asking('/merchant/x', 'http://evil.here/'), `${API}?q=http:%2F%2Fevil.here%2F`],
  ['params, and ../ in the URL', asking('/merchant/../x', '1'), 'no token at API /x?q=1'],
  ['params, and a fragment with ../', asking('/merchant#/../x', '1'), 'token at API /merchant?q=1'],
  ['params, and a newline after ..', asking('/merchant/..\n', '1'), 'no token at API /?q=1'],
  ['paramsSerializer gives ../../y', asking('/merchant/x', '1', '../../y'), `${API}?../../y`],
  ['paramsSerializer gives another host', asking('', '1', '@evil.here/'), 'no token at API /?@evil.here/'],
  [
    'paramsSerializer gives a request line',
    asking('/merchant/x', '1', 'a HTTP/1.1\r\nHost: evil'),
    `http: not sent; fetch: ${API}?a%20HTTP/1.1Host:%20evil`,
  ],
  ['url null', () => ({ url: null as never }), 'not sent'],
  ['url null, baseURL the API', ({ api }) => ({ baseURL: `${api}/merchant/x`, url: null as never }), API],
  [
    'url a URL object',
    ({ api }) => ({ url: new URL(`${api}/merchant/x`) as never }),
    `http: ${API}; fetch: not sent`,
  ],
  [
    'url a URL object, baseURL elsewhere',
    ({ api, evil }) => ({ baseURL: evil, url: new URL(`${api}/merchant/x`) as never }),
    'not sent',
  ],
]

describe(group, () => {
  it.for(CONFIGS)('%s', async ([row, config, came], { task }) => {
    const cell = await cameOf((api) => api.request(config(places)))
    expect(cell).toBe(came)
    record(task, { ...cells, row, cell })
  })

  // axios 1.21 takes a String object for a relative URL, whatever it says; axios 1.13 does not.
  it('a url that is a String object goes below baseURL, and takes no token there', async () => {
    const url = new String(`${places.api}/merchant/x`) as string
    const call = (api: AxiosInstance) => api.request({ url, baseURL: places.evil })
    expect(await cameOf(call)).toBe('no token at evil /http://api.here/merchant/x')
  })

  // axios sends it where there is no url to put it together with, and throws where there is one.
  it.each(HOWS)('a baseURL that is a URL object takes no token anywhere (%s)', async (how) => {
    const baseURL = new URL(`${places.api}/merchant/x`) as unknown as string
    await client(how, { adapter: 'http' }).request({ baseURL })
    expect(places.look()).toEqual(['no token at API /merchant/x'])
  })

  /** Registers an interceptor that sends every call to another server. */
  const divert = (api: AxiosInstance, origin: string, by: 'url' | 'baseURL'): void => {
    api.interceptors.request.use((config) => {
      config[by] = by === 'url' ? `${origin}/merchant/x` : origin
      return config
    })
  }
  const ORDERS: Record<string, (api: AxiosInstance, move: () => void) => void> = {
    'registered before attachAuth': (api, move) => {
      move()
      attachAuth(api, places.tokens)
    },
    'registered after attachAuth': (api, move) => {
      attachAuth(api, places.tokens)
      move()
    },
    'registered after createAuthInterceptor': (api, move) => {
      api.interceptors.request.use(createAuthInterceptor(places.tokens))
      move()
    },
  }
  it.for(Object.entries(ORDERS))(
    'an interceptor %s that sets url or baseURL',
    async ([name, set], { task }) => {
      for (const by of ['url', 'baseURL'] as const) {
        for (const adapter of ADAPTERS) {
          for (const [from, to, came] of [
            [places.api, places.evil, EVIL],
            [places.evil, places.api, API],
          ] as const) {
            const api = axios.create({ proxy: false, adapter, baseURL: from })
            set(api, () => divert(api, to, by))
            await api.get('/merchant/x')
            expect(places.look()).toEqual([came])
          }
        }
        record(task, { ...cells, row: `an interceptor ${name} sets ${by} to evil`, cell: EVIL })
      }
    },
  )

  it('transformRequest that sets url, with attachAuth', async ({ task }) => {
    for (const adapter of ADAPTERS) {
      await client('attachAuth', { adapter }).post(`${places.api}/merchant/x`, 'body', {
        transformRequest(data: unknown) {
          this.url = `${places.evil}/merchant/x`
          return data
        },
      })
      expect(places.look()).toEqual([EVIL])
    }
    record(task, { ...cells, row: 'transformRequest sets url to evil (attachAuth)', cell: EVIL })
  })

  it.for(HOWS)(
    "the config of an API's answer, sent again to another server, by %s",
    async (how, { task }) => {
      for (const adapter of ADAPTERS) {
        const api = client(how, { adapter })
        const { config } = await api.get(`${places.api}/merchant/x`)
        expect(places.look()).toEqual([API])
        await api.request({ ...config, url: `${places.evil}/merchant/x` })
        expect(places.look()).toEqual([EVIL])
      }
      record(task, { ...cells, row: `an answer's config, sent again to evil (${how})`, cell: EVIL })
    },
  )

  it('a socketPath: a socket of this machine gets none, whatever the URL says', async ({ task }) => {
    const { provider, events, endpoint } = rig([], { environment: places.tokens.environment })
    const seen = await onSocket(async (socketPath) => {
      for (const how of HOWS)
        await axiosWith(provider, { adapter: 'http', socketPath }, { how }).get(`${places.api}/merchant/x`)
    })
    const withheld = { type: 'token-withheld', reason: 'destination' }
    expect(events).toMatchObject([withheld, withheld])
    expect([seen, endpoint.count]).toEqual([[undefined, undefined], 0])
    record(task, { ...cells, row: 'socketPath, and the URL of the API', cell: 'no token at the socket' })
  })

  // A proxy is the caller's choice of a way, not another destination; of https it would see the host alone.
  it("axios' proxy sees what goes through it over http, and no more of the token than the API does", async ({
    task,
  }) => {
    places.answer = ({ path }) =>
      path.endsWith('/to') ? { status: 302, location: 'http://evil.here/merchant/y' } : { status: 200 }
    const { hostname: host, port } = new URL(places.evil)
    for (const how of HOWS) {
      const api = client(how, { proxy: { protocol: 'http', host, port: Number(port) } })
      for (const path of ['/merchant/x', '/x', '/merchant/to']) await api.get(places.api + path)
      expect(places.arrivals.splice(0).map(({ at, path, token }) => [at, path, token])).toEqual([
        ['evil', `${places.api}/merchant/x`, true],
        ['evil', `${places.api}/x`, false],
        ['evil', `${places.api}/merchant/to`, true],
        ['evil', `${places.evil}/merchant/y`, false],
      ])
    }
    const cell = 'the proxy passes on the token, for the API alone'
    record(task, { ...cells, row: "axios' proxy, over http", cell })
  })
})

describe('redirects by an adapter or a transport of the caller', () => {
  const X_HEADER = { header: 'X-Access-Token', scheme: '' }
  const { http: transport } = createRequire(createRequire(import.meta.url).resolve('axios'))(
    'follow-redirects',
  ) as { http: unknown }
  const from = API
  const redirectTo = (location: string): void => {
    places.answer = ({ path }) => (path === '/merchant/x' ? { status: 302, location } : { status: 200 })
  }

  // axios calls its config's beforeRedirect for its own transports only.
  it.each(HOWS)('take the token to no other origin, and nowhere outside apiUrls (%s)', async (how) => {
    redirectTo('http://evil.here/merchant/y')
    await client(how, { adapter: 'http', transport } as object, X_HEADER).get(`${places.api}/merchant/x`)
    expect(places.look()).toEqual([from, 'no token at evil /merchant/y'])
    redirectTo('/outside')
    await client(how, { adapter: 'http', transport } as object).get(`${places.api}/merchant/x`)
    expect(places.look()).toEqual([from, 'no token at API /outside'])
  })

  const renewals = async (config: CreateAxiosDefaults): Promise<number> => {
    places.answer = ({ at }) =>
      at === 'API' ? { status: 302, location: 'http://evil.here/merchant/y' } : { status: 401 }
    const { provider, endpoint } = rig([], { environment: places.tokens.environment })
    const api = axiosWith(provider, { validateStatus: () => true, ...config })
    expect((await api.get(`${places.api}/merchant/x`)).status).toBe(401)
    places.arrivals.splice(0)
    return endpoint.count - 1
  }

  it("with a 401 at their end renew nothing where the caller's adapter wraps axios' fetch adapter", async () => {
    expect(await renewals({ adapter: (config) => axios.getAdapter('fetch', config)(config) })).toBe(0)
  })

  // There axios calls fetch with a text, and nothing in its answer tells of the redirect.
  it("cost a renewal where axios' fetch adapter makes no Request", async () => {
    const env = { Request: null as never, fetch: ((...given) => fetch(...given)) satisfies typeof fetch }
    expect(await renewals({ adapter: 'fetch', env })).toBe(1)
  })
})

it('the URL of a call is found in time that grows with its length, whatever slashes are in it', () => {
  const intercept = createAuthInterceptor(provided({ current: token('current.token') }))
  const find = (slashes: string): void => {
    const baseURL = `https://api.test.example/merchant${slashes}x/`
    void intercept({ baseURL, url: `a${slashes}x`, headers: {} })
  }
  expect(growth(find, (length) => '/'.repeat(length), 5_000)).toBeLessThan(32)
})

// The real destination of an axios call decides whether it gets the token: baseURL, url, params, interceptors, proxies.
import { createRequire } from 'node:module'
import axios, { type AxiosInstance, type AxiosRequestConfig, type CreateAxiosDefaults } from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ADAPTERS } from '../support/ground.ts'
import { growth } from '../support/growth.ts'
import { provided, token } from '../support/provided.ts'
import { rig } from '../token/harness.ts'
import { onSocket } from './axios-fakes.ts'
import { type AxiosOptions, axiosWith, HOWS } from './drivers.ts'
import { openPlaces, type Places } from './places.ts'

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

/** The outcome of a call with both adapters and both ways to attach; one for each adapter if they differ. */
async function outcomeOf(
  call: (api: AxiosInstance) => Promise<unknown>,
  config: CreateAxiosDefaults = {},
): Promise<string> {
  const outcomes: string[] = []
  for (const adapter of ADAPTERS) {
    const byHow: string[] = []
    for (const how of HOWS) byHow.push(await places.outcome(() => call(client(how, { adapter, ...config }))))
    expect(byHow).toEqual([byHow[0], byHow[0]])
    outcomes.push(byHow[0] ?? '')
  }
  return outcomes[0] === outcomes[1] ? (outcomes[0] ?? '') : `http: ${outcomes[0]}; fetch: ${outcomes[1]}`
}

const ALLOW = [undefined, true, false] as const
const NOT_SENT = 'not sent'

/** baseURL, url, the outcome, and the outcome with `allowAbsoluteUrls: false` if that is another one. */
type Row = readonly [
  baseURL: string | undefined,
  url: string | undefined,
  outcome: string,
  withFalse?: string,
]

const RELATIVE: readonly Row[] = [
  ['http://api.here/merchant', '/x', 'token at API /merchant/x'],
  ['http://api.here/merchant/', 'x', 'token at API /merchant/x'],
  ['http://api.here/merchant//', '//x', NOT_SENT, 'token at API /merchant/x'],
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
const ABSOLUTE: readonly Row[] = [
  ['http://api.here/merchant', EVIL_URL, 'no token at evil /x', 'token at API /merchant/http://evil.here/x'],
  ['http://api.here/merchant', '//evil.here/x', NOT_SENT, 'token at API /merchant/evil.here/x'],
  ['http://api.here/merchant', 'http:evil.here/x', NOT_SENT],
  ['http://api.here/merchant', '\\\\evil.here\\x', 'token at API /merchant///evil.here/x'],
  ['http://api.here/merchant', ` ${EVIL_URL}`, 'token at API /merchant/%20http://evil.here/x'],
  ['http://api.here/merchant', '\t//evil.here/x', 'token at API /merchant///evil.here/x'],
  ['http://api.here/merchant', 'ht\ttp://evil.here/x', 'token at API /merchant/http://evil.here/x'],
  ['http://api.here/merchant', 'javascript:x', 'token at API /merchant/javascript:x'],
  ['http://api.here/merchant', 'data:,x', 'token at API /merchant/data:,x'],
  ['http://api.here/merchant', 'file:///x', NOT_SENT, 'token at API /merchant/file:///x'],
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

const OTHER_BASES: readonly Row[] = [
  ['http://api.here', '/merchant/x', 'token at API /merchant/x'],
  ['http://api.here', '../merchant/x', 'token at API /merchant/x'],
  ['http://api.here/x/..', '/merchant/y', 'token at API /merchant/y'],
  ['http://api.here', '/x', 'no token at API /x'],
  ['http://api.here', '', 'no token at API /'],
  ['http://api.here', '@evil.here/merchant', 'no token at API /@evil.here/merchant'],
  ['http://api.here', ':x@evil.here/merchant', 'no token at API /:x@evil.here/merchant'],
  ['http://api.here', '.evil.example/merchant', 'no token at API /.evil.example/merchant'],
  ['http://api.here', '//evil.here/merchant', NOT_SENT, 'no token at API /evil.here/merchant'],
  ['http://api.here/mer', 'chant/x', 'no token at API /mer/chant/x'],
  ['http://api.here/merchants', '/x', 'no token at API /merchants/x'],
  ['http://api.here/merchant/..', '/x', 'no token at API /x'],
  ['http://u:p@api.here/merchant', '/x', 'no token at API /merchant/x'],
  ['http://api.here@evil.here/merchant', '/x', 'no token at evil /merchant/x'],
  ['http://evil.here', '/merchant/x', 'no token at evil /merchant/x'],
  ['http://evil.here/merchant', '', 'no token at evil /merchant'],
  ['http://evil.here', '@api.here/merchant', 'no token at evil /@api.here/merchant'],
  ['http://evil.here\\', '@api.here/merchant', 'no token at evil //@api.here/merchant'],
  ['http://evil.here', '//api.here/merchant', NOT_SENT, 'no token at evil /api.here/merchant'],
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

const MISSING: readonly Row[] = [
  [undefined, 'http://api.here/merchant/x', 'token at API /merchant/x'],
  ['', 'http://api.here/merchant/x', 'token at API /merchant/x'],
  ['/merchant', 'http://api.here/merchant/x', 'token at API /merchant/x', NOT_SENT],
  [undefined, 'http://evil.here/merchant/x', 'no token at evil /merchant/x'],
  [undefined, '/merchant/x', NOT_SENT],
  [undefined, undefined, NOT_SENT],
  ['/merchant', '/x', NOT_SENT],
  ['//api.here', '/merchant/x', NOT_SENT],
]

const GROUPS: Readonly<Record<string, readonly Row[]>> = {
  'baseURL is the API, url is relative': RELATIVE,
  'baseURL is the API, url is absolute or looks absolute': ABSOLUTE,
  'baseURL is something else': OTHER_BASES,
  'baseURL with a query or a fragment': QUERIES,
  'baseURL is missing or relative': MISSING,
}

for (const [group, rows] of Object.entries(GROUPS)) {
  describe(group, () => {
    it.for(rows)('baseURL %s, url %s: %s', async ([baseURL, url, outcome, withFalse = outcome]) => {
      for (const allow of ALLOW) {
        const config: AxiosRequestConfig = {}
        if (baseURL !== undefined) config.baseURL = places.fill(baseURL)
        if (url !== undefined) config.url = places.fill(url)
        if (allow !== undefined) config.allowAbsoluteUrls = allow
        const cell = await outcomeOf((api) => api.request(config))
        expect(cell, `allowAbsoluteUrls ${allow}`).toBe(allow === false ? withFalse : outcome)
      }
    })
  })
}

describe('a call whose allowAbsoluteUrls is not a boolean', () => {
  it.each([0, 1, '', 'false', {}])('carries no token, wherever axios sends it: %j', async (given) => {
    const allowAbsoluteUrls = given as unknown as boolean
    for (const [baseURL, url] of [
      ['http://api.here/merchant', 'http://evil.here/x'],
      ['http://evil.here', 'http://api.here/merchant/x'],
      ['http://api.here/merchant', '/x'],
    ] as const) {
      const config = { baseURL: places.fill(baseURL), url: places.fill(url), allowAbsoluteUrls }
      expect(await outcomeOf((api) => api.request(config))).toMatch(/^no token at/)
    }
  })
})

describe('a baseURL on the instance', () => {
  it('applies only if the call has none', async () => {
    const [evil, api] = [{ baseURL: places.evil }, { baseURL: `${places.api}/merchant` }]
    expect(await outcomeOf((axios) => axios.get('/x'), api)).toBe(API)
    expect(await outcomeOf((axios) => axios.get('/x', evil), api)).toBe('no token at evil /x')
    expect(await outcomeOf((axios) => axios.get('/x', api), evil)).toBe(API)
  })

  it('applies as it is at the time of the call', async () => {
    const call = (api: AxiosInstance) => {
      api.defaults.baseURL = places.evil
      return api.get('/merchant/x')
    }
    expect(await outcomeOf(call, { baseURL: places.api })).toBe(EVIL)
  })
})

const EVIL = 'no token at evil /merchant/x'
const API = 'token at API /merchant/x'
const group = 'other ways to change the destination of an axios call'

type Config = (places: Places) => AxiosRequestConfig

/** A call with params, serialized by axios or by the caller's function. */
function withParams(path: string, q: string, serialized?: string): Config {
  return ({ api, fill }) => {
    const config = { url: api + path, params: { q: fill(q) } }
    return serialized === undefined ? config : { ...config, paramsSerializer: () => fill(serialized) }
  }
}

const CONFIGS: readonly (readonly [row: string, config: Config, outcome: string])[] = [
  ['params with ../', withParams('/merchant/x', '../../y'), `${API}?q=..%2F..%2Fy`],
  ['params with a URL', withParams('/merchant/x', 'http://evil.here/'), `${API}?q=http:%2F%2Fevil.here%2F`],
  ['params, and ../ in the URL', withParams('/merchant/../x', '1'), 'no token at API /x?q=1'],
  ['params, and a fragment with ../', withParams('/merchant#/../x', '1'), 'token at API /merchant?q=1'],
  ['params, and a newline after ..', withParams('/merchant/..\n', '1'), 'no token at API /?q=1'],
  ['paramsSerializer gives ../../y', withParams('/merchant/x', '1', '../../y'), `${API}?../../y`],
  [
    'paramsSerializer gives another host',
    withParams('', '1', '@evil.here/'),
    'no token at API /?@evil.here/',
  ],
  [
    'paramsSerializer gives a request line',
    withParams('/merchant/x', '1', 'a HTTP/1.1\r\nHost: evil'),
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
  it.for(CONFIGS)('the token goes only to the API: %s', async ([, config, outcome]) => {
    const cell = await outcomeOf((api) => api.request(config(places)))
    expect(cell).toBe(outcome)
  })

  // axios 1.21 treats every String object as a relative URL; axios 1.13 does not.
  it('a String object as url is resolved below baseURL and gets no token', async () => {
    const url = new String(`${places.api}/merchant/x`) as string
    const call = (api: AxiosInstance) => api.request({ url, baseURL: places.evil })
    expect(await outcomeOf(call)).toBe('no token at evil /http://api.here/merchant/x')
  })

  // axios sends it if there is no url to combine it with, and throws if there is one.
  it.each(HOWS)('a URL object as baseURL gets no token (%s)', async (how) => {
    const baseURL = new URL(`${places.api}/merchant/x`) as unknown as string
    await client(how, { adapter: 'http' }).request({ baseURL })
    expect(places.look()).toEqual(['no token at API /merchant/x'])
  })

  /** Registers an interceptor that sends every call to another server. */
  const setDestination = (api: AxiosInstance, origin: string, by: 'url' | 'baseURL'): void => {
    api.interceptors.request.use((config) => {
      config[by] = by === 'url' ? `${origin}/merchant/x` : origin
      return config
    })
  }
  const REGISTRATIONS: Record<string, (api: AxiosInstance, move: () => void) => void> = {
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
  it.for(Object.entries(REGISTRATIONS))(
    'the token follows the url or baseURL that an interceptor sets, %s',
    async ([, set]) => {
      for (const by of ['url', 'baseURL'] as const) {
        for (const adapter of ADAPTERS) {
          for (const [from, to, outcome] of [
            [places.api, places.evil, EVIL],
            [places.evil, places.api, API],
          ] as const) {
            const api = axios.create({ proxy: false, adapter, baseURL: from })
            set(api, () => setDestination(api, to, by))
            await api.get('/merchant/x')
            expect(places.look()).toEqual([outcome])
          }
        }
      }
    },
  )

  it('a url that transformRequest sets to another server gets no token (attachAuth)', async () => {
    for (const adapter of ADAPTERS) {
      await client('attachAuth', { adapter }).post(`${places.api}/merchant/x`, 'body', {
        transformRequest(data: unknown) {
          this.url = `${places.evil}/merchant/x`
          return data
        },
      })
      expect(places.look()).toEqual([EVIL])
    }
  })

  it.for(HOWS)(
    'the config of a response carries no token when sent again to another server (%s)',
    async (how) => {
      for (const adapter of ADAPTERS) {
        const api = client(how, { adapter })
        const { config } = await api.get(`${places.api}/merchant/x`)
        expect(places.look()).toEqual([API])
        await api.request({ ...config, url: `${places.evil}/merchant/x` })
        expect(places.look()).toEqual([EVIL])
      }
    },
  )

  it('a Unix socket gets no token, even with the URL of the API', async () => {
    const { provider, events, endpoint } = rig([], { environment: places.tokens.environment })
    const seen = await onSocket(async (socketPath) => {
      for (const how of HOWS)
        await axiosWith(provider, { adapter: 'http', socketPath }, { how }).get(`${places.api}/merchant/x`)
    })
    const withheld = { type: 'token-withheld', reason: 'destination' }
    expect(events).toMatchObject([withheld, withheld])
    expect([seen, endpoint.count]).toEqual([[undefined, undefined], 0])
  })

  // A proxy is a route that the caller chose, not a destination; over https it would see only the host.
  it("axios' proxy gets the token over http only in requests to the API", async () => {
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
  })
})

describe('redirects by the caller’s adapter or transport', () => {
  const X_HEADER = { header: 'X-Access-Token', scheme: '' }
  const { http: transport } = createRequire(createRequire(import.meta.url).resolve('axios'))(
    'follow-redirects',
  ) as { http: unknown }
  const from = API
  const redirectTo = (location: string): void => {
    places.answer = ({ path }) => (path === '/merchant/x' ? { status: 302, location } : { status: 200 })
  }

  // axios calls beforeRedirect of its config only for its own transports.
  it.each(HOWS)('do not forward the token to another origin or outside apiUrls (%s)', async (how) => {
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

  it("that end in a 401 renew nothing if the caller's adapter wraps axios' fetch adapter", async () => {
    expect(await renewals({ adapter: (config) => axios.getAdapter('fetch', config)(config) })).toBe(0)
  })

  // There axios calls fetch with a string, and its response does not reveal the redirect.
  it("that end in a 401 cost one renewal if axios' fetch adapter creates no Request", async () => {
    const env = { Request: null as never, fetch: ((...given) => fetch(...given)) satisfies typeof fetch }
    expect(await renewals({ adapter: 'fetch', env })).toBe(1)
  })
})

it('finding the URL of a call does not take quadratic time, however many slashes it has', () => {
  const intercept = createAuthInterceptor(provided({ current: token('current.token') }))
  const find = (slashes: string): void => {
    const baseURL = `https://api.test.example/merchant${slashes}x/`
    void intercept({ baseURL, url: `a${slashes}x`, headers: {} })
  }
  expect(growth(find, (length) => '/'.repeat(length), 5_000)).toBeLessThan(32)
})

// What changes where an axios call goes, once the caller has named its URL (contract 5.1, 5.2).
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AxiosInstance, AxiosRequestConfig } from 'axios'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS } from '../attach/calls.ts'
import { byBothAdapters, client, HOWS, instance, openPlaces, type Places } from './places.ts'
import { tell } from './told.ts'

const EVIL = 'no token at evil /merchant/x'
const API = 'token at API /merchant/x'
const group = 'what else changes where a call of axios goes'
const told = { table: 'destinations', group, column: 'axios' }

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
    await using places = await openPlaces()
    const cell = await byBothAdapters(places, (api) => api.request(config(places)))
    expect(cell).toBe(came)
    tell(task, { ...told, row, cell })
  })

  /** Registers an interceptor that sends every call to another server. */
  const divert = (api: AxiosInstance, origin: string, by: 'url' | 'baseURL'): void => {
    api.interceptors.request.use((config) => {
      config[by] = by === 'url' ? `${origin}/merchant/x` : origin
      return config
    })
  }
  const ORDERS = {
    'registered before attachAuth': (api, move, tokens) => {
      move()
      attachAuth(api, tokens)
    },
    'registered after attachAuth': (api, move, tokens) => {
      attachAuth(api, tokens)
      move()
    },
    'registered after createAuthInterceptor': (api, move, tokens) => {
      api.interceptors.request.use(createAuthInterceptor(tokens))
      move()
    },
  } satisfies Record<
    string,
    (api: AxiosInstance, move: () => void, tokens: Parameters<typeof attachAuth>[1]) => void
  >
  const order = Object.entries(ORDERS)
  it.for(order.flatMap(([name, set]) => (['url', 'baseURL'] as const).map((by) => ({ name, set, by }))))(
    'an interceptor $name that sets $by',
    async ({ name, set, by }, { task }) => {
      await using places = await openPlaces()
      const cameOf = async (from: string, to: string): Promise<string> => {
        const came: string[] = []
        for (const adapter of ADAPTERS) {
          const api = instance({ adapter, baseURL: from })
          set(api, () => divert(api, to, by), places.auth().provider)
          await api.get('/merchant/x')
          came.push(...places.take())
        }
        expect(came).toEqual([came[0], came[0]])
        return came[0] ?? ''
      }
      const cell = await cameOf(places.api, places.evil)
      expect(cell).toBe(EVIL)
      expect(await cameOf(places.evil, places.api)).toBe(API)
      tell(task, { ...told, row: `an interceptor ${name} sets ${by} to evil`, cell })
    },
  )

  it('transformRequest that sets url, with attachAuth', async ({ task }) => {
    await using places = await openPlaces()
    const came: string[] = []
    for (const adapter of ADAPTERS) {
      const api = client(places.auth(), 'attachAuth', { adapter })
      await api.post(`${places.api}/merchant/x`, 'body', {
        transformRequest(data: unknown) {
          this.url = `${places.evil}/merchant/x`
          return data
        },
      })
      came.push(...places.take())
    }
    expect(came).toEqual([EVIL, EVIL])
    tell(task, { ...told, row: 'transformRequest sets url to evil (attachAuth)', cell: came[0] ?? '' })
  })

  it.for(HOWS)(
    "the config of an API's answer, sent again to another server, by %s",
    async (how, { task }) => {
      await using places = await openPlaces()
      const came: string[] = []
      for (const adapter of ADAPTERS) {
        const api = client(places.auth(), how, { adapter })
        const { config } = await api.get(`${places.api}/merchant/x`)
        expect(places.take()).toEqual([API])
        await api.request({ ...config, url: `${places.evil}/merchant/x` })
        came.push(...places.take())
      }
      expect(came).toEqual([EVIL, EVIL])
      tell(task, { ...told, row: `an answer's config, sent again to evil (${how})`, cell: came[0] ?? '' })
    },
  )

  it('a socketPath: a socket of this machine gets none, whatever the URL says', async ({ task }) => {
    await using places = await openPlaces()
    const folder = await mkdtemp(join(tmpdir(), 'places-'))
    const socketPath = join(folder, 'socket')
    const seen: (string | undefined)[] = []
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization)
      response.end()
    })
    await new Promise<void>((resolve) => void server.listen(socketPath, resolve))
    try {
      for (const how of HOWS) {
        const auth = places.auth()
        await client(auth, how, { adapter: 'http', socketPath }).get(`${places.api}/merchant/x`)
        expect(auth.events).toMatchObject([{ type: 'token-withheld', reason: 'destination' }])
      }
      expect(seen).toEqual([undefined, undefined])
      tell(task, { ...told, row: 'socketPath, and the URL of the API', cell: 'no token at the socket' })
    } finally {
      await new Promise((resolve) => server.close(resolve))
      await rm(folder, { recursive: true })
    }
  })

  // A proxy is the caller's choice of a way, not another destination; of https it would see the host alone.
  it("axios' proxy sees what goes through it over http, and no more of the token than the API does", async ({
    task,
  }) => {
    const location = 'http://evil.here/merchant/y'
    await using places = await openPlaces(({ path }) =>
      path.endsWith('/to') ? { status: 302, location } : { status: 200 },
    )
    const { hostname: host, port } = new URL(places.evil)
    for (const how of HOWS) {
      const api = client(places.auth(), how, { proxy: { protocol: 'http', host, port: Number(port) } })
      for (const path of ['/merchant/x', '/x', '/merchant/to']) await api.get(places.api + path)
      const through = places.arrivals.splice(0)
      expect(through.map(({ at, path, token }) => [at, path, token])).toEqual([
        ['evil', `${places.api}/merchant/x`, true],
        ['evil', `${places.api}/x`, false],
        ['evil', `${places.api}/merchant/to`, true],
        ['evil', `${places.evil}/merchant/y`, false],
      ])
    }
    const cell = 'the proxy passes on the token, for the API alone'
    tell(task, { ...told, row: "axios' proxy, over http", cell })
  })
})

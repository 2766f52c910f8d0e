// The token and the caller's own redirect options, transports and adapters on axios.
import axios, {
  type AxiosAdapter,
  type AxiosError,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { createAuthInterceptor } from 'merchant-auth/axios'
import * as undici from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { rejectionOf, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { answering } from './axios-fakes.ts'
import { type AxiosOptions, axiosWith, HOWS } from './drivers.ts'

const API = 'https://api.test.example/merchant'
const OTHER_API = 'https://other.test.example/in-store'
const IPV6_API = 'https://[::1]:8443/merchant'
const TOKENS = provided({ current: token('the.one.token'), apiUrls: [API, OTHER_API, IPV6_API] })
const WITH_TOKEN = { Authorization: 'Bearer the.one.token' }

/** The redirect that follow-redirects is about to follow, as far as these tests need it. */
interface Redirect {
  href: string
  headers: Record<string, unknown>
  [part: string]: unknown
}
type BeforeRedirect = (redirect: object, response?: unknown, request?: unknown) => void

/** The config that the adapter gets. */
type Final = Omit<InternalAxiosRequestConfig, 'beforeRedirect' | 'transport'> & {
  readonly beforeRedirect: BeforeRedirect
  readonly transport: { request: (...given: unknown[]) => unknown }
}

/** An instance whose adapter passes the final config to `onFinal` and returns an empty response. */
function client(
  onFinal: (final: Final) => unknown,
  config: CreateAxiosDefaults = {},
  options: AxiosOptions = {},
) {
  const adapter: AxiosAdapter = (final) => answering([{ request: onFinal(final as unknown as Final) }])(final)
  return axiosWith(TOKENS, { ...config, adapter }, options)
}

/** A redirect as follow-redirects describes it: the headers of the previous request and the new URL. */
const redirectTo = (to: Partial<Redirect>): Redirect => ({
  href: `${API}/y`,
  headers: { ...WITH_TOKEN },
  ...to,
})

describe('the token on a redirect', () => {
  const [protocol, hostname, path] = ['https:', 'api.test.example', '/merchant/y']
  const CASES: readonly [string, Partial<Redirect>, boolean][] = [
    [API, { protocol, hostname, path }, true],
    [API, { protocol, hostname, path, href: 'https://elsewhere.example/' }, true],
    [API, { protocol, hostname, path, port: '' }, true],
    [API, { protocol, hostname, path, port: 443 }, true],
    [API, { protocol, hostname, path, port: '8443' }, false],
    [API, { protocol: 'http:', hostname, path }, false],
    [API, { protocol, hostname: 'elsewhere.example', path }, false],
    [API, { protocol, hostname, path: '/outside' }, false],
    [API, { protocol, hostname, path: '/merchant/../outside' }, false],
    [API, { protocol, hostname: 'other.test.example', path: '/in-store/y' }, false],
    [IPV6_API, { href: `${IPV6_API}/y`, protocol, hostname: '::1', port: '8443', path }, true],
    [IPV6_API, { href: `${IPV6_API}/y`, protocol, hostname: '::2', port: '8443', path }, false],
    [IPV6_API, { href: `${IPV6_API}/y`, protocol, hostname: '::1', path }, false],
  ]

  it.each(CASES)('from %s to %j is forwarded: %s', async (api, to, isForwarded) => {
    const { href = `${api}/y`, ...parts } = to
    const redirect = redirectTo({ href, hostname: 'before.example' })
    // The parts that the caller's function changed decide, because Node.js connects to them.
    const beforeRedirect = () => Object.assign(redirect, parts)
    const follow = ({ beforeRedirect }: Final) => beforeRedirect(redirect, {}, { headers: {} })
    await client(follow, { beforeRedirect } as CreateAxiosDefaults).get(`${api}/x`)
    expect(redirect.headers).toEqual(isForwarded ? WITH_TOKEN : {})
  })

  it('is forwarded through a proxy, whose host and path are not those of the URL', async () => {
    const proxy = { protocol: 'http:', hostname: 'proxy.example', port: 3128, path: `${API}/y` }
    const redirect = redirectTo(proxy)
    await client(({ beforeRedirect }) => beforeRedirect(redirect, {}, { headers: {} }), {
      beforeRedirect: () => {},
    }).get(`${API}/x`)
    expect(redirect.headers).toEqual(WITH_TOKEN)
  })

  it('is not restored if it was stripped, and is renamed to the configured header name', async () => {
    const stripped = { href: `${API}/y`, headers: { accept: 'a/b' } }
    const otherCase = { href: `${API}/y`, headers: { 'x-ACCESS': 'the.one.token' } }
    const follow = ({ beforeRedirect }: Final) => {
      for (const redirect of [stripped, otherCase]) beforeRedirect(redirect, {}, { headers: {} })
    }
    await client(follow, {}, { attach: { header: 'X-Access', scheme: '' } }).get(`${API}/x`)
    expect([stripped.headers, otherCase.headers]).toEqual([
      { accept: 'a/b' },
      { 'X-Access': 'the.one.token' },
    ])
  })

  it("is replaced by the header that the caller's beforeRedirect sets", async () => {
    const redirect = redirectTo({})
    await client(({ beforeRedirect }) => beforeRedirect(redirect, {}, { headers: {} }), {
      beforeRedirect: ({ headers }: Record<string, Record<string, string>>) => {
        if (headers) headers['authorization'] = 'Own one'
      },
    } as CreateAxiosDefaults).get(`${API}/x`)
    expect(redirect.headers).toEqual({ authorization: 'Own one' })
  })
})

describe("the caller's beforeRedirect", () => {
  it.each([undefined, null, 'a text', { url: `${API}/x` }])(
    'receives a request without headers unchanged: %o',
    async (request) => {
      const beforeRedirect = vi.fn()
      const [redirect, response] = [redirectTo({}), { statusCode: 302 }]
      await client((final) => final.beforeRedirect(redirect, response, request), {
        beforeRedirect,
      }).get(`${API}/x`)
      expect(beforeRedirect.mock.calls).toEqual([[redirect, response, request]])
      expect(beforeRedirect.mock.calls[0]?.[2]).toBe(request)
    },
  )

  it.each([false, null, undefined])('is ignored if it is %s, as by axios', async (beforeRedirect) => {
    const redirect = redirectTo({})
    const follow = (final: Final) => final.beforeRedirect(redirect, {}, {})
    await client(follow, { beforeRedirect } as unknown as CreateAxiosDefaults).get(`${API}/x`)
    expect(redirect.headers).toEqual(WITH_TOKEN)
  })

  it('receives a copy of the request without the token', async () => {
    const seen = vi.fn()
    const request = { url: `${API}/x`, headers: { authorization: 'Bearer the.one.token', accept: 'a/b' } }
    const beforeRedirect = ((_redirect, _response, given) => seen(given)) satisfies BeforeRedirect
    const follow = (final: Final) => final.beforeRedirect(redirectTo({}), {}, request)
    await client(follow, { beforeRedirect } as CreateAxiosDefaults).get(`${API}/x`)
    expect(seen).toHaveBeenCalledWith({ url: `${API}/x`, headers: { accept: 'a/b' } })
    expect(request.headers.authorization).toBe('Bearer the.one.token')
  })
})

describe("the caller's transport", () => {
  interface TransportCall {
    readonly self: unknown
    readonly options: { readonly beforeRedirect: BeforeRedirect }
    readonly rest: unknown[]
  }

  /** A transport that records its calls. It is a class because axios copies plain objects. */
  class Transport {
    readonly calls: TransportCall[] = []
    request(options: TransportCall['options'], ...rest: unknown[]): string {
      this.calls.push({ self: this, options, rest })
      return 'the request'
    }
  }

  it.each(HOWS)(
    'is called as by axios itself, and the beforeRedirect of its options runs before the token is stripped (%s)',
    async (how) => {
      const transport = new Transport()
      const order: unknown[] = []
      const beforeRedirect = ({ headers }: Redirect) => order.push(headers['Authorization'])
      const options = { path: '/x', beforeRedirect }
      const call = (final: Final) => final.transport.request(options, 'a callback')
      const api = client(call, { transport }, { how })
      const { request, config } = await api.get(`${API}/x`)
      expect(request).toBe('the request')
      expect(transport.calls).toMatchObject([{ rest: ['a callback'], options: { path: '/x' } }])
      expect(transport.calls[0]?.self).toBe(transport)
      const redirect = redirectTo({ href: 'https://elsewhere.example/' })
      transport.calls[0]?.options.beforeRedirect(redirect, {}, {})
      expect(order).toEqual(['Bearer the.one.token'])
      expect(redirect.headers).toEqual({})
      if (how === 'attachAuth') expect(config.transport).toBe(transport)
      expect(options.beforeRedirect).toBe(beforeRedirect)
    },
  )

  it('has its redirects checked against the latest URL when its config is sent again', async () => {
    const transport = new Transport()
    const options = { beforeRedirect: () => {} }
    const how = 'createAuthInterceptor'
    const api = client((final) => final.transport.request(options), { transport }, { how })
    const { config } = await api.get(`${API}/x`)
    await api.request({ ...config, url: `${OTHER_API}/x` })
    const redirect = redirectTo({ href: `${OTHER_API}/y` })
    transport.calls[1]?.options.beforeRedirect(redirect, {}, {})
    expect(redirect.headers).toEqual(WITH_TOKEN)
  })

  it('is not added to a config without one', async () => {
    let final: Final | undefined
    await client((config) => {
      final = { ...config }
    }).get(`${API}/x`)
    expect(final?.transport).toBeUndefined()
  })
})

describe('two interceptors with different headers on one instance', () => {
  it.each(['axios', 'the transport of the caller'])(
    'each strip their header, and the beforeRedirect of the caller runs once: followed by %s',
    async (by) => {
      const beforeRedirect = vi.fn()
      const follow: BeforeRedirect[] = []
      // A class, because axios copies plain objects.
      class Transport {
        request(options: { beforeRedirect: BeforeRedirect }): void {
          follow.push(options.beforeRedirect)
        }
      }
      const adapter: AxiosAdapter = (given) => {
        const final = given as unknown as Final
        if (by === 'axios') follow.push(final.beforeRedirect)
        else final.transport.request({ beforeRedirect: final.beforeRedirect })
        return answering()(given)
      }
      const transport = by === 'axios' ? undefined : new Transport()
      const api = axios.create({ adapter, beforeRedirect, transport } as CreateAxiosDefaults)
      for (const header of ['X-A', 'X-B'])
        api.interceptors.request.use(createAuthInterceptor(TOKENS, { header }))
      const tokens = { 'X-A': 'Bearer the.one.token', 'X-B': 'Bearer the.one.token' }
      let { config } = await api.get(`${API}/x`)
      for (let time = 0; time < 3; time += 1) config = (await api.request(config)).config
      expect(config.headers.toJSON()).toMatchObject(tokens)
      for (const [n, redirected] of follow.entries()) {
        const away = redirectTo({ href: 'https://elsewhere.example/', headers: { ...tokens } })
        redirected(away, {}, {})
        expect(away.headers).toEqual({})
        const within = redirectTo({ headers: { ...tokens } })
        redirected(within, {}, {})
        expect(within.headers).toEqual(tokens)
        expect(beforeRedirect).toHaveBeenCalledTimes(2 * (n + 1))
      }
      expect(follow).toHaveLength(4)
    },
  )
})

describe('the fetch adapter', () => {
  it.each<[AttachOptions, Record<string, string> | undefined, unknown]>([
    [{}, undefined, undefined],
    [{}, { cache: 'no-store' }, { cache: 'no-store' }],
    [{ header: 'X-Access' }, undefined, { redirect: 'manual' }],
    [
      { header: 'X-Access' },
      { cache: 'no-store', redirect: 'follow' },
      { cache: 'no-store', redirect: 'manual' },
    ],
    [{ header: 'X-Access' }, { redirect: 'error' }, { redirect: 'error' }],
  ])(
    'with the attach options %o and fetchOptions %o receives fetchOptions %o',
    async (attach, fetchOptions, expected) => {
      let given: unknown
      const record = ({ fetchOptions: final }: Final) => {
        given = final
      }
      await client(record, fetchOptions && { fetchOptions }, { attach }).get(`${API}/x`)
      expect(given).toEqual(expected)
    },
  )

  it('receives one wrapper per fetch function, because axios caches an adapter for each', async () => {
    const seen: unknown[] = []
    const record = ({ env }: Final) => void seen.push(env?.fetch)
    const own: typeof fetch = async () => new Response()
    for (const config of [{}, {}, { env: { fetch: own } }, { env: { fetch: own } }])
      await client(record, config).get(`${API}/x`)
    const [first, second, third, fourth] = seen
    expect([first === second, third === fourth, third === first]).toEqual([true, true, false])
  })

  it('renews no token for a 401 after a redirect, with a fetch and a Request of another package', async () => {
    await using server = await scripted(({ path }, response) => {
      if (path === '/x') response.writeHead(302, { location: '/y' })
      else response.statusCode = 401
      response.end()
    })
    const renew = vi.fn()
    const env = { fetch: undici.fetch, Request: undici.Request, Response: undici.Response } as object
    const api = axiosWith(provided({ apiUrls: [server.url], renew }), { adapter: 'fetch', env })
    const error = (await rejectionOf(api.get(`${server.url}/x`))) as AxiosError
    expect(server.seen.map(({ path }) => path)).toEqual(['/x', '/y'])
    expect(renew).not.toHaveBeenCalled()
    expect(error.request).toBeInstanceOf(undici.Request)
    expect(error.request.headers.has('authorization')).toBe(false)
  })

  it('calls globalThis.fetch as it is at the time of the call', async () => {
    const api = axiosWith(TOKENS, { adapter: 'fetch' })
    const spy = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response('mocked'))
    try {
      expect((await api.get(`${API}/x`)).data).toBe('mocked')
      expect(spy).toHaveBeenCalledOnce()
    } finally {
      spy.mockRestore()
    }
  })
})

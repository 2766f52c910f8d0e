// What the caller's own redirect options, transports and adapters do on axios, and what they see of the token (contract 5.4).
import axios, { AxiosHeaders, type CreateAxiosDefaults, type InternalAxiosRequestConfig } from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { ADAPTERS, rejectionOf, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'

const API = 'https://api.test.example/merchant'
const OTHER_API = 'https://other.test.example/in-store'
const IPV6_API = 'https://[::1]:8443/merchant'
const TOKENS = provided({ current: token('the.one.token'), apiUrls: [API, OTHER_API, IPV6_API] })
const WITH_TOKEN = { Authorization: 'Bearer the.one.token' }

type How = 'attachAuth' | 'createAuthInterceptor'
const HOWS: readonly How[] = ['attachAuth', 'createAuthInterceptor']

/** What follow-redirects is about to follow, as far as it is used here. */
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

/** An instance whose adapter shows the final config, and answers with nothing. */
function client(
  how: How,
  onFinal: (final: Final) => unknown,
  config: CreateAxiosDefaults = {},
  attach?: AttachOptions,
) {
  const api = axios.create({
    ...config,
    adapter: async (final) => {
      const request = onFinal(final as unknown as Final)
      return { status: 200, statusText: '', data: '', headers: {}, config: final, request }
    },
  })
  if (how === 'attachAuth') attachAuth(api, TOKENS, attach)
  else api.interceptors.request.use(createAuthInterceptor(TOKENS, attach))
  return api
}

/** A redirect as follow-redirects has it: the headers of the request before, and where it leads. */
const redirectTo = (to: Partial<Redirect>): Redirect => ({
  href: `${API}/y`,
  headers: { ...WITH_TOKEN },
  ...to,
})

describe('the token at a redirect', () => {
  const [protocol, hostname, path] = ['https:', 'api.test.example', '/merchant/y']
  const CASES: readonly [string, Partial<Redirect>, boolean][] = [
    [API, { href: `${API}/y` }, true],
    [API, { href: 'https://elsewhere.example/merchant/y' }, false],
    [API, { href: `${OTHER_API}/y` }, false],
    [API, { href: 'https://api.test.example/outside' }, false],
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

  it.each(CASES)('of a call to %s, to %o, goes along: %s', async (api, to, along) => {
    const { href = `${api}/y`, ...parts } = to
    const redirect = redirectTo({ href, hostname: 'before.example' })
    // Where the caller's function has changed the parts, they count: node goes by them.
    const callers = Object.keys(parts).length > 0 && { beforeRedirect: () => Object.assign(redirect, parts) }
    const follow = ({ beforeRedirect }: Final) => beforeRedirect(redirect, {}, { headers: {} })
    await client('attachAuth', follow, { ...callers } as CreateAxiosDefaults).get(`${api}/x`)
    expect(redirect.headers).toEqual(along ? WITH_TOKEN : {})
  })

  it('goes along by way of a proxy, whose parts are others than those of the place', async () => {
    const proxy = { protocol: 'http:', hostname: 'proxy.example', port: 3128, path: `${API}/y` }
    const redirect = redirectTo(proxy)
    await client('attachAuth', ({ beforeRedirect }) => beforeRedirect(redirect, {}, { headers: {} }), {
      beforeRedirect: () => {},
    }).get(`${API}/x`)
    expect(redirect.headers).toEqual(WITH_TOKEN)
  })

  it('is not restored where it had been stripped, and has the name that was asked for', async () => {
    const gone = { href: `${API}/y`, headers: { accept: 'a/b' } }
    const odd = { href: `${API}/y`, headers: { 'x-ACCESS': 'the.one.token' } }
    const follow = ({ beforeRedirect }: Final) => {
      for (const redirect of [gone, odd]) beforeRedirect(redirect, {}, { headers: {} })
    }
    await client('attachAuth', follow, {}, { header: 'X-Access', scheme: '' }).get(`${API}/x`)
    expect([gone.headers, odd.headers]).toEqual([{ accept: 'a/b' }, { 'X-Access': 'the.one.token' }])
  })

  it("gives way to a header of the caller's beforeRedirect", async () => {
    const redirect = redirectTo({})
    await client('attachAuth', ({ beforeRedirect }) => beforeRedirect(redirect, {}, { headers: {} }), {
      beforeRedirect: ({ headers }: Record<string, Record<string, string>>) => {
        if (headers) headers['authorization'] = 'Own one'
      },
    } as CreateAxiosDefaults).get(`${API}/x`)
    expect(redirect.headers).toEqual({ authorization: 'Own one' })
  })
})

describe("the caller's beforeRedirect", () => {
  it.each([undefined, null, 'a text', { url: `${API}/x` }])(
    'gets a request without headers as it is: %o',
    async (request) => {
      const beforeRedirect = vi.fn()
      const [redirect, response] = [redirectTo({}), { statusCode: 302 }]
      await client('attachAuth', (final) => final.beforeRedirect(redirect, response, request), {
        beforeRedirect,
      }).get(`${API}/x`)
      expect(beforeRedirect.mock.calls).toEqual([[redirect, response, request]])
      expect(beforeRedirect.mock.calls[0]?.[2]).toBe(request)
    },
  )

  it('gets the rest of the request, and what it was made of stays', async () => {
    const seen = vi.fn()
    const request = { url: `${API}/x`, headers: { authorization: 'Bearer the.one.token', accept: 'a/b' } }
    const beforeRedirect = ((_redirect, _response, given) => seen(given)) satisfies BeforeRedirect
    const follow = (final: Final) => final.beforeRedirect(redirectTo({}), {}, request)
    await client('attachAuth', follow, { beforeRedirect } as CreateAxiosDefaults).get(`${API}/x`)
    expect(seen).toHaveBeenCalledWith({ url: `${API}/x`, headers: { accept: 'a/b' } })
    expect(request.headers.authorization).toBe('Bearer the.one.token')
  })
})

describe("a transport of the caller's own", () => {
  interface Asked {
    readonly self: unknown
    readonly options: { readonly beforeRedirect: BeforeRedirect }
    readonly rest: unknown[]
  }

  /** A transport that remembers what it was asked with. Of a class: axios copies plain objects. */
  class Transport {
    readonly asked: Asked[] = []
    request(options: Asked['options'], ...rest: unknown[]): string {
      this.asked.push({ self: this, options, rest })
      return 'the request'
    }
  }

  it.each(HOWS)('is asked as by axios itself, and its beforeRedirect runs first (%s)', async (how) => {
    const transport = new Transport()
    const order: unknown[] = []
    const beforeRedirect = ({ headers }: Redirect) => order.push(headers['Authorization'])
    const options = { path: '/x', beforeRedirect }
    const api = client(how, (final) => final.transport.request(options, 'a callback'), { transport })
    const { request, config } = await api.get(`${API}/x`)
    expect(request).toBe('the request')
    expect(transport.asked).toMatchObject([{ rest: ['a callback'], options: { path: '/x' } }])
    expect(transport.asked[0]?.self).toBe(transport)
    const redirect = redirectTo({ href: 'https://elsewhere.example/' })
    transport.asked[0]?.options.beforeRedirect(redirect, {}, {})
    expect(order).toEqual(['Bearer the.one.token'])
    expect(redirect.headers).toEqual({})
    if (how === 'attachAuth') expect(config.transport).toBe(transport)
    expect(options.beforeRedirect).toBe(beforeRedirect)
  })

  it('is judged by where the call goes at last, by an interceptor that runs twice', async () => {
    const transport = new Transport()
    const interceptor = createAuthInterceptor(TOKENS)
    const config = { url: `${API}/x`, headers: new AxiosHeaders(), transport }
    await interceptor(config)
    config.url = `${OTHER_API}/x`
    await interceptor(config)
    config.transport.request({} as never)
    const redirect = redirectTo({ href: `${OTHER_API}/y` })
    transport.asked[0]?.options.beforeRedirect(redirect, {}, {})
    expect(redirect.headers).toEqual(WITH_TOKEN)
  })

  it('is judged by where the call goes at last, when its config is sent again', async () => {
    const transport = new Transport()
    const options = { beforeRedirect: () => {} }
    const api = client('createAuthInterceptor', (final) => final.transport.request(options), { transport })
    const { config } = await api.get(`${API}/x`)
    await api.request({ ...config, url: `${OTHER_API}/x` })
    const redirect = redirectTo({ href: `${OTHER_API}/y` })
    transport.asked[1]?.options.beforeRedirect(redirect, {}, {})
    expect(redirect.headers).toEqual(WITH_TOKEN)
  })

  it('is not made up where there is none', async () => {
    let final: Final | undefined
    await client('attachAuth', (config) => {
      final = { ...config }
    }).get(`${API}/x`)
    expect(final?.transport).toBeUndefined()
  })
})

describe('redirects of the fetch adapter', () => {
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
  ])('%o with the options %o are asked for with %o', async (attach, fetchOptions, expected) => {
    let given: unknown
    const look = ({ fetchOptions: final }: Final) => {
      given = final
    }
    await client('attachAuth', look, fetchOptions === undefined ? {} : { fetchOptions }, attach).get(
      `${API}/x`,
    )
    expect(given).toEqual(expected)
  })

  it('go by one fetch for all calls, or for each of the caller’s: axios keeps an adapter for each that it meets', async () => {
    const seen: unknown[] = []
    const see = ({ env }: Final) => void seen.push(env?.fetch)
    const own: typeof fetch = async () => new Response()
    for (const config of [{}, {}, { env: { fetch: own } }, { env: { fetch: own } }])
      await client('attachAuth', see, config).get(`${API}/x`)
    const [first, second, third, fourth] = seen
    expect([first === second, third === fourth, third === first]).toEqual([true, true, false])
  })

  it('go by whatever globalThis.fetch is at the time of the call', async () => {
    const api = axios.create({ adapter: 'fetch' })
    attachAuth(api, TOKENS)
    const spy = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response('mocked'))
    try {
      expect((await api.get(`${API}/x`)).data).toBe('mocked')
      expect(spy).toHaveBeenCalledOnce()
    } finally {
      spy.mockRestore()
    }
  })
})

describe('over sockets', () => {
  /** An API that redirects `/api/to?{status}={location}`. */
  const redirecting = () =>
    scripted(({ path }, response) => {
      const [, status, location] = /\?(\d+)=(.*)/.exec(path) ?? []
      if (status === undefined) response.end('here')
      else response.writeHead(Number(status), { location: decodeURIComponent(location ?? '') }).end()
    })
  const instance = (how: How, url: string, config: CreateAxiosDefaults, attach: AttachOptions = {}) => {
    const tokens = provided({ current: token('the.one.token'), apiUrls: [`${url}/api`] })
    const api = axios.create({ proxy: false, ...config })
    if (how === 'attachAuth') attachAuth(api, tokens, attach)
    else api.interceptors.request.use(createAuthInterceptor(tokens, attach))
    return api
  }
  const HEADERS: AttachOptions[] = [{}, { header: 'X-Custom', scheme: '' }, { scheme: 'Token' }]

  it.each(HEADERS)('the plain interceptor guards redirects as attachAuth does: %o', async (attach) => {
    await using api = await redirecting()
    await using other = await redirecting()
    const header = (attach.header ?? 'Authorization').toLowerCase()
    for (const status of [301, 302, 303, 307, 308]) {
      for (const adapter of ADAPTERS) {
        const send = instance(
          'createAuthInterceptor',
          api.url,
          { adapter, validateStatus: () => true },
          attach,
        )
        const to = (location: string) => `${api.url}/api/to?${status}=${encodeURIComponent(location)}`
        const isFollowed = adapter === 'http' || attach.header === undefined
        for (const location of ['/api/inside', '/outside', `${other.url}/api/x`])
          expect((await send.get(to(location))).status).toBe(isFollowed ? 200 : status)
        const carried = api.seen.splice(0).map(({ headers }) => headers[header] !== undefined)
        const all = { http: [true, true, true, false, true], fetch: [true, true, true, true, true] }[adapter]
        expect(carried).toEqual(isFollowed ? all : [true, true, true])
        expect(other.seen.splice(0).map(({ headers }) => headers[header])).toEqual(
          isFollowed ? [undefined] : [],
        )
      }
    }
  })

  it.each(HOWS)('a redirect that is not followed is an AxiosError with the answer (%s)', async (how) => {
    await using api = await redirecting()
    const send = instance(how, api.url, { adapter: 'fetch' }, { header: 'X-Custom' })
    const error = await rejectionOf(send.get(`${api.url}/api/to?302=/api/inside`))
    expect(error).toMatchObject({ response: { status: 302, headers: { location: '/api/inside' } } })
    expect(api.seen).toHaveLength(1)
  })

  it('beforeRedirect works as before, and sees no token', async () => {
    await using api = await redirecting()
    const calls: unknown[] = []
    const answer = await instance('attachAuth', api.url, {}, { header: 'X-Custom' }).get(
      `${api.url}/api/to?302=/api/inside`,
      {
        headers: { 'X-Mine': '1' },
        beforeRedirect: (options, response, request) => {
          calls.push([response.statusCode, request.headers['X-Mine'], request.headers['X-Custom']])
          options['headers'].extra = 'yes'
        },
      },
    )
    expect(answer.data).toBe('here')
    expect(calls).toEqual([[302, '1', undefined]])
    expect(api.seen[1]?.headers).toMatchObject({ extra: 'yes', 'x-custom': 'Bearer the.one.token' })
    expect(String(answer.config.beforeRedirect)).toContain('calls.push')
  })

  it("maxRedirects: 0 gives the 3xx, and redirect: 'error' rejects, with a header of another name too", async () => {
    await using api = await redirecting()
    const url = `${api.url}/api/to?302=/api/inside`
    const config = { maxRedirects: 0, validateStatus: () => true }
    expect((await instance('attachAuth', api.url, config).get(url)).status).toBe(302)
    const custom = instance('attachAuth', api.url, { adapter: 'fetch' }, { header: 'X-Custom' })
    const error = await rejectionOf(custom.get(url, { fetchOptions: { redirect: 'error' } }))
    expect(error).toMatchObject({ name: 'AxiosError' })
    expect(api.seen.length).toBe(2)
  })
})

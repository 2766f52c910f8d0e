// What happens to the token when axios, or a transport or adapter of the caller, is about to follow a redirect (contract 5.4). No network.
import { AxiosHeaders, type CreateAxiosDefaults } from 'axios'
import { createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import type { AxiosBeforeRedirect, AxiosRedirectOptions } from '../../src/attach/axios-types.ts'
import { API, client, type Final, IPV6_API, OTHER_API, redirectTo, TOKENS } from './redirecting.ts'

describe('the token at a redirect', () => {
  const [protocol, hostname, path] = ['https:', 'api.test.example', '/merchant/y']
  const CASES: readonly [string, Partial<AxiosRedirectOptions>, boolean][] = [
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
    const options = redirectTo({ href, hostname: 'before.example' })
    // Where the caller's function has changed the parts, they count: node goes by them.
    const callers =
      Object.keys(parts).length === 0 ? {} : { beforeRedirect: () => Object.assign(options, parts) }
    await client(
      'attachAuth',
      ({ beforeRedirect }) => beforeRedirect(options, {}, { headers: {} }),
      callers as CreateAxiosDefaults,
    ).get(`${api}/x`)
    expect(options.headers).toEqual(along ? { Authorization: 'Bearer the.one.token' } : {})
  })

  it('goes along by way of a proxy, whose parts are others than those of the place', async () => {
    const options = redirectTo({ protocol: 'http:', hostname: 'proxy.example', port: 3128, path: `${API}/y` })
    await client('attachAuth', ({ beforeRedirect }) => beforeRedirect(options, {}, { headers: {} }), {
      beforeRedirect: () => {},
    }).get(`${API}/x`)
    expect(options.headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('is not put back where it had been taken off, and stands by the name that was asked for', async () => {
    const gone = { href: `${API}/y`, headers: { accept: 'a/b' } }
    const odd = { href: `${API}/y`, headers: { 'x-ACCESS': 'the.one.token' } }
    const api = client(
      'attachAuth',
      ({ beforeRedirect }) => {
        for (const options of [gone, odd]) beforeRedirect(options, {}, { headers: {} })
      },
      {},
      { header: 'X-Access', scheme: '' },
    )
    await api.get(`${API}/x`)
    expect([gone.headers, odd.headers]).toEqual([{ accept: 'a/b' }, { 'X-Access': 'the.one.token' }])
    expect(Object.keys(gone.headers)).toEqual(['accept'])
  })

  it("gives way to a header of the caller's beforeRedirect", async () => {
    const options = redirectTo({})
    await client('attachAuth', ({ beforeRedirect }) => beforeRedirect(options, {}, { headers: {} }), {
      beforeRedirect: ({ headers }) => {
        headers.authorization = 'Own one'
      },
    }).get(`${API}/x`)
    expect(options.headers).toEqual({ authorization: 'Own one' })
  })
})

describe("the caller's beforeRedirect", () => {
  it.each([undefined, null, 'a text', { url: `${API}/x` }])(
    'gets a request without headers as it is: %o',
    async (request) => {
      const beforeRedirect = vi.fn()
      const options = redirectTo({})
      const response = { statusCode: 302 }
      await client('attachAuth', (final) => final.beforeRedirect(options, response, request), {
        beforeRedirect,
      }).get(`${API}/x`)
      expect(beforeRedirect.mock.calls).toEqual([[options, response, request]])
      expect(beforeRedirect.mock.calls[0]?.[2]).toBe(request)
    },
  )

  it('gets the rest of the request, and what it was made of stays', async () => {
    const seen = vi.fn()
    const request = { url: `${API}/x`, headers: { authorization: 'Bearer the.one.token', accept: 'a/b' } }
    const api = client('attachAuth', (final) => final.beforeRedirect(redirectTo({}), {}, request), {
      beforeRedirect: (_options, _response, given) => seen(given),
    })
    await api.get(`${API}/x`)
    expect(seen).toHaveBeenCalledWith({ url: `${API}/x`, headers: { accept: 'a/b' } })
    expect(request.headers.authorization).toBe('Bearer the.one.token')
  })
})

describe("a transport of the caller's own", () => {
  interface Asked {
    readonly self: unknown
    readonly options: { readonly beforeRedirect: AxiosBeforeRedirect }
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

  it.each(['attachAuth', 'createAuthInterceptor'] as const)(
    'is asked as by axios itself, and its beforeRedirect runs first (%s)',
    async (how) => {
      const transport = new Transport()
      const order: unknown[] = []
      const beforeRedirect: AxiosBeforeRedirect = ({ headers }) => order.push(headers['Authorization'])
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
    },
  )

  it('is wrapped once by an interceptor that runs twice, and judged by where the call goes then', async () => {
    const transport = new Transport()
    const interceptor = createAuthInterceptor(TOKENS)
    const config = { url: `${API}/x`, headers: new AxiosHeaders(), transport }
    await interceptor(config)
    config.url = `${OTHER_API}/x`
    await interceptor(config)
    config.transport.request({} as never)
    const redirect = redirectTo({ href: `${OTHER_API}/y` })
    transport.asked[0]?.options.beforeRedirect(redirect, {}, {})
    expect(redirect.headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('is wrapped once by the interceptor when its config is sent again', async () => {
    const transport = new Transport()
    const options = { beforeRedirect: () => {} }
    const api = client('createAuthInterceptor', (final) => final.transport.request(options), { transport })
    const { config } = await api.get(`${API}/x`)
    await api.request({ ...config, url: `${OTHER_API}/x` })
    const redirect = redirectTo({ href: `${OTHER_API}/y` })
    transport.asked[1]?.options.beforeRedirect(redirect, {}, {})
    expect(redirect.headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('is not made up where there is none', async () => {
    let final: Final | undefined
    await client('attachAuth', (config) => {
      final = { ...config }
    }).get(`${API}/x`)
    expect(final?.transport).toBeUndefined()
  })
})

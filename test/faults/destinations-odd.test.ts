/** Odd configs and adapters of the caller's own, by which a token went astray once (contract 5.1, 5.4, 6). */
import { createRequire } from 'node:module'
import axios from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { findLeaks } from '../support/leaks.ts'
import { forget, secrets } from '../support/recorded.ts'
import { client, HOWS, openPlaces } from './places.ts'

const X_HEADER = { header: 'X-Access-Token', scheme: '' }

describe('a url that is a String object', () => {
  // axios 1.21 takes it for a relative one, whatever it says; axios 1.13 does not.
  it.each(HOWS)('goes below baseURL, and takes no token there (%s)', async (how) => {
    await using places = await openPlaces()
    const api = client(places.auth(), how, { baseURL: places.evil })
    await api.request({ url: new String(`${places.api}/merchant/x`) as string })
    expect(places.take()).toEqual(['no token at evil /http://api.here/merchant/x'])
  })
})

describe('a baseURL that is a URL object', () => {
  // axios sends it where there is no url to put it together with, and throws where there is one.
  it.each(HOWS)('takes no token anywhere (%s)', async (how) => {
    await using places = await openPlaces()
    const api = client(places.auth(), how, { adapter: 'http' })
    await api.request({ baseURL: new URL(`${places.api}/merchant/x`) as unknown as string })
    expect(places.take()).toEqual(['no token at API /merchant/x'])
  })
})

describe('redirects that a transport of the caller follows', () => {
  const { http: transport } = createRequire(createRequire(import.meta.url).resolve('axios'))(
    'follow-redirects',
  ) as { http: unknown }

  // axios calls its config's beforeRedirect for its own transports only.
  it.each(HOWS)('take no custom header to another origin (%s)', async (how) => {
    await using places = await openPlaces(({ path }) =>
      path === '/merchant/x' ? { status: 302, location: 'http://evil.here/merchant/y' } : { status: 200 },
    )
    const api = client(places.auth(), how, { adapter: 'http', transport }, X_HEADER)
    await api.get(`${places.api}/merchant/x`)
    expect(places.take()).toEqual(['token at API /merchant/x', 'no token at evil /merchant/y'])
  })

  it.each(HOWS)('take the token nowhere outside apiUrls (%s)', async (how) => {
    await using places = await openPlaces(({ path }) =>
      path === '/merchant/x' ? { status: 302, location: '/outside' } : { status: 200 },
    )
    const api = client(places.auth(), how, { adapter: 'http', transport })
    await api.get(`${places.api}/merchant/x`)
    expect(places.take()).toEqual(['token at API /merchant/x', 'no token at API /outside'])
  })
})

describe("a caller's beforeRedirect that changes where the redirect goes", () => {
  it.each(HOWS)('is judged by where it goes then (%s)', async (how) => {
    await using places = await openPlaces(({ path }) =>
      path === '/merchant/x' ? { status: 302, location: '/merchant/y' } : { status: 200 },
    )
    const api = client(places.auth(), how, {
      adapter: 'http',
      beforeRedirect: (options) => {
        options['port'] = new URL(places.evil).port
      },
    })
    await api.get(`${places.api}/merchant/x`)
    expect(places.take()).toEqual(['token at API /merchant/x', 'no token at evil /merchant/y'])
  })
})

describe('a 401 after a redirect', () => {
  const refusing = (): ReturnType<typeof openPlaces> =>
    openPlaces(({ at }) =>
      at === 'API' ? { status: 302, location: 'http://evil.here/merchant/y' } : { status: 401 },
    )

  it("renews nothing where the caller's adapter wraps axios' fetch adapter", async () => {
    await using places = await refusing()
    const auth = places.auth()
    const api = client(auth, 'attachAuth', { adapter: (config) => axios.getAdapter('fetch', config)(config) })
    expect((await api.get(`${places.api}/merchant/x`)).status).toBe(401)
    expect(auth.endpoint.count).toBe(1)
  })

  // There axios calls fetch with a text, and nothing in its answer tells of the redirect.
  it("costs a renewal where axios' fetch adapter makes no Request", async () => {
    await using places = await refusing()
    const auth = places.auth()
    const env = { Request: null as never, fetch: ((...given) => fetch(...given)) satisfies typeof fetch }
    const api = client(auth, 'attachAuth', { adapter: 'fetch', env })
    expect((await api.get(`${places.api}/merchant/x`)).status).toBe(401)
    expect(auth.endpoint.count).toBe(2)
  })
})

describe('the print of an answer to a call without the token', () => {
  // Its request leads to the global agent, whose free sockets know the requests that were sent before.
  it("shows no other call's token", async () => {
    await using places = await openPlaces()
    const api = axios.create({ proxy: false })
    attachAuth(api, places.auth().provider)
    await api.get(`${places.api}/merchant/x`)
    const answer = await api.get(`${places.evil}/merchant/x`)
    const known = [...secrets]
    forget() // what is recorded here must not fail the test by the check after it
    expect(findLeaks(answer, known)).toEqual([])
  })
})

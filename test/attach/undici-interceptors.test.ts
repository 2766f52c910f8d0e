// createAuthDispatch with undici's own interceptors, in the order of docs/clients.md: those that send, the token, the others.
import { gzipSync } from 'node:zlib'
import { type Dispatcher, interceptors, request } from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { token } from '../support/provided.ts'
import { agentWith, authFor, tokensAt } from './undici-calls.ts'
import { scripted } from './world.ts'

const redirect = interceptors.redirect({ maxRedirections: 3 })

describe('undici’s redirect interceptor below the token', () => {
  it('sends no token to another origin, and a 401 from there renews nothing', async () => {
    await using other = await scripted((_, response) => void response.writeHead(401).end())
    await using api = await scripted((_, response) => {
      response.writeHead(307, { location: `${other.url}/there` }).end()
    })
    const renew = vi.fn(async () => token('second.token'))
    const dispatcher = agentWith(redirect, authFor(api, { renew }))
    for (const headers of [{ a: 'b' }, ['a', 'b'], new Map([['a', 'b']])])
      expect((await request(api.url, { dispatcher, headers })).statusCode).toBe(401)
    expect(tokensAt(api)).toEqual(Array(3).fill('Bearer first.token'))
    expect(tokensAt(other)).toEqual(Array(3).fill(undefined))
    expect(renew).not.toHaveBeenCalled()
  })

  it('sends the token with a redirect within the API', async () => {
    await using api = await scripted(({ path }, response) => {
      if (path === '/a') response.writeHead(302, { location: '/b' }).end()
      else response.end()
    })
    const dispatcher = agentWith(redirect, authFor(api))
    expect((await request(`${api.url}/a`, { dispatcher })).statusCode).toBe(200)
    expect(tokensAt(api)).toEqual(['Bearer first.token', 'Bearer first.token'])
  })

  it.each([
    ['/b/', true],
    ['/outside', false],
  ])('renews after a 401 at %s, where the API redirected the call to: %s', async (location, isRenewed) => {
    await using api = await scripted(({ path }, response) => {
      if (path === '/api/a') response.writeHead(302, { location: location.replace('/b', '/api/b') }).end()
      else response.writeHead(401).end()
    })
    const renew = vi.fn(async () => undefined)
    const dispatcher = agentWith(redirect, authFor({ url: `${api.url}/api` }, { renew }))
    expect((await request(`${api.url}/api/a`, { dispatcher })).statusCode).toBe(401)
    expect(renew.mock.calls.length).toBe(isRenewed ? 1 : 0)
  })

  it('sends no token with a redirect from another origin to the API', async () => {
    await using api = await scripted((_, response) => response.end())
    await using other = await scripted((_, response) => {
      response.writeHead(302, { location: api.url }).end()
    })
    await request(other.url, { dispatcher: agentWith(redirect, authFor(api)) })
    expect(tokensAt(api)).toEqual([undefined])
  })

  it('follows no redirect with a header other than Authorization: the caller gets the 3xx', async () => {
    await using api = await scripted((_, response) => {
      response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end()
    })
    const dispatcher = agentWith(redirect, authFor(api, {}, { header: 'X-Token' }))
    expect((await request(api.url, { dispatcher })).statusCode).toBe(302)
    expect(api.seen[0]?.headers['x-token']).toBe('Bearer first.token')
  })
})

it.each<[string, 'below' | 'above', Dispatcher.DispatcherComposeInterceptor]>([
  ['retry', 'below', interceptors.retry()],
  ['redirect', 'below', redirect],
  ['cache', 'below', interceptors.cache()],
  ['deduplicate', 'below', interceptors.deduplicate()],
  ['dump', 'above', interceptors.dump()],
  ['responseError', 'above', interceptors.responseError()],
  ['decompress', 'above', interceptors.decompress()],
])('a 401 with undici’s %s %s the token renews it', async (_, where, other) => {
  await using api = await scripted(({ headers }, response) => {
    const isFirst = headers.authorization === 'Bearer first.token'
    response.writeHead(isFirst ? 401 : 200, { 'content-encoding': 'gzip' }).end(gzipSync('good'))
  })
  const auth = authFor(api)
  const dispatcher = where === 'below' ? agentWith(other, auth) : agentWith(auth, other)
  expect((await request(api.url, { dispatcher })).statusCode).toBe(200)
  expect(tokensAt(api)).toEqual(['Bearer first.token', 'Bearer second.token'])
})

it.each([
  ['cache', interceptors.cache()],
  ['deduplicate', interceptors.deduplicate()],
])('a call through undici’s %s may have its headers in pairs', async (_, other) => {
  await using api = await scripted((_, response) => response.end())
  const headers: [string, string][] = [['x-mine', '1']]
  await request(api.url, { dispatcher: agentWith(other, authFor(api)), headers })
  expect(api.seen[0]?.headers).toMatchObject({ 'x-mine': '1', authorization: 'Bearer first.token' })
})

it('a call through undici’s dns below the token carries it', async () => {
  const addresses = [{ address: '127.0.0.1', family: 4, ttl: 1000 }]
  const lookup = (_: unknown, __: unknown, done: (error: null, found: object[]) => void) =>
    done(null, addresses)
  await using api = await scripted((_, response) => response.end())
  const url = api.url.replace('127.0.0.1', 'api.localhost')
  const dispatcher = agentWith(interceptors.dns({ lookup: lookup as never }), authFor({ url }))
  await request(url, { dispatcher })
  expect(tokensAt(api)).toEqual(['Bearer first.token'])
})

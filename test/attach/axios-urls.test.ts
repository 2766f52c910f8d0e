// The URL that axios makes of baseURL, url and params decides whether a call gets the token.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import axios, { type AxiosAdapter, type AxiosRequestConfig } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ADAPTERS, rejectionOf, type Scripted, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { axiosWith } from './drivers.ts'

/** An API below /merchant, and a server elsewhere. */
let api: Scripted
let other: Scripted
let arrivals: string[]
beforeEach(async () => {
  arrivals = []
  const serve = (at: string) =>
    scripted(({ path, headers }, response) => {
      const { authorization = '' } = headers // Basic for user info in the URL
      arrivals.push(`${at} ${path} ${authorization.startsWith('Bearer') ? authorization : 'no token'}`)
      response.end()
    })
  api = await serve('API')
  other = await serve('other')
})
afterEach(async () => {
  for (const server of [api, other]) await server[Symbol.asyncDispose]()
})

const fill = (template: string): string =>
  template.replaceAll('{API}', new URL(api.url).host).replaceAll('{OTHER}', new URL(other.url).host)

/** Makes a call with both adapters. Resolves with where it arrived, or with `not sent`. */
async function arrivalOf(config: AxiosRequestConfig): Promise<string> {
  const found = new Set<string>()
  for (const adapter of ADAPTERS) {
    const tokens = provided({ current: token('the.one.token'), apiUrls: [`${api.url}/merchant`] })
    const instance = axios.create({ adapter, proxy: false })
    attachAuth(instance, tokens)
    await instance.request(config).catch(() => {})
    found.add(arrivals.splice(0).join() || 'not sent')
  }
  return [...found].join(' | ')
}

const TOKEN = 'Bearer the.one.token'
const BASE = 'http://{API}/merchant'

it.each([
  [BASE, '/x', `API /merchant/x ${TOKEN}`],
  [`${BASE}/`, 'x', `API /merchant/x ${TOKEN}`],
  [BASE, '', `API /merchant ${TOKEN}`],
  [BASE, '?x=1', `API /merchant/?x=1 ${TOKEN}`],
  [BASE, 'a/../b', `API /merchant/b ${TOKEN}`],
  [BASE, 'http://{API}/merchant/x', `API /merchant/x ${TOKEN}`],
  [BASE, '\\\\{OTHER}\\x', `API /merchant///{OTHER}/x ${TOKEN}`],
  [BASE, ' http://{OTHER}/x', `API /merchant/%20http://{OTHER}/x ${TOKEN}`],
  [BASE, '\t//{OTHER}/x', `API /merchant///{OTHER}/x ${TOKEN}`],
  [BASE, 'ht\ttp://{OTHER}/x', `API /merchant/http://{OTHER}/x ${TOKEN}`],
  [`${BASE}?q=`, '/x', `API /merchant?q=/x ${TOKEN}`],
  [BASE, '../x', 'API /x no token'],
  [`${BASE}/`, '/../x', 'API /x no token'],
  [BASE, '%2e%2e/x', 'API /x no token'],
  [BASE, '..\\x', 'API /x no token'],
  [BASE, '..%2fx', 'API /merchant/..%2fx no token'],
  [BASE, 'http://{API}/x', 'API /x no token'],
  [BASE, 'http://{OTHER}/x', 'other /x no token'],
  [BASE, '//{OTHER}/x', 'not sent'],
  ['http://{API}', '/merchant/x', `API /merchant/x ${TOKEN}`],
  ['http://{API}/x/..', '/merchant/y', `API /merchant/y ${TOKEN}`],
  ['http://{API}', '@{OTHER}/merchant', 'API /@{OTHER}/merchant no token'],
  ['http://{API}/mer', 'chant/x', 'API /mer/chant/x no token'],
  ['http://{API}/merchant/..', '/x', 'API /x no token'],
  ['http://{API}?', '/merchant/x', 'API /?/merchant/x no token'],
  ['http://{API}@{OTHER}/merchant', '/x', 'other /merchant/x no token'],
  ['http://{OTHER}', '/merchant/x', 'other /merchant/x no token'],
  ['http://{OTHER}', '@{API}/merchant', 'other /@{API}/merchant no token'],
  ['http://{OTHER}\\', '@{API}/merchant', 'other //@{API}/merchant no token'],
  ['http://{OTHER}', 'http://{API}/merchant/x', `API /merchant/x ${TOKEN}`],
  ['', 'http://{API}/merchant/x', `API /merchant/x ${TOKEN}`],
  ['', '/merchant/x', 'not sent'],
])('baseURL %j and url %j: %s', async (baseURL, url, expected) => {
  expect(await arrivalOf({ baseURL: fill(baseURL), url: fill(url) })).toBe(fill(expected))
})

it.each([{}, { url: '' }])('a call of a baseURL alone is reported with that URL: %j', async (config) => {
  const withheld: unknown[] = []
  const note = (event: unknown) => withheld.push(event)
  subscribe('merchant-auth', note)
  expect(await arrivalOf({ baseURL: `${other.url}/x`, ...config })).toBe('other /x no token')
  unsubscribe('merchant-auth', note)
  const event = { type: 'token-withheld', reason: 'destination', url: `${other.url}/x` }
  expect(withheld).toMatchObject([event, event])
})

// In Node.js the adapters of axios refuse such a URL; with jsdom they send it to the host that it names.
it('a url without a scheme names another host for an adapter of the caller, too', async () => {
  const adapter: AxiosAdapter = ({ headers }) => Promise.reject(headers.has('authorization'))
  const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url] })
  const instance = axiosWith(tokens, { baseURL: api.url, adapter })
  expect(await rejectionOf(instance.get('//elsewhere.example/x'))).toBe(false)
  expect(await rejectionOf(instance.get('/x'))).toBe(true)
})

describe('with allowAbsoluteUrls: false', () => {
  it.each([
    [BASE, 'http://{OTHER}/x', `API /merchant/http://{OTHER}/x ${TOKEN}`],
    [BASE, '//{OTHER}/x', `API /merchant/{OTHER}/x ${TOKEN}`],
    [BASE, '//../x', 'API /x no token'],
    ['http://{OTHER}', 'http://{API}/merchant/x', 'other /http://{API}/merchant/x no token'],
    ['http://{API}', '//{OTHER}/merchant', 'API /{OTHER}/merchant no token'],
  ])('baseURL %j and url %j: %s', async (baseURL, url, expected) => {
    const config = { baseURL: fill(baseURL), url: fill(url), allowAbsoluteUrls: false }
    expect(await arrivalOf(config)).toBe(fill(expected))
  })
})

describe('params', () => {
  it('do not change the destination', async () => {
    const config = { url: `${api.url}/merchant/x`, params: { q: '../../y' } }
    expect(await arrivalOf(config)).toBe(`API /merchant/x?q=..%2F..%2Fy ${TOKEN}`)
  })

  it('leave out a fragment before the destination is decided', async () => {
    const config = { url: `${api.url}/merchant#/../x`, params: { q: '1' } }
    expect(await arrivalOf(config)).toBe(`API /merchant?q=1 ${TOKEN}`)
  })

  it('whose paramsSerializer returns another host do not change the destination', async () => {
    const config = { url: api.url, params: { q: '1' }, paramsSerializer: () => '@elsewhere.example/' }
    expect(await arrivalOf(config)).toBe('API /?@elsewhere.example/ no token')
  })
})

it('a url that transformRequest sets to another server gets no token', async () => {
  const config: AxiosRequestConfig = {
    method: 'POST',
    url: `${api.url}/merchant/x`,
    transformRequest(data: unknown) {
      this.url = `${other.url}/merchant/x`
      return data
    },
  }
  expect(await arrivalOf(config)).toBe('other /merchant/x no token')
})

it.each(['url', 'baseURL'] as const)('the token follows the %s that an interceptor sets', async (by) => {
  const sends = async (from: string, to: string) => {
    const instance = axios.create({ baseURL: from })
    attachAuth(instance, provided({ current: token('the.one.token'), apiUrls: [`${api.url}/merchant`] }))
    instance.interceptors.request.use((config) =>
      Object.assign(config, { [by]: by === 'url' ? `${to}/merchant/x` : to }),
    )
    await instance.get('/merchant/x')
    return arrivals.splice(0)
  }
  expect(await sends(api.url, other.url)).toEqual(['other /merchant/x no token'])
  expect(await sends(other.url, api.url)).toEqual([`API /merchant/x ${TOKEN}`])
})

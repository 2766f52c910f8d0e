// Redirects on axios alone: the caller's beforeRedirect, maxRedirects and fetchOptions.
import axios, { type AxiosError, type AxiosRequestConfig } from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { rejectionOf, type Scripted, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'

/** An API that redirects /to to /y, and a server elsewhere. */
let api: Scripted
let other: Scripted
beforeEach(async () => {
  api = await scripted(({ path }, response) => {
    if (path === '/to') response.writeHead(302, { location: '/y' })
    response.end('here')
  })
  other = await scripted((_, response) => response.end('elsewhere'))
})
afterEach(async () => {
  for (const server of [api, other]) await server[Symbol.asyncDispose]()
})

const instance = (config: AxiosRequestConfig, attach?: AttachOptions) => {
  const made = axios.create({ proxy: false, ...config } as never)
  attachAuth(made, provided({ current: token('the.one.token'), apiUrls: [api.url] }), attach)
  return made
}
const redirected = (config: AxiosRequestConfig, attach?: AttachOptions) =>
  instance(config, attach).get(`${api.url}/to`)

const TOKEN = 'Bearer the.one.token'
const authorizations = ({ seen }: Scripted) => seen.map(({ headers }) => headers.authorization)

describe("the caller's beforeRedirect", () => {
  it('is called once for each redirect, also when the config is sent again', async () => {
    const hrefs: unknown[] = []
    const beforeRedirect = ({ href }: { href?: string }) => void hrefs.push(href)
    const { config } = await redirected({ beforeRedirect })
    expect(config.beforeRedirect).toBe(beforeRedirect)
    await instance({}).request(config)
    expect(hrefs).toEqual([`${api.url}/y`, `${api.url}/y`])
    expect(authorizations(api)).toEqual([TOKEN, TOKEN, TOKEN, TOKEN])
  })

  it('may set a header of the token’s name, which replaces the token', async () => {
    const { port } = new URL(other.url)
    const beforeRedirect = (options: object) =>
      Object.assign(options, { headers: { Authorization: 'Own one' }, port })
    await redirected({ beforeRedirect })
    expect([...authorizations(api), ...authorizations(other)]).toEqual([TOKEN, 'Own one'])
  })

  it.each(['port', 'path'])('gets no token sent along if it changes the %s', async (part) => {
    const { port } = new URL(other.url)
    const beforeRedirect = (options: object) =>
      Object.assign(options, part === 'port' ? { port } : { path: '/elsewhere' })
    await redirected({ beforeRedirect })
    expect([...authorizations(api), ...authorizations(other)]).toEqual([TOKEN, undefined])
  })

  it('rejects the call with the error that it throws', async () => {
    const beforeRedirect = () => {
      throw new Error('not there')
    }
    expect(await rejectionOf(redirected({ beforeRedirect }))).toMatchObject({
      message: expect.stringContaining('not there'),
    })
    expect(api.seen).toHaveLength(1)
  })
})

it('maxRedirects 0 returns the redirect as an error', async () => {
  const error = (await rejectionOf(redirected({ maxRedirects: 0 }))) as AxiosError
  expect(error.response).toMatchObject({ status: 302, headers: { location: '/y' } })
})

describe('the fetch adapter', () => {
  it('gets the fetchOptions of the caller', async () => {
    let options: Partial<Request> = {}
    const fetch: typeof globalThis.fetch = async (input) => {
      const { redirect, cache } = input as Request
      options = { redirect, cache }
      return new Response('mocked')
    }
    const config = {
      adapter: 'fetch',
      env: { fetch },
      fetchOptions: { redirect: 'error', cache: 'no-store' },
    }
    const { config: after } = await redirected(config as AxiosRequestConfig, { header: 'X-Access' })
    expect(options).toEqual({ redirect: 'error', cache: 'no-store' })
    expect(after).toMatchObject({ env: { fetch }, fetchOptions: config.fetchOptions })
  })

  it('follows redirects with a fetch that gets no Request', async () => {
    const env = {
      fetch: (input: string, init: RequestInit) => fetch(input, init),
      Request: null,
      Response: null,
    }
    const { data } = await redirected({ adapter: 'fetch', env } as object as AxiosRequestConfig)
    expect(data).toBe('here')
  })

  // axios keeps a set-up for each fetch that it gets, and tries out what its Request can do.
  it('sets itself up once for the fetch of the caller: a further call makes one Request', async () => {
    let made = 0
    class CountedRequest extends Request {
      constructor(...args: ConstructorParameters<typeof Request>) {
        super(...args)
        made += 1
      }
    }
    const fetch = async () => new Response('mocked')
    const env = { fetch, Request: CountedRequest, Response }
    const counted = instance({ adapter: 'fetch', env } as object as AxiosRequestConfig)
    await counted.get(`${api.url}/x`)
    made = 0
    await counted.get(`${api.url}/x`)
    expect(made).toBe(1)
  })

  it('calls a global fetch that is mocked after the instance was made', async () => {
    const made = instance({ adapter: 'fetch' })
    const mock = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response('mocked'))
    try {
      expect((await made.get(`${api.url}/x`)).data).toBe('mocked')
    } finally {
      mock.mockRestore()
    }
  })
})

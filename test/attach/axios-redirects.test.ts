// Redirects of an API on axios: where the token arrives (contract 5.4).
import axios, { type CreateAxiosDefaults } from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, apiAt, type Scripted, scripted, useGround } from './calls.ts'

const ground = useGround()
const CODES = [301, 302, 303, 307, 308]
const HEADERS: AttachOptions[] = [
  {},
  { header: 'X-Custom', scheme: '' },
  { header: 'Authorization', scheme: 'Token' },
]

/** An API that redirects `/api/to?{status}={location}` and says 401 at paths that end in 401. */
const redirecting = () =>
  scripted(({ path }, response) => {
    const [, status, location] = /\?(\d+)=(.*)/.exec(path) ?? []
    if (status !== undefined)
      response.writeHead(Number(status), { location: decodeURIComponent(location ?? '') }).end()
    else response.writeHead(path.endsWith('401') ? 401 : 200).end('here')
  })
const carried = ({ seen }: Scripted, { header = 'Authorization' }: AttachOptions) =>
  seen.map(({ path, headers }) => [path.split('?')[0], headers[header.toLowerCase()] !== undefined])

function instance(
  api: Scripted,
  how: 'attach' | 'interceptor',
  config: CreateAxiosDefaults,
  attach: AttachOptions,
) {
  const tokens = ground.provider({ environment: apiAt(ground.env, `${api.url}/api`) })
  const made = axios.create({ validateStatus: () => true, ...config })
  if (how === 'attach') attachAuth(made, tokens, attach)
  else made.interceptors.request.use(createAuthInterceptor(tokens, attach))
  return made
}

for (const how of ['attach', 'interceptor'] as const) {
  for (const attach of HEADERS) {
    const under = `${how}, ${attach.scheme ?? 'Bearer'} in ${attach.header ?? 'Authorization'}`
    const custom = attach.header === 'X-Custom'
    describe(`a redirect on axios (${under})`, () => {
      it.each(CODES)('%i by the http adapter takes the token no further than the API', async (code) => {
        await using api = await redirecting()
        await using other = await redirecting()
        const client = instance(api, how, { adapter: 'http' }, attach)
        const to = (location: string) => `${api.url}/api/to?${code}=${encodeURIComponent(location)}`
        expect((await client.get(to('/api/inside'))).data).toBe('here')
        await client.get(to('/outside'))
        await client.get(to(`${api.url}/api/..%2Fencoded`))
        await client.get(to('/api/../api2'))
        await client.get(to(`${other.url}/api/x`))
        await client.get(to(`${api.url.replace('127.0.0.1', 'localhost')}/api/host`))
        await client.get(to(`/outside?${code}=/api/back`))
        expect(carried(api, attach)).toEqual([
          ['/api/to', true],
          ['/api/inside', true],
          ['/api/to', true],
          ['/outside', false],
          ['/api/to', true],
          ['/api/..%2Fencoded', false],
          ['/api/to', true],
          ['/api2', false],
          ['/api/to', true],
          ['/api/to', true],
          ['/api/host', false],
          ['/api/to', true],
          ['/outside', false],
          ['/api/back', false],
        ])
        expect(carried(other, attach)).toEqual([['/api/x', false]])
      })

      it.each(CODES)('%i by the fetch adapter takes it to no other origin', async (code) => {
        await using api = await redirecting()
        await using other = await redirecting()
        const client = instance(api, how, { adapter: 'fetch' }, attach)
        const answer = await client.get(
          `${api.url}/api/to?${code}=${encodeURIComponent(`${other.url}/api/x`)}`,
        )
        expect(answer.status).toBe(custom ? code : 200)
        expect(carried(other, attach)).toEqual(custom ? [] : [['/api/x', false]])
        const inside = await client.get(`${api.url}/api/to?${code}=/api/inside`)
        expect(inside.status).toBe(custom ? code : 200)
        expect(carried(api, attach)).toContainEqual(['/api/to', true])
        expect(inside.config.fetchOptions?.redirect).toBe(
          how === 'interceptor' && custom ? 'manual' : undefined,
        )
      })
    })
  }
}

describe('a 401 after a redirect', () => {
  for (const adapter of ADAPTERS) {
    it.each(['/api/401', '/out/401'])(`renews nothing by the adapter ${adapter}: %s`, async (location) => {
      await using api = await redirecting()
      const client = instance(api, 'attach', { adapter }, {})
      expect((await client.get(`${api.url}/api/to?302=${location}`)).status).toBe(401)
      expect(ground.env.counts.token).toBe(1)
      expect(api.seen.length).toBe(2)
    })

    it(`does not renew with a custom header by the adapter ${adapter}, and a direct one does`, async () => {
      await using api = await redirecting()
      const client = instance(api, 'attach', { adapter }, { header: 'X-Custom' })
      await client.get(`${api.url}/api/to?302=/api/401`)
      expect(ground.env.counts.token).toBe(1)
      expect((await client.get(`${api.url}/api/401`)).status).toBe(401)
      expect(ground.env.counts.token).toBe(2)
    })
  }

  it('from outside the API renews nothing', async () => {
    await using api = await redirecting()
    const client = instance(api, 'attach', {}, {})
    expect((await client.get(`${api.url}/401`)).status).toBe(401)
    expect(ground.env.counts.token).toBe(0)
  })
})

describe('a redirect from one API to another on a different origin', () => {
  it.each([{}, { header: 'X-Custom' }])('takes no token along (%o)', async (attach) => {
    await using one = await redirecting()
    await using other = await redirecting()
    const api = axios.create()
    attachAuth(api, ground.provider({ environment: apiAt(ground.env, one.url, other.url) }), attach)
    await api.get(`${one.url}/api/to?307=${encodeURIComponent(`${other.url}/api/x`)}`)
    expect(carried(one, attach)).toEqual([['/api/to', true]])
    expect(carried(other, attach)).toEqual([['/api/x', false]])
  })
})

describe("the caller's own redirect options", () => {
  it('work as before, and beforeRedirect sees no token', async () => {
    await using api = await redirecting()
    const client = instance(api, 'attach', {}, { header: 'X-Custom' })
    const calls: unknown[] = []
    const answer = await client.get(`${api.url}/api/to?302=/api/inside`, {
      headers: { 'X-Mine': '1' },
      beforeRedirect: (options, response, request) => {
        calls.push([response.statusCode, request.headers['X-Mine'], request.headers['X-Custom']])
        options['headers'].extra = 'yes'
      },
    })
    expect(answer.data).toBe('here')
    expect(calls).toEqual([[302, '1', undefined]])
    expect(api.seen[1]?.headers['extra']).toBe('yes')
    expect(api.seen[1]?.headers['x-custom']).toBeDefined()
    expect(String(answer.config.beforeRedirect)).toContain('calls.push')
  })

  it('maxRedirects: 0 gives the 3xx', async () => {
    await using api = await redirecting()
    const client = instance(api, 'attach', { maxRedirects: 0 }, {})
    expect((await client.get(`${api.url}/api/to?302=/api/inside`)).status).toBe(302)
  })

  it("redirect: 'error' of the fetch adapter stays, with a header of another name too", async () => {
    await using api = await redirecting()
    const client = instance(api, 'attach', { adapter: 'fetch' }, { header: 'X-Custom' })
    await expect(
      client.get(`${api.url}/api/to?302=/api/inside`, { fetchOptions: { redirect: 'error' } }),
    ).rejects.toMatchObject({ name: 'AxiosError' })
    expect(api.seen.length).toBe(1)
  })

  it('a fetch of the caller (env.fetch) is used and watched', async () => {
    await using api = await redirecting()
    let used = 0
    const own: typeof fetch = (input, init) => {
      used += 1
      return fetch(input, init)
    }
    const client = instance(api, 'attach', { adapter: 'fetch', env: { fetch: own } }, {})
    expect((await client.get(`${api.url}/api/to?302=/api/401`)).status).toBe(401)
    expect(used).toBe(1)
    expect(ground.env.counts.token).toBe(1)
  })
})

// Where the header goes on axios, and where not (contract 5.1 to 5.3).
import axios, { AxiosHeaders } from 'axios'
import { ConfigurationError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, functionAdapter, scripted, useGround } from './calls.ts'

const ground = useGround()
const withheld = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))

describe('an axios instance with the token', () => {
  for (const adapter of [
    ...ADAPTERS,
    functionAdapter,
    ['http'] as ['http'],
    ['xhr', 'fetch'] as ['xhr', 'fetch'],
  ]) {
    const name = typeof adapter === 'function' ? 'a function' : String(adapter)
    it(`sends it below every API URL by the adapter ${name}`, async () => {
      const api = ground.api({ adapter })
      const first = await api.get('/orders', { headers: { 'X-Mine': '1' } })
      const second = await api.get(`${ground.env.inStoreUrl}/sales`)
      expect(first.data.headers).toMatchObject({
        authorization: `Bearer [token ${first.data.jti}]`,
        'x-mine': '1',
      })
      expect(second.data.api).toBe('in-store')
      expect(ground.env.counts.token).toBe(1)
      expect(withheld()).toEqual([])
    })
  }

  it('sends it on a per-request adapter, and on the default instance', async () => {
    const detach = attachAuth(axios, ground.tokens)
    try {
      const answer = await axios.get(`${ground.env.merchantUrl}/x`, { adapter: functionAdapter })
      expect(answer.status).toBe(200)
      expect((await axios(`${ground.env.merchantUrl}/y`)).status).toBe(200)
    } finally {
      detach()
    }
    await expect(axios.get(`${ground.env.merchantUrl}/x`)).rejects.toMatchObject({
      response: { status: 401 },
    })
  })

  for (const adapter of ADAPTERS) {
    it(`sends it bare in a header of another name by the adapter ${adapter}`, async () => {
      ground.env.configure({ header: 'X-Custom', scheme: '' })
      const api = ground.api({ adapter }, { header: 'X-Custom', scheme: '' })
      const { data } = await api.get('/orders', { headers: { Authorization: 'Basic abc' } })
      expect(data.headers['x-custom']).toBe(`[token ${data.jti}]`)
      expect(data.headers.authorization).toBeDefined()
      const { data: more } = await api.get('/orders', { auth: { username: 'u', password: 'p' } })
      expect(more.jti).toBe(data.jti)
    })

    it(`leaves other places, and requests with credentials of their own, untouched by the adapter ${adapter}`, async () => {
      await using elsewhere = await scripted((_, response) => void response.writeHead(401).end())
      await using api401 = await scripted((_, response) => void response.writeHead(401).end())
      const provider = ground.provider({
        environment: { ...ground.env.environment, apiUrls: [`${api401.url}/api`] },
      })
      const api = axios.create({ adapter, validateStatus: () => true })
      attachAuth(api, provider)
      await api.get(`${elsewhere.url}/api`)
      await api.get(`${api401.url}/api/x`, { headers: { aUTHORIZATION: 'Own one' } })
      await api.get(`${api401.url}/api/x`, { auth: { username: 'u', password: 'p' } })
      await api.get(`${api401.url.replace('//', '//u:p@')}/api/x`)
      expect(elsewhere.seen.map(({ headers }) => headers.authorization)).toEqual([undefined])
      expect(api401.seen.map(({ headers }) => headers.authorization)).toEqual([
        'Own one',
        'Basic dTpw',
        'Basic dTpw',
      ])
      expect(withheld()).toEqual(['destination', 'own-header', 'own-credentials', 'own-credentials'])
      expect(ground.env.counts.token).toBe(0)
    })
  }

  it('withholds it from a socket path, whatever the URL says', async () => {
    const api = ground.api()
    await expect(api.get('/orders', { socketPath: '/nonexistent.sock' })).rejects.toMatchObject({
      code: 'ENOENT',
    })
    expect(withheld()).toEqual(['destination'])
    expect(ground.env.counts.token).toBe(0)
  })

  it('tells the URL of a withheld call without user info, query and fragment', async () => {
    const api = ground.api({
      adapter: async (config) => ({ data: '', status: 200, statusText: '', headers: {}, config }),
    })
    await api.get('https://u:p@elsewhere.example/path?secret=1#x')
    expect(ground.events).toEqual([
      expect.objectContaining({
        type: 'token-withheld',
        reason: 'destination',
        url: 'https://elsewhere.example/path',
      }),
    ])
  })

  it('is refused twice on one instance, and taken once more after it was taken off', async () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    const detach = attachAuth(api, ground.tokens)
    expect(() => attachAuth(api, ground.tokens)).toThrow(ConfigurationError)
    detach()
    detach()
    await expect(api.get('/x')).rejects.toMatchObject({ response: { status: 401 } })
    const again = attachAuth(api, ground.tokens)
    detach() // of the first: it has no say in the second
    expect(() => attachAuth(api, ground.tokens)).toThrow(ConfigurationError)
    expect((await api.get('/x')).status).toBe(200)
    again()
  })

  it('lets calls that had begun before it was taken off go on without the token', async () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    api.interceptors.request.use(async (config) => {
      detach()
      return config
    })
    const detach = attachAuth(api, ground.tokens)
    const late = axios.create({ baseURL: ground.env.merchantUrl })
    late.interceptors.request.use(async (config) => config) // which axios waits for
    const off = attachAuth(late, ground.tokens)
    const call = late.get('/x')
    await Promise.resolve()
    off()
    await expect(call).rejects.toMatchObject({ response: { status: 401 } })
    await expect(api.get('/x')).rejects.toMatchObject({ response: { status: 401 } })
    expect(ground.env.counts.token).toBe(0)
  })

  it.each([
    ['common', { common: { AUTHorization: 'x' } }],
    ['get', { get: { Authorization: 'x' } }],
    ['all methods', { Authorization: 'x' }],
  ])('is refused where there is a default header of its name for %s', (_, headers) => {
    const api = axios.create({ headers: headers as never })
    expect(() => attachAuth(api, ground.tokens)).toThrow(ConfigurationError)
    expect(() => attachAuth(api, ground.tokens)).toThrow(/Authorization/)
    expect(() => attachAuth(api, ground.tokens, { header: 'X-Custom' })).not.toThrow()
  })

  it('is refused with everything else that is wrong', () => {
    expect(() => attachAuth({} as never, ground.tokens)).toThrow(ConfigurationError)
    expect(() => attachAuth(axios.create(), {} as never)).toThrow(ConfigurationError)
    expect(() =>
      attachAuth(axios.create(), ground.tokens, { header: 'a b', scheme: 'x y', renewOnStatus: [200] }),
    ).toThrow(/header[\s\S]*scheme[\s\S]*renewOnStatus/)
  })

  it('sends a static token', async () => {
    await using server = await scripted((_, response) => void response.writeHead(401).end())
    const tokens = createStaticTokenProvider({
      environment: { authUrl: server.url, audience: server.url, apiUrls: [server.url] },
      value: 'abc',
    })
    const api = axios.create({ baseURL: server.url })
    attachAuth(api, tokens)
    await expect(api.get('/x', { headers: new AxiosHeaders({ a: 'b' }) })).rejects.toMatchObject({
      response: { status: 401 },
    })
    expect(server.seen.map(({ headers }) => headers.authorization)).toEqual(['Bearer abc'])
  })
})

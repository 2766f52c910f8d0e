// createAuthInterceptor, which only attaches the token: a 401 does not renew it, and axios' errors show the header.
import { getEventListeners } from 'node:events'
import axios, { type AxiosInstance, CanceledError, type CreateAxiosDefaults } from 'axios'
import { type AttachOptions, ConfigurationError } from 'merchant-auth'
import { createAuthInterceptor } from 'merchant-auth/axios'
import { afterEach, expect, it } from 'vitest'
import { rejectionOf, scripted, until, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { outcomes } from '../support/recorded.ts'

const ground = useGround()
const withToken = (config: CreateAxiosDefaults = {}, attach?: AttachOptions): AxiosInstance => {
  const api = axios.create({ baseURL: ground.env.merchantUrl, ...config })
  api.interceptors.request.use(createAuthInterceptor(ground.tokens, attach))
  return api
}
const reasons = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))
const sentStatuses = () => ground.sent().map(({ status }) => status)
afterEach(() => {
  outcomes.length = 0 // the header stays on the config
})

it('creates its own provider from options', async () => {
  const { environment, clientId, clientSecret, merchantUrl } = ground.env
  const api = axios.create({ baseURL: merchantUrl })
  api.interceptors.request.use(createAuthInterceptor({ environment, clientId, clientSecret }))
  await Promise.all([api.get('/a'), api.get('/b')])
  expect([sentStatuses(), ground.env.counts.token]).toEqual([[200, 200], 1])
})

it('has the provider that it created, which its owner can close', async () => {
  const { environment, clientId, clientSecret, merchantUrl } = ground.env
  const interceptor = createAuthInterceptor({ environment, clientId, clientSecret })
  const api = axios.create({ baseURL: merchantUrl })
  api.interceptors.request.use(interceptor)
  await interceptor.tokens.close()
  expect(await rejectionOf(api.get('/x'))).toMatchObject({ code: 'ERR_PROVIDER_CLOSED' })
  expect(createAuthInterceptor(ground.tokens).tokens).toBe(ground.tokens)
})

it('throws a ConfigurationError for invalid options', () => {
  expect(() => createAuthInterceptor({} as never)).toThrow(ConfigurationError)
  expect(() => createAuthInterceptor(ground.tokens, { header: '' })).toThrow(ConfigurationError)
})

it('attaches the token, and returns the API’s 401 without a renewal', async () => {
  const api = withToken()
  expect((await api.get('/x')).status).toBe(200)
  ground.env.revoke()
  expect(await rejectionOf(api.get('/x'))).toMatchObject({ status: 401 })
  expect(ground.env.counts.token).toBe(1)
})

it('attaches a cached token synchronously', async () => {
  await ground.tokens.getToken()
  const config = { url: ground.env.merchantUrl, headers: {} }
  expect(createAuthInterceptor(ground.tokens)(config)).toBe(config)
  expect(config.headers).toHaveProperty('Authorization')
})

it('leaves the caller’s header, and gives another destination no token', async () => {
  await using other = await scripted((_, response) => response.end())
  const api = withToken()
  expect(await rejectionOf(api.get('/x', { headers: { authorization: 'Own one' } }))).toMatchObject({
    status: 401,
  })
  await api.get(`${other.url}/x`)
  expect(other.seen[0]?.headers).not.toHaveProperty('authorization')
  expect(reasons()).toEqual(['own-header', 'destination'])
})

it('gives a config that is sent again the current token, or none elsewhere', async () => {
  await using other = await scripted((_, response) => response.end())
  const api = withToken()
  const { config, data } = await api.get('/x')
  ground.env.revoke()
  await ground.tokens.renewToken(await ground.tokens.getToken())
  expect((await api.request(config)).data.jti).not.toBe(data.jti)
  await api.request({ ...config, url: `${other.url}/x` })
  expect(other.seen[0]?.headers).not.toHaveProperty('authorization')
})

it.each<[string, () => AxiosInstance]>([
  ['another instance with an interceptor', () => withToken()],
  ['an instance with attachAuth', () => ground.api()],
])('gives a config that %s sends again the current token', async (_, other) => {
  const { config, data } = await withToken().get('/x')
  ground.env.revoke()
  await ground.tokens.renewToken(await ground.tokens.getToken())
  expect((await other().request(config)).data.jti).not.toBe(data.jti)
})

it('keeps the header that the caller sets on a config that is sent again', async () => {
  const api = withToken()
  const { config } = await api.get('/x')
  const again = api.request({ ...config, headers: { ...config.headers, Authorization: 'Own one' } })
  expect(await rejectionOf(again)).toMatchObject({ status: 401 })
  expect(reasons()).toEqual(['own-header'])
})

it('rejects with an error that has the config of the call, for interceptors that read it', async () => {
  ground.env.fail('token', { kind: 'status', status: 400 })
  const error = await rejectionOf(withToken().get('/42'))
  expect(error).toMatchObject({ name: 'TokenRequestError', config: { url: '/42' } })
})

it.each(['http', 'fetch'] as const)(
  'follows the redirects of each API, by the beforeRedirect of the call: %s',
  async (adapter) => {
    const redirecting = () =>
      scripted(({ path }, response) => {
        if (path === '/to') response.writeHead(302, { location: '/y' })
        response.end()
      })
    await using one = await redirecting()
    await using other = await redirecting()
    const apiUrls = [one.url, other.url]
    const api = axios.create({ adapter, proxy: false })
    api.interceptors.request.use(
      createAuthInterceptor(provided({ current: token('the.one.token'), apiUrls })),
    )
    const called: string[] = []
    const first = ({ href }: { href?: string }) => void called.push(`first ${href}`)
    const second = ({ href }: { href?: string }) => void called.push(`second ${href}`)
    await api.get(`${one.url}/to`, { beforeRedirect: first })
    await api.get(`${one.url}/to`, { beforeRedirect: second })
    await api.get(`${other.url}/to`, { beforeRedirect: second })
    const each = [`first ${one.url}/y`, `second ${one.url}/y`, `second ${other.url}/y`]
    expect(called).toEqual(adapter === 'http' ? each : []) // fetch does not call it
    const sent = [one, other].flatMap(({ seen }) =>
      seen.map(({ path, headers }) => `${path} ${headers.authorization}`),
    )
    expect(sent).toEqual(Array(3).fill(['/to Bearer the.one.token', '/y Bearer the.one.token']).flat())
  },
)

it('follows a redirect, by the caller’s beforeRedirect, after a config was sent again 20 000 times', async () => {
  await using api = await scripted(({ path }, response) => {
    if (path === '/to') response.writeHead(302, { location: '/y' })
    response.end()
  })
  const hrefs: unknown[] = []
  const beforeRedirect = ({ href }: { href?: string }) => void hrefs.push(href)
  const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url] })
  const intercept = createAuthInterceptor(tokens)
  const config = { url: `${api.url}/to`, headers: {}, beforeRedirect }
  for (let sends = 0; sends < 20_000; sends += 1) intercept(config)
  await axios.request(config)
  expect(hrefs).toEqual([`${api.url}/y`])
  const sent = api.seen.map(({ path, headers }) => `${path} ${headers.authorization}`)
  expect(sent).toEqual(['/to Bearer the.one.token', '/y Bearer the.one.token'])
})

it('ends its wait with the call’s signal and timeout', async () => {
  ground.env.fail('token', { kind: 'hang' })
  const abort = new AbortController()
  const canceled = rejectionOf(withToken().get('/x', { signal: abort.signal }))
  const late = rejectionOf(withToken().get('/x', { timeout: 20 }))
  await until(() => ground.env.counts.token === 1)
  abort.abort()
  expect(await canceled).toBeInstanceOf(CanceledError)
  expect(await late).toMatchObject({ code: 'ECONNABORTED', message: 'timeout of 20ms exceeded' })
  expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  expect(await rejectionOf(withToken({ adapter: 'fetch' }).get('/x', { timeout: 20 }))).toMatchObject({
    code: 'ETIMEDOUT',
  })
})

it.each([
  ['http', 200, [undefined]],
  ['fetch', 307, []], // fetch would send the header along, so it follows no redirect
] as const)(
  'does not forward a token in another header on a redirect elsewhere: %s',
  async (adapter, status, received) => {
    await using other = await scripted((_, response) => response.end())
    ground.env.configure({ header: 'X-Custom' })
    ground.env.fail('merchant', { kind: 'redirect', location: other.url })
    const api = withToken({ adapter, validateStatus: () => true }, { header: 'X-Custom' })
    expect((await api.get('/x')).status).toBe(status)
    expect(other.seen.map(({ headers }) => headers['x-custom'])).toEqual(received)
  },
)

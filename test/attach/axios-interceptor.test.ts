// The plain request interceptor: it attaches, and no more (contract 2, 5).
import axios, { type AxiosError, type AxiosInstance, type CreateAxiosDefaults } from 'axios'
import axiosRetry from 'axios-retry'
import { ConfigurationError, TokenRequestError } from 'merchant-auth'
import { createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, rejectionOf, scripted, useGround } from './calls.ts'

const ground = useGround()
const withToken = (config?: CreateAxiosDefaults, attach?: object): AxiosInstance => {
  const api = axios.create({ baseURL: ground.env.merchantUrl, ...config })
  api.interceptors.request.use(createAuthInterceptor(ground.tokens, attach))
  return api
}
const withheld = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))

describe('the plain interceptor', () => {
  it.each(ADAPTERS)('attaches the token, first later and then at once, by %s', async (adapter) => {
    const api = withToken({ adapter })
    expect((await api.get('/a')).status).toBe(200)
    expect((await api.get('/b')).status).toBe(200)
    expect(ground.env.counts.token).toBe(1)
  })

  it('takes options and makes a provider of its own', async () => {
    const { environment, clientId, clientSecret, merchantUrl } = ground.env
    const api = axios.create({ baseURL: merchantUrl })
    api.interceptors.request.use(createAuthInterceptor({ environment, clientId, clientSecret }))
    expect((await Promise.all([api.get('/a'), api.get('/b')])).map(({ status }) => status)).toEqual([
      200, 200,
    ])
    expect(ground.env.counts.token).toBe(1)
  })

  it('is refused with wrong options', () => {
    expect(() => createAuthInterceptor({} as never)).toThrow(ConfigurationError)
    expect(() => createAuthInterceptor(ground.tokens, { header: '' })).toThrow(ConfigurationError)
  })

  it('registered first runs last, and judges what others have made of the call', async () => {
    await using elsewhere = await scripted((_, response) => void response.end())
    const api = withToken({ baseURL: 'http://127.0.0.1:1' })
    api.interceptors.request.use((config) => {
      config.baseURL = config.url === '/away' ? elsewhere.url : ground.env.merchantUrl
      return config
    })
    expect((await api.get('/x')).status).toBe(200)
    await api.get('/away')
    expect(elsewhere.seen[0]?.headers.authorization).toBeUndefined()
  })

  it('withholds the token, with the reason', async () => {
    const api = withToken({ validateStatus: () => true })
    await api.get('/x', { headers: { authorization: 'Own one' } })
    await api.get('/x', { auth: { username: 'u', password: 'p' } })
    await rejectionOf(api.get('/x', { socketPath: '/nonexistent.sock' }))
    expect(withheld()).toEqual(['own-header', 'own-credentials', 'destination'])
    expect(ground.env.counts.token).toBe(0)
  })

  it('leaves a 401 to the caller', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    const { status } = (await rejectionOf(withToken().get('/x'))) as AxiosError
    expect([status, ground.env.counts.token]).toEqual([401, 1])
  })

  it.each([{}, { header: 'X-Custom', scheme: '' }])(
    'gives a config that is sent again the current token (%o)',
    async (attach) => {
      if ('header' in attach) ground.env.configure(attach)
      const api = withToken({}, attach)
      const old = await ground.tokens.getToken()
      const answer = await api.get('/x')
      ground.env.revoke()
      await ground.tokens.renewToken(old)
      const again = await api.request(answer.config)
      expect(again.status).toBe(200)
      expect(again.data.jti).not.toBe(answer.data.jti)
      expect((await api.request(again.config)).status).toBe(200)
      expect((await api.request(answer.config)).status).toBe(200)
      expect(withheld()).toEqual([])
    },
  )

  it('and axios-retry send the current token', async () => {
    const api = withToken()
    axiosRetry(api as never, {
      retries: 2,
      retryDelay: () => 0,
      retryCondition: async ({ response }) => {
        if (response?.status !== 401) return false
        await ground.tokens.renewToken((await ground.tokens.getToken()).value)
        return true
      },
    })
    await ground.tokens.getToken()
    ground.env.revoke()
    expect((await api.post('/x', 'body')).status).toBe(200)
    expect(ground.sent().map(({ status, body }) => `${status} ${body}`)).toEqual(['401 body', '200 body'])
  })

  it('takes an old token off a config that goes elsewhere', async () => {
    await using elsewhere = await scripted((_, response) => void response.end())
    const api = withToken()
    const { config } = await api.get('/x')
    await api.request({ ...config, baseURL: elsewhere.url })
    expect(elsewhere.seen[0]?.headers.authorization).toBeUndefined()
  })

  it('rejects as getToken does', async () => {
    ground.env.fail('token', { kind: 'status', status: 400 })
    await expect(withToken().get('/x')).rejects.toBeInstanceOf(TokenRequestError)
  })
})

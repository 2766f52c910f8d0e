import axios, { type InternalAxiosRequestConfig } from 'axios'
import { describe, expect, it } from 'vitest'
import { urlOf } from '../../src/attach/axios-config.ts'
import { useGround } from './calls.ts'

const ground = useGround()

describe('a config whose adapter never ran', () => {
  it('is wrapped no second time when it is sent again', async () => {
    const api = ground.api()
    let kept: InternalAxiosRequestConfig | undefined
    const id = api.interceptors.request.use((config) => {
      config.signal = AbortSignal.abort()
      return config
    })
    const error = await api.get('/orders').catch((reason: unknown) => reason)
    expect(axios.isCancel(error)).toBe(true)
    if (axios.isAxiosError(error)) kept = error.config
    api.interceptors.request.eject(id)
    expect(typeof kept?.adapter).toBe('function')
    const answer = await api.request({ ...kept, signal: new AbortController().signal })
    expect(answer.status).toBe(200)
    expect(ground.sent()).toHaveLength(1)
    expect(ground.events.filter(({ type }) => type === 'token-withheld')).toEqual([])
  })
})

describe('a wait for the token', () => {
  it('leaves no listener on a cancelToken', async () => {
    const { token } = axios.CancelToken.source()
    await ground.api().get('/orders', { cancelToken: token })
    expect(Reflect.get(token, '_listeners') ?? []).toEqual([])
  })
})

describe('allowAbsoluteUrls', () => {
  it.each([0, '', 'false', 1])(
    'of %j, which versions of axios read differently, gets no token',
    async (value) => {
      const config = { baseURL: ground.env.merchantUrl, url: `${ground.env.merchantUrl}/orders`, headers: {} }
      expect(urlOf({ ...config, allowAbsoluteUrls: value as never })).toBe('')
      await ground.api().get('/orders', { allowAbsoluteUrls: value as never, validateStatus: () => true })
      expect(ground.sent().map(({ jti }) => jti)).toEqual([undefined])
    },
  )
})

describe('a failed call', () => {
  it('has the one config, without the token, in the error and in its response', async () => {
    ground.env.fail('merchant', { kind: 'status', status: 500 })
    const adapter = axios.getAdapter('http')
    const error: unknown = await ground
      .api()
      .get('/orders', {
        adapter: async (config) => await adapter({ ...config, headers: config.headers.concat() }),
      })
      .catch((reason: unknown) => reason)
    if (!axios.isAxiosError(error)) throw error
    expect(error.config?.headers.get('authorization')).toBeUndefined()
    expect(error.response?.config.headers.get('authorization')).toBeUndefined()
  })
})

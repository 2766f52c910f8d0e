// Copies of axios that this package did not import: their callers get their own adapters and errors (contract 2).
import axios, { type AxiosInstance, type AxiosStatic } from 'axios'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { hang, MERCHANT_URL, rig } from '../token/harness.ts'
import { answering, type OwnAdapter, requiredCopy, unknownCopy } from './axios-fakes.ts'
import { rejectionOf, useGround } from './calls.ts'

const ground = useGround()

describe('the plain interceptor', () => {
  it.each<[string, () => AxiosStatic, (copy: AxiosStatic) => unknown]>([
    ['the one that import gives', () => axios, (copy) => copy.AxiosError],
    ['the one that require() gives', requiredCopy, (copy) => copy.AxiosError],
    ['one that nobody knows: the error is of the one that import gives', unknownCopy, () => axios.AxiosError],
  ])('ends a wait with the time-out of the copy: %s', async (_, load, errorOf) => {
    const copy = load()
    const { provider } = rig([hang])
    const api = copy.create({ baseURL: MERCHANT_URL, timeout: 20, adapter: answering([]) as never })
    api.interceptors.request.use(createAuthInterceptor(provider))
    const error = await rejectionOf(api.get('/1'))
    expect((error as Error).constructor).toBe(errorOf(copy))
    expect(error).toMatchObject({
      code: 'ECONNABORTED',
      message: 'timeout of 20ms exceeded',
      config: { url: '/1' },
    })
    await provider.close()
  })
})

describe('a copy that nobody knows', () => {
  it('calls the function of a caller as axios does, once', async () => {
    const sent: boolean[] = []
    const api = unknownCopy().create({ baseURL: MERCHANT_URL })
    attachAuth(api, rig().provider)
    const adapter: OwnAdapter = (config) => {
      sent.push(config.headers.has('authorization'))
      return answering([])(config)
    }
    await api.get('/1', { adapter: adapter as never })
    expect(sent).toEqual([true])
  })

  it('may attach every instance that it creates', async () => {
    const copy = unknownCopy()
    const api = copy.create({ baseURL: ground.env.merchantUrl })
    const attaching = (one: AxiosInstance): void => {
      const { create } = one
      one.create = (config) => {
        const created = create(config)
        attaching(created)
        attachAuth(created, ground.tokens)
        return created
      }
    }
    attaching(api)
    const made = api.create()
    expect((await made.get('/orders')).status).toBe(200)
    ground.env.fail('token', { kind: 'hang' })
    ground.env.revoke()
    const late = rejectionOf(api.create({ timeout: 50 }).get('/orders'))
    expect(await late).toMatchObject({ code: 'ECONNABORTED' })
    expect(ground.sent()).toHaveLength(2)
  })

  it('sends nothing when a wait is over', async () => {
    const { provider } = rig([hang], { environment: ground.env.environment })
    const api = unknownCopy().create({ baseURL: ground.env.merchantUrl, timeout: 20 })
    attachAuth(api, provider)
    const error = await rejectionOf(api.get('/1'))
    expect(error).toMatchObject({ code: 'ECONNABORTED', message: 'timeout of 20ms exceeded' })
    expect((error as { request?: unknown }).request).toBeUndefined()
    expect(ground.sent()).toEqual([])
    await provider.close()
  })

  for (const adapter of [undefined, 'http', 'fetch'] as const) {
    it(`may have given an instance that cannot make another, on ${adapter ?? 'its own choice of adapter'}`, async () => {
      const copy = unknownCopy()
      const options = { baseURL: ground.env.merchantUrl, ...(adapter && { adapter }) }
      const api = new copy.Axios(options as never) as AxiosInstance
      expect(api.create).toBeUndefined()
      attachAuth(api, ground.tokens)
      ground.env.fail('merchant', { kind: 'status', status: 401 })
      expect((await api.post('/1', 'text')).status).toBe(200)
      expect(ground.sent().map(({ status, body }) => `${status} ${body}`)).toEqual(['401 text', '200 text'])
      const failed = await rejectionOf(api.request({ url: 'http://127.0.0.1:1/' }))
      expect(failed).toBeInstanceOf(copy.AxiosError)
    })
  }
})

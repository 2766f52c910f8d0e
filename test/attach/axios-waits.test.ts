// How long a call on axios waits for a token, and how the wait ends (contract 3.7, 5.5).
import { getEventListeners } from 'node:events'
import axios, { AxiosError, type AxiosRequestConfig, CanceledError } from 'axios'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { beforeEach, describe, expect, it } from 'vitest'
import { rejectionOf, until, useGround } from './calls.ts'

const ground = useGround()
/** Lets the token endpoint answer only after a time that no test waits for. */
beforeEach(() => ground.env.fail('token', { kind: 'hang' }))

const instances = {
  attachAuth: () => ground.api(),
  createAuthInterceptor: () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    api.interceptors.request.use(createAuthInterceptor(ground.tokens))
    return api
  },
}
const asked = () => until(() => ground.env.counts.token === 1)

for (const [name, create] of Object.entries(instances)) {
  describe(`a call that waits for a token (${name})`, () => {
    it("ends with axios' CanceledError when its signal is aborted, and others go on", async () => {
      ground.env.clearFaults()
      ground.env.configure({ tokenLatencyMs: 150 })
      const api = create()
      const abort = new AbortController()
      const other = api.get('/other')
      const call = rejectionOf(api.get('/mine', { signal: abort.signal }))
      await asked()
      abort.abort(new Error('enough'))
      const error = await call
      expect(axios.isCancel(error)).toBe(true)
      expect(error).toBeInstanceOf(CanceledError)
      expect(error).toMatchObject({ code: 'ERR_CANCELED' })
      expect(getEventListeners(abort.signal, 'abort')).toEqual([])
      expect((await other).status).toBe(200)
      expect(ground.sent().map(({ path }) => path)).toEqual(['/merchant/other'])
    })

    it("ends with axios' CanceledError when its cancelToken is cancelled", async () => {
      const { token, cancel } = axios.CancelToken.source()
      const call = rejectionOf(create().get('/mine', { cancelToken: token }))
      await asked()
      cancel('enough')
      expect(await call).toMatchObject({ code: 'ERR_CANCELED', message: 'enough' })
      expect(axios.isCancel(await call)).toBe(true)
    })

    it.each<[string, AxiosRequestConfig, string, string]>([
      ['as axios does', {}, 'ECONNABORTED', 'timeout of 30ms exceeded'],
      [
        'as axios does when it clarifies',
        { transitional: { clarifyTimeoutError: true } },
        'ETIMEDOUT',
        'timeout of 30ms exceeded',
      ],
      ['in the words of the caller', { timeoutErrorMessage: 'too late' }, 'ECONNABORTED', 'too late'],
    ])('ends %s when its timeout is over', async (_, config, code, message) => {
      const error = await rejectionOf(create().get('/mine', { timeout: 30, ...config }))
      expect(error).toBeInstanceOf(AxiosError)
      expect(error).toMatchObject({ code, message, config: { url: '/mine' } })
      expect(ground.sent()).toEqual([])
    })

    it('is not begun where it was cancelled before', async () => {
      const call = create().get('/mine', { signal: AbortSignal.abort() })
      expect(axios.isCancel(await rejectionOf(call))).toBe(true)
      expect(ground.sent()).toEqual([])
    })
  })
}

describe('a call that waits for a renewal', () => {
  beforeEach(async () => {
    ground.env.clearFaults()
    await ground.tokens.getToken()
    ground.env.revoke()
    ground.env.fail('token', { kind: 'hang' })
  })
  const renewing = () => until(() => ground.env.counts.token === 2)

  it.each(['text', 'stream'] as const)('ends with its signal (response type %s)', async (responseType) => {
    const abort = new AbortController()
    const call = rejectionOf(ground.api().get('/mine', { signal: abort.signal, responseType }))
    await renewing()
    abort.abort()
    expect(await call).toBeInstanceOf(CanceledError)
  })

  it('ends with its cancelToken, or its timeout', async () => {
    const { token, cancel } = axios.CancelToken.source()
    const cancelled = rejectionOf(ground.api().get('/mine', { cancelToken: token }))
    const late = rejectionOf(ground.api().get('/mine', { timeout: 100 }))
    await renewing()
    cancel()
    expect(axios.isCancel(await cancelled)).toBe(true)
    expect(await late).toMatchObject({ code: 'ECONNABORTED' })
  })

  it('does not hold up calls without a 401', async () => {
    const fresh = ground.provider()
    const api = axios.create({ baseURL: ground.env.inStoreUrl })
    ground.env.clearFaults()
    await fresh.getToken()
    attachAuth(api, fresh)
    const abort = new AbortController()
    ground.env.fail('token', { kind: 'hang' })
    const stuck = rejectionOf(ground.api().get('/mine', { signal: abort.signal }))
    await until(() => ground.env.counts.token === 3)
    expect((await api.get('/x')).status).toBe(200)
    abort.abort()
    await stuck
  })

  it('gives the API’s 401 when the provider is closed meanwhile', async () => {
    const call = ground.api().get('/mine')
    await renewing()
    await ground.tokens.close()
    await expect(call).rejects.toMatchObject({ response: { status: 401 } })
  })
})

// Our adapters stand for those that axios or the caller chose: one for each, made once where that can be (contract 5.2).
import axios, { type AxiosInstance, type CreateAxiosDefaults } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { hang, MERCHANT_URL, rig } from '../token/harness.ts'
import { answering } from './axios-fakes.ts'
import { rejectionOf, useGround } from './calls.ts'

type Adapter = NonNullable<CreateAxiosDefaults['adapter']>

/** The adapter that an interceptor which runs after ours sees, for each call. None of them is made. */
function watched(): (adapter?: Adapter) => Promise<unknown> {
  const api = new axios.Axios({}) as AxiosInstance
  let seen: unknown
  api.interceptors.request.use((config) => {
    seen = config.adapter
    return config
  })
  attachAuth(api, rig().provider)
  return async (adapter?: Adapter) => {
    const error = await rejectionOf(
      api.request({ url: MERCHANT_URL, signal: AbortSignal.abort(), ...(adapter && { adapter }) }),
    )
    expect(axios.isCancel(error)).toBe(true)
    expect(seen).toBeTypeOf('function')
    return seen
  }
}

/** Adapters whose source text is the same. */
const named = (name: string): Adapter => answering([{ data: name }, { data: name }]) as never

describe('the adapter that stands for another', () => {
  it.each<[string, Adapter | undefined]>([
    ['none', undefined],
    ['a name', 'http'],
    ['a name in a list', ['fetch']],
    ['several names', ['xhr', 'http', 'fetch']],
  ])('is the same for all calls with %s', async (_, adapter) => {
    const seen = watched()
    const first = await seen(adapter)
    expect(await seen(adapter)).toBe(first)
    expect(await seen(first as Adapter)).toBe(first)
  })

  it('is another one for each name, each list, and each instance', async () => {
    const seen = watched()
    const all = [undefined, 'http', 'fetch', ['http', 'fetch'], ['fetch', 'http']] as (Adapter | undefined)[]
    const made: unknown[] = []
    for (const adapter of all) made.push(await seen(adapter))
    expect(new Set(made).size).toBe(5)
    expect(await watched()('http')).not.toBe(await seen('http'))
  })

  it.each<[string, (adapter: Adapter) => Adapter]>([
    ['by itself', (adapter) => adapter],
    ['in a list', (adapter) => [adapter] as never],
    ['in a list, after a name that is of no use here', (adapter) => ['xhr', adapter] as never],
  ])('calls the function that this call was given: %s', async (_, as) => {
    const api = axios.create({ baseURL: MERCHANT_URL })
    attachAuth(api, rig().provider)
    const [one, two] = [named('one'), named('two')]
    const answers = []
    for (const adapter of [one, two, one, two]) answers.push(await api.get('/1', { adapter: as(adapter) }))
    expect(answers.map(({ data }) => data)).toEqual(['one', 'two', 'one', 'two'])
    expect(answers.map(({ config }) => config.adapter)).toEqual([one, two, one, two].map(as))
  })

  it('is wrapped no second time by another instance', async () => {
    const configs: never[] = []
    const made = [rig(), rig()].map(({ provider }) => {
      const api = axios.create({ baseURL: MERCHANT_URL, adapter: answering([], configs) as never })
      attachAuth(api, provider)
      return api
    })
    let taken: Adapter = []
    const id = made[0]?.interceptors.request.use((config) => {
      config.signal = AbortSignal.abort()
      return config
    })
    const error = await rejectionOf(made[0]?.get('/1') as Promise<unknown>)
    made[0]?.interceptors.request.eject(id ?? -1)
    if (axios.isAxiosError(error)) taken = error.config?.adapter as Adapter
    expect((await made[1]?.get('/2', { adapter: taken }))?.status).toBe(200)
    expect(configs.length).toBe(1)
  })
})

describe('an adapter that is none', () => {
  const ground = useGround()

  it.each([null, false, ''])('is left out, as axios does: %j', async (adapter) => {
    expect((await ground.api().get('/1', { adapter: adapter as never })).status).toBe(200)
  })

  it('spoils no call after it: an empty list', async () => {
    const api = new axios.Axios({}) as AxiosInstance
    attachAuth(api, rig().provider)
    const noAdapter = 'There is no suitable adapter to dispatch the request as no adapter specified'
    const call = (config: object) => rejectionOf(api.request({ url: 'http://127.0.0.1:1/', ...config }))
    expect(await call({ adapter: [] })).toMatchObject({ message: noAdapter })
    expect(await call({})).toMatchObject({ code: 'ECONNREFUSED' })
  })
})

describe('an instance without any defaults', () => {
  const ground = useGround()
  const bare = (config: CreateAxiosDefaults = {}, tokens = ground.tokens) => {
    const api = new axios.Axios({ baseURL: ground.env.merchantUrl, ...config } as never)
    attachAuth(api as never, tokens)
    return api
  }

  it.each<[string, CreateAxiosDefaults]>([
    ['none', {}],
    ['http', { adapter: 'http' }],
    ['fetch', { adapter: 'fetch' }],
  ])('gets the token, and a renewal, by the adapter that axios takes: %s', async (_, config) => {
    ground.env.fail('merchant', { kind: 'status', status: 401 })
    const answer = await bare(config).get('/orders')
    expect(answer.status).toBe(200)
    expect(ground.sent().map(({ status }) => status)).toEqual([401, 200])
    expect('env' in answer.config).toBe(false)
  })

  it.each<[string, CreateAxiosDefaults, string]>([
    ['none', {}, 'ECONNABORTED'],
    ['http', { adapter: 'http' }, 'ECONNABORTED'],
    ['fetch', { adapter: 'fetch' }, 'ETIMEDOUT'],
    ['fetch, as xhr is of no use here', { adapter: ['xhr', 'fetch'] }, 'ETIMEDOUT'],
    ['fetch before http', { adapter: ['fetch', 'http'] }, 'ETIMEDOUT'],
    ['http before fetch', { adapter: ['http', 'fetch'] }, 'ECONNABORTED'],
    ['a function', { adapter: named('own') }, 'ECONNABORTED'],
    ['a function before fetch', { adapter: [named('own'), 'fetch'] as never }, 'ECONNABORTED'],
  ])('ends a wait with its timeout (adapter: %s)', async (_, config, code) => {
    const { provider, endpoint } = rig([hang], { environment: ground.env.environment })
    const error = await rejectionOf(bare({ timeout: 20, ...config }, provider).get('/orders'))
    expect(error).toBeInstanceOf(axios.AxiosError)
    expect(error).toMatchObject({ code, message: 'timeout of 20ms exceeded' })
    expect([endpoint.count, ground.sent().length]).toEqual([1, 0])
    await provider.close()
  })
})

// The caller's own adapters, instances without defaults, and responses that axios' own adapters never return.
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import axios, {
  type AxiosAdapter,
  AxiosHeaders,
  type AxiosInstance,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { collectGarbage } from '../support/garbage.ts'
import { ADAPTERS, rejectionOf, useGround } from '../support/ground.ts'
import { forget } from '../support/recorded.ts'
import { hang, MERCHANT_URL, rig } from '../token/harness.ts'
import { answering, type FakeAnswer, fakeApi } from './axios-fakes.ts'
import { axiosWith } from './drivers.ts'

type Adapter = NonNullable<CreateAxiosDefaults['adapter']>

/** Adapters with the same source text that differ only in their answer. */
const adapterAnswering = (name: string) => answering([{ data: name }, { data: name }])

const ground = useGround()

describe('the adapter of a call', () => {
  it.each<[string, (adapter: Adapter) => Adapter]>([
    ['a function', (adapter) => adapter],
    ['a function in a list', (adapter) => [adapter] as never],
    ['a function in a list, after an adapter that Node.js lacks', (adapter) => ['xhr', adapter] as never],
  ])('is the one that this call specifies, and stays on the response config: %s', async (_, as) => {
    const api = axiosWith(rig().provider, { baseURL: MERCHANT_URL })
    const [one, two] = [adapterAnswering('one'), adapterAnswering('two')]
    const answers = []
    for (const adapter of [one, two, one, two]) answers.push(await api.get('/1', { adapter: as(adapter) }))
    expect(answers.map(({ data }) => data)).toEqual(['one', 'two', 'one', 'two'])
    expect(answers.map(({ config }) => config.adapter)).toEqual([one, two, one, two].map(as))
  })

  it('is called once per request when the config of an aborted call is sent again, also by another instance', async () => {
    const configs: InternalAxiosRequestConfig[] = []
    const made = [rig(), rig()].map(({ provider }) =>
      axiosWith(provider, { baseURL: MERCHANT_URL, adapter: answering([], configs) }),
    ) as [AxiosInstance, AxiosInstance]
    const id = made[0].interceptors.request.use((config) =>
      Object.assign(config, { signal: AbortSignal.abort() }),
    )
    const error = await rejectionOf(made[0].get('/1'))
    made[0].interceptors.request.eject(id)
    expect(axios.isCancel(error)).toBe(true)
    const { config } = error as { config: InternalAxiosRequestConfig }
    const signal = new AbortController().signal
    for (const api of made) expect((await api.request({ ...config, signal })).status).toBe(200)
    expect(configs.length).toBe(2)
  })

  it('is a list of its own in each call, which interceptors may change', async () => {
    const [down, good] = [answering([{ status: 503 }, { status: 503 }, { status: 503 }]), answering()]
    const api = axiosWith(rig().provider, { baseURL: MERCHANT_URL, adapter: [down, good] as never })
    api.interceptors.response.use((response) => {
      if (response.status === 200) return response
      const { config } = response
      ;(config.adapter as unknown[]).shift()
      return api.request(config)
    })
    const calls = await Promise.all(['/1', '/2', '/3'].map((url) => api.get(url)))
    expect(calls.map(({ status }) => status)).toEqual([200, 200, 200])
  })

  it('is wrapped once if it is the default list, and is its own list if that differs', async () => {
    const [one, two] = [adapterAnswering('one'), adapterAnswering('two')]
    const api = axios.create({ baseURL: MERCHANT_URL, adapter: [one, two] as never })
    const wrappers = new Set<unknown>()
    api.interceptors.request.use((config) => {
      wrappers.add(config.adapter) // runs after the token was attached
      return config
    })
    attachAuth(api, rig().provider)
    for (const url of ['/1', '/2', '/3']) expect((await api.get(url)).config.adapter).toEqual([one, two])
    expect(wrappers.size).toBe(1)
    for (const adapter of [[one], [two, one], [one, one], [one, two, one], one]) {
      const { config } = await api.get('/4', { adapter: adapter as never })
      expect(config.adapter).toEqual(adapter)
    }
  })

  it('does not change while a call is under way because an earlier call’s list changes', async () => {
    const [one, two] = [adapterAnswering('one'), adapterAnswering('two')]
    const api = axios.create({ baseURL: MERCHANT_URL, adapter: [one, two] as never })
    const lists: unknown[][] = []
    api.interceptors.request.use((config) => {
      if (lists.length === 2) lists[0]?.reverse() // runs after the token was attached
      return config
    })
    attachAuth(api, rig().provider)
    api.interceptors.request.use((config) => {
      lists.push(config.adapter as never)
      return config
    })
    for (const url of ['/1', '/2']) expect((await api.get(url)).data).toBe('one')
  })

  it.each<[string, (config: InternalAxiosRequestConfig) => object]>([
    ['frozen', (config) => Object.freeze({ ...config })],
    [
      'with a getter',
      (config) => ({
        ...config,
        get now() {
          return {}
        },
      }),
    ],
    [
      'with frozen headers',
      ({ headers, ...config }) => ({ ...config, headers: Object.freeze(headers.concat()) }),
    ],
    ['without headers', (config) => ({ ...config, headers: undefined })],
  ])('may be wrapped by one that passes its own config: %s', async (_, change) => {
    const configs: InternalAxiosRequestConfig[] = []
    const changing: AxiosAdapter = (config) => {
      Object.assign(config.headers, { 'User-Agent': 'of the adapter' })
      Reflect.deleteProperty(config.headers, 'Accept')
      return answering([{ status: configs.length === 0 ? 401 : 200 }], configs)(config)
    }
    const api = axios.create({ baseURL: MERCHANT_URL, adapter: changing })
    api.interceptors.request.use((config) => {
      const wrapped = config.adapter as AxiosAdapter
      return Object.assign(config, { adapter: (final: never) => wrapped(change(final) as never) })
    })
    attachAuth(api, rig().provider)
    expect([(await api.get('/1')).status, configs.length]).toEqual([200, 2])
  })

  it('gets a config without the extensions of Object.prototype if a frozen one had none', async () => {
    const configs: InternalAxiosRequestConfig[] = []
    const api = axiosWith(rig().provider, { adapter: answering([], configs) })
    const { adapter } = await api
      .get(MERCHANT_URL, { signal: AbortSignal.abort() })
      .catch(({ config }) => config)
    for (const proto of [null, Object.prototype])
      await adapter(Object.freeze(Object.assign(Object.create(proto), { url: MERCHANT_URL })))
    expect(configs.map((config) => [config.url, 'toString' in config])).toEqual([
      [MERCHANT_URL, false],
      [MERCHANT_URL, true],
    ])
  })

  it('is garbage-collected after the call, with all that it holds', async () => {
    const api = axiosWith(rig().provider, { baseURL: MERCHANT_URL })
    const calledOnce = async () => {
      const adapter = answering()
      await api.get('/1', { adapter })
      return new WeakRef(adapter)
    }
    const ref = await calledOnce()
    forget() // the recorded outcomes
    for (let tries = 0; tries < 100 && ref.deref() !== undefined; tries += 1) {
      await delay(10)
      collectGarbage()
    }
    expect(ref.deref()).toBeUndefined()
  })

  it.each([null, false, ''])('falls back to the default if it is an empty value: %j', async (adapter) => {
    const api = ground.api()
    expect((await api.get('/1', { adapter: adapter as never })).status).toBe(200)
    api.defaults.adapter = adapter as never
    expect((await api.get('/1')).status).toBe(200)
  })

  it('does not affect later calls if it is an empty list', async () => {
    const api = new axios.Axios({}) as AxiosInstance
    attachAuth(api, rig().provider)
    const call = (config: object) => rejectionOf(api.request({ url: 'http://127.0.0.1:1/', ...config }))
    expect(await call({ adapter: [] })).toMatchObject({
      message: expect.stringContaining('no suitable adapter'),
    })
    expect(await call({})).toMatchObject({ code: 'ECONNREFUSED' })
  })
})

describe('an instance without any defaults', () => {
  const instanceWithoutDefaults = (config: CreateAxiosDefaults = {}, tokens = ground.tokens) => {
    const api = new axios.Axios({ baseURL: ground.env.merchantUrl, ...config } as never)
    attachAuth(api as never, tokens)
    return api
  }

  it.each<[string, CreateAxiosDefaults]>([
    ['none', {}],
    ['http', { adapter: 'http' }],
    ['fetch', { adapter: 'fetch' }],
    ['http in a list', { adapter: ['http'] }],
    ['fetch, after xhr, which Node.js lacks', { adapter: ['xhr', 'fetch'] }],
  ])('sends the token and renews it with the adapter that axios selects: %s', async (_, config) => {
    ground.env.fail('merchant', { kind: 'status', status: 401 })
    const answer = await instanceWithoutDefaults(config).get('/orders')
    expect(answer.status).toBe(200)
    expect(ground.sent().map(({ status }) => status)).toEqual([401, 200])
    expect('env' in answer.config).toBe(false)
  })

  it.each<[string, CreateAxiosDefaults, string]>([
    ['none', {}, 'ECONNABORTED'],
    ['http', { adapter: 'http' }, 'ECONNABORTED'],
    ['fetch', { adapter: 'fetch' }, 'ETIMEDOUT'],
    ['fetch, after xhr, which Node.js lacks', { adapter: ['xhr', 'fetch'] }, 'ETIMEDOUT'],
    ['fetch before http', { adapter: ['fetch', 'http'] }, 'ETIMEDOUT'],
    ['http before fetch', { adapter: ['http', 'fetch'] }, 'ECONNABORTED'],
    ['a function', { adapter: adapterAnswering('own') }, 'ECONNABORTED'],
    ['a function before fetch', { adapter: [adapterAnswering('own'), 'fetch'] as never }, 'ECONNABORTED'],
  ])(
    'times out while it waits for a token, with the error code of its adapter: %s',
    async (_, config, code) => {
      const { provider, endpoint } = rig([hang], { environment: ground.env.environment })
      const error = await rejectionOf(
        instanceWithoutDefaults({ timeout: 20, ...config }, provider).get('/orders'),
      )
      expect(error).toBeInstanceOf(axios.AxiosError)
      expect(error).toMatchObject({ code, message: 'timeout of 20ms exceeded' })
      expect([endpoint.count, ground.sent().length]).toEqual([1, 0])
      await provider.close()
    },
  )
})

/** How many times a call is sent if this is its first answer. */
async function sendCount(first: FakeAnswer): Promise<number> {
  const { api, configs } = fakeApi([first], { config: { validateStatus: () => true } })
  await api.get('/1')
  return configs.length
}

describe('a 401 from an adapter', () => {
  const scope = 'Bearer error="insufficient_scope"'

  it.each<[unknown, number]>([
    [undefined, 2],
    [null, 2],
    ['www-authenticate', 2],
    [{}, 2],
    [{ 'content-type': scope }, 2],
    [{ 'WWW-Authenticate': 'Bearer' }, 2],
    [{ 'WWW-Authenticate': scope }, 1],
    [new AxiosHeaders({ 'Www-Authenticate': scope }), 1],
    [new Headers({ 'Www-Authenticate': scope }), 1],
    [{ 'www-authenticate': ['Basic', scope] }, 1],
  ])('is retried with a new token unless its headers say insufficient_scope: %o', async (headers, sends) => {
    expect(await sendCount({ status: 401, data: { on: 1 }, headers })).toBe(sends)
  })

  it.each<[string, unknown]>([
    ['null', null],
    ['a string', '{"resume":true}'],
    ['a number', 0],
    ['an object', { error: 'invalid_token' }],
    ['an object with the method names of a stream', { resume: true, destroy: true, cancel: true }],
    ['an array', []],
    ['a Buffer', Buffer.from('rejected')],
  ])('is retried with a new token, whatever its body is: %s', async (_, data) => {
    expect(await sendCount({ status: 401, data, headers: { 'content-length': '10' } })).toBe(2)
    expect(await sendCount({ status: 401, data })).toBe(2)
  })

  it.each<[string, unknown]>([
    ['read', { 'Content-Length': '0' }],
    ['read', { 'Content-Length': '65536' }],
    ['read', { 'Content-Length': 65_536 }],
    ['read', new AxiosHeaders({ 'content-length': '1' })],
    ['read', new Headers({ 'content-length': '1' })],
    ['destroyed', { 'content-length': '65537' }],
    ['destroyed', {}],
    ['destroyed', { 'content-length': '' }],
    ['destroyed', { 'content-length': 'long' }],
    ['destroyed', undefined],
  ])(
    'has its body stream read if Content-Length is at most 64 KiB, and destroyed otherwise: %s, %o',
    async (expected, headers) => {
      const data = new PassThrough()
      expect(await sendCount({ status: 401, data, headers })).toBe(2)
      expect(data.destroyed ? 'destroyed' : data.readableFlowing && 'read').toBe(expected)
    },
  )

  it('has its web stream canceled, and is retried even if canceling fails', async () => {
    const cancel = vi.fn()
    expect(await sendCount({ status: 401, data: new ReadableStream({ cancel }) })).toBe(2)
    expect(cancel).toHaveBeenCalledTimes(1)
    const locked = new ReadableStream()
    locked.getReader()
    expect(await sendCount({ status: 401, data: locked })).toBe(2)
    const failing = new ReadableStream({ cancel: () => Promise.reject(new Error('not now')) })
    expect(await sendCount({ status: 401, data: failing })).toBe(2)
  })

  it.each(ADAPTERS)('is retried with every response type: %s', async (adapter) => {
    for (const responseType of ['text', 'json', 'arraybuffer', 'stream'] as const) {
      ground.env.fail('merchant', { kind: 'text', status: 401, body: 'x'.repeat(100_000) })
      const api = axiosWith(ground.provider(), { adapter, baseURL: ground.env.merchantUrl, responseType })
      const { status, data } = await api.get('/orders')
      expect(status).toBe(200)
      if (responseType !== 'stream') continue
      const chunks: Uint8Array[] = []
      for await (const chunk of data) chunks.push(chunk)
      expect(Buffer.concat(chunks).toString()).toContain('"api":"merchant"')
    }
  })
})

it('a response stream from an adapter can fail with a value that is not an Error', async () => {
  const data = new PassThrough()
  await fakeApi([{ data }]).api.get('/1')
  const failed = once(data, 'error')
  data.emit('error', 'text')
  expect(await failed).toEqual(['text'])
})

describe('a polluted Object.prototype', () => {
  const pollution = {
    transport: { request: vi.fn() },
    httpAgent: { addRequest: vi.fn() },
    proxy: { host: '127.0.0.1', port: 1 },
    beforeRedirect: vi.fn(),
    fetch: vi.fn(),
  }

  it.each(ADAPTERS)('does not change the requests of an instance with the token: %s', async (adapter) => {
    const api = ground.api({ adapter })
    await ground.tokens.getToken()
    Object.assign(Object.prototype, pollution)
    try {
      expect((await api.get('/orders')).status).toBe(200)
      expect((await api.get(ground.env.inStoreUrl)).status).toBe(200)
    } finally {
      for (const key of Object.keys(pollution)) Reflect.deleteProperty(Object.prototype, key)
    }
    for (const mock of [
      pollution.transport.request,
      pollution.httpAgent.addRequest,
      pollution.beforeRedirect,
      pollution.fetch,
    ])
      expect(mock).not.toHaveBeenCalled()
  })
})

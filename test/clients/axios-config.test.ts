// The config of a call: each send uses a copy, and responses and errors carry the caller's own config.
import { Agent } from 'node:http'
import { Readable } from 'node:stream'
import { inspect } from 'node:util'
import axios, {
  type AxiosAdapter,
  AxiosError,
  type AxiosResponse,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, rejectionOf, scripted } from '../support/ground.ts'
import { provided } from '../support/provided.ts'
import { MERCHANT_URL, rig } from '../token/harness.ts'
import { answering, type FakeAnswer, fakeApi } from './axios-fakes.ts'
import { axiosWith } from './drivers.ts'

const FORM = new FormData()
FORM.append('a', '1')

it.each<[string, CreateAxiosDefaults]>([
  ['no other options', {}],
  [
    'every option that a send changes',
    {
      beforeRedirect: () => {},
      transport: { request: () => {} },
      fetchOptions: { redirect: 'follow' },
      env: { fetch: globalThis.fetch },
      httpAgent: new Agent(),
    } as CreateAxiosDefaults,
  ],
])('the caller’s config does not change and never contains the token: with %s', async (_name, config) => {
  const sent: InternalAxiosRequestConfig[] = []
  const tokenOnOwn: boolean[] = []
  const inner = answering([{ status: 401 }])
  let own: InternalAxiosRequestConfig | undefined
  let before: object = {}
  const adapter: AxiosAdapter = (final) => {
    sent.push({ ...final, headers: final.headers.concat() })
    tokenOnOwn.push(own?.headers.has('X-Token') === true)
    return inner(final)
  }
  const api = axiosWith(rig().provider, { adapter, ...config }, { attach: { header: 'X-Token' } })
  api.interceptors.request.use((given) => {
    own = given
    before = { ...given }
    return given
  })
  await api.post(MERCHANT_URL, FORM)
  const { adapter: _adapter, headers, ...after } = own as InternalAxiosRequestConfig
  expect(before).toMatchObject(after)
  expect(Object.keys(after)).toEqual(
    Object.keys(before).filter((key) => !['adapter', 'headers'].includes(key)),
  )
  expect(headers.toJSON()).toEqual({
    Accept: 'application/json, text/plain, */*',
    'Content-Type': 'application/x-www-form-urlencoded',
  })
  expect(tokenOnOwn).toEqual([false, false])
  for (const one of sent) {
    expect(one.headers.get('X-Token')).toMatch(/^Bearer head\.body\.signature-\d+$/)
    expect(one.fetchOptions).toEqual({ redirect: 'manual' })
    // The caller's adapter gets the form itself, as axios prepared it.
    expect(one.data).toBe(FORM)
    expect(one.headers.getContentType()).toBe('application/x-www-form-urlencoded')
  }
})

describe('the changes that an adapter makes to its config', () => {
  const changing: AxiosAdapter = (config) => {
    config.headers.set({ 'User-Agent': 'of the adapter', 'x-mine': 'changed' }, true)
    config.headers.delete('X-Other')
    Object.assign(config, { startedAt: 1, timeout: 7 })
    return answering()(config)
  }

  it.each(['', 'https://elsewhere.example/'])(
    'appear on the caller’s config, which is that of the response, in a call to %j',
    async (url) => {
      const { api } = fakeApi([changing])
      let own: unknown
      api.interceptors.request.use((given) => {
        own = given
        return given
      })
      const { config } = await api.get(url, { headers: { 'X-Mine': '1', 'X-Other': '2' } })
      expect(config).toBe(own)
      expect(config).toMatchObject({ startedAt: 1, timeout: 7 })
      expect(config.headers.toJSON()).toEqual({
        Accept: 'application/json, text/plain, */*',
        'User-Agent': 'of the adapter',
        'X-Mine': 'changed',
      })
    },
  )

  it('count for the body and env in a call without the token', async () => {
    const compressing: AxiosAdapter = (config) =>
      answering()(Object.assign(config, { data: `zipped ${config.data}`, env: { of: 'the adapter' } }))
    const { config } = await fakeApi([compressing]).api.post('https://elsewhere.example/', 'text')
    expect(config).toMatchObject({ data: 'zipped text', env: { of: 'the adapter' } })
  })

  it.each(['answers', 'fails'])(
    'do not count for the second send of a call, and those of the second appear on its config: it %s',
    async (ends) => {
      const seen: unknown[] = []
      const rewriting: AxiosAdapter = (config) => {
        const { gateway } = config as { gateway?: string }
        seen.push([gateway, config.url, config.headers.get('X-Mine'), config.timeout])
        Reflect.deleteProperty(config, 'gateway')
        Object.assign(config, { url: gateway + String(config.url), timeout: seen.length, nth: seen.length })
        config.headers.set('X-Mine', 'changed')
        if (seen.length === 2 && ends === 'fails')
          return Promise.reject(new AxiosError('broken', 'E', config))
        return answering([{ status: seen.length === 1 ? 401 : 200 }])(config)
      }
      const { api } = fakeApi([rewriting, rewriting])
      const call = api.get('/1', { headers: { 'X-Mine': '1' }, gateway: '/gateway' } as object)
      const { config } = (await call.catch((error: unknown) => error)) as AxiosResponse
      expect(seen).toEqual([
        ['/gateway', '/1', '1', 0],
        ['/gateway', '/1', '1', 0],
      ])
      expect(config).toMatchObject({ url: '/gateway/1', timeout: 2, nth: 2 })
      expect(config).not.toHaveProperty('gateway')
      expect(config.headers.get('X-Mine')).toBe('changed')
    },
  )

  it.each<[string, (entries: [string, string][]) => unknown]>([
    ['a Headers', (entries) => new Headers(entries)],
    ['a Map', (entries) => new Map(entries)],
    ['a list', (entries) => entries],
    ['another iterable', (entries) => new URLSearchParams(entries)],
    ['a list with toJSON()', (entries) => Object.assign(entries, { toJSON: () => entries })],
  ])('leave the caller’s headers as they were if it replaces them by %s', async (_, make) => {
    const replacing: AxiosAdapter = (config) => {
      const headers = make(Object.entries(config.headers.toJSON(true)) as [string, string][])
      return answering()(Object.assign(config, { headers }))
    }
    for (const url of ['/1', 'https://elsewhere.example/']) {
      const { config } = await fakeApi([replacing]).api.get(url, { headers: { 'X-Mine': '1' } })
      expect(config.headers.toJSON()).toEqual({ Accept: 'application/json, text/plain, */*', 'X-Mine': '1' })
    }
  })

  it('include deletions: axios-mock-adapter deletes the adapter', async () => {
    const deleting: AxiosAdapter = (config) => {
      for (const key of ['adapter', 'timeout', 'mine']) Reflect.deleteProperty(config, key)
      return answering()(config)
    }
    const { api } = fakeApi([deleting])
    api.interceptors.request.use((given) => Object.assign(given, { mine: 1 }))
    const { config } = await api.get('/1')
    for (const key of ['adapter', 'timeout', 'mine']) expect(key in config).toBe(false)
    expect(config.url).toBe('/1')
  })

  it.each<[string, (config: InternalAxiosRequestConfig) => unknown]>([
    ['freezes it', Object.freeze],
    ['deletes the headers', (config) => Reflect.deleteProperty(config, 'headers')],
    ['sets the headers to null', (config) => Object.assign(config, { headers: null })],
    ['freezes the headers', ({ headers }) => Object.freeze(headers)],
    ['freezes it and the headers', (config) => Object.freeze(config) && Object.freeze(config.headers)],
    [
      'makes the header of the token read-only, and adds it under another name',
      ({ headers }) =>
        Object.assign(Object.defineProperty(headers, 'Authorization', { writable: false }), {
          authorization: 'x',
        }),
    ],
  ])('fail no call, and a 401 renews the token: an adapter that %s', async (_, change) => {
    const changing: AxiosAdapter = (config) => {
      change(config)
      return answering([{ status: configs.length === 1 ? 401 : 200 }])(config)
    }
    const agents = { httpAgent: new Agent(), fetchOptions: { dispatcher: {} } }
    const { api, configs } = fakeApi([changing, changing], { config: agents as CreateAxiosDefaults })
    const { status, config } = await api.get('/1', { headers: { 'X-Mine': '1' } })
    expect([status, configs.length]).toEqual([200, 2])
    expect(config.headers.get('X-Mine')).toBe('1')
    expect(config.headers.has('Authorization')).toBe(false)
    expect(inspect(configs.filter((one) => !Object.isFrozen(one)))).not.toContain('Bearer ')
  })

  it.each(['the API', 'another server'])(
    'are the same as without the token, for a form sent to %s by the http adapter',
    async (where) => {
      await using server = await scripted((_, response) => void response.end())
      const apiUrls = [where === 'the API' ? server.url : 'https://api.example']
      const api = axios.create({ adapter: 'http' })
      const plain = await api.post(server.url, FORM)
      attachAuth(api, provided({ apiUrls }))
      const ours = await api.post(server.url, FORM)
      const headersOf = ({ config }: typeof ours) =>
        JSON.stringify(config.headers).replace(/boundary=[^"]+|"Content-Length":"?\d+"?/g, '')
      expect(headersOf(ours)).toBe(headersOf(plain))
    },
  )
})

describe('a call without the token', () => {
  const ELSEWHERE = 'https://elsewhere.example/'

  it('keeps the config that its adapter puts on the response or the error', async () => {
    const responding: FakeAnswer = (config) =>
      Promise.resolve({ status: 200, data: '', headers: {}, config: { ...config, url: '/other' } } as never)
    const { api } = fakeApi([responding, () => Promise.reject({ config: { file: 'settings.json' } })])
    expect((await api.get(ELSEWHERE)).config.url).toBe('/other')
    expect(await rejectionOf(api.get(ELSEWHERE))).toEqual({ config: { file: 'settings.json' } })
  })
})

describe('an outcome whose config cannot be replaced', () => {
  const unwritable = (config: object) => ({
    get config() {
      return { ...config }
    },
    set config(_) {
      throw new Error('read-only')
    },
  })

  it('is the outcome of the call all the same', async () => {
    const { api } = fakeApi([
      (config) => Promise.resolve(Object.assign(unwritable(config), { status: 200, headers: {} }) as never),
      (config) => Promise.reject(Object.assign(unwritable(config), { message: 'original' })),
    ])
    expect((await api.get('/1')).status).toBe(200)
    expect(await rejectionOf(api.get('/1'))).toMatchObject({ message: 'original' })
  })
})

describe('the rejection of an adapter', () => {
  it.each([
    ...[undefined, null, 'just text', 0, false, Object.freeze({ status: 401 })],
    Object.assign(new Error('plain'), { response: { status: 401 } }),
  ])('reaches the caller unchanged if it is not an axios error: %j', async (reason) => {
    const keys = Object.keys(Object(reason))
    const throws = () => {
      throw reason
    }
    const { api, configs } = fakeApi([() => Promise.reject(reason), throws])
    for (const url of ['/1', '/2']) expect(await rejectionOf(api.get(url))).toBe(reason)
    expect(configs.length).toBe(2)
    expect(Object.keys(Object(reason))).toEqual(keys)
    expect(Object(reason).response ?? {}).not.toHaveProperty('config')
  })

  it('carries the caller’s config even if the adapter put a copy on it, as does its response', async () => {
    const withResponse: FakeAnswer = (config) => {
      const copy = { ...config, transformRequest: [], adapter: 'http' }
      return Promise.reject({ config: copy, response: { status: 500, headers: {}, config: copy } })
    }
    const withoutResponse: FakeAnswer = (config) =>
      Promise.reject({ config: { ...config, transformRequest: [] } })
    const responding: FakeAnswer = (config) =>
      Promise.resolve({ status: 200, headers: {}, config: { ...config } } as never)
    const { api } = fakeApi([withResponse, withoutResponse, responding])
    const own: unknown[] = []
    api.interceptors.request.use((given) => {
      own.push(given)
      return given
    })
    const failures = [await rejectionOf(api.get('/1')), await rejectionOf(api.get('/2'))]
    expect(failures.map((failure) => Object.keys(failure as object))).toEqual([
      ['config', 'response'],
      ['config'],
    ])
    const [failed, unanswered] = failures as { config: unknown; response: { config: unknown } }[]
    expect(failed?.config).toBe(own[0])
    expect(failed?.response.config).toBe(own[0])
    expect(unanswered?.config).toBe(own[1])
    const { config } = await api.get('/3')
    expect(config).toBe(own[2])
  })

  it('has causes whose configs lead to no token: the caller’s config, and copies without agents and header', async () => {
    const nested: FakeAnswer = (config) => {
      const inner = new AxiosError('inner', 'E_INNER', { ...config, headers: config.headers.concat() })
      const middle = Object.assign(new AxiosError('middle', 'E_MIDDLE', config), { cause: inner })
      return Promise.reject(Object.assign(new AxiosError('outer', 'E_OUTER', config), { cause: middle }))
    }
    const { api } = fakeApi([nested], { config: { httpAgent: new Agent() } })
    let own: unknown
    api.interceptors.request.use((given) => {
      own = given
      return given
    })
    const outer = (await rejectionOf(api.get('/1'))) as AxiosError
    const middle = outer.cause as AxiosError
    const { config } = middle.cause as AxiosError
    expect([outer.config, middle.config]).toEqual([own, own])
    expect(middle.config).toBe(own)
    expect(config?.headers.has('Authorization')).toBe(false)
    expect(config?.httpAgent).toBeInstanceOf(Agent)
    expect(Reflect.ownKeys(config?.httpAgent)).toEqual([])
  })

  it('renews the token if it has a config and a 401 response, as axios’ errors do', async () => {
    const { api, configs } = fakeApi([
      (config) => Promise.reject({ config, response: { status: 401, headers: {} } }),
    ])
    expect((await api.get('/1')).status).toBe(200)
    expect(configs.length).toBe(2)
  })
})

it('sends the config of a canceled call again with the token of the instance that sends it', async () => {
  const seen: string[] = []
  const first = fakeApi([], { config: { adapter: noting } })
  const second = fakeApi([], { config: { adapter: noting } })
  function noting(config: InternalAxiosRequestConfig): ReturnType<AxiosAdapter> {
    seen.push(String(config.headers.get('Authorization')))
    return answering()(config)
  }
  const canceled = await rejectionOf(first.api.get('/orders', { signal: AbortSignal.abort() }))
  const { signal: _, ...config } = (canceled as AxiosError).config as InternalAxiosRequestConfig
  for (const { api, provider, events } of [first, second]) {
    expect((await api.request({ ...config })).status).toBe(200)
    expect(seen.pop()).toBe(`Bearer ${provider.currentToken()?.value}`)
    expect(events.filter(({ type }) => type === 'token-withheld')).toEqual([])
  }
  expect(seen).toEqual([])
})

it.each(['no prototype', 'the prototype of plain objects'])(
  'an adapter gets the properties that interceptors add, symbols too: a config with %s',
  async (proto) => {
    const key = Symbol('key')
    const { api, configs } = fakeApi([])
    api.interceptors.request.use((config) => {
      const copy = Object.create(proto === 'no prototype' ? null : Object.prototype)
      return Object.assign(copy, config, { mine: 1, [key]: 2 })
    })
    await api.get('/1')
    expect(configs[0]).toMatchObject({ url: '/1', mine: 1, [key]: 2 })
    expect(Reflect.get(configs[0] ?? {}, key)).toBe(2)
  },
)

it('a frozen config is sent with the URL of its class, as without the token', async () => {
  class Config {
    get url(): string {
      return '/of-the-class'
    }
  }
  const { api, configs } = fakeApi([])
  const plain = axios.create({ baseURL: MERCHANT_URL, adapter: answering([], configs) })
  for (const instance of [api, plain]) {
    instance.interceptors.request.use(({ url: _, ...config }) =>
      Object.freeze(Object.assign(new Config(), config)),
    )
    await instance.get('/1')
  }
  expect(configs.map(({ url }) => url)).toEqual(['/of-the-class', '/of-the-class'])
  for (const config of configs) expect(Object.keys(config)).not.toContain('constructor')
})

describe('a config whose properties cannot all be changed', () => {
  const asGiven = <T>(config: T): T => config
  const copyWith = (config: object) => Object.create(null, Object.getOwnPropertyDescriptors(config))
  it.each<[string, (config: InternalAxiosRequestConfig) => InternalAxiosRequestConfig]>([
    ['frozen', (config) => Object.freeze(config)],
    ['a frozen copy', (config) => Object.freeze({ ...config })],
    ['not extensible', (config) => Object.preventExtensions(config)],
    ['a read-only property', (config) => Object.defineProperty(config, 'startedAt', { value: 1 })],
    [
      'a read-only property of a copy',
      (config) => Object.defineProperty(copyWith(config), 'at', { value: 1 }),
    ],
    ['a getter', (config) => Object.defineProperty(config, 'now', { get: () => ({}), enumerable: true })],
  ])('is sent with the token, and again after a 401: %s', async (_, change) => {
    for (const [before, after] of [
      [change, asGiven],
      [asGiven, change],
    ] as const) {
      const made = rig()
      const configs: InternalAxiosRequestConfig[] = []
      const seen: unknown[] = []
      const noting: AxiosAdapter = (config) => {
        seen.push(config.headers.get('Authorization'))
        return answering([{ status: seen.length === 1 ? 401 : 200 }], configs)(config)
      }
      const api = axios.create({ baseURL: MERCHANT_URL, adapter: noting })
      api.interceptors.request.use(after)
      attachAuth(api, made.provider)
      api.interceptors.request.use(before)
      expect((await api.get('/1')).status).toBe(200)
      expect(seen.length).toBe(2)
      for (const header of seen) expect(header).toMatch(/^Bearer head\.body\.signature-\d+$/)
    }
  })
})

it('an adapter can call the hasOwnProperty that axios puts on a config', async () => {
  const asking: AxiosAdapter = (config) => {
    const { hasOwnProperty: hasOwn } = config
    const data = ['url', 'constructor'].map((key) => Reflect.apply(hasOwn, config, [key]))
    return answering([{ data }])(config)
  }
  expect((await axios.get('/1', { adapter: asking })).data).toEqual([true, false])
  expect((await fakeApi([asking]).api.get('/1')).data).toEqual([true, false])
})

describe('the config that an adapter keeps', () => {
  it.each<[string, (config: InternalAxiosRequestConfig) => unknown]>([
    ['as it is', () => {}],
    ['sealed', Object.seal],
    ['frozen', Object.freeze],
    ['with frozen headers', ({ headers }) => Object.freeze(headers)],
    [
      'with headers that cannot be replaced',
      (config) => Object.defineProperty(config, 'headers', { writable: false }),
    ],
  ])('leads to no token after the call: %s', async (_, change) => {
    const kept: InternalAxiosRequestConfig[] = []
    const keeping: AxiosAdapter = (config) => {
      change(config)
      kept.push(config)
      if (!Object.isFrozen(config.headers)) kept.push({ ...config })
      if (kept[0] !== config) throw new AggregateError(kept)
      return answering([{ status: 401 }])(config)
    }
    const { api, provider } = fakeApi([keeping, keeping])
    const shown = inspect(await rejectionOf(api.get('/1')), { depth: 9, showHidden: true })
    expect(shown).toContain('AggregateError')
    expect(shown).toContain('application/json')
    expect(shown).not.toContain(provider.currentToken()?.value)
  })

  it('leads to no token in a cause whose config shares frozen headers, nor in the causes of that', async () => {
    const failing: AxiosAdapter = (config) => {
      const inner = new AxiosError('inner', 'E_INNER', { ...config, headers: config.headers.concat() })
      Object.freeze(config.headers)
      const middle = Object.assign(new AxiosError('middle', 'E_MIDDLE', { ...config }), { cause: inner })
      return Promise.reject(new Error('outer', { cause: middle }))
    }
    const error = await rejectionOf(fakeApi([failing]).api.get('/1'))
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('Bearer ')
  })

  it.each<[string, (config: InternalAxiosRequestConfig, failure: () => Promise<Error>) => unknown]>([
    [
      'sealed headers, and causes below them',
      async ({ headers }, failure) => {
        const config = { headers: Object.seal({ ...headers }) } as InternalAxiosRequestConfig
        return Object.assign(new AxiosError('sealed', 'E', config), { cause: await failure() })
      },
    ],
    [
      'a frozen error with a copy of the config',
      ({ headers }) => Object.freeze(new AxiosError('x', 'E', { headers: headers.concat() })),
    ],
    [
      'a cause that cannot be read',
      async (_, failure) =>
        Object.defineProperty(await failure(), 'cause', { get: () => expect.unreachable() }),
    ],
    [
      'a getter that throws beside a cause',
      async (_, failure) =>
        Object.defineProperty(new Error('x', { cause: await failure() }), 'lazy', {
          enumerable: true,
          get: () => expect.unreachable(),
        }),
    ],
    ['an AggregateError', async (_, failure) => new AggregateError([await failure(), await failure()])],
    ['a wrapped error', async (_, failure) => Object.assign(new Error('x'), { original: await failure() })],
  ])('leads to no token in errors, nor do their requests: %s', async (_, make) => {
    await using server = await scripted((_request, response) => response.socket?.destroy())
    const tokens = provided({ apiUrls: [server.url] })
    const adapter: AxiosAdapter = async (config) => {
      const failure = () => rejectionOf(axios.getAdapter('http')(config)) as Promise<Error>
      const error = await make(config, failure)
      expect(inspect(error, { depth: 9 })).toContain('Bearer ')
      throw error
    }
    const error = await rejectionOf(axiosWith(tokens, { adapter }).get(server.url))
    expect(inspect(error, { depth: 9 })).not.toContain('Bearer ')
  })

  it('leads to no token if the response of its error cannot be read', async () => {
    const { api, configs } = fakeApi([
      (config) => {
        expect(inspect(config)).toContain('Bearer ')
        const error = new AxiosError('x', 'E', config)
        return Promise.reject(Object.defineProperty(error, 'response', { get: () => expect.unreachable() }))
      },
    ])
    await rejectionOf(api.get('/1'))
    expect(configs.length).toBe(1)
    expect(inspect(configs)).not.toContain('Bearer ')
  })

  it('leads to no agent after the call', async () => {
    const { api, configs } = fakeApi([], { config: { httpAgent: new Agent() } })
    await api.get('/1')
    expect(Reflect.ownKeys(configs[0]?.httpAgent)).toEqual([])
  })
})

it.each([false, 0, 'junk', null, undefined])(
  'an env.fetch that is not a function is ignored, as by axios: %s',
  async (fetch) => {
    await using server = await scripted((_, response) => void response.end())
    const config = { env: { fetch }, timeout: 5_000 } as unknown as CreateAxiosDefaults
    const api = axiosWith(provided({ apiUrls: [server.url] }), { adapter: 'http', ...config })
    expect((await api.get(`${server.url}/1`)).status).toBe(200)
  },
)

it.each([undefined, null])(
  'a config may name its agents and its dispatcher without having them: %s',
  async (nothing) => {
    const named = { httpAgent: nothing, httpsAgent: nothing, fetchOptions: { dispatcher: nothing } }
    const { api, configs } = fakeApi([])
    api.interceptors.request.use((config) => Object.assign(config, named))
    expect((await api.get('/1')).status).toBe(200)
    expect(configs[0]).toMatchObject(named)
  },
)

it.each<[string, () => unknown]>([
  ['a stream', () => Readable.from(['again'])],
  ['a text', () => 'again'],
])('a new body that replaces a stream on error.config is sent: %s', async (_, newBody) => {
  await using server = await scripted((_, response, nth) => {
    response.writeHead(nth === 1 ? 503 : 200).end()
  })
  const api = axiosWith(provided({ apiUrls: [server.url] }), { timeout: 5_000, maxRedirects: 0 })
  const body = Readable.from(['first'])
  const error = (await rejectionOf(api.post(server.url, body))) as AxiosError
  const config = error.config as InternalAxiosRequestConfig
  for (const again of [(given: object) => api.request(given), (given: object) => api.request({ ...given })]) {
    config.data = newBody()
    await again(config)
  }
  expect(server.seen.map(({ body: sent }) => String(sent))).toEqual(['first', 'again', 'again'])
})

describe('the Content-Type of a form', () => {
  it.each(['http', 'fetch'] as const)(
    'appears once on the config and keeps the caller’s boundary when the config is sent again: %s',
    async (adapter) => {
      await using server = await scripted((_, response) => void response.end())
      const api = axiosWith(provided({ apiUrls: [server.url] }), { adapter, timeout: 5_000 })
      const id = api.interceptors.request.use((given) => {
        given.headers.delete('Content-Type')
        given.headers['content-type'] = 'multipart/form-data; boundary=of-the-caller-1'
        return given
      })
      const { config } = await api.post(`${server.url}/1`, FORM)
      api.interceptors.request.eject(id)
      const types = Object.keys(config.headers).filter((name) => name.toLowerCase() === 'content-type')
      expect(types.length).toBe(1)
      await api.request(config)
      await axios.create().request(config)
      for (const { headers: sent, body } of server.seen) {
        expect(sent['content-type']).toBe('multipart/form-data; boundary=of-the-caller-1')
        expect(String(body)).toMatch(/^--of-the-caller-1\r\n[\s\S]*\r\n--of-the-caller-1--\r\n$/)
      }
      expect(server.seen.length).toBe(3)
    },
  )
})

describe('the request body', () => {
  it.each(ADAPTERS)('is still there when a config with an unread stream is sent again: %s', async (name) => {
    await using server = await scripted((_request, response) => response.end())
    for (const sendsAgain of ['the instance', 'plain axios']) {
      let isBroken = true
      const adapter: AxiosAdapter = (config) =>
        isBroken ? Promise.reject(new AxiosError('open', 'E', config)) : axios.getAdapter(name)(config)
      const api = axiosWith(provided({ apiUrls: [server.url] }), { adapter })
      const { config } = (await rejectionOf(api.post(server.url, Readable.from(['a', 'b'])))) as AxiosError
      isBroken = false
      if (sendsAgain === 'the instance') await api.request({ ...config })
      else await axios.request({ ...config, adapter: name })
    }
    expect(server.seen.map(({ body }) => String(body))).toEqual(['ab', 'ab'])
  })

  it('fails when a config with a consumed stream is sent again by fetch', async () => {
    await using server = await scripted((_request, response) => response.writeHead(503).end())
    const api = axiosWith(provided({ apiUrls: [server.url] }), { adapter: 'fetch' })
    const { config } = (await rejectionOf(api.post(server.url, Readable.from(['a'])))) as AxiosError
    expect(await rejectionOf(api.request({ ...config }))).toMatchObject({ name: 'TypeError' })
    expect(server.seen.length).toBe(1)
  })

  it.each([
    ['not copied if no status renews the token', [], true],
    ['copied if a status can renew the token, and the caller’s config keeps the original', [401], false],
  ])('is %s', async (_, renewOnStatus, isSame) => {
    const body = Buffer.from('abc')
    let sent: unknown
    const adapter: AxiosAdapter = (config) => {
      sent = config.data
      return answering()(config)
    }
    const { config } = await fakeApi([adapter], { attach: { renewOnStatus } }).api.post('/1', body)
    expect(sent).toEqual(body)
    expect(sent === body).toBe(isSame)
    expect(config.data).toBe(body)
  })
})

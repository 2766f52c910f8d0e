// The caller's agents, sockets and streams: attachAuth changes none of them, and a config that is sent again has its agents.
import { Agent, globalAgent } from 'node:http'
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import axios, {
  type AxiosError,
  type AxiosInstance,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios'
import axiosRetry from 'axios-retry'
import { attachAuth } from 'merchant-auth/axios'
import * as undici from 'undici'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ADAPTERS, rejectionOf, until, useGround } from '../support/ground.ts'

const ground = useGround()
const fail = (fault: Parameters<typeof ground.env.fail>[1], times = 1) =>
  ground.env.fail('merchant', fault, { times })

/** A caller's agent. */
interface Given {
  readonly agent: object
  /** The part of a config that has it. */
  readonly config: CreateAxiosDefaults
  /** How many calls it got. */
  calls(): number
}

/** The agents that a config can have for each adapter. */
const GIVEN = { http: httpAgent, fetch: dispatcher } as const

function httpAgent(): Given {
  let calls = 0
  const agent = new Agent({ keepAlive: true })
  const { addRequest } = agent as never as { addRequest(...request: unknown[]): void }
  const count = (...request: unknown[]): void => {
    calls += 1
    addRequest.apply(agent, request)
  }
  onTestFinished(() => agent.destroy())
  Object.assign(agent, { addRequest: count })
  return { agent, config: { httpAgent: agent }, calls: () => calls }
}

function dispatcher(): Given {
  let calls = 0
  const agent = new undici.Agent().compose((dispatch) => (options, handler) => {
    calls += 1
    return dispatch(options, handler)
  })
  onTestFinished(() => agent.destroy())
  return { agent, config: { fetchOptions: { dispatcher: agent } } as never, calls: () => calls }
}

/** The fetch of the same undici as the dispatchers. */
const { fetch, Request, Response } = undici
const env = { fetch, Request, Response } as object

/** The agent on a config. */
function agentOn({ httpAgent, fetchOptions }: CreateAxiosDefaults = {}): unknown {
  return httpAgent ?? Reflect.get(fetchOptions ?? {}, 'dispatcher')
}

describe.each(ADAPTERS)('a config of the adapter %s that is sent again', (adapter) => {
  const given = GIVEN[adapter]
  const attached = (config: CreateAxiosDefaults = {}) => ground.api({ adapter, env, ...config })

  /** The config of a call that failed. */
  async function failed(api: AxiosInstance, config: CreateAxiosDefaults = {}) {
    fail({ kind: 'status', status: 503 })
    const error = (await rejectionOf(api.get('/orders', config as never))) as AxiosError
    return error.config as InternalAxiosRequestConfig
  }

  it('still has the agent', async () => {
    const { agent, config } = given()
    expect(agentOn(await failed(attached(config)))).toBe(agent)
  })

  it.each<[string, (api: AxiosInstance) => AxiosInstance]>([
    ['the same instance', (api) => api],
    ['another instance with the token', () => attached()],
    ['an instance without the token', () => axios.create({ baseURL: ground.env.merchantUrl })],
    ['axios itself', () => axios],
  ])('by %s uses the agent, time after time', async (name, other) => {
    const { agent, config, calls } = given()
    const api = attached()
    const before = await failed(api, config)
    const accepted = { validateStatus: () => true }
    const again = await other(api).request({ ...before, ...accepted })
    const third = await other(api).request(again.config)
    expect(calls()).toBe(3)
    for (const one of [again, third]) expect(agentOn(one.config)).toBe(agent)
    const isAttached = !name.endsWith('without the token') && name !== 'axios itself'
    expect([again.status, third.status]).toEqual(isAttached ? [200, 200] : [401, 401])
  })

  it('by axios-retry uses the agent of its call rather than that of the instance', async () => {
    const [shared, own] = [given(), given()]
    const api = attached(shared.config)
    axiosRetry(api as never, { retries: 2, retryDelay: () => 0 })
    fail({ kind: 'status', status: 503 }, 2)
    await api.get('/orders', own.config as never)
    expect([shared.calls(), own.calls()]).toEqual([0, 3])
    fail({ kind: 'status', status: 503 }, 2)
    await api.get('/orders')
    expect([shared.calls(), own.calls()]).toEqual([3, 3])
  })

  it('uses another agent that the caller gave it', async () => {
    const [first, second, third] = [given(), given(), given()]
    const api = attached(first.config)
    const before = await failed(api)
    await api.request({ ...before, ...(second.config as object) })
    if (adapter === 'http') Object.assign(before, third.config)
    else Object.assign(before.fetchOptions ?? {}, third.config.fetchOptions)
    await api.request(before)
    expect([first, second, third].map(({ calls }) => calls())).toEqual([1, 1, 1])
  })

  it.each<[string, () => AxiosInstance]>([
    ['an instance with the token', () => attached()],
    ['an instance without it', () => axios.create({ baseURL: ground.env.merchantUrl })],
  ])('by %s uses the agent, if its call was canceled before', async (_, other) => {
    const { config, calls } = given()
    const canceled = rejectionOf(attached(config).get('/orders', { signal: AbortSignal.abort() }))
    const { config: before = {} } = (await canceled) as AxiosError
    await other().request({ ...before, signal: AbortSignal.timeout(10_000), validateStatus: null })
    expect(calls()).toBe(1)
  })
})

describe.each(ADAPTERS)('an interceptor with the adapter %s', (adapter) => {
  const given = GIVEN[adapter]
  const create = (config: CreateAxiosDefaults = {}) =>
    axios.create({ baseURL: ground.env.merchantUrl, adapter, env, ...config } as CreateAxiosDefaults)

  it('may copy the config', async () => {
    const { config, calls } = given()
    const api = create(config)
    api.interceptors.request.use(({ fetchOptions, ...config }) => ({
      ...config,
      fetchOptions: { ...(fetchOptions as object) },
    })) // runs last
    attachAuth(api, ground.tokens)
    const response = await api.get('/orders')
    await api.request(response.config)
    expect(calls()).toBe(2)
  })

  it('may set an object of its own, which is not changed', async () => {
    const { config, calls } = given()
    const own = config.fetchOptions ?? config
    const before = propertiesOf(own)
    const api = create()
    api.interceptors.request.use((other) => Object.assign(other, config))
    attachAuth(api, ground.tokens)
    await api.get('/orders')
    expect(calls()).toBe(1)
    expect(propertiesOf(own)).toEqual(before)
  })
})

it('a config shows no agent while the http adapter sends it, and nothing else in it is changed', async () => {
  const { config } = httpAgent()
  const api = ground.api({ adapter: 'http', ...config }, { header: 'X-Token' })
  let sent: InternalAxiosRequestConfig | undefined
  let before: unknown
  api.interceptors.request.use((given) => {
    sent = given
    before = given.env
    return given
  })
  const seen: unknown[][] = []
  const validateStatus = () => {
    seen.push([Object.keys(sent ?? {}).includes('httpAgent'), sent?.fetchOptions, sent?.env === before])
    return true
  }
  await api.get('/orders', { validateStatus })
  expect(seen[0]).toEqual([false, undefined, true])
  expect(Object.keys(sent ?? {})).not.toContain('fetchOptions')
})

it('an adapter of the caller may copy the config', async () => {
  const { config, calls } = httpAgent()
  const adapter: CreateAxiosDefaults['adapter'] = (config) => axios.getAdapter('http')({ ...config })
  const response = await ground.api({ adapter, ...config }).get('/orders')
  await axios.request({ ...response.config, validateStatus: null })
  expect(calls()).toBe(2)
})

/** For each property of an object, whether it is enumerable and writable. */
function propertiesOf(object: object): Record<PropertyKey, unknown> {
  const describe = (key: PropertyKey) => ({ ...Reflect.getOwnPropertyDescriptor(object, key), value: 0 })
  return Object.fromEntries(Reflect.ownKeys(object).map((key) => [key, describe(key)]))
}

/** The agents, dispatchers and sockets that an agent leads to, itself included. */
function ownersIn(holder: unknown, found = new Set<object>()): Set<object> {
  if (typeof holder !== 'object' || holder === null || found.has(holder)) return found
  const isOwner = [Agent, undici.Dispatcher, Socket].some((owner) => holder instanceof owner)
  const isList = Array.isArray(holder) || holder instanceof Map || Object.getPrototypeOf(holder) === null
  if (isOwner) found.add(holder)
  else if (!isList) return found // requests, for example
  const members = Reflect.ownKeys(holder).map((key) => Reflect.get(holder, key))
  for (const member of holder instanceof Map ? holder.values() : members) ownersIn(member, found)
  return found
}

const ENDS: [string, (api: AxiosInstance) => Promise<unknown>][] = [
  ['succeeds', (api) => api.get('/orders')],
  [
    'gets a 401 twice',
    (api) => {
      ground.env.configure({ rejectAllTokens: true })
      return rejectionOf(api.get('/orders'))
    },
  ],
  [
    'is redirected',
    (api) => {
      fail({ kind: 'redirect', location: '/merchant/moved' })
      return api.get('/orders')
    },
  ],
  [
    'times out',
    (api) => {
      fail({ kind: 'hang' })
      return rejectionOf(api.get('/orders', { timeout: 50 }))
    },
  ],
  [
    'is canceled before it is sent',
    (api) => rejectionOf(api.get('/orders', { signal: AbortSignal.abort() })),
  ],
  [
    'is canceled while it is sent',
    (api) => {
      fail({ kind: 'hang' })
      return rejectionOf(api.get('/orders', { signal: AbortSignal.timeout(50) }))
    },
  ],
  ['has a streamed response', (api) => api.get('/orders', { responseType: 'stream' })],
  [
    'has a streamed error',
    (api) => {
      fail({ kind: 'text', body: 'sorry', status: 500 })
      return rejectionOf(api.get('/orders', { responseType: 'stream' }))
    },
  ],
]

function plainDispatcher(): CreateAxiosDefaults {
  const agent = new undici.Agent()
  onTestFinished(() => agent.destroy())
  return { adapter: 'fetch', env, fetchOptions: { dispatcher: agent } } as never
}

describe.each<[string, () => CreateAxiosDefaults]>([
  ['an agent', () => ({ adapter: 'http', ...httpAgent().config })],
  ["Node's own agent", () => ({ adapter: 'http', httpAgent: globalAgent })],
  ['a dispatcher', plainDispatcher],
])('attachAuth changes no property of %s or of a socket', (_, makeConfig) => {
  it.each(ENDS)('where a call %s', async (_end, end) => {
    const config = makeConfig()
    const plain = axios.create({ ...config, baseURL: ground.env.merchantUrl, validateStatus: null })
    fail({ kind: 'hang' })
    const abort = new AbortController()
    const other = rejectionOf(plain.get('/hangs', { signal: abort.signal }))
    await until(() => ground.sent().length === 1)
    await plain.get('/warms-up')
    const watched = [...ownersIn(agentOn(config))]
    const before = watched.map(propertiesOf)
    expect(watched.filter((one) => one instanceof Socket).length).toBeGreaterThan(1)
    await end(ground.api(config))
    expect(watched.map(propertiesOf)).toMatchObject(before)
    abort.abort()
    await other
  })
})

it.each(ADAPTERS)('attachAuth changes no property of a stream that the adapter %s sends', async (adapter) => {
  for (const status of [200, 500]) {
    const body = Readable.from([Buffer.from('x')])
    const state = Reflect.get(body, '_readableState')
    const before = [body, state].map(propertiesOf)
    fail({ kind: 'status', status })
    await ground.api({ adapter, validateStatus: null }).post('/orders', body)
    expect([body, state].map(propertiesOf)).toMatchObject(before)
  }
})

// The log output of axios' responses, errors and configs contains no token, and the logged objects stay usable.
import assert from 'node:assert'
import { EventEmitter, errorMonitor, once } from 'node:events'
import { Agent as HttpAgent } from 'node:http'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import axios, { type AxiosAdapter, AxiosError, type CreateAxiosDefaults } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { rejectionOf, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { outcomes } from '../support/recorded.ts'
import { answering, type FakeAnswer } from './axios-fakes.ts'
import { axiosWith } from './drivers.ts'

const HERE = 'https://api.test.example/merchant/x'
const ELSEWHERE = 'https://elsewhere.example/x'
const VALUE = 'the.one.token'

const client = (adapter: NonNullable<CreateAxiosDefaults['adapter']>, config: CreateAxiosDefaults = {}) =>
  axiosWith(provided({ current: token(VALUE) }), { ...config, adapter })

/** An adapter that always returns a response with these parts. */
const answeringWith =
  (parts: FakeAnswer = {}): AxiosAdapter =>
  (config) =>
    answering([parts])(config)

/** An adapter that rejects with an error made from its config. */
const failing =
  (make: (config: object) => unknown): AxiosAdapter =>
  (config) =>
    Promise.reject(make(config))

/** Ways to log an object, most of which ignore its own inspect function. */
const LOGGERS: Record<string, (logged: unknown) => string> = {
  inspect: (logged) => inspect(logged, { depth: Infinity }),
  'inspect, without custom functions': (logged) => inspect(logged, { customInspect: false, depth: Infinity }),
  'inspect, with hidden properties': (logged) =>
    inspect(logged, {
      customInspect: false,
      showHidden: true,
      getters: true,
      showProxy: true,
      depth: Infinity,
    }),
  'inspect of a copy': (logged) => inspect({ ...(logged as object) }, { depth: Infinity }),
  entries: (logged) => inspect(Object.entries(logged as object), { depth: Infinity }),
  'node:assert': (logged) => String(errorThrownBy(() => assert.strictEqual(logged, undefined))),
  'node:assert, deep': (logged) => String(errorThrownBy(() => assert.deepEqual(logged, { a: 1 }))),
  JSON: (logged) => JSON.stringify(logged),
}

function errorThrownBy(run: () => void): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  throw new Error('It did not throw')
}

describe('the caller’s agent', () => {
  it('reaches the adapter unwrapped, like an undici dispatcher, also when its config is sent again', async () => {
    const agents: unknown[] = []
    const api = client((config) => {
      agents.push(config.httpAgent, config.httpsAgent, Reflect.get(config.fetchOptions ?? {}, 'dispatcher'))
      return answeringWith()(config)
    })
    const httpAgent = new HttpAgent()
    // A plain object, which axios copies.
    const httpsAgent = { addRequest: () => {}, protocol: 'http:', sockets: { 'api:443:': [VALUE] } }
    const dispatcher = Object.assign(new EventEmitter(), { header: VALUE })
    const options = { httpAgent, httpsAgent, fetchOptions: { dispatcher } as object }
    const { config } = await api.get(HERE, options)
    await api.request(config)
    await api.request({ ...config, url: ELSEWHERE })
    const [, copied] = agents
    expect(Object.keys(copied as object)).toEqual(['addRequest', 'protocol', 'sockets'])
    for (const [at, agent] of agents.entries()) expect(agent).toBe([httpAgent, copied, dispatcher][at % 3])
    expect(agents).toHaveLength(9)
    expect(options.fetchOptions).toEqual({ dispatcher })
    for (const [logger, log] of Object.entries(LOGGERS)) expect(log(config), logger).not.toContain(VALUE)
  })

  it.each(['in the defaults', 'by an interceptor that runs last'])(
    'hides the token of a concurrent call from log output, as does the request of a response: set %s',
    async (how) => {
      const agent = new HttpAgent({ keepAlive: true })
      await using server = await scripted((request, response) => {
        if (request.path !== '/x/hangs') response.end('fine')
      })
      const tokens = provided({ current: token(VALUE), apiUrls: [`${server.url}/x`] })
      const api = axios.create({ adapter: 'http' })
      if (how === 'in the defaults') api.defaults.httpAgent = agent
      else api.interceptors.request.use((config) => Object.assign(config, { httpAgent: agent }))
      attachAuth(api, tokens)
      const abort = new AbortController()
      const other = rejectionOf(api.get(`${server.url}/x/hangs`, { signal: abort.signal }))
      const { request, config } = await api.get(`${server.url}/x`)
      const { sockets, requests } = config.httpAgent
      for (const object of [request.res, request.socket, request.agent, sockets, requests, request])
        for (const [logger, log] of Object.entries(LOGGERS))
          expect(log(object ?? {}), logger).not.toContain(VALUE)
      expect(request.res.statusCode).toBe(200)
      abort.abort()
      await other
      agent.destroy()
    },
  )

  it('stays usable on the response config although it is logged as empty', async () => {
    const httpAgent = new HttpAgent({ keepAlive: true, maxSockets: 7 })
    const agent = (await client(answeringWith()).get(HERE, { httpAgent })).config.httpAgent
    expect(agent).toBeInstanceOf(HttpAgent)
    const { maxSockets, keepAlive, constructor: kind } = agent
    expect([maxSockets, keepAlive, 'sockets' in agent, kind]).toEqual([7, true, true, HttpAgent])
    agent.maxSockets = 8
    Object.defineProperty(agent, 'tag', { value: 1 })
    expect(httpAgent).toMatchObject({ maxSockets: 8 })
    expect([agent.tag, Reflect.get(httpAgent, 'tag')]).toEqual([1, 1])
    expect(Object.keys(agent)).toEqual([])
    await using server = await scripted((_, response) => void response.end('fine'))
    const { status } = await axios.create().get(server.url, { httpAgent: agent })
    expect(status).toBe(200)
    expect(Object.keys(httpAgent.freeSockets)).toHaveLength(1)
    httpAgent.destroy()
  })
})

describe('the request of a response', () => {
  it('stays accessible by name and does not appear in log output', async () => {
    class ClientRequest {
      header = VALUE
      #writable = true
      getHeader(): string {
        return this.#writable ? this.header : ''
      }
    }
    const request = new ClientRequest()
    const answer = await client(answeringWith({ request })).get(HERE)
    expect(answer.request).toBeInstanceOf(ClientRequest)
    expect([answer.request.header, answer.request.getHeader()]).toEqual([VALUE, VALUE])
    for (const [logger, log] of Object.entries(LOGGERS)) expect(log(answer), logger).not.toContain(VALUE)
    expect(Object.keys(answer)).not.toContain('request')
    answer.request = 'first'
    answer.request = 'my own'
    expect(answer.request).toBe('my own')
    expect(Object.keys(answer)).not.toContain('request')
    expect(Reflect.deleteProperty(answer, 'request')).toBe(true)
    expect(answer.request).toBeUndefined()
  })

  it.each([null, 'a text', 12, { path: '/x' }])(
    'is not changed, whatever its type is: %o',
    async (request) => {
      const before = inspect(request, { showHidden: true })
      const failed = failing(() => Object.assign(new Error('first'), { request }))
      for (const url of [HERE, ELSEWHERE]) {
        const answer = await client(answeringWith({ request })).get(url)
        const error = (await rejectionOf(client(failed).get(url))) as typeof answer
        for (const holder of [answer, error]) {
          expect(holder.request).toBe(request)
          if (request instanceof Object) expect(Object.keys(holder)).not.toContain('request')
        }
      }
      expect(inspect(request, { showHidden: true })).toBe(before)
    },
  )

  it('is not added to a response or an error without one', async () => {
    const answer = await client(answeringWith()).get(HERE)
    expect(Object.hasOwn(answer, 'request')).toBe(false)
    const api = client(failing((config) => Object.assign(new Error('no answer'), { config })))
    for (const url of [HERE, ELSEWHERE])
      expect(Object.hasOwn((await rejectionOf(api.get(url))) as object, 'request')).toBe(false)
  })

  it.each([
    [HERE, { 'X-Mine': '1' }, [['x-mine', '1']]],
    [ELSEWHERE, { Authorization: 'Own one' }, [['authorization', 'Own one']]],
  ])('keeps all headers but the token with the fetch adapter: %s', async (url, headers, expected) => {
    const api = client('fetch', { env: { fetch: async () => new Response('here') } })
    const answer = await api.get(url, { headers })
    const { request } = answer
    expect(Object.keys(answer)).not.toContain('request')
    expect(request).toBeInstanceOf(Request)
    expect([...request.headers].filter(([name]) => /^(x-mine|authorization)$/.test(name))).toEqual(expected)
    expect(inspect(request)).toMatch(/^Request \{/)
  })
})

describe('a response stream', () => {
  it('hides only the named and symbol properties that lead to the request', async () => {
    const data = new PassThrough()
    const secret = { header: VALUE, authorization: 'not a header' }
    const links = ['req', 'socket', 'client', Symbol('session')]
    for (const link of links) Reflect.set(data, link, secret)
    const [nameless, mine] = [Symbol(), Symbol('mine')]
    for (const key of [nameless, mine, 'name']) Reflect.set(data, key, 'to be seen')
    const answer = await client(answeringWith({ data })).get(HERE)
    expect(inspect(answer.data, { depth: 9 })).not.toContain(VALUE)
    for (const link of links) {
      expect(Reflect.get(data, link)).toBe(secret)
      expect(Object.prototype.propertyIsEnumerable.call(data, link)).toBe(false)
    }
    expect(secret.authorization).toBe('not a header')
    for (const key of [nameless, mine, 'name', '_readableState', '_events'])
      expect(Object.getOwnPropertyDescriptor(data, key)).toMatchObject({ enumerable: true, writable: true })
    outcomes.length = 0 // getters still lead to the request: one of Node.js is cleaned, this fake is not
  })

  it.each([HERE, ELSEWHERE])('hides the headers that were sent over HTTP/2 to %s', async (url) => {
    const data = new PassThrough()
    const [headers, session] = [Symbol('sent-headers'), Symbol('session')]
    const sent = { authorization: `Bearer ${VALUE}`, accept: 'a/b' }
    Object.assign(data, { [headers]: sent, [session]: { header: VALUE } })
    const answer = await client(answeringWith({ data })).get(url)
    expect(inspect(answer.data, { depth: 9 })).not.toContain(VALUE)
    expect(Object.keys(sent)).toEqual(url === HERE ? ['accept'] : ['authorization', 'accept'])
    outcomes.length = 0 // as above
  })

  it('emits a later error without the token in its log output', async () => {
    const data = new PassThrough()
    await client(answeringWith({ data })).get(HERE)
    const failed = once(data, 'error')
    const config = { headers: { authorization: `Bearer ${VALUE}` } }
    data.emit('error', Object.assign(new Error('cut off'), { config, request: { header: VALUE } }))
    const [error] = await failed
    expect(error.message).toBe('cut off')
    expect(inspect(error, { depth: 9 })).not.toContain(VALUE)
  })

  it.each([{ pipe: 'p', on: 'monday' }, { pipe: {}, on: null }, { on: true }, null, [['on']], 'on'])(
    'is not detected in data that only has the property names of a stream: %j',
    async (data) => {
      const answer = await client(answeringWith({ data })).get(HERE)
      expect(answer.data).toBe(data)
      expect((await client(answeringWith()).post(HERE, data)).status).toBe(200)
    },
  )

  it('is not detected in an EventEmitter without pipe()', async () => {
    const data = new EventEmitter()
    await client(answeringWith({ data })).get(HERE)
    expect(data.listenerCount(errorMonitor)).toBe(0)
  })
})

it.each([
  HERE,
  ELSEWHERE, // its agent may also have requests with the token
])('a stream that was sent stays on the config, and does not appear in log output: %s', async (url) => {
  const data = Object.assign(new PassThrough(), { pipedInto: VALUE })
  const { config } = await client(answeringWith()).post(url, data)
  expect(Object.keys(config)).toContain('data')
  expect(config.data).toBeInstanceOf(PassThrough)
  expect(config.data?.pipedInto).toBe(VALUE)
  for (const [logger, log] of Object.entries(LOGGERS)) expect(log(config), logger).not.toContain(VALUE)
})

describe('the causes of an error', () => {
  class SentRequest {
    readonly header = VALUE
  }
  const headers = (value = VALUE) => ({ AUTHORIZATION: `Bearer ${value}`, accept: 'a/b' })

  /** Errors with the properties of an AxiosError, each with the next one as its cause. */
  function chain(length: number): Error[] {
    const errors = Array.from({ length }, (_, at) =>
      Object.assign(new Error(`error ${at}`), {
        config: { headers: headers() },
        request: new SentRequest(),
        response: { status: 500, request: new SentRequest(), data: 'x' },
      }),
    )
    for (const [at, error] of errors.entries()) if (errors[at + 1]) error.cause = errors[at + 1]
    return errors
  }

  it('contain no token in the log output of a chain of ten, and keep everything else', async () => {
    const errors = chain(10)
    const caught = await rejectionOf(client(failing(() => errors[0])).get(HERE))
    expect(caught).toBe(errors[0])
    for (const error of errors.slice(1)) {
      expect(error).toMatchObject({ config: { headers: { accept: 'a/b' } } })
      expect(Reflect.get(error, 'request').header).toBe(VALUE)
      expect(Object.keys(error)).not.toContain('request')
      expect(Object.keys(Reflect.get(error, 'config').headers)).toEqual(['accept'])
      expect(Object.keys(Reflect.get(error, 'response'))).toEqual(['status', 'data'])
    }
    expect(inspect(caught, { depth: Infinity })).not.toContain(VALUE)
  })

  it('can be circular', async () => {
    const errors = chain(2)
    const [first, second] = errors
    if (second !== undefined) second.cause = first
    expect(await rejectionOf(client(failing(() => first)).get(HERE))).toBe(first)
  })

  it.each([
    {},
    { config: {} },
    { config: null },
    { config: { headers: null } },
    { config: { headers: 'a: b' } },
  ])('contain no token in log output behind an error with these properties: %o', async (fields) => {
    for (const url of [HERE, ELSEWHERE]) {
      const last = Object.assign(new Error('last'), { request: { secret: VALUE } })
      const between = Object.assign(new Error('between', { cause: last }), fields)
      const error = new Error('first', { cause: between })
      expect(await rejectionOf(client(failing(() => error)).get(url))).toBe(error)
      expect(inspect(error, { depth: 9 })).not.toContain(VALUE)
      expect(last.request.secret).toBe(VALUE)
    }
    outcomes.length = 0 // a non-enumerable property appears if a log asks for hidden ones
  })

  it('may be in a list or a property, where objects that are not errors stay as they are', async () => {
    const [inList, inProperty] = chain(2)
    const errors = [{ message: 'm', request: { id: 1 } }, inList]
    const detail = { request: { id: 2 } }
    const error = Object.assign(new Error('invalid'), { errors, detail, inProperty })
    await rejectionOf(client(failing(() => error)).get(HERE))
    expect(JSON.stringify([errors[0], detail])).toBe(
      '[{"message":"m","request":{"id":1}},{"request":{"id":2}}]',
    )
    expect(inspect(error, { depth: Infinity })).not.toContain(VALUE)
  })

  it('keep the caller’s headers if the call went to another origin', async () => {
    const config = { headers: headers('of-the-caller') }
    const error = Object.assign(new Error('no answer'), { config, request: {} })
    await rejectionOf(client(failing(() => error)).get(ELSEWHERE))
    expect(config.headers).toEqual({ AUTHORIZATION: 'Bearer of-the-caller', accept: 'a/b' })
    expect(Object.keys(error)).not.toContain('request')
  })
})

const throwOnRead = (): never => {
  throw new TypeError('read')
}

describe.each([
  ['with the token', HERE],
  ['without the token', ELSEWHERE],
])('an adapter’s error on a call %s', (_, url) => {
  it.each<[string, () => object]>([
    ['response is null', () => ({ response: null })],
    ["cause's response is null", () => ({ cause: { response: null } })],
    [
      'request cannot be read',
      () => Object.defineProperty({}, 'request', { get: throwOnRead, enumerable: false }),
    ],
    [
      'cause cannot be read',
      () => Object.defineProperty({}, 'cause', { get: throwOnRead, enumerable: false }),
    ],
  ])('reaches the caller as the same object if its %s', async (_, fields) => {
    const fault = new Error('the real fault')
    Object.defineProperties(fault, Object.getOwnPropertyDescriptors(fields()))
    expect(await rejectionOf(client(failing(() => fault)).get(url))).toBe(fault)
  })

  it('reaches the caller as the same object if it and its headers are frozen', async () => {
    const config = { headers: Object.freeze({ Authorization: 'Bearer the.one.token' }) }
    const cause = Object.freeze(Object.assign(new Error('inner'), { config }))
    const fault = Object.freeze(new Error('the real fault', { cause }))
    expect(await rejectionOf(client(failing(() => fault)).get(url))).toBe(fault)
    outcomes.length = 0 // a token cannot be removed from a frozen object
  })
})

describe('an object of another call', () => {
  it('keeps its own Authorization header in the cause of an error', async () => {
    const headers = { Authorization: 'Basic own' }
    const copied = { Authorization: 'Bearer the.one.token' }
    const response = { config: { headers } }
    const inner = Object.assign(new Error('inner'), { config: { headers: copied }, response })
    const cause = Object.assign(new Error('sidecar', { cause: inner }), { config: { headers } })
    const api = client((config) =>
      Promise.reject(Object.assign(new AxiosError('x', 'E_MINE', config), { cause })),
    )
    const error = await rejectionOf(api.get(HERE))
    expect(inspect(error, { depth: 9 })).not.toContain(VALUE)
    expect(headers).toEqual({ Authorization: 'Basic own' })
    expect(response.config.headers).toBe(headers)
    expect(copied).toEqual({})
  })

  it.each([HERE, ELSEWHERE])(
    'gets no further listeners if an adapter returns the same stream for each call: %s',
    async (url) => {
      const data = new PassThrough()
      const api = client(answeringWith({ data }))
      for (let call = 0; call < 30; call += 1) await api.get(url, { responseType: 'stream' })
      expect(data.eventNames().reduce((sum, name) => sum + data.listenerCount(name), 0)).toBeLessThan(10)
    },
  )
})

describe('a Request of another call in the cause of an error', () => {
  it('keeps its own Authorization header', async () => {
    const request = new Request(ELSEWHERE, { headers: { authorization: 'Basic own' } })
    const error = new Error('first', { cause: Object.assign(new Error('x'), { request }) })
    await rejectionOf(client(failing(() => error)).get(HERE))
    expect(request.headers.get('authorization')).toBe('Basic own')
  })
})

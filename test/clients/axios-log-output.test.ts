// What log output of axios' answers, errors and configs shows, and what stays as it was. No network.
import assert from 'node:assert'
import { EventEmitter, errorMonitor, once } from 'node:events'
import { Agent as HttpAgent } from 'node:http'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import axios, { type AxiosAdapter, AxiosError, type CreateAxiosDefaults } from 'axios'
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

/** An adapter that answers with these parts. */
const giving =
  (parts: FakeAnswer = {}): AxiosAdapter =>
  (config) =>
    answering([parts])(config)

/** An adapter that fails with an error made of the config. */
const failing =
  (make: (config: object) => unknown): AxiosAdapter =>
  (config) =>
    Promise.reject(make(config))

/** What shows an object in ways that its own inspection does not govern. */
const WAYS: Record<string, (shown: unknown) => string> = {
  inspect: (shown) => inspect(shown, { depth: Infinity }),
  'inspect, without custom functions': (shown) => inspect(shown, { customInspect: false, depth: Infinity }),
  'inspect, with all that is hidden': (shown) =>
    inspect(shown, {
      customInspect: false,
      showHidden: true,
      getters: true,
      showProxy: true,
      depth: Infinity,
    }),
  'inspect of a copy': (shown) => inspect({ ...(shown as object) }, { depth: Infinity }),
  entries: (shown) => inspect(Object.entries(shown as object), { depth: Infinity }),
  'node:assert': (shown) => String(rejectionBy(() => assert.strictEqual(shown, undefined))),
  'node:assert, deep': (shown) => String(rejectionBy(() => assert.deepEqual(shown, { a: 1 }))),
  JSON: (shown) => JSON.stringify(shown),
}

function rejectionBy(run: () => void): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  throw new Error('It did not throw')
}

describe('an agent of the caller', () => {
  it("is given to the adapter itself, also when its config is sent again, and undici's dispatcher too", async () => {
    const agents: unknown[] = []
    const api = client((config) => {
      agents.push(config.httpAgent, config.httpsAgent, Reflect.get(config.fetchOptions ?? {}, 'dispatcher'))
      return giving()(config)
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
    for (const [way, show] of Object.entries(WAYS)) expect(show(config), way).not.toContain(VALUE)
  })

  it('shows nothing of other calls by what it leads to, and by what its request does', async () => {
    const agent = new HttpAgent({ keepAlive: true })
    await using server = await scripted((request, response) => {
      if (request.path !== '/x/hangs') response.end('fine')
    })
    const tokens = provided({ current: token(VALUE), apiUrls: [`${server.url}/x`] })
    const api = axiosWith(tokens, { httpAgent: agent, adapter: 'http' })
    const abort = new AbortController()
    const other = rejectionOf(api.get(`${server.url}/x/hangs`, { signal: abort.signal }))
    const { request, config } = await api.get(`${server.url}/x`)
    const { sockets, requests } = config.httpAgent
    for (const shown of [request.res, request.socket, request.agent, sockets, requests, request])
      for (const [way, show] of Object.entries(WAYS)) expect(show(shown ?? {}), way).not.toContain(VALUE)
    expect(request.res.statusCode).toBe(200)
    abort.abort()
    await other
    agent.destroy()
  })

  it('is of use where it is shown as an empty one', async () => {
    const httpAgent = new HttpAgent({ keepAlive: true, maxSockets: 7 })
    const shown = (await client(giving()).get(HERE, { httpAgent })).config.httpAgent
    expect(shown).toBeInstanceOf(HttpAgent)
    const { maxSockets, keepAlive, constructor: kind } = shown
    expect([maxSockets, keepAlive, 'sockets' in shown, kind]).toEqual([7, true, true, HttpAgent])
    shown.maxSockets = 8
    Object.defineProperty(shown, 'tag', { value: 1 })
    expect(httpAgent).toMatchObject({ maxSockets: 8 })
    expect([shown.tag, Reflect.get(httpAgent, 'tag')]).toEqual([1, 1])
    expect(Object.keys(shown)).toEqual([])
    await using server = await scripted((_, response) => void response.end('fine'))
    const { status } = await axios.create().get(server.url, { httpAgent: shown })
    expect(status).toBe(200)
    expect(Object.keys(httpAgent.freeSockets)).toHaveLength(1)
    httpAgent.destroy()
  })
})

describe('the request of an answer', () => {
  it('works by its name, and is in no log output', async () => {
    class ClientRequest {
      header = VALUE
      #writable = true
      getHeader(): string {
        return this.#writable ? this.header : ''
      }
    }
    const request = new ClientRequest()
    const answer = await client(giving({ request })).get(HERE)
    expect(answer.request).toBeInstanceOf(ClientRequest)
    expect([answer.request.header, answer.request.getHeader()]).toEqual([VALUE, VALUE])
    for (const [way, show] of Object.entries(WAYS)) expect(show(answer), way).not.toContain(VALUE)
    expect(Object.keys(answer)).not.toContain('request')
    answer.request = 'my own'
    expect(answer.request).toBe('my own')
    expect(Reflect.deleteProperty(answer, 'request')).toBe(true)
    expect(answer.request).toBeUndefined()
  })

  it.each([null, 'a text', 12, { path: '/x' }])(
    'may be anything, and stays as it is: %o',
    async (request) => {
      const before = inspect(request, { showHidden: true })
      const failed = failing(() => Object.assign(new Error('first'), { request }))
      for (const url of [HERE, ELSEWHERE]) {
        const answer = await client(giving({ request })).get(url)
        const error = (await rejectionOf(client(failed).get(url))) as typeof answer
        for (const holder of [answer, error]) {
          expect(holder.request).toBe(request)
          if (request instanceof Object) expect(Object.keys(holder)).not.toContain('request')
        }
      }
      expect(inspect(request, { showHidden: true })).toBe(before)
    },
  )

  it('is not made up where there is none, in an answer or an error', async () => {
    const answer = await client(giving()).get(HERE)
    expect(Object.hasOwn(answer, 'request')).toBe(false)
    const api = client(failing((config) => Object.assign(new Error('no answer'), { config })))
    for (const url of [HERE, ELSEWHERE])
      expect(Object.hasOwn((await rejectionOf(api.get(url))) as object, 'request')).toBe(false)
  })

  it.each([
    [HERE, { 'X-Mine': '1' }, [['x-mine', '1']]],
    [ELSEWHERE, { Authorization: 'Own one' }, [['authorization', 'Own one']]],
  ])('of the fetch adapter shows all but the token: %s', async (url, headers, expected) => {
    const api = client('fetch', { env: { fetch: async () => new Response('here') } })
    const { request } = await api.get(url, { headers })
    expect(request).toBeInstanceOf(Request)
    expect([...request.headers].filter(([name]) => /^(x-mine|authorization)$/.test(name))).toEqual(expected)
    expect(inspect(request)).toMatch(/^Request \{/)
  })
})

describe('a stream of an answer', () => {
  it('hides the ways back to the request, by name and by symbol, and nothing else', async () => {
    const data = new PassThrough()
    const secret = { header: VALUE }
    const ways = ['req', 'socket', 'client', Symbol('sent-headers'), Symbol('session')]
    for (const way of ways) Reflect.set(data, way, secret)
    const [nameless, mine] = [Symbol(), Symbol('mine')]
    for (const key of [nameless, mine, 'name']) Reflect.set(data, key, 'to be seen')
    const answer = await client(giving({ data })).get(HERE)
    expect(inspect(answer.data, { depth: 9 })).not.toContain(VALUE)
    for (const way of ways) {
      expect(Reflect.get(data, way)).toBe(secret)
      expect(Object.prototype.propertyIsEnumerable.call(data, way)).toBe(false)
    }
    for (const key of [nameless, mine, 'name', '_readableState', '_events'])
      expect(Object.getOwnPropertyDescriptor(data, key)).toMatchObject({ enumerable: true, writable: true })
    outcomes.length = 0 // getters still lead to the request; that of node is cleaned, this one is made up
  })

  it('that fails later does so with an error that shows nothing', async () => {
    const data = new PassThrough()
    await client(giving({ data })).get(HERE)
    const failed = once(data, 'error')
    const config = { headers: { authorization: `Bearer ${VALUE}` } }
    data.emit('error', Object.assign(new Error('cut off'), { config, request: { header: VALUE } }))
    const [error] = await failed
    expect(error.message).toBe('cut off')
    expect(inspect(error, { depth: 9 })).not.toContain(VALUE)
  })

  it.each([{ pipe: 'p', on: 'monday' }, { pipe: {}, on: null }, { on: true }, null, [['on']], 'on'])(
    'is not looked for in data that has its words: %j',
    async (data) => {
      const answer = await client(giving({ data })).get(HERE)
      expect(answer.data).toBe(data)
      expect((await client(giving()).post(HERE, data)).status).toBe(200)
    },
  )

  it('is not what an emitter without a pipe is', async () => {
    const data = new EventEmitter()
    await client(giving({ data })).get(HERE)
    expect(data.listenerCount(errorMonitor)).toBe(0)
  })
})

it.each<[unknown, boolean]>([
  ['a text', true],
  [Buffer.from('x'), true],
  [new URLSearchParams('a=b'), true],
  [new PassThrough(), false], // it is used up
])('a body that was sent is listed, to be sent again: %o, %s', async (data, isListed) => {
  const { config } = await client(giving()).post(HERE, data)
  if (!isListed) expect(config.data).toBe(data)
  expect(Object.keys(config).includes('data')).toBe(isListed)
})

describe('the causes of an error', () => {
  class SentRequest {
    readonly header = VALUE
  }
  const headers = (value = VALUE) => ({ AUTHORIZATION: `Bearer ${value}`, accept: 'a/b' })

  /** Errors that cause each other, each with all that an AxiosError has. */
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

  it('show no token, ten of them deep, and are what they were', async () => {
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

  it('may go round in a circle', async () => {
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
  ])('are hidden to the last, whatever those between are like: %o', async (fields) => {
    for (const url of [HERE, ELSEWHERE]) {
      const last = Object.assign(new Error('last'), { request: { secret: VALUE } })
      const between = Object.assign(new Error('between', { cause: last }), fields)
      const error = new Error('first', { cause: between })
      expect(await rejectionOf(client(failing(() => error)).get(url))).toBe(error)
      expect(inspect(error, { depth: 9 })).not.toContain(VALUE)
      expect(last.request.secret).toBe(VALUE)
    }
    outcomes.length = 0 // a property that is hidden shows where hidden ones are asked for
  })

  it('of a call that went elsewhere keep its headers', async () => {
    const config = { headers: headers('of-the-caller') }
    const error = Object.assign(new Error('no answer'), { config, request: {} })
    await rejectionOf(client(failing(() => error)).get(ELSEWHERE))
    expect(config.headers).toEqual({ AUTHORIZATION: 'Bearer of-the-caller', accept: 'a/b' })
    expect(Object.keys(error)).not.toContain('request')
  })
})

const throwing = (): never => {
  throw new TypeError('read')
}

describe.each([
  ['with the token', HERE],
  ['without it', ELSEWHERE],
])('an error of an adapter, on a call %s', (_, url) => {
  it.each<[string, () => object]>([
    ['response is null', () => ({ response: null })],
    ["cause's response is null", () => ({ cause: { response: null } })],
    [
      'request cannot be read',
      () => Object.defineProperty({}, 'request', { get: throwing, enumerable: false }),
    ],
    ['cause cannot be read', () => Object.defineProperty({}, 'cause', { get: throwing, enumerable: false })],
  ])('whose %s is the one that the caller gets', async (_, fields) => {
    const fault = new Error('the real fault')
    Object.defineProperties(fault, Object.getOwnPropertyDescriptors(fields()))
    expect(await rejectionOf(client(failing(() => fault)).get(url))).toBe(fault)
  })

  it('that is frozen, and its headers too, is the one that the caller gets', async () => {
    const config = { headers: Object.freeze({ Authorization: 'Bearer the.one.token' }) }
    const cause = Object.freeze(Object.assign(new Error('inner'), { config }))
    const fault = Object.freeze(new Error('the real fault', { cause }))
    expect(await rejectionOf(client(failing(() => fault)).get(url))).toBe(fault)
    outcomes.length = 0 // nothing can be taken out of what is frozen
  })
})

describe('what belongs to other calls', () => {
  it('keeps its own header, where it is the cause of an error', async () => {
    const headers = { Authorization: 'Basic own' }
    const copied = { Authorization: 'Bearer the.one.token' }
    const inner = Object.assign(new Error('inner'), { config: { headers: copied } })
    const cause = Object.assign(new Error('sidecar', { cause: inner }), { config: { headers } })
    const api = client((config) =>
      Promise.reject(Object.assign(new AxiosError('x', 'E_MINE', config), { cause })),
    )
    const error = await rejectionOf(api.get(HERE))
    expect(inspect(error, { depth: 9 })).not.toContain(VALUE)
    expect(headers).toEqual({ Authorization: 'Basic own' })
    expect(copied).toEqual({})
  })

  it.each([HERE, ELSEWHERE])(
    'gets one listener, where a mock gives the same stream each time: %s',
    async (url) => {
      const data = new PassThrough()
      const api = client(giving({ data }))
      for (let call = 0; call < 30; call += 1) await api.get(url, { responseType: 'stream' })
      expect(data.eventNames().reduce((sum, name) => sum + data.listenerCount(name), 0)).toBeLessThan(10)
    },
  )
})

describe('the causes of an error, of whatever origin,', () => {
  it('keep the headers of Requests that are not ours', async () => {
    const request = new Request(ELSEWHERE, { headers: { authorization: 'Basic own' } })
    const error = new Error('first', { cause: Object.assign(new Error('x'), { request }) })
    await rejectionOf(client(failing(() => error)).get(HERE))
    expect(request.headers.get('authorization')).toBe('Basic own')
  })
})

// What prints of axios' answers, errors and configs show, and what stays as it was (contract 6). No network.
import { EventEmitter, errorMonitor, once } from 'node:events'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import axios, { type AxiosResponse, type CreateAxiosDefaults } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { rejectionOf } from './calls.ts'
import { provided, token } from './provided.ts'

const HERE = 'https://api.test.example/merchant/x'
const ELSEWHERE = 'https://elsewhere.example/x'
const VALUE = 'the.one.token'

type Adapter = Extract<CreateAxiosDefaults['adapter'], (...args: never[]) => unknown>

function client(adapter: NonNullable<CreateAxiosDefaults['adapter']>, config: CreateAxiosDefaults = {}) {
  const api = axios.create({ ...config, adapter })
  attachAuth(api, provided({ current: token(VALUE) }))
  return api
}

/** An adapter that answers with these parts. */
const giving =
  (parts: Partial<AxiosResponse> = {}): Adapter =>
  async (config) => ({ status: 200, statusText: '', data: 'here', headers: {}, config, ...parts })

/** An adapter that fails with an error made of the config. */
const failing =
  (make: (config: object) => unknown): Adapter =>
  (config) =>
    Promise.reject(make(config))

describe('agents of the caller', () => {
  it.each([
    ['httpAgent', new HttpAgent(), 'httpsAgent'],
    ['httpsAgent', new HttpsAgent(), 'httpAgent'],
  ] as const)('show as no more than that where they are set: %s', async (name, agent, other) => {
    const { config } = await client(giving()).get(HERE, { [name]: agent })
    const json = JSON.parse(JSON.stringify(config))
    expect(json).toMatchObject({ [name]: '[Agent]', method: 'get', url: HERE })
    expect(json).not.toHaveProperty(other)
    expect(inspect(config)).toContain(`${name}: '[Agent]'`)
    expect(inspect(config)).toContain(`url: '${HERE}'`)
    expect(inspect(config)).not.toContain(`${other}:`)
  })

  it('stay what they are, and nothing new is listed, copied or fixed on the config', async () => {
    const httpAgent = new HttpAgent()
    const { config } = await client(giving()).get(HERE, { httpAgent })
    expect(config.httpAgent).toBe(httpAgent)
    expect(Object.keys(config)).toContain('httpAgent')
    expect(Object.keys(config)).not.toContain('toJSON')
    expect(Reflect.ownKeys({ ...config })).not.toContain(inspect.custom)
    Reflect.set(config, 'toJSON', () => 'my own')
    expect(JSON.stringify(config)).toBe('"my own"')
    expect(Reflect.deleteProperty(config, 'toJSON')).toBe(true)
    expect(Reflect.deleteProperty(config, inspect.custom)).toBe(true)
  })

  it('that are not set change nothing in a config', async () => {
    for (const url of [HERE, ELSEWHERE]) {
      const { config } = await client(giving()).get(url)
      expect(Reflect.ownKeys(config)).not.toContain('toJSON')
      expect(Reflect.ownKeys(config)).not.toContain(inspect.custom)
    }
  })
})

describe('the request of an answer', () => {
  it('works by its name, is in no print, and shows as a word wherever else it turns up', async () => {
    const getHeader = (): string => VALUE // as node's ClientRequest has it
    const _currentRequest = { header: VALUE, getHeader }
    const _redirectable = { header: VALUE, _currentRequest: undefined }
    const request = { header: VALUE, getHeader, _currentRequest, _redirectable }
    const answer = await client(giving({ request })).get(HERE)
    expect(answer.request).toBe(request)
    expect(answer.request.header).toBe(VALUE)
    expect(Object.keys(answer)).not.toContain('request')
    for (const one of [request, _currentRequest, _redirectable]) {
      expect(inspect(one)).toBe('[Request]')
      expect(JSON.stringify(one)).toBe('"[Request]"')
    }
    answer.request = 'my own'
    expect(answer.request).toBe('my own')
    expect(Reflect.deleteProperty(answer, 'request')).toBe(true)
    expect(answer.request).toBeUndefined()
  })

  it.each([null, 'a text', 12])('may be anything: %o', async (request) => {
    const answer = await client(giving({ request })).get(HERE)
    expect(answer.request).toBe(request)
  })

  it('that went elsewhere is in no print of the answer, and is left as it is itself', async () => {
    const request = { path: '/x' }
    const answer = await client(giving({ request })).get(ELSEWHERE)
    expect(Object.keys(answer)).not.toContain('request')
    expect(answer.request).toBe(request)
    expect(inspect(request)).toBe("{ path: '/x' }")
    expect(Reflect.ownKeys(request)).toEqual(['path'])
  })

  it('is not made up where there is none, in an answer or an error', async () => {
    const answer = await client(giving()).get(HERE)
    expect(Object.hasOwn(answer, 'request')).toBe(false)
    const api = client(failing((config) => Object.assign(new Error('no answer'), { config })))
    for (const url of [HERE, ELSEWHERE])
      expect(Object.hasOwn((await rejectionOf(api.get(url))) as object, 'request')).toBe(false)
  })

  it('of the fetch adapter loses the token, and keeps all else that it shows', async () => {
    const api = client('fetch', { env: { fetch: async () => new Response('here') } })
    const { request } = await api.get(HERE, { headers: { 'X-Mine': '1' } })
    expect(request).toBeInstanceOf(Request)
    expect([...request.headers.keys()]).toContain('x-mine')
    expect(request.headers.has('authorization')).toBe(false)
    expect(JSON.stringify(request)).not.toBe('"[Request]"')
    expect(inspect(request)).toMatch(/^Request \{/)
  })

  it('of the fetch adapter that went elsewhere keeps a header of that name', async () => {
    const api = client('fetch', { env: { fetch: async () => new Response('here') } })
    const { request } = await api.get(ELSEWHERE, { headers: { Authorization: 'Own one' } })
    expect(request.headers.get('authorization')).toBe('Own one')
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

describe('a body that was sent', () => {
  it.each(['a text', Buffer.from('x'), new URLSearchParams('a=b')])(
    'is listed, to be sent again: %o',
    async (data) => {
      const { config } = await client(giving()).post(HERE, data)
      expect(Object.keys(config)).toContain('data')
    },
  )

  it('is not where it is a stream, which is used up', async () => {
    const data = new PassThrough()
    const { config } = await client(giving()).post(HERE, data)
    expect(config.data).toBe(data)
    expect(Object.keys(config)).not.toContain('data')
  })
})

describe('the causes of an error', () => {
  const headers = (value = VALUE) => ({ AUTHORIZATION: `Bearer ${value}`, accept: 'a/b' })

  /** Errors that cause each other, each with all that an AxiosError has. */
  function chain(length: number): Error[] {
    const errors = Array.from({ length }, (_, at) =>
      Object.assign(new Error(`error ${at}`), {
        config: { headers: headers() },
        request: { header: VALUE },
        response: { status: 500, request: { header: VALUE }, data: 'x' },
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
      expect(error).toMatchObject({ config: { headers: { accept: 'a/b' } }, request: { header: VALUE } })
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

  it.each<[string, object]>([
    ['a config without headers', { config: {} }],
    ['no config', {}],
    ['a config that is null', { config: null }],
    ['headers that are null', { config: { headers: null } }],
    ['headers that are a text', { config: { headers: 'a: b' } }],
  ])('may have %s', async (_, fields) => {
    const cause = Object.assign(new Error('below'), fields)
    const error = new Error('above', { cause })
    expect(await rejectionOf(client(failing(() => error)).get(HERE))).toBe(error)
    expect(await rejectionOf(client(failing(() => error)).get(ELSEWHERE))).toBe(error)
  })

  it('of a call that went elsewhere keep its headers', async () => {
    const config = { headers: headers('of-the-caller') }
    const error = Object.assign(new Error('no answer'), { config, request: {} })
    await rejectionOf(client(failing(() => error)).get(ELSEWHERE))
    expect(config.headers).toEqual({ AUTHORIZATION: 'Bearer of-the-caller', accept: 'a/b' })
    expect(Object.keys(error)).not.toContain('request')
  })
})

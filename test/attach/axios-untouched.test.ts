/** What other people's adapters reject and resolve with gets through, whatever it is like (contract 5.1, 6). */
import { getEventListeners } from 'node:events'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import axios, { AxiosError, AxiosHeaders, type CreateAxiosDefaults } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { waitWithin } from '../../src/attach/axios-config.ts'
import { rejectionOf } from './calls.ts'

type Adapter = Extract<CreateAxiosDefaults['adapter'], (...args: never[]) => unknown>

const HERE = 'http://localhost/x'
const ELSEWHERE = 'https://elsewhere.test.example/x'

function client(adapter: Adapter) {
  const api = axios.create({ adapter })
  attachAuth(api, createStaticTokenProvider({ value: 'the.one.token' }))
  return api
}

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
    expect(await rejectionOf(client(() => Promise.reject(fault)).get(url))).toBe(fault)
  })

  it('that is frozen, and its headers too, is the one that the caller gets', async () => {
    const config = { headers: Object.freeze({ Authorization: 'Bearer the.one.token' }) }
    const cause = Object.freeze(Object.assign(new Error('inner'), { config }))
    const fault = Object.freeze(new Error('the real fault', { cause }))
    expect(await rejectionOf(client(() => Promise.reject(fault)).get(url))).toBe(fault)
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
    expect(inspect(error, { depth: 9 })).not.toContain('the.one.token')
    expect(headers).toEqual({ Authorization: 'Basic own' })
    expect(copied).toEqual({})
  })

  it.each([HERE, ELSEWHERE])(
    'gets one listener, where a mock gives the same stream each time: %s',
    async (url) => {
      const data = new PassThrough()
      const api = client(async (config) => ({
        status: 200,
        statusText: '',
        data,
        headers: new AxiosHeaders(),
        config,
      }))
      for (let call = 0; call < 30; call += 1) await api.get(url, { responseType: 'stream' })
      expect(data.eventNames().reduce((sum, name) => sum + data.listenerCount(name), 0)).toBeLessThan(10)
    },
  )
})

describe('the causes of an error', () => {
  it.each([HERE, ELSEWHERE])('are hidden to the last, whatever those between are like: %s', async (url) => {
    const last = Object.assign(new Error('last'), { request: { secret: 'the.one.token' } })
    const between = new Error('between', { cause: last })
    const error = new Error('first', {
      cause: Object.assign(new Error('x', { cause: between }), { config: {} }),
    })
    expect(await rejectionOf(client(() => Promise.reject(error)).get(url))).toBe(error)
    expect(inspect(error, { depth: 9 })).not.toContain('the.one.token')
    expect(last.request.secret).toBe('the.one.token')
  })

  it('keep the headers of Requests that are not ours', async () => {
    const request = new Request(ELSEWHERE, { headers: { authorization: 'Basic own' } })
    const error = new Error('first', { cause: Object.assign(new Error('x'), { request }) })
    await rejectionOf(client(() => Promise.reject(error)).get(HERE))
    expect(request.headers.get('authorization')).toBe('Basic own')
  })

  it("print node's requests of calls without the token as they always did", async () => {
    const request = { path: '/x', getHeader: () => 'x' }
    const error = Object.assign(new Error('first'), { request })
    await rejectionOf(client(() => Promise.reject(error)).get(ELSEWHERE))
    expect(inspect(request)).toContain("path: '/x'")
  })

  it('print what somebody else calls a request as they always did', async () => {
    const request = { path: '/x' }
    await rejectionOf(client(() => Promise.reject(Object.assign(new Error('first'), { request }))).get(HERE))
    expect(inspect(request)).toBe("{ path: '/x' }")
    expect(Reflect.ownKeys(request)).toEqual(['path'])
  })
})

describe('a body that is kept', () => {
  it('leaves the Content-Type as the caller has it', async () => {
    const types: unknown[] = []
    const api = client(async (config) => {
      types.push(config.headers.getContentType())
      return { status: 200, statusText: '', data: '', headers: new AxiosHeaders(), config }
    })
    await api.post(HERE, Buffer.from('x'), { headers: { 'Content-Type': 'image/png' } })
    expect(types).toEqual(['image/png'])
  })
})

describe("a wait with a time-out and a signal of the platform's", () => {
  it('puts one listener on the signal, however many wait, and takes it off', async () => {
    const { signal } = new AbortController()
    const waits = Array.from({ length: 3 }, () => {
      return waitWithin(
        { headers: {}, timeout: 60_000, signal },
        { resolveAdapter: axios.getAdapter as never, rejectTimeout: () => Promise.reject(new Error('late')) },
        async () => {
          expect(getEventListeners(signal, 'abort')).toHaveLength(1)
        },
      )
    })
    await Promise.all(waits)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

// createAuthFetch treats every argument of its callers as the wrapped fetch does.
import { createAuthFetch } from 'merchant-auth'
import { Headers as UndiciHeaders, Request as UndiciRequest, fetch as undiciFetch } from 'undici'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Scripted, scripted } from '../support/ground.ts'
import { provided, token, untilAborted } from '../support/provided.ts'

const isToken = (pair: string): boolean => /^authorization: bearer current\.token/i.test(pair)

/** The headers of each request in their original case, and whether the token is among them. */
const seen: { readonly token: boolean; readonly [part: string]: unknown }[] = []
let server: Scripted
let api: string
beforeAll(async () => {
  server = await scripted(({ method, body }, response) => {
    const { rawHeaders } = response.req
    const pairs = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1]}`] : []))
    const headers = pairs.filter((pair) => !isToken(pair)).sort()
    seen.push({ method, headers, body: String(body), token: pairs.some(isToken) })
    response.end('fine')
  })
  api = `${server.url}/api`
})
afterAll(() => server[Symbol.asyncDispose]())
beforeEach(() => {
  seen.length = 0
})

async function outcomeOf(call: Promise<Response>): Promise<unknown> {
  try {
    const { status } = await call
    return { status, seen: seen.splice(0).map((one) => ({ ...one, token: undefined })) }
  } catch (error) {
    const { name, message } = error as Error
    return { name, message, seen: seen.splice(0) }
  }
}

const tokens = (current = true) =>
  provided({
    ...(current ? { current: token('current.token') } : {}),
    apiUrls: [api],
    get: async () => token('current.token'),
  })

class OverridingRequest extends Request {}
Object.defineProperties(OverridingRequest.prototype, {
  headers: { get: () => new Headers({ 'X-Shouted': '1' }) },
  method: { get: () => 'DELETE' },
})

/** Converts to a URL and has some members of a Request. */
class LookAlike {
  get bodyUsed() {
    return false
  }
  get body() {
    return 'x'
  }
  toString() {
    return api
  }
}

class OwnHeaders extends Headers {
  constructor(name: string) {
    super([[name, 'own']])
  }
}

const transferred = (): ArrayBuffer => {
  const buffer = new ArrayBuffer(8)
  structuredClone(buffer, { transfer: [buffer] })
  return buffer
}

type Args = [input: unknown, init?: unknown]
const post = (body: unknown): Args => [api, { method: 'POST', body }]
const withHeaders = (headers: unknown): Args => [api, { headers }]

const CALLS: Record<string, () => Args> = {
  'a Request': () => [new Request(api, { method: 'PUT', body: 'x', headers: { 'X-Mine': '1' } })],
  'a Request of a class that overrides headers and method': () => [
    new OverridingRequest(api, { method: 'PUT', headers: { 'X-Mine': '1' } }),
  ],
  'an object that looks like a Request': () => [{ url: api, headers: new Headers(), bodyUsed: false }],
  'an object of a class with members of a Request': () => [new LookAlike()],
  'an object with the prototype of Request': () => [Object.create(Request.prototype)],
  'a proxy of a Request': () => [new Proxy(new Request(api), {})],
  'a Request as init': () => [
    api,
    new Request('http://a.example', { method: 'PUT', body: 'x', headers: { 'X-Mine': '1' } }),
  ],
  'an init with getters of its class': () => [
    api,
    new (class {
      get method() {
        return 'PUT'
      }
    })(),
  ],
  'an init with inherited members': () => [api, Object.create({ method: 'PUT' })],
  'a proxy as init': () => [api, new Proxy({}, { get: (_, key) => (key === 'method' ? 'PUT' : undefined) })],
  'an init with members that are not enumerable': () => [
    api,
    Object.defineProperty({}, 'method', { value: 'PUT' }),
  ],
  'false as init': () => [api, false],
  'a signal that is not an AbortSignal': () => [api, { signal: { aborted: false } }],
  'a signal that is a number': () => [api, { signal: 1 }],
  'headers that are not iterable': () => withHeaders({ [Symbol.iterator]: undefined, 'X-Mine': '1' }),
  'null as init': () => [api, null],
  'a string as init': () => [api, 'text'],
  'headers that are null': () => withHeaders(null),
  'headers that are undefined': () => withHeaders(undefined),
  'headers that are a string': () => withHeaders('asd'),
  'headers that are a function': () => withHeaders(() => {}),
  'headers in a record': () => withHeaders(Object.freeze({ 'X-Mine': '1', 'x-Second': '2' })),
  'headers in Headers': () => withHeaders(new Headers({ 'X-Mine': '1', 'x-Second': '2' })),
  'headers in a subclass of Headers': () => withHeaders(new OwnHeaders('X-Mine')),
  'headers in pairs': () => withHeaders([['X-Mine', '1'], ['X-Mine', '2']]), // biome-ignore format: one line
  'headers in a Map': () => withHeaders(new Map([['X-Mine', '1']])),
  'headers in an iterator': () => withHeaders(new Map([['X-Mine', '1']]).entries()),
  'headers in pairs that are Sets': () => withHeaders([new Set(['X-Mine', '1'])]),
  'headers in a triple': () => withHeaders([['X-Mine', '1', '2']]),
  'headers with null instead of a pair': () => withHeaders([null]),
  'headers in a flat list of strings': () => withHeaders(['X-Mine', '1']),
  'headers with an invalid name': () => withHeaders({ 'X Mine': '1' }),
  'headers with a symbol as a name': () => withHeaders({ [Symbol('X-Mine')]: '1' }),
  'a detached ArrayBuffer as the body': () => post(transferred()),
  'a view of a detached ArrayBuffer as the body': () =>
    post(new Uint8Array(structuredClone(new ArrayBuffer(8))).fill(65)),
  'a detached Buffer as the body': () => {
    const buffer = Buffer.from(new ArrayBuffer(8))
    structuredClone(buffer.buffer, { transfer: [buffer.buffer] })
    return post(buffer)
  },
  'a Request whose body was read': () => {
    const request = new Request(api, { method: 'POST', body: 'once' })
    request.text()
    return [request]
  },
  'a locked stream as the body': () => {
    const stream = new Blob(['x']).stream()
    stream.getReader()
    return [api, { method: 'POST', body: stream, duplex: 'half' }]
  },
  'a body with members named like those of a stream': () => post({ pipe: 'p', on: 'monday', off: 'sunday' }),
  'a body with GET': () => [api, { body: 'x' }],
  'an invalid method': () => [api, { method: 'A B' }],
  'an invalid URL': () => ['not a url'],
  'a number as the URL': () => [7],
  'null as the URL': () => [null],
  'undefined as the URL': () => [undefined],
}

describe.each([
  ['with a cached token', true],
  ['that waits for a token', false],
] as const)('createAuthFetch %s', (_, current) => {
  it.each(Object.entries(CALLS))('treats %s as fetch does', async (name, args) => {
    const plain = await outcomeOf(fetch(...(args() as Parameters<typeof fetch>)))
    const call = createAuthFetch(tokens(current))(...(args() as Parameters<typeof fetch>))
    await call.catch(() => {})
    const hasToken = name !== 'headers that are a function' // fetch reads a function as a record of headers
    expect(seen.map(({ token: carried }) => carried)).toEqual(seen.map(() => hasToken))
    expect(await outcomeOf(call)).toEqual(plain)
  })
})

describe("createAuthFetch with undici's own fetch", () => {
  const ours = () => createAuthFetch(tokens(), { fetch: undiciFetch as unknown as typeof fetch })
  it.each<[string, () => Args]>([
    ['its Headers', () => withHeaders(new UndiciHeaders({ 'X-Mine': '1' }))],
    ['pairs', () => withHeaders([['X-Mine', '1']])],
    ['a record', () => withHeaders({ 'X-Mine': '1' })],
    ['its Request', () => [new UndiciRequest(api, { method: 'PUT', body: 'x', headers: { 'X-Mine': '1' } })]],
  ])('sends the header names in their original case, given %s', async (_, args) => {
    const plain = await outcomeOf(undiciFetch(...(args() as Parameters<typeof undiciFetch>)) as never)
    const call = ours()(...(args() as Parameters<typeof fetch>))
    await call
    expect(seen.map(({ token: carried }) => carried)).toEqual([true])
    expect(await outcomeOf(call)).toEqual(plain)
    expect(JSON.stringify(plain)).toContain('X-Mine: 1')
  })
})

describe('a Request whose url property differs from its real URL', () => {
  class MisleadingRequest extends Request {}
  Object.defineProperty(MisleadingRequest.prototype, 'url', { get: () => `${api}/claimed` })
  const requests: Record<string, (url: string) => Request> = {
    'by a getter of its class': (url) => new MisleadingRequest(url),
    'by a property of its own': (url) =>
      Object.defineProperty(new Request(url), 'url', { value: `${api}/claimed` }),
  }

  it.each(Object.entries(requests))(
    'gets no token if its real URL is not that of an API (%s)',
    async (_, request) => {
      const elsewhere = api.replace('/api', '/elsewhere')
      expect((await createAuthFetch(tokens())(request(elsewhere))).status).toBe(200)
      expect(seen.map(({ token: carried }) => carried)).toEqual([false])
    },
  )
})

describe('a body stream', () => {
  const made = () => {
    const cancel = vi.fn()
    return { cancel, body: new ReadableStream({ cancel }) }
  }
  const reason = new Error('not wanted')
  const hanging = () => provided({ apiUrls: [api], get: (wait) => untilAborted(wait?.signal) })
  const inits: Record<string, (body: ReadableStream, signal: AbortSignal) => Args> = {
    'of init': (body, signal) => [api, { method: 'POST', body, duplex: 'half', signal }],
    'of a Request': (body, signal) => [
      new Request(api, { method: 'POST', body, duplex: 'half', signal } as RequestInit),
    ],
  }

  it.each(
    Object.entries(inits).flatMap(([name, init]) =>
      ['before', 'during'].map((when) => [name, when, init] as const),
    ),
  )(
    'is canceled if the signal aborts: stream %s, signal aborted %s the wait for a token',
    async (_, when, init) => {
      const { cancel, body } = made()
      const abort = new AbortController()
      if (when === 'before') abort.abort(reason)
      const call = createAuthFetch(hanging())(...(init(body, abort.signal) as Parameters<typeof fetch>))
      abort.abort(reason)
      await expect(call).rejects.toBe(reason)
      await new Promise((resolve) => setImmediate(resolve))
      expect(cancel).toHaveBeenCalledTimes(1)
      expect(seen).toEqual([])
    },
  )
})

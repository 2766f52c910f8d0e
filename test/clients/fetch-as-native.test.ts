// Whatever a caller hands to fetch is taken as fetch takes it, with the token and without.
import { createAuthFetch } from 'merchant-auth'
import { Headers as UndiciHeaders, Request as UndiciRequest, fetch as undiciFetch } from 'undici'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Scripted, scripted } from '../support/ground.ts'
import { provided, token, untilAborted } from '../support/provided.ts'

const isToken = (pair: string): boolean => /^authorization: bearer current\.token/i.test(pair)

/** The headers of each request, as they were written, and whether the token is among them. */
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

class Shouting extends Request {}
Object.defineProperties(Shouting.prototype, {
  headers: { get: () => new Headers({ 'X-Shouted': '1' }) },
  method: { get: () => 'DELETE' },
})

/** It converts to a URL, and has some members of a Request. */
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
  'a Request of a class with other headers': () => [
    new Shouting(api, { method: 'PUT', headers: { 'X-Mine': '1' } }),
  ],
  'what only looks like a Request': () => [{ url: api, headers: new Headers(), bodyUsed: false }],
  'what has only the class of a Request': () => [new LookAlike()],
  'an object with the prototype of Request': () => [Object.create(Request.prototype)],
  'a proxy of a Request': () => [new Proxy(new Request(api), {})],
  'a Request as init': () => [
    api,
    new Request('http://a.example', { method: 'PUT', body: 'x', headers: { 'X-Mine': '1' } }),
  ],
  'an init by getters of its class': () => [
    api,
    new (class {
      get method() {
        return 'PUT'
      }
    })(),
  ],
  'an init that inherits': () => [api, Object.create({ method: 'PUT' })],
  'an init by a proxy': () => [
    api,
    new Proxy({}, { get: (_, key) => (key === 'method' ? 'PUT' : undefined) }),
  ],
  'an init that is not listed': () => [api, Object.defineProperty({}, 'method', { value: 'PUT' })],
  'init false': () => [api, false],
  'a signal that is none': () => [api, { signal: { aborted: false } }],
  'a signal 1': () => [api, { signal: 1 }],
  'headers that are not iterable': () => withHeaders({ [Symbol.iterator]: undefined, 'X-Mine': '1' }),
  'init null': () => [api, null],
  'init a text': () => [api, 'text'],
  'headers null': () => withHeaders(null),
  'headers undefined': () => withHeaders(undefined),
  'headers a text': () => withHeaders('asd'),
  'headers a function': () => withHeaders(() => {}),
  'headers a record': () => withHeaders(Object.freeze({ 'X-Mine': '1', 'x-Second': '2' })),
  'headers of a class': () => withHeaders(new Headers({ 'X-Mine': '1', 'x-Second': '2' })),
  'headers of a derived class': () => withHeaders(new OwnHeaders('X-Mine')),
  'headers in pairs': () => withHeaders([['X-Mine', '1'], ['X-Mine', '2']]), // biome-ignore format: one line
  'headers in a Map': () => withHeaders(new Map([['X-Mine', '1']])),
  'headers of a generator': () => withHeaders(new Map([['X-Mine', '1']]).entries()),
  'headers in pairs of sets': () => withHeaders([new Set(['X-Mine', '1'])]),
  'headers in a triple': () => withHeaders([['X-Mine', '1', '2']]),
  'headers with null for a pair': () => withHeaders([null]),
  'headers in texts': () => withHeaders(['X-Mine', '1']),
  'headers with a wrong name': () => withHeaders({ 'X Mine': '1' }),
  'headers with a symbol': () => withHeaders({ [Symbol('X-Mine')]: '1' }),
  'a detached ArrayBuffer': () => post(transferred()),
  'a detached view': () => post(new Uint8Array(structuredClone(new ArrayBuffer(8))).fill(65)),
  'a body of a detached Buffer': () => {
    const buffer = Buffer.from(new ArrayBuffer(8))
    structuredClone(buffer.buffer, { transfer: [buffer.buffer] })
    return post(buffer)
  },
  'a Request that is used up': () => {
    const request = new Request(api, { method: 'POST', body: 'once' })
    request.text()
    return [request]
  },
  'a body that is read already': () => {
    const stream = new Blob(['x']).stream()
    stream.getReader()
    return [api, { method: 'POST', body: stream, duplex: 'half' }]
  },
  'a body with the words of a stream': () => post({ pipe: 'p', on: 'monday', off: 'sunday' }),
  'a body with GET': () => [api, { body: 'x' }],
  'a wrong method': () => [api, { method: 'A B' }],
  'no URL': () => ['not a url'],
  'a number': () => [7],
  null: () => [null],
  nothing: () => [undefined],
}

describe.each([
  ['with a token', true],
  ['that waits for a token', false],
] as const)('a fetch %s', (_, current) => {
  it.each(Object.entries(CALLS))('takes %s as fetch does', async (name, args) => {
    const plain = await outcomeOf(fetch(...(args() as Parameters<typeof fetch>)))
    const call = createAuthFetch(tokens(current))(...(args() as Parameters<typeof fetch>))
    await call.catch(() => {})
    const isKnown = name !== 'headers a function' // which fetch takes for a record
    expect(seen.map(({ token: carried }) => carried)).toEqual(seen.map(() => isKnown))
    expect(await outcomeOf(call)).toEqual(plain)
  })
})

describe("undici's own fetch", () => {
  const ours = () => createAuthFetch(tokens(), { fetch: undiciFetch as unknown as typeof fetch })
  it.each<[string, () => Args]>([
    ['its Headers', () => withHeaders(new UndiciHeaders({ 'X-Mine': '1' }))],
    ['pairs', () => withHeaders([['X-Mine', '1']])],
    ['a record', () => withHeaders({ 'X-Mine': '1' })],
    ['its Request', () => [new UndiciRequest(api, { method: 'PUT', body: 'x', headers: { 'X-Mine': '1' } })]],
  ])('sends the names of headers as they were written, given %s', async (_, args) => {
    const plain = await outcomeOf(undiciFetch(...(args() as Parameters<typeof undiciFetch>)) as never)
    const call = ours()(...(args() as Parameters<typeof fetch>))
    await call
    expect(seen.map(({ token: carried }) => carried)).toEqual([true])
    expect(await outcomeOf(call)).toEqual(plain)
    expect(JSON.stringify(plain)).toContain('X-Mine: 1')
  })
})

describe('a Request whose url says something else than it is', () => {
  class Lying extends Request {}
  Object.defineProperty(Lying.prototype, 'url', { get: () => `${api}/claimed` })
  const requests: Record<string, (url: string) => Request> = {
    'by a getter of its class': (url) => new Lying(url),
    'by a property of its own': (url) =>
      Object.defineProperty(new Request(url), 'url', { value: `${api}/claimed` }),
  }

  it.each(Object.entries(requests))('gets no token for where it does not go (%s)', async (_, request) => {
    const elsewhere = api.replace('/api', '/elsewhere')
    expect((await createAuthFetch(tokens())(request(elsewhere))).status).toBe(200)
    expect(seen.map(({ token: carried }) => carried)).toEqual([false])
  })
})

describe('a body that is a stream', () => {
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
      ['before', 'in'].map((when) => [name, when, init] as const),
    ),
  )('is cancelled where the signal is aborted: %s, %s the wait for a token', async (_, when, init) => {
    const { cancel, body } = made()
    const abort = new AbortController()
    if (when === 'before') abort.abort(reason)
    const call = createAuthFetch(hanging())(...(init(body, abort.signal) as Parameters<typeof fetch>))
    abort.abort(reason)
    await expect(call).rejects.toBe(reason)
    await new Promise((resolve) => setImmediate(resolve))
    expect(cancel).toHaveBeenCalledTimes(1)
    expect(seen).toEqual([])
  })
})

// Requests of every class that a fetch has of its own: sent whole, again where they can be, and left as they are.
import { Agent } from 'node:http'
import { createRequire } from 'node:module'
import { PassThrough, Readable } from 'node:stream'
import FormDataPackage from 'form-data'
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import * as nodeFetch3 from 'node-fetch'
import * as undici8 from 'undici'
import * as undici6 from 'undici-6'
import * as undici7 from 'undici-7'
import { describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { rejectionOf, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import type { Scripted, Seen } from './world.ts'

const require = createRequire(import.meta.url) // for what has no types, or those of browsers

/** A fetch with its own classes. */
interface FetchOf {
  readonly fetch: typeof fetch
  readonly Request: typeof Request
  readonly FormData: typeof FormData
}

const nodeFetch = (of: typeof nodeFetch3, form: unknown) => ({
  fetch: of.default,
  Request: of.Request,
  FormData: form,
})
const FETCHES = {
  global: { fetch, Request, FormData },
  'undici 6': undici6,
  'undici 7': undici7,
  'undici 8': undici8,
  'node-fetch 3': nodeFetch(nodeFetch3, FormData),
  'node-fetch 3, form-data package': nodeFetch(nodeFetch3, FormDataPackage),
  'node-fetch 2': nodeFetch(require('node-fetch-2'), FormDataPackage),
  '@whatwg-node/fetch': require('@whatwg-node/fetch'),
} as unknown as Record<string, FetchOf>

const webStream = (): ReadableStream => new Blob(['a ', 'stream']).stream()
const BODIES: Record<string, (of: FetchOf, name: string) => unknown> = {
  none: () => undefined,
  string: () => 'zwölf €',
  bytes: () => Buffer.from([0xff, 0, 1]),
  form: ({ FormData }) => {
    const form = new FormData()
    form.append('amount', '12')
    return form
  },
  stream: (_, name) => (name.startsWith('node-fetch') ? Readable.fromWeb(webStream() as never) : webStream()),
}

type Arguments = Parameters<typeof fetch>
const ARGUMENTS: Record<string, (url: string, request: Request) => Arguments> = {
  'a Request': (_, request) => [request],
  'a URL and a Request': (url, request) => [url, request],
  'a URL and the members of a Request, as of gaxios': (url, request) => {
    const members: Record<string, unknown> = {}
    for (const name in request) members[name] = request[name as keyof Request]
    return [url, members]
  },
}

const ALL = Object.keys(BODIES)
/** The bodies of a Request that are sent again after a 401. */
const REPEATED: Record<string, readonly string[]> = {
  'node-fetch 3': ['none', 'string', 'bytes', 'form'],
  'node-fetch 3, form-data package': ['none', 'string', 'bytes'],
  'node-fetch 2': ['none', 'string', 'bytes'],
  '@whatwg-node/fetch': ['none'],
}

const TOKENS: Record<string, (apiUrls: readonly string[]) => TokenProvider> = {
  'the token there': (apiUrls) => provided({ current: token('first.token'), apiUrls }),
  'the token waited for': (apiUrls) => {
    const get = async () => {
      await settled()
      return token('first.token')
    }
    return provided({ get, apiUrls })
  },
}

/** What arrived, without the token, and with one boundary for all forms. */
function arrived({ method, rawHeaders, body }: Seen) {
  const headers = rawHeaders.flatMap((name, at) =>
    at % 2 === 0 && !/^authorization$/i.test(name) ? [`${name}: ${rawHeaders[at + 1]}`] : [],
  )
  const [, boundary] = /boundary=(\S+)/.exec(headers.join('\n')) ?? []
  const lines = [method, ...headers.sort(), body.toString('latin1')]
  return boundary === undefined ? lines : lines.map((line) => line.replaceAll(boundary, 'BOUNDARY'))
}

describe.each(Object.keys(FETCHES))('%s', (name) => {
  const of = FETCHES[name] as FetchOf
  const made = (server: Scripted, body: string): Request =>
    new of.Request(server.url, {
      method: 'PUT',
      headers: { [name === '@whatwg-node/fetch' ? 'x-mine' : 'X-Mine']: '1' }, // it keeps no case
      referrer: `${server.url}/page`,
      body: BODIES[body]?.(of, name) as string,
      duplex: 'half',
      agent: new Agent(), // of node-fetch
    } as RequestInit)

  // Of an object that @whatwg-node/fetch gets, it reads no body.
  const takes = Object.keys(ARGUMENTS).slice(0, name === '@whatwg-node/fetch' ? 2 : 3)
  const cases = takes.flatMap((args) => ALL.map((body) => [args, body] as const))
  describe.each(cases)('%s, body: %s', (given, body) => {
    const args = (server: Scripted, request: Request) => ARGUMENTS[given]?.(server.url, request) as Arguments
    const isWhole = given === 'a Request' || (given === 'a URL and a Request' && !(name in REPEATED))
    // Of an init they are streams, but for those of node-fetch 2.
    const repeated = isWhole || name === 'node-fetch 2' ? (REPEATED[name] ?? ALL) : ['none']
    const isRepeated = repeated.includes(body)

    it.each(Object.keys(TOKENS))('is sent as by its fetch, with %s', async (moment) => {
      await using server = await scripted((_, response) => response.end())
      await of.fetch(...args(server, made(server, body)))
      const request = made(server, body)
      const tokens = TOKENS[moment]?.([server.url]) as TokenProvider
      await createAuthFetch(tokens, { fetch: of.fetch })(...args(server, request))
      const [plain, ours] = server.seen
      expect(ours?.headers.authorization).toBe('Bearer first.token')
      expect(arrived(ours as Seen)).toEqual(arrived(plain as Seen))
      expect(server.seen).toHaveLength(2)
      expect(request.headers.has('authorization')).toBe(false)
    })

    it.each(Object.keys(TOKENS))(
      `is sent ${isRepeated ? 'again' : 'once'} after a 401, with %s`,
      async (moment) => {
        await using server = await scripted(({ headers }, response) => {
          response.writeHead(headers.authorization === 'Bearer first.token' ? 401 : 200).end()
        })
        const tokens = TOKENS[moment]?.([server.url]) as TokenProvider
        const { status } = await createAuthFetch(tokens, { fetch: of.fetch })(
          ...args(server, made(server, body)),
        )
        expect([status, server.seen.length]).toEqual(isRepeated ? [200, 2] : [401, 1])
        const [first, second = first] = server.seen
        expect(arrived(second as Seen)).toEqual(arrived(first as Seen))
      },
    )
  })
})

it.each([undefined, 'x'])(
  'a Request of a subclass is sent itself, and again after a 401: body %s',
  async (body) => {
    class StoreRequest extends Request {
      readonly store = '0042'
    }
    await using server = await scripted((_, response, nth) => response.writeHead(nth === 1 ? 401 : 200).end())
    const wrapped = vi.fn<typeof fetch>((...args) => fetch(...args))
    const request = new StoreRequest(server.url, {
      method: 'PUT',
      body: body ?? null,
      headers: { 'X-Mine': '1' },
    })
    const tokens = provided({ current: token('first.token'), apiUrls: [server.url] })
    expect((await createAuthFetch(tokens, { fetch: wrapped })(request)).status).toBe(200)
    expect(wrapped.mock.calls[0]?.[0]).toBe(request)
    const [first, second] = server.seen
    expect([first?.headers.authorization, String(first?.body)]).toEqual(['Bearer first.token', body ?? ''])
    expect(arrived(second as Seen)).toEqual(arrived(first as Seen))
  },
)

describe('a Request of node-fetch', () => {
  const URL_CALLED = 'https://api.test.example/merchant/x'

  it('is sent itself where it has a body, with the token in the init, and nothing of it is changed', async () => {
    const wrapped = vi.fn<typeof fetch>(async () => new Response('fine'))
    const request = new nodeFetch3.Request(URL_CALLED, {
      method: 'PUT',
      body: 'x',
      headers: { 'x-mine': '1' },
    })
    const { body } = request
    const authFetch = createAuthFetch(provided({ current: token('first.token') }), { fetch: wrapped })
    await authFetch(request as unknown as Request)
    const [[input, init] = []] = wrapped.mock.calls
    expect(input).toBe(request)
    expect([...new Headers(init?.headers)]).toEqual([
      ['authorization', 'Bearer first.token'],
      ['content-type', 'text/plain;charset=UTF-8'],
      ['x-mine', '1'],
    ])
    expect(Object.keys(init ?? {})).toEqual(['headers'])
    expect([request.headers.has('authorization'), request.body, request.bodyUsed]).toEqual([
      false,
      body,
      false,
    ])
  })

  it('fails its call with the error of its stream, which fails while the call waits for a token', async () => {
    await using server = await scripted((_, response) => response.end())
    const stream = new PassThrough()
    const get: TokenProvider['getToken'] = async () => {
      stream.destroy(new Error('cut off'))
      await settled()
      return token('first.token')
    }
    const { fetch, Request } = FETCHES['node-fetch 3'] as FetchOf
    const authFetch = createAuthFetch(provided({ get, apiUrls: [server.url] }), { fetch })
    const request = new Request(server.url, { method: 'POST', body: stream as never })
    expect(await rejectionOf(authFetch(request))).toMatchObject({
      message: expect.stringContaining('cut off'),
    })
  })
})

it.each([undici6, undici7, undici8])(
  'a dispatcher of a Request of undici sends it again after a 401',
  async (undici) => {
    await using server = await scripted((_, response, nth) => response.writeHead(nth === 1 ? 401 : 200).end())
    const dispatcher = new undici.Agent()
    const dispatch = vi.spyOn(dispatcher, 'dispatch')
    const { fetch, Request } = undici as unknown as FetchOf
    const init = { method: 'POST', body: 'x', dispatcher } as unknown as RequestInit
    const tokens = provided({ current: token('first.token'), apiUrls: [server.url] })
    expect((await createAuthFetch(tokens, { fetch })(new Request(server.url, init))).status).toBe(200)
    expect(dispatch).toHaveBeenCalledTimes(2)
    await dispatcher.close()
  },
)

it('a Request beside a Request is not cloned: nobody would read the clone, which keeps the whole body', async () => {
  const tokens = provided({ current: token('first.token'), apiUrls: ['https://api.example'] })
  const init = new Request('https://api.example', { method: 'POST', body: 'abc' })
  const clone = vi.spyOn(init, 'clone')
  const sent: string[] = []
  const wrapped: typeof fetch = async (...args) => {
    sent.push(await new Request(...args).text())
    return new Response()
  }
  await createAuthFetch(tokens, { fetch: wrapped })(new Request('https://api.example/orders'), init)
  expect([sent, clone.mock.calls.length]).toEqual([['abc'], 0])
})

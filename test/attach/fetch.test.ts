// What only createAuthFetch has: its arguments, redirect modes, bodies that nobody reads, and the global fetch.
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import v8 from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { TokenProvider } from 'merchant-auth'
import nock from 'nock'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { MAX_HELD_BYTES } from '../../src/attach/held-body.ts'
import { createAuthFetch } from '../../src/index.ts' // the wrapper of the tests is not found as the global fetch
import { settled } from '../support/clock.ts'
import { rejectionOf, scripted, until, useGround } from '../support/ground.ts'
import { problemsOf } from '../support/problems.ts'
import { provided, token, untilAborted } from '../support/provided.ts'

nock.restore() // its import replaces the global fetch

const URL_CALLED = 'https://api.test.example/merchant/x'
const ELSEWHERE = 'https://elsewhere.example/x'
const current = token('current.token')
const TOKENS = provided({ current })
const AUTHORIZATION = 'Bearer current.token'

/** A fetch that resolves with these responses in turn, then with a 200. */
function answering(...answers: Response[]) {
  return vi.fn<typeof fetch>(async () => answers.shift() ?? new Response('fine'))
}

/** What the wrapped fetch gets. */
async function argumentsFor(
  input: string | URL | Request,
  init?: RequestInit,
  attach: Parameters<typeof createAuthFetch>[1] = {},
) {
  const wrapped = answering()
  await createAuthFetch(TOKENS, { ...attach, fetch: wrapped })(input, init)
  const [target, final = {}] = wrapped.mock.calls[0] ?? []
  return { input: target, init: final }
}

it('a header of the caller that is undefined is replaced by the token, whatever its case', async () => {
  const { init } = await argumentsFor(URL_CALLED, {
    headers: { authorization: undefined, 'X-Mine': '1' } as never,
  })
  expect(init.headers).toEqual({ Authorization: AUTHORIZATION, 'X-Mine': '1' })
  expect(init.headers).not.toHaveProperty('authorization')
})

it('says what to do where there is no global fetch', async () => {
  const authFetch = createAuthFetch(TOKENS)
  vi.stubGlobal('fetch', undefined)
  const error = await rejectionOf(authFetch(URL_CALLED))
  vi.unstubAllGlobals()
  expect(error).toMatchObject({
    name: 'TypeError',
    message: expect.stringMatching(/no global fetch.*"node"/),
  })
})

it('createAuthFetch reports all invalid options in one error', () => {
  const invalid = { fetch: 1, header: '', other: 1 } as never
  const expected = ['tokens', 'header', 'fetch', 'other']
  expect(problemsOf(() => createAuthFetch({} as never, invalid))).toEqual(expected)
})

describe('a call is sent as the caller made it, and with the token, given', () => {
  const given = { method: 'PUT', body: 'x' }
  const headers = { 'X-Mine': '1' }
  const calls: Record<string, (url: string) => [string | URL | Request, RequestInit?]> = {
    'a string': (url) => [url, { ...given, headers }],
    'a URL': (url) => [new URL(url), { ...given, headers }],
    'a Request and an init': (url) => [new Request(url, { body: 'y', method: 'POST', headers }), given],
    'headers in pairs': (url) => [url, { ...given, headers: [['X-Mine', '1']] }],
    'headers in a Headers': (url) => [url, { ...given, headers: new Headers(headers) }],
  }
  it.each(Object.entries(calls))('%s', async (_, args) => {
    await using server = await scripted((_, response) => response.end())
    const authFetch = createAuthFetch(provided({ current, apiUrls: [server.url] }))
    expect((await authFetch(...args(`${server.url}/orders`))).status).toBe(200)
    const [{ method, path, headers, rawHeaders, body } = { headers: {}, body: '' } as never] = server.seen
    expect([method, path, String(body)]).toEqual(['PUT', '/orders', 'x'])
    expect(headers).toMatchObject({ 'x-mine': '1', authorization: AUTHORIZATION })
    expect(rawHeaders).toContain('X-Mine') // some servers know one case only
  })
})

describe('the wrapped fetch', () => {
  it('gets the arguments of the caller, and nothing more than the token', async () => {
    const headers = { Authorization: AUTHORIZATION }
    expect(await argumentsFor(URL_CALLED)).toStrictEqual({ input: URL_CALLED, init: { headers } })
    const init = { method: 'PUT', next: { revalidate: 60 } } as RequestInit // known to Next.js
    expect((await argumentsFor(URL_CALLED, init)).init).toStrictEqual({ ...init, headers })
    expect(init).not.toHaveProperty('headers')
  })

  it('gets an init of its own for each send', async () => {
    const seen: RequestInit[] = []
    const wrapped: typeof fetch = async (_input, init = {}) => {
      seen.push(init)
      Object.assign(init.headers ?? {}, { 'content-encoding': `gzip-${seen.length}` }) // as one that compresses
      return new Response('', { status: seen.length === 1 ? 401 : 200 })
    }
    await createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED, { method: 'PUT', body: 'x' })
    expect(seen.map(({ headers }) => headers)).toEqual([
      { Authorization: AUTHORIZATION, 'content-encoding': 'gzip-1' },
      { Authorization: 'Bearer second.token', 'content-encoding': 'gzip-2' },
    ])
  })

  describe('of a Request', () => {
    const given: RequestInit = { headers: { 'x-mine': '1' }, redirect: 'manual', method: 'PUT' }
    const sent = async (request: Request, init?: RequestInit) => {
      const wrapped = answering()
      await createAuthFetch(TOKENS, { fetch: wrapped })(...([request, ...(init ? [init] : [])] as const))
      return wrapped.mock.calls[0] ?? []
    }

    it('gets a Request alone, with the token and everything that the caller’s has', async () => {
      const abort = new AbortController()
      const request = new Request(URL_CALLED, { ...given, body: 'x', signal: abort.signal })
      const args = await sent(request)
      expect(args).toHaveLength(1)
      const [{ url, method, headers, redirect, signal }] = args as [Request]
      expect([url, method, redirect]).toEqual([URL_CALLED, 'PUT', 'manual'])
      expect([...headers]).toEqual([
        ['authorization', AUTHORIZATION],
        ['content-type', 'text/plain;charset=UTF-8'],
        ['x-mine', '1'],
      ])
      abort.abort()
      expect(signal.aborted).toBe(true)
      expect(request.headers.has('authorization')).toBe(false)
    })

    it('gets the rest of the init, which has members that no Request has', async () => {
      const init = { next: { revalidate: 60 }, proxy: 'http://proxy.example' } as RequestInit
      const [input, options] = await sent(new Request(URL_CALLED, given), init)
      expect((input as Request).headers.get('authorization')).toBe(AUTHORIZATION)
      expect(options).toEqual(init)
      expect(options).not.toBe(init)
    })
  })

  it('gets the headers of the init in place of those of a Request', async () => {
    const request = new Request(URL_CALLED, { headers: { authorization: 'Own one' } })
    const { init } = await argumentsFor(request, { headers: { a: 'b' } })
    expect(init.headers).toEqual({ a: 'b', Authorization: AUTHORIZATION })
  })

  it.each<[string, NonNullable<RequestInit['headers']>]>([
    ['a record', { aUTHORIZATION: 'Own one' }],
    ['pairs', [['aUTHORIZATION', 'Own one']]],
    ['a Headers', new Headers({ aUTHORIZATION: 'Own one' })],
  ])('gets the caller’s own arguments if Authorization is in %s', async (_, headers) => {
    const init = { headers }
    expect((await argumentsFor(URL_CALLED, init)).init).toBe(init)
    const request = new Request(URL_CALLED, init)
    expect(await argumentsFor(request)).toEqual({ input: request, init: {} })
  })

  const elsewhere: Parameters<typeof fetch>[] = [
    [ELSEWHERE],
    [new URL(ELSEWHERE), { headers: { a: 'b' } }],
    [new Request(ELSEWHERE)],
    [new Request(ELSEWHERE), undefined],
    [ELSEWHERE, new Request(ELSEWHERE)],
  ]
  it.each(elsewhere)('gets exactly the caller’s own arguments for another URL: %o %o', async (...args) => {
    const wrapped = answering()
    await createAuthFetch(TOKENS, { fetch: wrapped })(...args)
    expect(wrapped.mock.calls).toEqual([args])
    expect(wrapped.mock.calls[0]?.every((value, at) => value === args[at])).toBe(true)
  })

  it.each([URL_CALLED, ELSEWHERE])('may be a mock that returns no promise, for %s', async (url) => {
    const response = new Response('mocked')
    const authFetch = createAuthFetch(TOKENS, { fetch: (() => response) as never })
    expect(await authFetch(url)).toBe(response)
    expect(await authFetch(new Request(url))).toBe(response)
  })

  it.each([URL_CALLED, ELSEWHERE])('may be a mock that returns nothing, for %s', async (url) => {
    const authFetch = createAuthFetch(TOKENS, { fetch: vi.fn() })
    expect([await authFetch(url), await authFetch(new Request(url))]).toEqual([undefined, undefined])
  })

  it.each(['follow', 'manual', 'error'] as const)('gets the redirect mode %s', async (redirect) => {
    expect((await argumentsFor(URL_CALLED, { redirect })).init.redirect).toBe(redirect)
  })

  const custom = { header: 'X-Access', scheme: '' }
  it('follows no redirect with a token in another header than Authorization', async () => {
    expect((await argumentsFor(URL_CALLED, undefined, custom)).init.redirect).toBe('manual')
    expect((await argumentsFor(URL_CALLED, { redirect: 'follow' }, custom)).init.redirect).toBe('manual')
    expect((await argumentsFor(new Request(URL_CALLED), undefined, custom)).init.redirect).toBe('manual')
  })

  it('still rejects a redirect with a token in another header if the caller asks for that', async () => {
    expect((await argumentsFor(URL_CALLED, { redirect: 'error' }, custom)).init.redirect).toBe('error')
    const request = new Request(URL_CALLED, { redirect: 'error' })
    expect((await argumentsFor(request, undefined, custom)).init.redirect).toBeUndefined()
  })

  it('may be a mock whose responses have neither headers nor body', async () => {
    const wrapped = answering({ status: 401 } as Response, { status: 200 } as Response)
    expect(await createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED)).toEqual({ status: 200 })
  })

  it('has its responses and errors handed out as they are', async () => {
    const [response, failure] = [new Response('own'), new TypeError('own failure')]
    const wrapped = vi.fn<typeof fetch>().mockResolvedValueOnce(response).mockRejectedValueOnce(failure)
    const authFetch = createAuthFetch(TOKENS, { fetch: wrapped })
    expect(await authFetch(URL_CALLED)).toBe(response)
    expect(await rejectionOf(authFetch(URL_CALLED))).toBe(failure)
  })
})

it.each<[string, () => Parameters<typeof fetch>]>([
  ['an invalid URL', () => ['not a url']],
  ['a GET with a body', () => [URL_CALLED, { body: 'x' }]],
  ['an invalid header name', () => [URL_CALLED, { headers: { 'X Mine': '1' } }]],
  ['an invalid header name in a list', () => [URL_CALLED, { headers: [['X Mine', '1']] }]],
  [
    'a Request whose body was read',
    () => {
      const request = new Request(URL_CALLED, { method: 'POST', body: 'once' })
      request.text()
      return [request]
    },
  ],
])('%s is rejected as by fetch itself', async (_, args) => {
  const { name, message } = (await rejectionOf(fetch(...args()))) as Error
  expect(await rejectionOf(createAuthFetch(TOKENS)(...args()))).toMatchObject({ name, message })
})

describe.each([
  ['for its first token', undefined],
  ['for the renewal', current],
])('a call that waits %s', (_, cached) => {
  it('is sent with the URL, the headers and the method that it was made with', async () => {
    const pending = Promise.withResolvers<typeof current>()
    const wait = () => pending.promise
    const tokens = provided({ get: wait, renew: wait, ...(cached && { current: cached }) })
    const wrapped = answering(...(cached ? [401, 401].map((status) => new Response('', { status })) : []))
    const authFetch = createAuthFetch(tokens, { fetch: wrapped })
    const [url, headers, init] = [new URL(URL_CALLED), { 'idempotency-key': '' }, { method: 'PUT' }]
    const calls = ['1', '2'].map((nth) => {
      url.pathname = `/merchant/${nth}`
      headers['idempotency-key'] = nth
      return authFetch(url, Object.assign(init, { headers }))
    })
    Object.assign(init, { method: 'DELETE', headers: {} })
    await settled()
    pending.resolve(token('late.token'))
    await Promise.all(calls)
    const sent = wrapped.mock.calls.slice(-2).map(([input, { method, headers } = {}]) => {
      return [String(input), method, new Headers(headers).get('idempotency-key')]
    })
    expect(sent).toEqual([
      ['https://api.test.example/merchant/1', 'PUT', '1'],
      ['https://api.test.example/merchant/2', 'PUT', '2'],
    ])
  })
})

describe('the wait for a token', () => {
  const waiting = () => createAuthFetch(provided({ get: (wait) => untilAborted(wait?.signal) }))
  const reason = new Error('gone')
  const aborted = () => AbortSignal.abort(reason)
  const { signal: other } = new AbortController()

  it('is ended by the signal of a Request', async () => {
    const request = new Request(URL_CALLED, { signal: aborted() })
    expect(await rejectionOf(waiting()(request))).toBe(reason)
  })

  it('is ended by the signal of the init, which replaces that of a Request', async () => {
    const request = new Request(URL_CALLED, { signal: other })
    expect(await rejectionOf(waiting()(request, { signal: aborted() }))).toBe(reason)
  })

  it.each([null, other])(
    'is not ended by the signal of a Request if the init has another one: %o',
    async (signal) => {
      const abort = new AbortController()
      const request = new Request(URL_CALLED, { signal: abort.signal })
      const call = waiting()(request, { signal })
      abort.abort(reason)
      expect(await Promise.race([call.catch(() => 'ended'), settled()])).toBeUndefined()
    },
  )

  const streams: Record<string, (body: ReadableStream, signal: AbortSignal) => Parameters<typeof fetch>> = {
    'an init': (body, signal) => [URL_CALLED, { method: 'POST', body, duplex: 'half', signal }],
    'a Request': (body, signal) => [
      new Request(URL_CALLED, { method: 'POST', body, duplex: 'half', signal } as RequestInit),
    ],
    'an init in place of that of a Request': (body, signal) => [
      new Request(URL_CALLED, { method: 'POST', body: 'not this one' }),
      { body, duplex: 'half', signal },
    ],
  }
  it.each(Object.entries(streams))('cancels the body stream of %s if it is aborted', async (_, args) => {
    const [cancel, abort] = [vi.fn(), new AbortController()]
    const call = waiting()(...args(new ReadableStream({ cancel }), abort.signal))
    abort.abort(reason)
    expect(await rejectionOf(call)).toBe(reason)
    await settled()
    expect(cancel).toHaveBeenCalledOnce()
  })
})

describe('the body of a Request', () => {
  it('is canceled at its source if the wrapped fetch cancels it and no second send needs it', async () => {
    const cancel = vi.fn()
    const body = new ReadableStream({ cancel })
    const request = new Request(URL_CALLED, { method: 'POST', body, duplex: 'half' } as RequestInit)
    const wrapped: typeof fetch = async (input) => {
      void (input as Request).body?.cancel()
      return new Response('fine')
    }
    await createAuthFetch(TOKENS, { fetch: wrapped })(request)
    await settled()
    expect(cancel).toHaveBeenCalledOnce()
  })

  it.each([
    ['the first send', [401], 1],
    ['the first send, and no second one could follow', [], 1],
    ['the second send', [401], 2],
  ])(
    'is canceled at its source if the wrapped fetch rejects before it reads: %s',
    async (_, statuses, nth) => {
      const [cancel, failure] = [vi.fn(), new Error('the circuit is open')]
      let sends = 0
      const wrapped: typeof fetch = async (input) => {
        sends += 1
        if (sends === nth) throw failure
        void (input as Request).body?.cancel()
        return new Response('', { status: 401 })
      }
      const body = new ReadableStream({ cancel })
      const request = new Request(URL_CALLED, { method: 'POST', body, duplex: 'half' } as RequestInit)
      const authFetch = createAuthFetch(TOKENS, { fetch: wrapped, renewOnStatus: statuses })
      expect(await rejectionOf(authFetch(request))).toBe(failure)
      await settled()
      expect(cancel).toHaveBeenCalledOnce()
    },
  )

  it('is still there when the call has ended, for a mocked fetch that keeps the Requests', async () => {
    const requests: Request[] = []
    const wrapped: typeof fetch = async (input) => {
      requests.push(input as Request)
      return new Response('', { status: requests.length === 1 ? 401 : 200 })
    }
    const request = new Request(URL_CALLED, { method: 'POST', body: 'x' })
    await createAuthFetch(TOKENS, { fetch: wrapped })(request)
    expect(await Promise.all(requests.map((sent) => sent.text()))).toEqual(['x', 'x'])
  })

  it('is not kept if renewOnStatus is empty', async () => {
    const request = new Request(URL_CALLED, { method: 'POST', body: 'x' })
    const clone = vi.spyOn(request, 'clone')
    await argumentsFor(request, undefined, { renewOnStatus: [] })
    expect(clone).not.toHaveBeenCalled()
  })
})

it.each<[string, RequestInit | undefined]>([
  ['PUT', undefined],
  ['DELETE', { method: 'DELETE' }],
])('the method of a rejected Request is reported: %s', async (method, init) => {
  const renew = vi.fn<TokenProvider['renewToken']>(async () => undefined)
  const authFetch = createAuthFetch(provided({ current, renew }), {
    fetch: answering(new Response('', { status: 401 })),
  })
  await authFetch(new Request(URL_CALLED, { method: 'PUT' }), init)
  expect(renew.mock.calls[0]?.[1]).toMatchObject({ url: URL_CALLED, method })
})

describe('the body of a 401', () => {
  const CHUNK_BYTES = 1024
  const MOST_CHUNKS = MAX_HELD_BYTES / CHUNK_BYTES

  /** A 401 with chunks of these sizes, and what became of its body. */
  function rejected(sizes: readonly number[], length?: number) {
    const seen = { read: 0, end: '' }
    const remaining = [...sizes]
    const body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          const size = remaining.shift()
          if (size === undefined) {
            seen.end = 'drained'
            controller.close()
          } else {
            seen.read += size
            controller.enqueue(new Uint8Array(size))
          }
        },
        cancel: () => {
          seen.end = 'canceled'
        },
      },
      { highWaterMark: 0 },
    )
    const headers: Record<string, string> = length === undefined ? {} : { 'content-length': String(length) }
    return { seen, response: new Response(body, { status: 401, headers }) }
  }
  const chunks = (count: number) => Array<number>(count).fill(CHUNK_BYTES)

  it.each([
    ['read to its end if it is empty', 0, 'drained'],
    ['read to its end if it is just small enough', MOST_CHUNKS, 'drained'],
  ])('that is not handed out is %s', async (_, size, end) => {
    const { seen, response } = rejected(chunks(size))
    const authFetch = createAuthFetch(TOKENS, { fetch: answering(response) })
    expect(await (await authFetch(URL_CALLED)).text()).toBe('fine')
    await until(() => seen.end !== '')
    expect(seen).toEqual({ read: size * CHUNK_BYTES, end })
  })

  it('that is not handed out is canceled if too much arrives after the renewal', async () => {
    const { seen, response } = rejected(chunks(5 * MOST_CHUNKS))
    const authFetch = createAuthFetch(TOKENS, { fetch: answering(response) })
    expect(await (await authFetch(URL_CALLED)).text()).toBe('fine')
    await until(() => seen.end !== '')
    expect(seen).toEqual({ read: expect.closeTo(MAX_HELD_BYTES, -4), end: 'canceled' })
  })

  it('is handed out unread, and not copied, if it announces too much', async () => {
    const { seen, response } = rejected(chunks(1), MAX_HELD_BYTES + 1)
    const wrapped = answering(response)
    expect(await createAuthFetch(TOKENS, { fetch: wrapped })(URL_CALLED)).toBe(response)
    expect([seen, wrapped.mock.calls.length]).toEqual([{ read: 0, end: '' }, 1])
  })

  it('that is not handed out is canceled after 1 s if it does not arrive', async () => {
    const cancel = vi.fn()
    const response = new Response(new ReadableStream({ cancel }), { status: 401 })
    const calledAt = performance.now()
    expect((await createAuthFetch(TOKENS, { fetch: answering(response) })(URL_CALLED)).status).toBe(200)
    expect(cancel).not.toHaveBeenCalled()
    await until(() => cancel.mock.calls.length === 1)
    expect(performance.now() - calledAt).toBeGreaterThan(990) // a timer may be a few milliseconds early
  })

  it('may be missing although a content-length announces it, as after HEAD', async () => {
    const response = new Response(null, { status: 401, headers: { 'content-length': '100000' } })
    const authFetch = createAuthFetch(TOKENS, { fetch: answering(response) })
    expect((await authFetch(URL_CALLED, { method: 'HEAD' })).status).toBe(200)
  })

  it('is whole, in the response of the wrapped fetch itself, if the renewal fails', async () => {
    await using api = await scripted((_, response) => {
      if (api.seen.length === 1) response.writeHead(307, { location: '/other' }).end()
      else response.writeHead(401).end(Buffer.alloc(100 * CHUNK_BYTES, 'x'))
    })
    const renewing = vi.fn(() => Promise.reject(new Error('no token')))
    const tokens = provided({ current, renew: renewing, apiUrls: [api.url] })
    let own: Response | undefined
    const wrapped: typeof fetch = async (...args) => (own = await fetch(...args))
    const response = await createAuthFetch(tokens, { fetch: wrapped })(api.url)
    expect(response).toBe(own)
    expect([response.url, response.redirected]).toEqual([`${api.url}/other`, true])
    expect((await response.text()).length).toBe(100 * CHUNK_BYTES)
  })

  it('is freed if the caller aborts during the renewal', async () => {
    const { seen, response } = rejected(chunks(100), 100 * CHUNK_BYTES)
    const [abort, renewing] = [new AbortController(), Promise.withResolvers<void>()]
    const renew: TokenProvider['renewToken'] = (_, wait) => {
      renewing.resolve()
      return untilAborted(wait?.signal)
    }
    const authFetch = createAuthFetch(provided({ current, renew }), { fetch: answering(response) })
    const call = authFetch(URL_CALLED, { signal: abort.signal })
    await renewing.promise
    abort.abort('enough')
    expect(await rejectionOf(call)).toBe('enough')
    await until(() => seen.end !== '')
  })

  it('may break off while its call waits: the call is repeated nevertheless', async () => {
    const { response } = rejected(chunks(2))
    const [source, renewed] = [new TransformStream<Uint8Array>(), Promise.withResolvers<void>()]
    const broken = new Response(source.readable, response)
    const writer = source.writable.getWriter()
    const renew: TokenProvider['renewToken'] = async () => {
      writer.abort(new Error('broken off')).catch(() => {})
      await renewed.promise
      return token('second.token')
    }
    const call = createAuthFetch(provided({ current, renew }), { fetch: answering(broken) })(URL_CALLED)
    await settled(20)
    renewed.resolve()
    expect((await call).status).toBe(200)
  })

  it('may be a stream of Node.js that fails, as with node-fetch', async () => {
    const body = new Readable({ read() {} })
    const listeners: number[] = []
    const renew: TokenProvider['renewToken'] = async () => {
      listeners.push(body.listenerCount('error'))
      return token('second.token')
    }
    const answer = { status: 401, headers: new Headers(), body } as unknown as Response
    const authFetch = createAuthFetch(provided({ current, renew }), { fetch: answering(answer) })
    expect((await authFetch(URL_CALLED)).status).toBe(200)
    expect(listeners).toEqual([1]) // without one, an error ends the process
  })

  it('is left to the wrapped fetch if that is reading it', async () => {
    const { response } = rejected(chunks(1))
    const wrapped: typeof fetch = async () => {
      response.body?.getReader() // as one that logs
      return response
    }
    const tokens = provided({ current, renew: async () => undefined })
    expect(await createAuthFetch(tokens, { fetch: wrapped })(URL_CALLED)).toBe(response)
  })
})

describe('the signal of a Request, after garbage collections,', () => {
  // Node.js forgets the signal of a Request to which nobody refers.
  const collect = async () => {
    v8.setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    for (let times = 0; times < 5; times += 1) {
      await settled(5)
      collectGarbage()
    }
  }
  const slow = (response: ServerResponse) => response.writeHead(200).write('half')
  const calls: Record<string, (nth: number, response: ServerResponse) => unknown> = {
    'before the response': () => {},
    'while the body arrives': (_, response) => slow(response),
    'before the response to the second send': (nth, response) => nth === 1 && response.writeHead(401).end(),
    'while the body of the second response arrives': (nth, response) =>
      nth === 1 ? response.writeHead(401).end() : slow(response),
  }
  it.each(Object.entries(calls))('aborts %s', async (_, answer) => {
    await using api = await scripted((__, response, nth) => answer(nth, response))
    const authFetch = createAuthFetch(provided({ current, apiUrls: [api.url] }))
    const abort = new AbortController()
    const request = new Request(api.url, { method: 'POST', body: 'x', signal: abort.signal })
    const text = rejectionOf(authFetch(request).then((response) => response.text()))
    const sends = Object.keys(calls).indexOf(_) < 2 ? 1 : 2
    await until(() => api.seen.length === sends)
    await collect()
    abort.abort()
    expect(await text).toMatchObject({ name: 'AbortError' })
    expect(request.signal.aborted).toBe(true) // the caller still has it
  })
})

describe('the global fetch', () => {
  const ground = useGround()
  const native = globalThis.fetch
  const network = vi.fn<typeof fetch>(async () => new Response('answer'))
  beforeEach(() => {
    network.mockClear()
    globalThis.fetch = network
  })
  afterEach(() => {
    globalThis.fetch = native
  })
  const sent = () =>
    network.mock.calls.map(([input, init]) => [
      input,
      new Headers(init?.headers).get('authorization') ?? 'no token',
    ])

  it('is looked up at each call', async () => {
    const authFetch = createAuthFetch(TOKENS)
    globalThis.fetch = async () => new Response('mocked later')
    expect(await (await authFetch(URL_CALLED)).text()).toBe('mocked later')
    globalThis.fetch = network
    expect(await (await authFetch(URL_CALLED)).text()).toBe('answer')
  })

  it('may be replaced by nock after createAuthFetch was called', async () => {
    globalThis.fetch = native
    const authFetch = createAuthFetch(TOKENS)
    nock.activate()
    try {
      nock('https://api.test.example', { reqheaders: { authorization: AUTHORIZATION } })
        .get('/merchant/x')
        .reply(200, 'by nock')
      expect(await (await authFetch(URL_CALLED)).text()).toBe('by nock')
    } finally {
      nock.restore()
    }
  })

  it.each<[string, () => typeof fetch]>([
    ['createAuthFetch(tokens)', () => createAuthFetch(TOKENS)],
    [
      'createAuthFetch(tokens, { fetch: globalThis.fetch })',
      () => createAuthFetch(TOKENS, { fetch: network }),
    ],
  ])('may be replaced by %s, which sends each call once', async (_, make) => {
    globalThis.fetch = make()
    await Promise.all([fetch(URL_CALLED), fetch(ELSEWHERE)])
    await fetch(URL_CALLED)
    expect(sent()).toEqual([
      [URL_CALLED, AUTHORIZATION],
      [ELSEWHERE, 'no token'],
      [URL_CALLED, AUTHORIZATION],
    ])
  })

  it('may be wrapped again, at once if createAuthFetch got it, or later', async () => {
    const explicit = createAuthFetch(TOKENS, { fetch: globalThis.fetch })
    globalThis.fetch = (path, init) => explicit(`https://api.test.example${path}`, init)
    await fetch('/merchant/1')
    globalThis.fetch = network
    const implicit = createAuthFetch(TOKENS)
    globalThis.fetch = implicit
    await settled()
    globalThis.fetch = (path, init) => implicit(`https://api.test.example${path}`, init)
    await fetch('/merchant/2')
    expect(sent()).toEqual([
      ['https://api.test.example/merchant/1', AUTHORIZATION],
      ['https://api.test.example/merchant/2', AUTHORIZATION],
    ])
  })

  it('may be replaced by two, one above the other, each of which sends to its own API', async () => {
    globalThis.fetch = createAuthFetch(TOKENS)
    await settled()
    const other = provided({ current: token('other.token'), apiUrls: ['https://other.example'] })
    globalThis.fetch = createAuthFetch(other)
    await fetch(URL_CALLED)
    await fetch('https://other.example/x')
    expect(sent()).toEqual([
      [URL_CALLED, AUTHORIZATION],
      ['https://other.example/x', 'Bearer other.token'],
    ])
  })

  it('that attaches the token of a provider sends its token request without one', async () => {
    globalThis.fetch = native
    const { environment } = ground.env
    const apiUrls = [environment.authUrl, ...Object.values(environment.apiUrls)]
    const tokens = ground.provider({ environment: { ...environment, apiUrls } })
    globalThis.fetch = createAuthFetch(tokens)
    expect((await fetch(ground.env.merchantUrl)).status).toBe(200)
    expect(ground.env.requests('token')[0]?.headers).not.toHaveProperty('authorization')
  })
})

// Which calls of undici's get the token, what is sent, and what only undici has of renewals.
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { AccessToken } from 'merchant-auth'
import { Agent, Client, type Dispatcher, errors, FormData, fetch, pipeline, request, stream } from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { scripted, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { rig } from '../token/harness.ts'
import {
  agentFor,
  agentWith,
  at,
  closing,
  createAuthDispatch,
  held,
  NotingHandler,
  notedCall,
  noting,
  passedOn,
} from './undici-calls.ts'

const ground = useGround()
const url = (path = '/orders') => ground.env.merchantUrl + path

describe('a call of undici’s', () => {
  it('carries the token, by request, fetch, stream and pipeline', async () => {
    const dispatcher = agentWith(createAuthDispatch(ground.tokens))
    const asked = await request(url('/r?a=1'), { dispatcher, method: 'POST', body: 'x' })
    expect(asked.statusCode).toBe(200)
    expect(await asked.body.json()).toMatchObject({ api: 'merchant', body: 'x' })
    expect((await fetch(url('/f'), { dispatcher, method: 'POST', body: 'y' })).status).toBe(200)
    const sink = new PassThrough()
    await stream(url('/s'), { dispatcher, method: 'GET' }, ({ statusCode }) => {
      expect(statusCode).toBe(200)
      return sink
    })
    expect(JSON.parse(String(await buffer(sink)))).toMatchObject({ api: 'merchant' })
    const piped = pipeline(url('/p'), { dispatcher, method: 'PUT' }, ({ body }) => body)
    expect(JSON.parse(String(await buffer(Readable.from([Buffer.from('z')]).pipe(piped))))).toMatchObject({
      body: 'z',
    })
    expect(ground.env.counts).toMatchObject({ token: 1, unauthorized: 0 })
  })

  it('is made at once with a token at hand, and says what the dispatcher says', () => {
    const { seen, returned, headers } = passedOn({})
    expect(seen).toHaveLength(1)
    expect(returned).toBe(false)
    expect(headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('may be made by a Client', async () => {
    const { origin, pathname } = new URL(url())
    const client = closing(new Client(origin)).compose(createAuthDispatch(ground.tokens))
    const { statusCode } = await client.request({ origin, path: pathname, method: 'GET' })
    expect(statusCode).toBe(200)
  })

  it('shows an Agent’s factory the origin as it was given', async () => {
    const given: unknown[] = []
    const factory = (origin: string | URL, options: object) => {
      given.push(origin)
      return new Client(origin, options)
    }
    const dispatcher = closing(new Agent({ factory })).compose(createAuthDispatch(ground.tokens))
    const { origin, pathname: path } = new URL(url())
    for (const one of [new URL(origin), origin])
      await dispatcher.request({ origin: one, path, method: 'GET' })
    expect(given).toEqual([new URL(origin), origin])
    expect(given[0]).toBeInstanceOf(URL)
  })

  it('is left to undici where it is malformed', async () => {
    const dispatcher = agentWith(createAuthDispatch(held()))
    const noted = new NotingHandler()
    dispatcher.dispatch(undefined as never, noted)
    expect(noted.error).toBeInstanceOf(errors.InvalidArgumentError)
    const given = { origin: at, path: '/merchant/x', method: 'GET' } as const
    expect(() => dispatcher.dispatch(given, {})).toThrow(errors.InvalidArgumentError)
    expect(() => dispatcher.dispatch(given, null as never)).toThrow(errors.InvalidArgumentError)
  })

  it.each([
    [{ a: '1' }, { a: '1', Authorization: 'Bearer late.token' }],
    [['a', '1'], ['a', '1', 'Authorization', 'Bearer late.token']], // biome-ignore format: one line
  ])('is the one that was asked for, although it waited for a token: %o', async (headers, expected) => {
    const { promise, resolve: give } = Promise.withResolvers<AccessToken>()
    const tokens = provided({ apiUrls: [`${at}/merchant`], get: () => promise })
    const given = { origin: new URL(at), headers, query: { q: '1' } }
    const { seen, returned, handler } = passedOn(given, tokens)
    expect([returned, seen.length, handler.events]).toEqual([true, 0, ['start']])
    Object.assign(given.headers, Array.isArray(headers) ? ['b', '2'] : { a: '2' })
    given.query.q = '2'
    given.origin.host = 'evil.example'
    give(token('late.token'))
    await expect.poll(() => seen.length).toBe(1)
    expect(String(seen[0]?.options.origin)).toBe(`${at}/`)
    expect(seen[0]?.options).toMatchObject({ headers: expected, query: { q: '1' } })
  })

  it('fails at once where its handler throws before there is a token', () => {
    const get = vi.fn(async () => token('late.token'))
    const noted = new NotingHandler()
    noted.onRequestStart = () => {
      throw new Error('no')
    }
    const dispatcher = agentWith(createAuthDispatch(provided({ apiUrls: [at], get })))
    dispatcher.dispatch({ origin: at, path: '/', method: 'GET' }, noted)
    expect([noted.error?.message, get.mock.calls.length]).toEqual(['no', 0])
  })

  it('fails where the dispatch throws after the wait', async () => {
    const tokens = provided({ apiUrls: [at] })
    const dispatch = createAuthDispatch(tokens)((() => {
      throw new Error('no')
    }) as never) as Dispatcher['dispatch']
    const noted = new NotingHandler()
    expect(dispatch({ origin: at, path: '/', method: 'GET' }, noted)).toBe(true)
    await noted.ended
    expect(noted.error?.message).toBe('no')
  })

  it('fails where the dispatch of the repeated call throws', async () => {
    await using server = await scripted((_, response) => void response.writeHead(401).end())
    let calls = 0
    const failing: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
      calls += 1
      if (calls === 2) throw new Error('no')
      return dispatch(options, handler)
    }
    const tokens = provided({
      current: token('first.token'),
      apiUrls: [server.url],
      renew: async () => token('second.token'),
    })
    const noted = await notedCall(agentWith(failing, createAuthDispatch(tokens)), server.url)
    expect([noted.error?.message, calls]).toEqual(['no', 2])
  })

  it('rejects wrong options', () => {
    expect(() => createAuthDispatch(ground.tokens, { header: 'a b' })).toThrow(/header/)
    expect(() => createAuthDispatch({} as never)).toThrow(/tokens/)
  })

  it('shows interim answers', async () => {
    await using server = await scripted((_, response) => {
      response.writeEarlyHints({ link: '</a>; rel=preload' })
      response.end('done')
    })
    const infos: number[] = []
    const { statusCode } = await request(server.url, {
      dispatcher: agentFor({ apiUrls: [server.url] }),
      onInfo: ({ statusCode: status }) => infos.push(status),
    })
    expect([statusCode, infos]).toEqual([200, [103]])
  })

  it('has a controller whose raw headers and trailers can be replaced, as those of undici’s can', async () => {
    await using server = await scripted((_, response) => void response.end('done'))
    const { promise, resolve: give } = Promise.withResolvers<AccessToken>()
    const dispatcher = agentWith(createAuthDispatch(provided({ apiUrls: [server.url], get: () => promise })))
    const seen: unknown[] = []
    const replace = (controller: Dispatcher.DispatchController): void => {
      for (const key of ['rawHeaders', 'rawTrailers'] as const) {
        Reflect.set(controller, key, ['replaced'])
        seen.push(controller[key])
      }
    }
    const noted = new NotingHandler(replace)
    const call = notedCall(dispatcher, server.url, noted)
    replace(noted.controller as Dispatcher.DispatchController) // there is nothing to replace yet
    give(token('late.token'))
    await call
    expect(seen).toEqual([undefined, undefined, ['replaced'], ['replaced']])
  })

  it.each(['a cached token', 'a wait, and a renewal'])(
    'gives raw headers where they are asked for: %s',
    async (how) => {
      await using server = await scripted(({ headers }, response) => {
        const isFirst = headers.authorization === 'Bearer first.token'
        response.writeHead(isFirst ? 401 : 200, { 'X-Mine': 'b' }).end('done')
      })
      const tokens = provided({
        apiUrls: [server.url],
        ...(how === 'a cached token' && { current: token('a.token') }),
      })
      const dispatcher = agentWith(createAuthDispatch(tokens))
      const { statusCode, headers } = await request(server.url, { dispatcher, responseHeaders: 'raw' })
      expect(statusCode).toBe(200)
      expect(Object.values(headers).map(String)).toContain('X-Mine')
    },
  )

  it.each([[['a', 'b']], [{ a: 'b' }]])(
    'shows an interceptor below only its own copies: %o',
    async (given) => {
      const seen: Dispatcher.DispatchOptions[] = []
      const dispatcher = agentWith(noting(seen), createAuthDispatch(ground.tokens))
      await ground.tokens.getToken()
      ground.env.revoke()
      const { origin, pathname } = new URL(url())
      const headers = Object.freeze(structuredClone(given))
      const options = { origin, path: pathname, method: 'GET', headers } as const
      await dispatcher.request(Object.freeze(options) as never)
      expect(seen[0]).not.toBe(options)
      expect(headers).toEqual(given)
      expect(new Set(seen.map((one) => String(Object.values(one.headers ?? {})))).size).toBe(2) // a token each
    },
  )
})

describe('the destination of a call', () => {
  it.each<[string, object]>([
    ['dot segments', { path: '/merchant/../x' }],
    ['dot segments that lead in', { path: '/x/../merchant/y' }],
    ['a dot segment that changes nothing', { path: '/merchant/./y' }],
    ['encoded dot segments', { path: '/merchant/%2e%2e/x' }],
    ['a backslash', { path: '/merchant/a\\..\\b' }],
    ['an encoded slash', { path: '/merchant/..%2fx' }],
    ['a fragment, which undici would send', { path: '/merchant#/../x' }],
    ['a double slash', { path: '//merchant/x' }],
    ['an absolute form', { path: `${at}/merchant/x` }],
    ['user info as path', { path: '@evil.example/merchant/x' }],
    ['no path', { path: undefined }],
    ['no origin', { origin: undefined }],
    ['a CONNECT', { method: 'CONNECT', path: '/merchant/x' }],
    ['user info', { origin: 'http://a:b@api.example' }],
  ])('goes untouched, with an event, with %s', (_, options) => {
    const given = { origin: at, path: '/merchant/x', method: 'GET', ...options }
    const { provider, events } = rig([], {
      environment: { ...held().environment, allowInsecureRequests: true },
    })
    const passed: unknown[] = []
    const dispatch = createAuthDispatch(provider)((...all: never[]) => {
      passed.push(...all)
      return true
    }) as unknown as (...all: unknown[]) => boolean
    const handler = new NotingHandler()
    expect(dispatch(given, handler)).toBe(true)
    expect(passed[0]).toBe(given)
    expect(passed[1]).toBe(handler)
    expect(events).toMatchObject([{ type: 'token-withheld' }])
  })

  it.each<[string, object]>([
    ['a query apart', { query: { a: '../b' } }],
    ['a URL as origin', { origin: new URL(at) }],
    ['a slash after the origin', { origin: `${at}/` }],
    ['another spelling of the origin', { origin: 'HTTP://API.example:80' }],
  ])('has the token with %s', (_, options) => {
    expect(passedOn(options).headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('has the token of a provider without a token endpoint', () => {
    const { environment, ...rest } = held()
    const tokens = { ...rest, environment: { ...environment, authUrl: '' } }
    expect(JSON.stringify(passedOn({}, tokens).headers)).toContain('the.one.token')
  })

  it.each([
    [at, true],
    ['http://evil.example', false],
    [null, false],
  ])(
    'has no token where the dispatcher is connected to another place, or to one of several: %s',
    (connected, has) => {
      const { dispatch, tokensSent } = interceptor(connected)
      dispatch(to(at), new NotingHandler())
      expect(tokensSent()).toEqual([has])
    },
  )
})

/** A dispatch with the token, of a dispatcher that says where it is connected, or does not; and what it lets through. */
function interceptor(connected?: string | null) {
  const sent: Dispatcher.DispatchOptions[] = []
  const intercept = createAuthDispatch(held()) as (...given: unknown[]) => unknown
  const dispatch = intercept((options: never) => sent.push(options), connected) as Dispatcher['dispatch']
  const tokensSent = () => sent.map(({ headers }) => JSON.stringify(headers ?? {}).includes('the.one.token'))
  return { dispatch, tokensSent }
}

const to = (origin: string | undefined) =>
  ({ origin, path: '/merchant/x', method: 'GET' }) as Dispatcher.DispatchOptions

describe('where a dispatcher does not say where it is connected', () => {
  it.each(['http://elsewhere.example', undefined])(
    'a call that was redirected from %s gets no token',
    (origin) => {
      const { dispatch, tokensSent } = interceptor()
      const handler = new NotingHandler() // undici's redirect interceptor makes the next call with the same one
      dispatch(to(origin), handler)
      dispatch(to(at), handler)
      expect(tokensSent()).toEqual([false, false])
    },
  )

  it('a call that is made again, and others, get it', () => {
    const { dispatch, tokensSent } = interceptor()
    const handler = new NotingHandler()
    dispatch(to(at), handler)
    dispatch(to(at), handler)
    dispatch(to(at), new NotingHandler())
    expect(tokensSent()).toEqual([true, true, true])
  })
})

async function revoked(): Promise<Dispatcher> {
  await ground.tokens.getToken()
  ground.env.revoke()
  return agentWith(createAuthDispatch(ground.tokens))
}

const form = (): FormData => {
  const data = new FormData()
  data.append('a', 'x')
  data.append('file', new File(['content'], 'f.bin'))
  return data
}
describe('a 401 on undici', () => {
  it('is answered by a repeat of a form, with a boundary of its own', async () => {
    const { statusCode } = await request(url(), { dispatcher: await revoked(), method: 'POST', body: form() })
    expect(statusCode).toBe(200)
    const [first, second] = ground.sent().map(({ body, headers }) => {
      const boundary = headers['content-type']?.split('boundary=')[1] ?? 'none'
      return String(body).replaceAll(boundary, 'BOUNDARY')
    })
    expect(first).toContain('content')
    expect(second).toBe(first)
  })

  it('is the caller’s of pipeline, and of fetch with a body', async () => {
    const dispatcher = await revoked()
    const statuses: number[] = []
    const piped = pipeline(url(), { dispatcher, method: 'POST' }, ({ statusCode, body }) => {
      statuses.push(statusCode)
      return body
    })
    piped.end('piped').resume()
    await new Promise((resolve) => piped.on('end', resolve))
    ground.env.revoke()
    expect((await fetch(url(), { dispatcher, method: 'POST', body: 'x' })).status).toBe(401)
    expect(statuses).toEqual([401])
  })

  it('of a fetch without a body is answered by a repeat', async () => {
    expect((await fetch(url(), { dispatcher: await revoked() })).status).toBe(200)
    expect(ground.sent()).toHaveLength(2)
  })

  it('does not reach the handler when the call is made again: it sees one answer', async () => {
    const dispatcher = await revoked()
    const noted = await notedCall(dispatcher, url())
    expect(noted.events).toEqual(['start', 'start', 'answer 200', 'end'])
    expect(noted.body).not.toContain('invalid_token')
  })
})

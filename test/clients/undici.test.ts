// createAuthDispatch: which undici calls carry the token, what undici sends, and the renewals that only undici has.
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { AccessToken } from 'merchant-auth'
import { Agent, Client, type Dispatcher, errors, FormData, fetch, pipeline, request, stream } from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { scripted, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { rig } from '../token/harness.ts'
import {
  agentWith,
  agentWithToken,
  autoDestroyed,
  createAuthDispatch,
  dispatched,
  ORIGIN,
  providerWithToken,
  RecordingHandler,
  recordedCall,
  recordingInterceptor,
} from './undici-calls.ts'

const ground = useGround()
const url = (path = '/orders') => ground.env.merchantUrl + path

describe('an undici call', () => {
  it('carries the token with request, fetch, stream and pipeline', async () => {
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

  it('is dispatched synchronously with a cached token and returns what the dispatcher returns', () => {
    const { seen, returned, headers } = dispatched({})
    expect(seen).toHaveLength(1)
    expect(returned).toBe(false)
    expect(headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('carries the token when a Client makes it', async () => {
    const { origin, pathname } = new URL(url())
    const client = autoDestroyed(new Client(origin)).compose(createAuthDispatch(ground.tokens))
    const { statusCode } = await client.request({ origin, path: pathname, method: 'GET' })
    expect(statusCode).toBe(200)
  })

  it('passes the origin to an Agent’s factory unchanged', async () => {
    const given: unknown[] = []
    const factory = (origin: string | URL, options: object) => {
      given.push(origin)
      return new Client(origin, options)
    }
    const dispatcher = autoDestroyed(new Agent({ factory })).compose(createAuthDispatch(ground.tokens))
    const { origin, pathname: path } = new URL(url())
    for (const one of [new URL(origin), origin])
      await dispatcher.request({ origin: one, path, method: 'GET' })
    expect(given).toEqual([new URL(origin), origin])
    expect(given[0]).toBeInstanceOf(URL)
  })

  it('gets undici’s own error for malformed arguments', async () => {
    const dispatcher = agentWith(createAuthDispatch(providerWithToken()))
    const recorded = new RecordingHandler()
    dispatcher.dispatch(undefined as never, recorded)
    expect(recorded.error).toBeInstanceOf(errors.InvalidArgumentError)
    const given = { origin: ORIGIN, path: '/merchant/x', method: 'GET' } as const
    expect(() => dispatcher.dispatch(given, {})).toThrow(errors.InvalidArgumentError)
    expect(() => dispatcher.dispatch(given, null as never)).toThrow(errors.InvalidArgumentError)
  })

  it.each([
    [{ a: '1' }, { a: '1', Authorization: 'Bearer late.token' }],
    [['a', '1'], ['a', '1', 'Authorization', 'Bearer late.token']], // biome-ignore format: one line
  ])(
    'ignores changes that the caller makes to its options while it waits for a token: %o',
    async (headers, expected) => {
      const { promise, resolve: give } = Promise.withResolvers<AccessToken>()
      const tokens = provided({ apiUrls: [`${ORIGIN}/merchant`], get: () => promise })
      const given = { origin: new URL(ORIGIN), headers, query: { q: '1' } }
      const { seen, returned, handler } = dispatched(given, tokens)
      expect([returned, seen.length, handler.events]).toEqual([true, 0, ['start']])
      Object.assign(given.headers, Array.isArray(headers) ? ['b', '2'] : { a: '2' })
      given.query.q = '2'
      given.origin.host = 'evil.example'
      give(token('late.token'))
      await expect.poll(() => seen.length).toBe(1)
      expect(String(seen[0]?.options.origin)).toBe(`${ORIGIN}/`)
      expect(seen[0]?.options).toMatchObject({ headers: expected, query: { q: '1' } })
    },
  )

  it('fails without requesting a token if its handler throws in onRequestStart', () => {
    const get = vi.fn(async () => token('late.token'))
    const recorded = new RecordingHandler()
    recorded.onRequestStart = () => {
      throw new Error('no')
    }
    const dispatcher = agentWith(createAuthDispatch(provided({ apiUrls: [ORIGIN], get })))
    dispatcher.dispatch({ origin: ORIGIN, path: '/', method: 'GET' }, recorded)
    expect([recorded.error?.message, get.mock.calls.length]).toEqual(['no', 0])
  })

  it('fails if the dispatch throws after the wait for a token', async () => {
    const tokens = provided({ apiUrls: [ORIGIN] })
    const dispatch = createAuthDispatch(tokens)((() => {
      throw new Error('no')
    }) as never) as Dispatcher['dispatch']
    const recorded = new RecordingHandler()
    expect(dispatch({ origin: ORIGIN, path: '/', method: 'GET' }, recorded)).toBe(true)
    await recorded.ended
    expect(recorded.error?.message).toBe('no')
  })

  it('fails if the dispatch of the repeated call throws', async () => {
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
    const recorded = await recordedCall(agentWith(failing, createAuthDispatch(tokens)), server.url)
    expect([recorded.error?.message, calls]).toEqual(['no', 2])
  })

  it('needs valid options: createAuthDispatch throws for invalid ones', () => {
    expect(() => createAuthDispatch(ground.tokens, { header: 'a b' })).toThrow(/header/)
    expect(() => createAuthDispatch({} as never)).toThrow(/tokens/)
  })

  it('passes informational (1xx) responses to the caller', async () => {
    await using server = await scripted((_, response) => {
      response.writeEarlyHints({ link: '</a>; rel=preload' })
      response.end('done')
    })
    const infos: number[] = []
    const { statusCode } = await request(server.url, {
      dispatcher: agentWithToken({ apiUrls: [server.url] }),
      onInfo: ({ statusCode: status }) => infos.push(status),
    })
    expect([statusCode, infos]).toEqual([200, [103]])
  })

  it('has a controller whose raw headers and trailers can be replaced, like undici’s own', async () => {
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
    const recorded = new RecordingHandler(replace)
    const call = recordedCall(dispatcher, server.url, recorded)
    replace(recorded.controller as Dispatcher.DispatchController) // no response yet: the call still waits for a token
    give(token('late.token'))
    await call
    expect(seen).toEqual([undefined, undefined, ['replaced'], ['replaced']])
  })

  it.each(['with a cached token', 'after a wait and a renewal'])(
    'returns raw headers if the caller asks for them: %s',
    async (how) => {
      await using server = await scripted(({ headers }, response) => {
        const isFirst = headers.authorization === 'Bearer first.token'
        response.writeHead(isFirst ? 401 : 200, { 'X-Mine': 'b' }).end('done')
      })
      const tokens = provided({
        apiUrls: [server.url],
        ...(how === 'with a cached token' && { current: token('a.token') }),
      })
      const dispatcher = agentWith(createAuthDispatch(tokens))
      const { statusCode, headers } = await request(server.url, { dispatcher, responseHeaders: 'raw' })
      expect(statusCode).toBe(200)
      expect(Object.values(headers).map(String)).toContain('X-Mine')
    },
  )

  it.each([[['a', 'b']], [{ a: 'b' }]])(
    'passes copies of the caller’s options to the interceptors below it: %o',
    async (given) => {
      const seen: Dispatcher.DispatchOptions[] = []
      const dispatcher = agentWith(recordingInterceptor(seen), createAuthDispatch(ground.tokens))
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

describe('an undici call, by its destination,', () => {
  const USER_INFO = { origin: 'http://a:b@api.example' }
  it.each<[string, object]>([
    ['dot segments', { path: '/merchant/../x' }],
    ['dot segments that lead into the API', { path: '/x/../merchant/y' }],
    ['a dot segment that changes nothing', { path: '/merchant/./y' }],
    ['encoded dot segments', { path: '/merchant/%2e%2e/x' }],
    ['a backslash', { path: '/merchant/a\\..\\b' }],
    ['an encoded slash', { path: '/merchant/..%2fx' }],
    ['a fragment, which undici would send', { path: '/merchant#/../x' }],
    ['a double slash', { path: '//merchant/x' }],
    ['an absolute form', { path: `${ORIGIN}/merchant/x` }],
    ['user info as the path', { path: '@evil.example/merchant/x' }],
    ['a path that completes the port', { origin: `${ORIGIN}:8`, path: '0/merchant/x' }],
    ['no path', { path: undefined }],
    ['no origin', { origin: undefined }],
    ['a CONNECT', { method: 'CONNECT', path: '/merchant/x' }],
    ['user info', USER_INFO],
  ])('gets no token and is dispatched unchanged, with an event: %s', (_, options) => {
    const given = { origin: ORIGIN, path: '/merchant/x', method: 'GET', ...options }
    const { provider, events } = rig([], {
      environment: { ...providerWithToken().environment, allowInsecureRequests: true },
    })
    const passed: unknown[] = []
    const dispatch = createAuthDispatch(provider)((...all: never[]) => {
      passed.push(...all)
      return true
    }) as unknown as (...all: unknown[]) => boolean
    const handler = new RecordingHandler()
    expect(dispatch(given, handler)).toBe(true)
    expect(passed[0]).toBe(given)
    expect(passed[1]).toBe(handler)
    const reason = options === USER_INFO ? 'own-credentials' : 'destination'
    expect(events).toMatchObject([{ type: 'token-withheld', reason }])
  })

  it.each<[string, object]>([
    ['a separate query option', { query: { a: '../b' } }],
    ['characters that URLs escape', { path: '/merchant/a"b|c' }],
    ['a URL as origin', { origin: new URL(ORIGIN) }],
    ['a slash after the origin', { origin: `${ORIGIN}/` }],
    ['another spelling of the origin', { origin: 'HTTP://API.example:80' }],
  ])('gets the token: %s', (_, options) => {
    expect(dispatched(options).headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('gets the token of a provider without a token endpoint', () => {
    const { environment, ...rest } = providerWithToken()
    const tokens = { ...rest, environment: { ...environment, authUrl: '' } }
    expect(JSON.stringify(dispatched({}, tokens).headers)).toContain('the.one.token')
  })

  it.each([
    [ORIGIN, true],
    ['http://evil.example', false],
    [null, false],
  ])('gets the token only if the dispatcher is connected to the API alone: %s', (connected, has) => {
    const { dispatch, tokensSent } = interceptor(connected)
    dispatch(to(ORIGIN), new RecordingHandler())
    expect(tokensSent()).toEqual([has])
  })
})

it('one undici handler gets the token on every dispatcher that is connected to an API alone', () => {
  const sent: Dispatcher.DispatchOptions[] = []
  const intercept = createAuthDispatch(
    provided({ current: token('the.one.token'), apiUrls: ['http://a.example', 'http://b.example'] }),
  ) as (...given: unknown[]) => Dispatcher['dispatch']
  const handler = new RecordingHandler()
  for (const connected of ['http://a.example', 'http://b.example'])
    intercept((options: never) => sent.push(options), connected)(to(undefined), handler)
  expect(sent.map(({ headers }) => headers)).toEqual(Array(2).fill({ Authorization: 'Bearer the.one.token' }))
})

/** A dispatch with the token, for a dispatcher that knows its origin or does not, and which dispatches carried the token. */
function interceptor(connected?: string | null) {
  const sent: Dispatcher.DispatchOptions[] = []
  const intercept = createAuthDispatch(providerWithToken()) as (...given: unknown[]) => unknown
  const dispatch = intercept((options: never) => sent.push(options), connected) as Dispatcher['dispatch']
  const tokensSent = () => sent.map(({ headers }) => JSON.stringify(headers ?? {}).includes('the.one.token'))
  return { dispatch, tokensSent }
}

const to = (origin: string | undefined) =>
  ({ origin, path: '/merchant/x', method: 'GET' }) as Dispatcher.DispatchOptions

describe('a dispatcher of unknown origin', () => {
  it.each(['http://elsewhere.example', undefined])(
    'sends no token with a call that was redirected from %s',
    (origin) => {
      const { dispatch, tokensSent } = interceptor()
      const handler = new RecordingHandler() // undici's redirect interceptor makes the next call with the same one
      dispatch(to(origin), handler)
      dispatch(to(ORIGIN), handler)
      expect(tokensSent()).toEqual([false, false])
    },
  )

  it('sends the token with other calls and with a call that is made again', () => {
    const { dispatch, tokensSent } = interceptor()
    const handler = new RecordingHandler()
    dispatch(to(ORIGIN), handler)
    dispatch(to(ORIGIN), handler)
    dispatch(to(ORIGIN), new RecordingHandler())
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
describe('a body of bytes on undici', () => {
  it.each([
    [[], true],
    [[401], false],
  ])('is the one that the caller gave with renewOnStatus %j: %s', (renewOnStatus, isSame) => {
    const body = Buffer.from('bytes')
    const { options } = dispatched({ method: 'POST', body }, undefined, { renewOnStatus })
    expect(options?.body === body).toBe(isSame)
    expect(options?.body).toEqual(body)
  })
})

describe('a 401 on undici', () => {
  it('leads to a repeat with the same form', async () => {
    const { statusCode } = await request(url(), { dispatcher: await revoked(), method: 'POST', body: form() })
    expect(statusCode).toBe(200)
    const [first, second] = ground.sent().map(({ body, headers }) => {
      const boundary = headers['content-type']?.split('boundary=')[1] ?? 'none'
      return String(body).replaceAll(boundary, 'BOUNDARY')
    })
    expect(first).toContain('content')
    expect(second).toBe(first)
  })

  it('is returned to the caller of pipeline, and of fetch with a body', async () => {
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

  it('leads to a repeat of a fetch without a body', async () => {
    expect((await fetch(url(), { dispatcher: await revoked() })).status).toBe(200)
    expect(ground.sent()).toHaveLength(2)
  })

  it('does not reach the handler if the call is repeated: the handler gets one response', async () => {
    const dispatcher = await revoked()
    const recorded = await recordedCall(dispatcher, url())
    expect(recorded.events).toEqual(['start', 'start', 'answer 200', 'end'])
    expect(recorded.body).not.toContain('invalid_token')
  })
})

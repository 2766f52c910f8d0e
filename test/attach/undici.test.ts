// createAuthDispatch: which undici calls carry the token, and what undici then sends.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { createServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { createAuthDispatch } from 'merchant-auth/undici'
import {
  Client,
  type Dispatcher,
  fetch,
  H2CClient,
  pipeline,
  RetryAgent,
  request,
  stream,
  upgrade,
} from 'undici'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { provided, token } from '../support/provided.ts'
import {
  agentWith,
  authFor,
  autoDestroyed,
  type Played,
  playedBy,
  RecordingHandler,
  startCall,
  tokensAt,
} from './undici-calls.ts'
import { failureOf, listening, scripted, until } from './world.ts'

const SENDERS: Record<string, (url: string, dispatcher: Dispatcher) => Promise<string>> = {
  request: async (url, dispatcher) =>
    (await request(url, { dispatcher, method: 'POST', body: 'x' })).body.text(),
  fetch: async (url, dispatcher) => (await fetch(url, { dispatcher, method: 'POST', body: 'x' })).text(),
  stream: async (url, dispatcher) => {
    const target = new PassThrough()
    await stream(url, { dispatcher, method: 'POST', body: 'x' }, () => target)
    return text(target)
  },
  pipeline: (url, dispatcher) =>
    text(pipeline(url, { dispatcher, method: 'POST' }, ({ body }) => body).end('x')),
}

describe('an undici call carries the token', () => {
  it.each(Object.entries(SENDERS))('with %s', async (_, send) => {
    await using api = await scripted(({ body }, response) => void response.end(body))
    expect(await send(api.url, agentWith(authFor(api)))).toBe('x')
    expect(tokensAt(api)).toEqual(['Bearer first.token'])
  })

  it.each(['below', 'above'])('with a RetryAgent %s the token', async (where) => {
    await using api = await scripted(
      (_, response, nth) => void response.writeHead(nth === 1 ? 503 : 200).end(),
    )
    const retrying = (agent: Dispatcher) => autoDestroyed(new RetryAgent(agent, { minTimeout: 1 }))
    const auth = authFor(api)
    const dispatcher = where === 'below' ? retrying(agentWith()).compose(auth) : retrying(agentWith(auth))
    expect((await request(api.url, { dispatcher })).statusCode).toBe(200)
    expect(tokensAt(api)).toEqual(['Bearer first.token', 'Bearer first.token'])
  })

  it('with a Client', async () => {
    await using api = await scripted((_, response) => response.end())
    const client = autoDestroyed(new Client(api.url)).compose(authFor(api))
    await client.request({ path: '/x', method: 'GET' })
    expect(tokensAt(api)).toEqual(['Bearer first.token'])
  })

  it('over HTTP/2, also when it is repeated after a 401', async () => {
    const seen: unknown[] = []
    const server = createHttp2Server(({ headers }, response) => {
      seen.push(headers.authorization)
      response.writeHead(seen.length === 1 ? 401 : 200).end('x')
    })
    await using api = await listening(server)
    const dispatcher = autoDestroyed(new H2CClient(api.url)).compose(authFor(api))
    const { statusCode, body } = await dispatcher.request({ origin: api.url, path: '/', method: 'GET' })
    expect([statusCode, await body.text()]).toEqual([200, 'x'])
    expect(seen).toEqual(['Bearer first.token', 'Bearer second.token'])
  })

  it('when it upgrades its connection', async () => {
    let authorization: unknown
    const server = createServer().on('upgrade', (incoming, socket) => {
      authorization = incoming.headers.authorization
      socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello')
    })
    await using api = await listening(server)
    const { socket } = await upgrade(api.url, { dispatcher: agentWith(authFor(api)), protocol: 'echo' })
    expect([await text(socket), authorization]).toEqual(['hello', 'Bearer first.token'])
  })
})

const ORIGIN = 'http://api.example'

/** Dispatches a call with these options, and returns what reaches undici. Nothing is sent. */
function dispatched(options: object, connected?: string | null) {
  const tokens = provided({ current: token('the.token'), apiUrls: [`${ORIGIN}/merchant`] })
  const passed: Dispatcher.DispatchOptions[] = []
  const stub = (given: Dispatcher.DispatchOptions) => {
    passed.push(given)
    return false
  }
  const intercept = createAuthDispatch(tokens) as (...of: unknown[]) => Dispatcher['dispatch']
  const given = { origin: ORIGIN, path: '/merchant/x', method: 'GET', ...options }
  const events: unknown[] = []
  const listen = (event: unknown) => events.push(event)
  subscribe('merchant-auth', listen)
  const returned = intercept(stub, connected)(given as never, new RecordingHandler())
  unsubscribe('merchant-auth', listen)
  return { given, events, returned, passed, headers: passed[0]?.headers }
}

const ATTACHED = { Authorization: 'Bearer the.token' }
const PAIRS = [
  ['a', '1'],
  ['a', '2'],
  ['b', '3'],
]

describe('an undici call with a cached token', () => {
  it('is dispatched at once, and returns what the dispatcher returns', () => {
    const { passed, returned } = dispatched({})
    expect([passed.length, returned]).toEqual([1, false])
  })

  it.each([
    ['no headers', undefined, ATTACHED],
    ['null', null, ATTACHED],
    ['a record', { a: '1', b: ['2', '3'] }, { a: '1', b: ['2', '3'], ...ATTACHED }],
    [
      'another name of the same length',
      { 'cache-control': 'no-store' },
      { 'cache-control': 'no-store', ...ATTACHED },
    ],
    ['a flat list', ['a', '1'], ['a', '1', 'Authorization', 'Bearer the.token']],
    [
      'its name as a value in a list',
      ['a', 'authorization'],
      ['a', 'authorization', 'Authorization', 'Bearer the.token'],
    ],
    [
      'an undefined value in a list',
      ['a', '1', 'authorization', undefined, 'b', '2'],
      ['a', '1', 'b', '2', 'Authorization', 'Bearer the.token'],
    ],
    ['a Map', new Map([['a', '1']]), { a: '1', ...ATTACHED }],
    ['Headers', new Headers({ a: '1' }), { a: '1', ...ATTACHED }],
    ['a generator', [['a', '1']].values(), { a: '1', ...ATTACHED }],
    ['pairs', PAIRS, { a: ['1', '2'], b: '3', ...ATTACHED }],
    ['an undefined value', { authorization: undefined }, { authorization: undefined, ...ATTACHED }],
  ])('gets it as one more header: %s', (_, headers, expected) => {
    expect(dispatched({ headers }).headers).toEqual(expected)
  })

  it.each([
    ['a record', { AUTHORIZATION: 'mine' }, { AUTHORIZATION: 'mine' }],
    [
      'a record with another spelling of it that is undefined',
      { authorization: undefined, Authorization: 'mine' },
      { authorization: undefined, Authorization: 'mine' },
    ],
    ['a flat list', ['a', '1', 'authorization', 'mine'], ['a', '1', 'authorization', 'mine']],
    [
      'a flat list that has it twice, the first time undefined',
      ['authorization', undefined, 'authorization', 'mine'],
      ['authorization', undefined, 'authorization', 'mine'],
    ],
    ['a Map', new Map([['Authorization', 'mine']]), { Authorization: 'mine' }],
    ['Headers', new Headers({ authorization: 'mine' }), { authorization: 'mine' }],
    ['a generator', [['authorization', 'mine']].values(), { authorization: 'mine' }],
    ['pairs', [['authorization', 'mine']], { authorization: 'mine' }],
  ])('keeps a header of its own: %s', (_, headers, expected) => {
    const { headers: sent, events } = dispatched({ headers })
    expect(sent).toEqual(expected)
    expect(events).toMatchObject([{ type: 'token-withheld', reason: 'own-header' }])
  })

  it('leaves the options of the caller unchanged', () => {
    const headers = Object.freeze({ a: '1' })
    const { given } = dispatched({ headers })
    expect(given).toEqual({ origin: ORIGIN, path: '/merchant/x', method: 'GET', headers: { a: '1' } })
  })
})

describe('an undici call, by what is sent,', () => {
  it.each<[string, object]>([
    ['dot segments', { path: '/merchant/../x' }],
    ['dot segments that lead into the API', { path: '/x/../merchant/y' }],
    ['a dot segment at the end', { path: '/merchant/..' }],
    ['a dot segment at the end that stays in the API', { path: '/merchant/x/..' }],
    ['a dot segment before the query', { path: '/merchant/..?a' }],
    ['encoded dot segments', { path: '/merchant/%2e%2E/x' }],
    ['a half encoded dot segment', { path: '/merchant/.%2e/x' }],
    ['a backslash', { path: '/merchant/a\\..\\b' }],
    ['an encoded slash', { path: '/merchant/..%2fx' }],
    ['a fragment, which undici would send', { path: '/merchant/x#y' }],
    ['a fragment with dot segments', { path: '/merchant#/../x' }],
    ['a double slash', { path: '//merchant/x' }],
    ['an absolute URL as the path', { path: `${ORIGIN}/merchant/x` }],
    ['a path that completes the port', { origin: `${ORIGIN}:8`, path: '0/merchant/x' }],
    ['no origin', { origin: undefined }],
    ['no origin, and a URL of the API as the path', { origin: undefined, path: `${ORIGIN}/merchant/x` }],
    ['a CONNECT', { method: 'CONNECT' }],
  ])('gets no token and is dispatched unchanged, with an event: %s', (_, options) => {
    const { given, passed, events } = dispatched(options)
    expect(passed).toEqual([given])
    expect(events).toMatchObject([{ type: 'token-withheld', reason: 'destination' }])
  })

  it('gets no token with user info in its origin', () => {
    const { headers, events } = dispatched({ origin: 'http://a:b@api.example' })
    expect(headers).toBeUndefined()
    expect(events).toMatchObject([{ type: 'token-withheld', reason: 'own-credentials' }])
  })

  it.each<[string, object]>([
    ['dots in a name', { path: '/merchant/.well-known/a..b' }],
    ['dot segments in the query', { path: '/merchant/x?to=/../y\\#' }],
    ['characters that URLs escape', { path: '/merchant/a"b|c' }],
    ['such characters, and dot segments in the query', { path: '/merchant/a|b?to=/../y\\#' }],
    ['a URL as the origin', { origin: new URL(ORIGIN) }],
    ['a slash after the origin', { origin: `${ORIGIN}/` }],
    ['another spelling of the origin', { origin: 'HTTP://API.example:80' }],
  ])('gets the token: %s', (_, options) => {
    expect(dispatched(options).headers).toEqual(ATTACHED)
  })

  it.each([
    ['the API, whatever origin the call names', ORIGIN, {}, ATTACHED],
    ['another host, though the call names the API', 'http://elsewhere.example', {}, undefined],
    ['one of several origins', null, {}, undefined],
  ])('is judged by where its dispatcher is connected: %s', (_, connected, options, expected) => {
    const origin = connected === ORIGIN ? 'http://elsewhere.example' : ORIGIN
    expect(dispatched({ origin, ...options }, connected).headers).toEqual(expected)
  })

  it('is judged by its own origin and path, whatever those of the call before', () => {
    const sent: unknown[] = []
    const tokens = provided({ current: token('the.token'), apiUrls: [`${ORIGIN}/merchant`] })
    const dispatch = (createAuthDispatch(tokens) as (...of: unknown[]) => Dispatcher['dispatch'])(
      ({ headers }: Dispatcher.DispatchOptions) => sent.push(headers),
    )
    const call = (origin: string, path: string) =>
      dispatch({ origin, path, method: 'GET' }, new RecordingHandler() as never)
    call(ORIGIN, '/merchant/x')
    call('http://elsewhere.example', '/merchant/x')
    call(ORIGIN, '/merchant/x')
    call(ORIGIN, '/merchant/x')
    call('', `${ORIGIN}/merchant/x`) // for a proxy, which would see the token
    call(ORIGIN, '/x')
    expect(sent).toEqual([ATTACHED, undefined, ATTACHED, ATTACHED, undefined, undefined])
  })
})

it('an undici handler gets the same callbacks as without the token', async () => {
  await using api = await scripted((_, response) => void response.end('data'))
  const callbacksWith = async (dispatcher: Dispatcher) => {
    const called: string[] = []
    const ended = Promise.withResolvers<void>()
    const note = (name: string) => () => void called.push(name)
    dispatcher.dispatch(
      { origin: api.url, path: '/', method: 'POST', body: 'x' },
      {
        onRequestStart: note('onRequestStart'),
        onBodySent: note('onBodySent'),
        onRequestSent: note('onRequestSent'),
        onResponseStarted: note('onResponseStarted'),
        onResponseStart: note('onResponseStart'),
        onResponseData: note('onResponseData'),
        onResponseEnd: () => ended.resolve(),
        onResponseError: (_, error) => ended.reject(error),
      },
    )
    await ended.promise
    return called
  }
  const expected = [
    'onRequestStart',
    'onBodySent',
    'onRequestSent',
    'onResponseStarted',
    'onResponseStart',
    'onResponseData',
  ]
  expect(await callbacksWith(agentWith())).toEqual(expected)
  expect(await callbacksWith(agentWith(authFor(api)))).toEqual(expected)
})

it('an undici handler that pauses and resumes does so with undici', () => {
  const attempts: Played[] = []
  const call = startCall(agentWith(playedBy(attempts), authFor({ url: ORIGIN })), ORIGIN)
  const [{ controller }] = attempts as [Played]
  call.controller?.pause()
  expect([controller.pause, controller.resume].map((method) => vi.mocked(method).mock.calls.length)).toEqual([
    1, 0,
  ])
  call.controller?.resume()
  expect([controller.pause, controller.resume].map((method) => vi.mocked(method).mock.calls.length)).toEqual([
    1, 1,
  ])
})

// Node.js' own fetch has the handlers of an older undici: a usual mistake.
it('undici says what is wrong with the handler of another version', async () => {
  await using api = await scripted((_, response) => response.end())
  const messageOf = async (dispatcher: Dispatcher) => {
    const error = await failureOf(globalThis.fetch(api.url, { dispatcher } as object))
    return ((error as Error).cause as Error).message
  }
  expect(await messageOf(agentWith())).toBe('invalid onRequestStart method')
  expect(await messageOf(agentWith(authFor(api)))).toBe('invalid onRequestStart method')
})

describe('an undici handler needs only the callbacks that its types require', () => {
  const onRequestStart = () => {}

  it.each([200, 401])('for a %i', async (status) => {
    await using api = await scripted((_, response) => void response.writeHead(status).end('data'))
    const dispatcher = agentWith(authFor(api, { renew: async () => undefined }))
    const onResponseError = vi.fn()
    dispatcher.dispatch(
      { origin: api.url, path: '/', method: 'POST', body: 'x' },
      { onRequestStart, onResponseError },
    )
    await dispatcher.close()
    await settled()
    expect([api.seen.length, onResponseError.mock.calls]).toEqual([1, []])
  })

  it('for an error', async () => {
    await using api = await scripted((_, response) => response.destroy())
    const dispatcher = agentWith(authFor(api))
    const uncaught = vi.fn()
    process.on('uncaughtException', uncaught)
    onTestFinished(() => void process.off('uncaughtException', uncaught))
    dispatcher.dispatch({ origin: api.url, path: '/', method: 'GET' }, { onRequestStart })
    await until(() => api.seen.length === 1)
    await settled(20)
    expect(uncaught).not.toHaveBeenCalled()
  })
})

it('createAuthDispatch throws for invalid options', () => {
  expect(() => createAuthDispatch(provided(), { header: 'a b' })).toThrow(/header/)
})

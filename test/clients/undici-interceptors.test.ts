// createAuthDispatch combined with undici's own interceptors, above and below it.
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import { type Dispatcher, interceptors, request } from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { rejectionOf, type Scripted, scripted, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, createAuthDispatch, RecordingHandler, recordedCall } from './undici-calls.ts'

const ground = useGround()
const ORDERS = ['above', 'below'] as const

type Interceptor = Dispatcher.DispatcherComposeInterceptor

/** A dispatcher with the token and one more interceptor, above or below. */
function composed(order: (typeof ORDERS)[number], other: Interceptor, tokens = ground.tokens, attach = {}) {
  const auth = createAuthDispatch(tokens, attach)
  return order === 'above' ? agentWith(auth, other) : agentWith(other, auth)
}

const has = (server: Scripted, value: string) =>
  server.seen.map((seen) => inspect(seen.headers).includes(value))

describe.each(ORDERS)('with undici’s redirect interceptor %s the token', (order) => {
  it.each([{}, { header: 'X-Token', scheme: '' }])(
    'the token is not sent to another origin, and a 401 from there does not renew it: %o',
    async (attach) => {
      await using other = await scripted((_, response) => void response.writeHead(401).end())
      await using api = await scripted((_, response) => {
        response.writeHead(307, { location: `${other.url}/there` }).end()
      })
      const renew = vi.fn(async () => token('another.token'))
      const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url], renew })
      const dispatcher = composed(order, interceptors.redirect({ maxRedirections: 3 }), tokens, attach)
      for (const headers of [undefined, ['a', 'b'], new Map([['a', 'b']])]) {
        const { statusCode } = await request(api.url, { dispatcher, headers: headers as never })
        const isFollowed = order === 'above' || !('header' in attach)
        expect(statusCode).toBe(isFollowed ? 401 : 307)
      }
      expect(has(api, 'the.one.token')).toEqual([true, true, true])
      expect(has(other, '.token')).not.toContain(true)
      expect(renew).not.toHaveBeenCalled()
    },
  )

  it('the token is sent with a redirect within the API', async () => {
    await using api = await scripted((seen, response) => {
      if (seen.path === '/a') response.writeHead(302, { location: '/b' }).end()
      else response.end('there')
    })
    const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url] })
    const dispatcher = composed(order, interceptors.redirect({ maxRedirections: 3 }), tokens)
    const { body } = await request(`${api.url}/a`, { dispatcher })
    expect(await body.text()).toBe('there')
    expect(has(api, 'the.one.token')).toEqual([true, true])
  })
})

// retry uses a new handler for each request, and the same one for the repeats of a request.
it.each([{}, { renewOnStatus: [] }])(
  'an undici redirect does not carry the token to another API, even if the retry interceptor repeats it: %o',
  async (attach) => {
    await using third = await scripted((_, response) => void response.end())
    await using other = await scripted((_, response, nth) => {
      if (nth === 1) response.writeHead(503).end()
      else response.writeHead(307, { location: third.url }).end()
    })
    await using api = await scripted((_, response) => {
      response.writeHead(307, { location: other.url }).end()
    })
    const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url, other.url, third.url] })
    const between = [interceptors.retry({ minTimeout: 1 }), interceptors.redirect({ maxRedirections: 3 })]
    const dispatcher = agentWith(createAuthDispatch(tokens, attach), ...between)
    expect((await request(api.url, { dispatcher })).statusCode).toBe(200)
    const sent = [api, other, third].map((server) => has(server, 'the.one.token'))
    expect(sent).toEqual([[true], [false, false], [false]])
  },
)

/** Makes another call synchronously when its response ends. */
class CallingAtEnd extends RecordingHandler {
  readonly #makeCall: () => void

  constructor(makeCall: () => void) {
    super()
    this.#makeCall = makeCall
  }

  override onResponseEnd(controller: unknown, trailers: unknown): void {
    super.onResponseEnd(controller, trailers)
    this.#makeCall()
  }
}

it('a new undici call that starts when a redirect response ends, without following it, carries the token', async () => {
  await using other = await scripted((_, response) => void response.end())
  await using api = await scripted((_, response) => {
    response.writeHead(302, { location: `${other.url}/there` }).end()
  })
  const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url, other.url] })
  const dispatcher = agentWith(createAuthDispatch(tokens))
  const next = new RecordingHandler()
  const callNext = () => dispatcher.dispatch({ origin: other.url, path: '/elsewhere', method: 'GET' }, next)
  await recordedCall(dispatcher, `${api.url}/first`, new CallingAtEnd(callNext))
  await next.ended
  expect(has(other, 'the.one.token')).toEqual([true])
})

it('a later undici call to the target of a redirect that nobody followed carries the token', async () => {
  await using other = await scripted((_, response) => void response.end())
  await using api = await scripted((_, response) => {
    response.writeHead(302, { location: `${other.url}/there` }).end()
  })
  const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url, other.url] })
  const dispatcher = agentWith(createAuthDispatch(tokens))
  await recordedCall(dispatcher, `${api.url}/first`)
  await recordedCall(dispatcher, `${other.url}/there`)
  expect(has(other, 'the.one.token')).toEqual([true])
})

it('undici’s redirect interceptor above the token follows a redirect out of the apiUrls without the token', async () => {
  await using api = await scripted((seen, response) => {
    if (seen.path === '/api/a') response.writeHead(302, { location: '/elsewhere' }).end()
    else response.end()
  })
  const tokens = provided({ current: token('the.one.token'), apiUrls: [`${api.url}/api`] })
  const dispatcher = composed('above', interceptors.redirect({ maxRedirections: 3 }), tokens)
  await request(`${api.url}/api/a`, { dispatcher })
  expect(has(api, 'the.one.token')).toEqual([true, false])
})

describe.each(ORDERS)('a 401 with another undici interceptor %s the token', (order) => {
  const revoked = async (other: Interceptor): Promise<Dispatcher> => {
    await ground.tokens.getToken()
    ground.env.revoke()
    return composed(order, other)
  }

  it('retry: renews the token, and retry repeats failed calls', async () => {
    const retry = interceptors.retry({ minTimeout: 1, maxRetries: 3 })
    const dispatcher = await revoked(retry)
    ground.env.fail('merchant', { kind: 'status', status: 503 })
    ground.env.fail('merchant', { kind: 'reset' })
    const { statusCode, body } = await request(ground.env.merchantUrl, { dispatcher })
    expect([statusCode, ((await body.json()) as { api: string }).api]).toEqual([200, 'merchant'])
    expect(ground.sent()).toHaveLength(4)
  })

  const renewed: Record<string, [other: Interceptor, hasBody: boolean]> = {
    redirect: [interceptors.redirect({ maxRedirections: 3 }), true],
    cache: [interceptors.cache(), true],
    'dump, which drops the body': [interceptors.dump(), false],
  }
  it.each(Object.entries(renewed))('%s: renews the token', async (_, [other, hasBody]) => {
    const { statusCode, body } = await request(ground.env.merchantUrl, { dispatcher: await revoked(other) })
    expect([statusCode, (await body.text()) !== '']).toEqual([200, hasBody])
  })

  it('dump: returns the 401 with an empty body if every token is rejected', async () => {
    ground.env.configure({ rejectAllTokens: true })
    const dispatcher = composed(order, interceptors.dump())
    const { statusCode, body } = await request(ground.env.merchantUrl, { dispatcher })
    expect([statusCode, await body.text()]).toEqual([401, ''])
  })

  it('responseError: renews the token, and turns a second 401 into an error without the token', async () => {
    const dispatcher = await revoked(interceptors.responseError())
    expect((await request(ground.env.merchantUrl, { dispatcher })).statusCode).toBe(200)
    ground.env.configure({ rejectAllTokens: true })
    const error = await rejectionOf(request(ground.env.merchantUrl, { dispatcher }))
    expect(error).toMatchObject({ name: 'ResponseError', statusCode: 401 })
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(ground.tokens.currentToken()?.value)
  })

  it('decompress: decompresses the repeated response, and the 401 if the token is not renewed', async () => {
    await using api = await scripted((_, response, nth) => {
      response.writeHead(nth === 2 ? 200 : 401, { 'content-encoding': 'gzip' }).end(gzipSync(`answer ${nth}`))
    })
    let renewed: ReturnType<typeof token> | undefined = token('second.token')
    const given = { current: token('first.token'), apiUrls: [api.url], renew: async () => renewed }
    const tokens = provided(given)
    const dispatcher = composed(order, interceptors.decompress({ skipErrorResponses: false }), tokens)
    expect(await (await request(api.url, { dispatcher })).body.text()).toBe('answer 2')
    renewed = undefined
    expect(await (await request(api.url, { dispatcher })).body.text()).toBe('answer 3')
  })

  it('deduplicate: renews the token for concurrent calls', async () => {
    const dispatcher = await revoked(interceptors.deduplicate())
    const answers = await Promise.all([1, 2, 3].map(() => request(ground.env.merchantUrl, { dispatcher })))
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200])
    await Promise.all(answers.map(({ body }) => body.dump()))
  })
})

describe('with undici’s cache interceptor', () => {
  const cached = async (order: (typeof ORDERS)[number], cacheControl: string) => {
    await using api = await scripted((seen, response) => {
      response.writeHead(200, { 'cache-control': cacheControl }).end(seen.headers.authorization)
    })
    const first = provided({ current: token('first.token'), apiUrls: [api.url] })
    const second = provided({ current: token('second.token'), apiUrls: [api.url] })
    const cache = interceptors.cache()
    for (const tokens of [first, second]) {
      const { body } = await request(api.url, { dispatcher: composed(order, cache, tokens) })
      await body.dump()
    }
    return api.seen.length
  }

  it('below the token, responses are not shared between clients unless the API marks them public', async () => {
    expect(await cached('below', 'max-age=60')).toBe(2)
    expect(await cached('below', 'public, max-age=60')).toBe(1)
  })

  it('above the token, responses are shared between clients', async () => {
    expect(await cached('above', 'max-age=60')).toBe(1)
  })
})

// With dns above, the call goes to an IP address, which is not in apiUrls.
it.each([
  ['below', true],
  ['above', false],
] as const)(
  'with undici’s dns interceptor %s the token, the token is attached: %s',
  async (order, expected) => {
    const lookup = (_: unknown, __: unknown, done: (error: null, found: object[]) => void) =>
      done(null, [{ address: '127.0.0.1', family: 4, ttl: 1000 }])
    await using api = await scripted((_, response) => response.end())
    const named = api.url.replace('127.0.0.1', 'api.localhost')
    const tokens = provided({ current: token('the.one.token'), apiUrls: [named] })
    const dispatcher = composed(order, interceptors.dns({ lookup: lookup as never }), tokens)
    expect((await request(named, { dispatcher })).statusCode).toBe(200)
    expect(api.seen[0]?.headers.host).toBe(new URL(named).host)
    expect(has(api, 'the.one.token')).toEqual([expected])
  },
)

it('undici responses, errors, controllers and the dispatcher show no token in log output', async () => {
  await ground.tokens.getToken()
  ground.env.revoke()
  const dispatcher = agentWith(createAuthDispatch(ground.tokens))
  const recorded = await recordedCall(dispatcher, ground.env.merchantUrl)
  const answer = await request(ground.env.merchantUrl, { dispatcher, opaque: { mine: true } })
  ground.env.fail('merchant', { kind: 'reset' })
  const error = await rejectionOf(request(ground.env.merchantUrl, { dispatcher }))
  expect(error).toMatchObject({ code: 'ECONNRESET' })
  for (const shown of [answer, error, recorded.controller, dispatcher]) {
    const text = inspect(shown, { depth: 20, showHidden: true, getters: true })
    expect(text.length).toBeGreaterThan(100)
    expect(text).not.toContain(ground.tokens.currentToken()?.value)
  }
  expect(JSON.stringify([answer.headers, answer.context, error])).not.toContain(
    ground.tokens.currentToken()?.value,
  )
})

// A call that the handler makes synchronously at the end of a redirect may follow it, so it gets no token elsewhere.
it.each([
  [201, true],
  [299, true],
  [300, false],
  [399, false],
  [400, true],
])(
  'a call to another API at the end of a %i response with its Location carries the token: %s',
  async (status, isSent) => {
    await using other = await scripted((_, response) => void response.end())
    await using api = await scripted((_, response) => {
      response.writeHead(status, { location: `${other.url}/x` }).end()
    })
    const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url, other.url] })
    const dispatcher = agentWith(createAuthDispatch(tokens))
    const second = new RecordingHandler()
    const follow = () => dispatcher.dispatch({ origin: other.url, path: '/x', method: 'GET' }, second)
    await recordedCall(dispatcher, `${api.url}/x`, new CallingAtEnd(follow))
    await second.ended
    expect(has(other, 'the.one.token')).toEqual([isSent])
  },
)

it.each<[unknown, isRejection: boolean]>([
  [null, false],
  [undefined, false],
  ['a text', false],
  [{ code: 'UND_ERR_RESPONSE' }, false],
  [{ code: 'UND_ERR_RESPONSE', statusCode: '401' }, false],
  [{ code: 'UND_ERR', statusCode: 401 }, false],
  [{ code: 'UND_ERR_RESPONSE', statusCode: 403 }, false],
  [{ code: 'UND_ERR_RESPONSE', statusCode: 401 }, true],
  [{ code: 'UND_ERR_RESPONSE', statusCode: 401, headers: null }, true],
])(
  'an error of an interceptor below reaches the handler, and renews the token if it is a 401: %o, %s',
  async (error, isRejection) => {
    const renew = vi.fn(async () => undefined)
    const tokens = provided({ current: token('the.one.token'), apiUrls: ['http://api.example'], renew })
    const failing: Interceptor = () => (_, handler) => {
      handler.onResponseError?.(undefined as never, error as never)
      return true
    }
    const { events, error: received } = await recordedCall(
      composed('below', failing, tokens),
      'http://api.example/x',
    )
    expect([events, received]).toEqual([['error'], error])
    expect(renew).toHaveBeenCalledTimes(isRejection ? 1 : 0)
  },
)

it('what a handler throws when it gets a 401 as an error of an interceptor below is ignored, as by undici', async () => {
  class Throwing extends RecordingHandler {
    override onResponseError(controller: unknown, given: Error): void {
      super.onResponseError(controller, given)
      throw new Error('thrown by the handler') // the test would fail with it as an unhandled rejection
    }
  }
  await using api = await scripted((_, response) => void response.writeHead(401).end())
  const tokens = provided({
    current: token('the.one.token'),
    apiUrls: [api.url],
    renew: async () => undefined,
  })
  const { events } = await recordedCall(
    composed('below', interceptors.responseError(), tokens),
    api.url,
    new Throwing(),
  )
  expect(events).toEqual(['start', 'error'])
})

// Only URL resolution, as in the redirect interceptor, makes them equal.
it.each(['HTTP://localhost', 'http://LOCALHOST'])(
  'a redirect within the API is sent with the token if its first call names the origin %s',
  async (origin) => {
    await using api = await scripted((seen, response) => {
      if (seen.path === '/a') response.writeHead(302, { location: '/b' }).end()
      else response.end()
    })
    const url = api.url.replace('127.0.0.1', 'localhost')
    const tokens = provided({ current: token('the.one.token'), apiUrls: [url] })
    const dispatcher = composed('above', interceptors.redirect({ maxRedirections: 3 }), tokens)
    const recorded = new RecordingHandler()
    dispatcher.dispatch({ origin: `${origin}:${new URL(url).port}`, path: '/a', method: 'GET' }, recorded)
    await recorded.ended
    expect(recorded.status).toBe(200)
    expect(has(api, 'the.one.token')).toEqual([true, true])
  },
)

it('a redirect of a call with user info in its origin is sent without the token, like the call', async () => {
  await using api = await scripted((_, response) => void response.writeHead(302, { location: '/b' }).end())
  const tokens = provided({ current: token('the.one.token'), apiUrls: [api.url] })
  const dispatcher = composed('above', interceptors.redirect({ maxRedirections: 1 }), tokens)
  const recorded = new RecordingHandler()
  const origin = api.url.replace('http://', 'http://user:password@')
  dispatcher.dispatch({ origin, path: '/a', method: 'GET' }, recorded)
  await recorded.ended
  expect(has(api, 'the.one.token')).toEqual([false, false])
})

/** The token request on the wire, its time limits and its retries. */
import { createTokenProvider, TokenRequestError } from 'merchant-auth'
import nock from 'nock'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock } from '../support/clock.ts'
import {
  type Answer,
  breaksOff,
  deaf,
  ENVIRONMENT,
  granted,
  hang,
  noConnection,
  rejection,
  rig,
  SECRET,
  status,
  TOKEN_ENDPOINT,
} from './harness.ts'

const random = vi.spyOn(Math, 'random')
beforeEach(() => void random.mockReturnValue(0))
afterEach(() => {
  random.mockReset()
  nock.cleanAll()
  nock.restore()
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

const client = { environment: ENVIRONMENT, clientId: 'client-1', clientSecret: SECRET }
const GRANT = { access_token: 'a.b.c', expires_in: 36_000, scope: 'merchant', token_type: 'Bearer' }

function tokenEndpoint(matches: (body: unknown) => boolean, headers: Record<string, string>): nock.Scope {
  if (!nock.isActive()) nock.activate()
  return nock(ENVIRONMENT.authUrl, { reqheaders: headers }).post('/oauth/token', matches).reply(200, GRANT)
}

describe('the token request', () => {
  it('is a JSON post of exactly the four fields', async () => {
    let sent: unknown
    const scope = tokenEndpoint(
      (body) => {
        sent = body
        return true
      },
      { 'content-type': 'application/json' },
    )
    const token = await createTokenProvider(client).getToken()
    expect(token).toMatchObject({ value: 'a.b.c', scope: 'merchant', tokenType: 'Bearer' })
    expect(sent).toEqual({
      client_id: 'client-1',
      client_secret: 'swordfish+with/slash=',
      audience: 'https://api.test.example',
      grant_type: 'client_credentials',
    })
    expect(scope.isDone()).toBe(true)
  })

  it('is a form of exactly the four fields with bodyFormat form', async () => {
    const { provider, endpoint } = rig([], { bodyFormat: 'form' })
    await provider.getToken()
    const { headers, body } = endpoint.requests[0]?.init ?? {}
    expect(new Headers(headers).get('content-type')).toBe('application/x-www-form-urlencoded')
    expect(body).toBe(
      'client_id=client-1&client_secret=swordfish%2Bwith%2Fslash%3D&' +
        'audience=https%3A%2F%2Fapi.test.example&grant_type=client_credentials',
    )
  })

  it.each([
    ['json', 'application/json'],
    ['form', 'application/x-www-form-urlencoded'],
  ] as const)('as %s says what it is and that it wants JSON, and nothing else', async (bodyFormat, type) => {
    const { provider, endpoint } = rig([], { bodyFormat })
    await provider.getToken()
    expect(endpoint.requests[0]?.init.headers).toEqual({ 'content-type': type, accept: 'application/json' })
  })

  it('is written the same each time, to the letter', async () => {
    const { provider, endpoint } = rig()
    await provider.getToken()
    expect(endpoint.requests).toHaveLength(1)
    expect(endpoint.requests[0]?.url).toBe(TOKEN_ENDPOINT)
    expect(endpoint.requests[0]?.init).toMatchObject({
      method: 'POST',
      redirect: 'manual',
      body: '{"client_id":"client-1","client_secret":"swordfish+with/slash=","audience":"https://api.test.example","grant_type":"client_credentials"}',
    })
  })

  it.each([
    ['https://auth.test.example', 'https://auth.test.example/oauth/token'],
    ['https://auth.test.example/', 'https://auth.test.example/oauth/token'],
    ['https://idp.example:8443/tenant', 'https://idp.example:8443/tenant/oauth/token'],
    ['https://idp.example/tenant/', 'https://idp.example/tenant/oauth/token'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080/oauth/token'],
  ])('with authUrl %s goes to %s', async (authUrl, url) => {
    const { provider, endpoint } = rig([], { environment: { ...ENVIRONMENT, authUrl } })
    await provider.getToken()
    expect(endpoint.requests.map((request) => request.url)).toEqual([url])
  })

  it('goes by globalThis.fetch, looked up at each use', async () => {
    const provider = createTokenProvider(client)
    const replaced = vi.fn(async () => Response.json(GRANT))
    vi.stubGlobal('fetch', replaced)
    await provider.getToken()
    expect(replaced).toHaveBeenCalledTimes(1)
  })
})

describe('a redirect of the token endpoint', () => {
  it.each([301, 302, 303, 307, 308, 300, 304])('with status %i is a TokenRequestError', async (code) => {
    const { provider, endpoint } = rig([
      status(code === 304 ? 302 : code, '', { location: 'https://evil.example' }),
    ])
    const error = await rejection<TokenRequestError>(provider.getToken())
    expect(error).toMatchObject({ name: 'TokenRequestError', code: 'ERR_TOKEN_REDIRECT', retryable: false })
    expect(error.message).toContain(`POST ${TOKEN_ENDPOINT}`)
    expect(endpoint.count).toBe(1)
  })

  it.each([
    ['followed by a fetch of its own mind', { redirected: true, status: 200, ok: true }],
    ['hidden as a browser does it', { type: 'opaqueredirect', status: 0, ok: false }],
  ])('%s gives no token', async (_, traits) => {
    const answer = () =>
      new Proxy(Response.json(GRANT), {
        get: (target, key) => (key in traits ? Reflect.get(traits, key) : Reflect.get(target, key, target)),
      })
    const { provider } = rig([answer])
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_REDIRECT' })
    expect(provider.currentToken()).toBeUndefined()
  })

  it('is not followed by the real fetch either', async () => {
    if (!nock.isActive()) nock.activate()
    nock(ENVIRONMENT.authUrl)
      .post('/oauth/token')
      .reply(307, '', { location: 'https://elsewhere.example/oauth/token' })
    const elsewhere = nock('https://elsewhere.example').post('/oauth/token').reply(200, GRANT)
    await expect(createTokenProvider(client).getToken()).rejects.toMatchObject({
      code: 'ERR_TOKEN_REDIRECT',
      status: 307,
    })
    expect(elsewhere.isDone()).toBe(false)
  })
})

const stalled: Answer = () => new Response(new ReadableStream(), { status: 200 })

describe.each([
  ['that hangs', hang],
  ['that ignores the signal', deaf],
  ['whose body stalls', stalled],
])('an answer %s', (_, answer) => {
  it('ends after half of timeoutMs, and the next attempt begins', async () => {
    const { provider, endpoint, clock } = rig([answer])
    const waiting = provider.getToken()
    await clock.advance(4_999)
    expect(endpoint.count).toBe(1)
    await clock.advance(1)
    expect(endpoint.count).toBe(2)
    await expect(waiting).resolves.toBeDefined()
  })

  it('ends everything after timeoutMs', async () => {
    const { provider, endpoint, clock } = rig([], { timeoutMs: 3_000 })
    endpoint.otherwise = answer
    const waiting = rejection<TokenRequestError>(provider.getToken())
    let over = false
    void waiting.then(() => {
      over = true
    })
    await clock.advance(2_999)
    expect(over).toBe(false)
    await clock.advance(1)
    const error = await waiting
    expect(error).toBeInstanceOf(TokenRequestError)
    expect(error).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', retryable: true, attempts: 2 })
    expect(clock.sleeping).toBe(0)
  })
})

describe('an error answer whose body stalls', () => {
  const stalledWith =
    (status: number): Answer =>
    () =>
      new Response(new ReadableStream(), { status })

  it.each([
    { status: 400, code: 'ERR_TOKEN_STATUS' },
    { status: 307, code: 'ERR_TOKEN_REDIRECT' },
  ])('is what its status says: $status is not retried', async ({ status, code }) => {
    const { provider, endpoint, clock } = rig([stalledWith(status)])
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(5_000)
    expect(await waiting).toMatchObject({ code, status, retryable: false, attempts: 1 })
    expect(endpoint.count).toBe(1)
  })

  it('is what its status says after half of the time that is left, and a redirect is at once', async () => {
    const { provider, clock } = rig([stalledWith(400)])
    let over = false
    const waiting = rejection(provider.getToken()).then((error) => {
      over = true
      return error
    })
    await clock.advance(2_499)
    expect(over).toBe(false)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_STATUS', status: 400 })
    const redirected = rig([stalledWith(307)])
    await expect(redirected.provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_REDIRECT' })
  })

  it('or comes late is read, where that is in the first half of the time', async () => {
    const slow: Answer = () =>
      new Response(
        new ReadableStream({
          async start(controller) {
            await made.clock.sleep(2_000)
            controller.enqueue(new TextEncoder().encode('{"error":"invalid_client"}'))
            controller.close()
          },
        }),
        { status: 400 },
      )
    const made = rig([slow])
    const waiting = rejection(made.provider.getToken())
    await made.clock.advance(2_000)
    expect(await waiting).toMatchObject({ status: 400, error: 'invalid_client' })
  })

  it('is retried within the time where its status is 503', async () => {
    const { provider, endpoint, clock } = rig([stalledWith(503)])
    const waiting = provider.getToken()
    await clock.advance(5_000)
    expect(endpoint.count).toBe(2)
    await expect(waiting).resolves.toBeDefined()
  })
})

describe('the last attempt gets all that is left of timeoutMs', () => {
  it.each([
    ['that hangs', hang],
    ['that ignores the signal', deaf],
    ['whose body stalls', stalled],
  ])('where it is the only one, for an answer %s', async (_, answer) => {
    const { provider, endpoint, clock } = rig([answer], { retries: 0 })
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(9_999)
    expect(endpoint.requests[0]?.init.signal?.aborted).toBe(false)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 1 })
    expect(endpoint.requests[0]?.init.signal?.aborted).toBe(true)
  })

  it('where those before it failed at once', async () => {
    const { provider, clock } = rig([status(503), status(503), hang])
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(9_999)
    expect(clock.sleeping).toBe(1)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 3 })
  })

  it('and so does the one with another secret, after the first was rejected', async () => {
    const secrets = ['swordfish-1', 'swordfish-2']
    const clientSecret = () => secrets.shift() ?? ''
    const { provider, endpoint, clock } = rig([status(401), hang], { retries: 0, clientSecret })
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(9_999)
    expect(endpoint.requests[1]?.init.signal?.aborted).toBe(false)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 2 })
  })

  it.each([false, true])(
    'where the clientSecret function takes most of it (with a store: %s)',
    async (shared) => {
      const clock = new ManualClock()
      const clientSecret = async () => {
        await clock.sleep(9_000)
        return 'swordfish'
      }
      const store = shared ? new MemoryStore(clock) : undefined
      const made = rig([], { retries: 0, clientSecret, clock, store })
      const waiting = made.provider.getToken()
      await clock.advance(9_000)
      await expect(waiting).resolves.toBeDefined()
    },
  )
})

describe('timeoutMs', () => {
  it('covers retries and pauses: the last attempt gets what is left', async () => {
    const slow: Answer = async () => {
      await made.clock.sleep(4_000)
      return new Response('', { status: 503 })
    }
    const made = rig([slow, slow, hang], { retries: 5 })
    const waiting = rejection<TokenRequestError>(made.provider.getToken())
    await made.clock.advance(9_999)
    expect(made.endpoint.count).toBe(3)
    await made.clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 3 })
  })

  it('is 10 000 on the clocks of the machine, of which an answer leaves no timer', async () => {
    vi.useFakeTimers()
    const { provider, endpoint } = rig([hang, hang, granted()], { clock: undefined })
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await vi.advanceTimersByTimeAsync(5_001)
    expect(endpoint.count).toBe(2)
    await vi.advanceTimersByTimeAsync(4_999)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 2 })
    await vi.advanceTimersByTimeAsync(1_000)
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('a failed attempt', () => {
  it.each([408, 429, 500, 502, 503, 504, 599])('with status %i is retried', async (code) => {
    const { provider, endpoint, clock } = rig([status(code), status(code)])
    const waiting = provider.getToken()
    await clock.advance(0)
    await expect(waiting).resolves.toBeDefined()
    expect(endpoint.count).toBe(3)
  })

  it('is the last one sent where the process was suspended in the pause until the time was over', async () => {
    const { provider, endpoint, clock, events } = rig([status(503)])
    const sleep = clock.sleep.bind(clock)
    clock.sleep = async (ms, signal) => (ms < 1_000 ? await clock.advance(20_000) : await sleep(ms, signal))
    expect(await rejection(provider.getToken())).toMatchObject({ status: 503, attempts: 1 })
    expect(endpoint.count).toBe(1)
    // The first event announced another attempt, so a second one says that there is none.
    expect(events.at(-2)).toMatchObject({ type: 'token-request-failed', attempt: 1, nextTryMs: 0 })
    expect(events.at(-1)).toEqual({
      type: 'token-request-failed',
      attempt: 1,
      code: 'ERR_TOKEN_STATUS',
      status: 503,
      environment: 'test',
    })
  })

  it('without a connection is retried', async () => {
    const { provider, endpoint, clock } = rig([noConnection])
    const waiting = provider.getToken()
    await clock.advance(0)
    await expect(waiting).resolves.toBeDefined()
    expect(endpoint.count).toBe(2)
  })

  it('whose answer breaks off is retried, and is in the end no connection', async () => {
    const broken = [breaksOff(), breaksOff(), breaksOff()]
    const { provider, endpoint, clock, events } = rig(broken)
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(0)
    const error = await waiting
    expect(error).toBeInstanceOf(TokenRequestError)
    expect(error).toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: true, attempts: 3 })
    expect(error.status).toBeUndefined() // as without a connection
    expect(error.cause).toMatchObject({ message: 'terminated', cause: { code: 'ECONNRESET' } })
    expect(endpoint.count).toBe(3)
    expect(events.filter(({ type }) => type === 'token-request-failed')).toHaveLength(3)
    const once = rig([breaksOff()])
    const token = once.provider.getToken()
    await once.clock.advance(0)
    await expect(token).resolves.toBeDefined()
  })

  it.each([400, 503])('with status %i keeps it where its body breaks off', async (code) => {
    const { provider } = rig([breaksOff(code)], { retries: 0 })
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_STATUS', status: code })
  })

  it.each([400, 401, 403, 404, 405, 409, 413, 422, 425])('with status %i is not retried', async (code) => {
    const { provider, endpoint } = rig([status(code)])
    await expect(provider.getToken()).rejects.toMatchObject({
      code: 'ERR_TOKEN_STATUS',
      status: code,
      attempts: 1,
      retryable: false,
    })
    expect(endpoint.count).toBe(1)
  })

  it('is followed by two more at most, unless retries says otherwise', async () => {
    for (const [retries, requests] of [
      [undefined, 3],
      [0, 1],
      [1, 2],
      [5, 6],
    ] as const) {
      const { provider, endpoint, clock } = rig([], { retries })
      endpoint.otherwise = status(503)
      const waiting = rejection<TokenRequestError>(provider.getToken())
      await clock.advance(0)
      expect(await waiting).toMatchObject({ status: 503, attempts: requests, retryable: true })
      expect(endpoint.count).toBe(requests)
    }
  })

  it('without a connection at last makes a TokenRequestError with code and cause', async () => {
    const { provider, endpoint } = rig([noConnection], { retries: 0 })
    const error = await rejection<TokenRequestError>(provider.getToken())
    expect(error).toBeInstanceOf(TokenRequestError)
    expect(error).toMatchObject({
      code: 'ERR_TOKEN_NETWORK',
      retryable: true,
      status: undefined,
      attempts: 1,
    })
    expect(error.message).toContain('ECONNREFUSED')
    expect(error.cause).toMatchObject({ message: 'fetch failed', cause: { code: 'ECONNREFUSED' } })
    expect(endpoint.count).toBe(1)
  })

  it('may leave an error that is no object', async () => {
    const { provider } = rig([() => Promise.reject('offline')], { retries: 0 })
    const error = await rejection<TokenRequestError>(provider.getToken())
    expect(error.code).toBe('ERR_TOKEN_NETWORK')
    expect(error.cause).toBeUndefined()
  })
})

describe('the pause before another attempt', () => {
  it('is at most 200 ms, then 400, then 800', async () => {
    random.mockReturnValue(0.999)
    const { provider, endpoint, clock } = rig([], { retries: 3 })
    endpoint.otherwise = status(503)
    const waiting = rejection(provider.getToken())
    const seen: number[] = []
    for (const ms of [199, 1, 399, 1, 798, 1]) {
      await clock.advance(ms)
      seen.push(endpoint.count)
    }
    expect(seen).toEqual([1, 2, 2, 3, 3, 4])
    await waiting
  })

  it('is anything down to nothing (full jitter), and in the events', async () => {
    const { provider, endpoint, clock, events } = rig([], { retries: 3 })
    endpoint.otherwise = status(500)
    random.mockReturnValueOnce(0).mockReturnValueOnce(0.5).mockReturnValueOnce(0.25)
    const waiting = rejection(provider.getToken())
    await clock.advance(10_000)
    await waiting
    const pauses = events.flatMap((event) =>
      event.type === 'token-request-failed' ? [[event.attempt, event.status, event.nextTryMs]] : [],
    )
    expect(pauses).toEqual([
      [1, 500, 0],
      [2, 500, 200],
      [3, 500, 200],
      [4, 500, undefined],
    ])
  })

  it('that does not fit into timeoutMs ends the request', async () => {
    random.mockReturnValue(0.999)
    const { provider, endpoint, clock } = rig([], { retries: 20, timeoutMs: 1_000 })
    endpoint.otherwise = status(503)
    const waiting = rejection(provider.getToken())
    await clock.advance(600)
    expect(await waiting).toMatchObject({ attempts: 3 })
    expect(endpoint.count).toBe(3)
  })
})

describe('Retry-After', () => {
  const httpDate = (epochMs: number) => new Date(epochMs).toUTCString()

  it.each([
    ['seconds', () => '3'],
    ['seconds with spaces around', () => '  3\t'],
    ['a date', (now: number) => httpDate(now + 3_000)],
  ])('in %s is obeyed, where it fits', async (_, value) => {
    const { clock } = rig()
    const answer = status(429, '', { 'retry-after': value(clock.epochMs()) })
    const { provider, endpoint } = rig([answer], { clock })
    const waiting = provider.getToken()
    await clock.advance(2_999)
    expect(endpoint.count).toBe(1)
    await clock.advance(1)
    expect(endpoint.count).toBe(2)
    await expect(waiting).resolves.toBeDefined()
  })

  it('shorter than the backoff does not shorten it', async () => {
    random.mockReturnValue(0.999)
    const { provider, endpoint, clock } = rig([status(503, '', { 'retry-after': '0' })])
    const waiting = provider.getToken()
    await clock.advance(199)
    expect(endpoint.count).toBe(1)
    await clock.advance(1)
    await waiting
  })

  it.each([
    ['seconds', () => '45', 45_000],
    ['a date', (now: number) => httpDate(now + 45_000), 45_000],
    ['just the whole time', () => '10', 10_000],
  ])('in %s that does not fit ends the request and says how long', async (_, value, retryAfterMs) => {
    const { clock } = rig()
    const answer = status(429, '', { 'retry-after': value(clock.epochMs()) })
    const { provider, endpoint } = rig([answer], { clock })
    await expect(provider.getToken()).rejects.toMatchObject({ status: 429, attempts: 1, retryAfterMs })
    expect(endpoint.count).toBe(1)
  })

  it.each(['soon', '-5', '1.5', '', 'Someday, 99 Foo', '6 Nov 2096 08:49:37 GMT'])(
    'of "%s" is ignored',
    async (value) => {
      const { provider, endpoint, clock } = rig([status(503, '', { 'retry-after': value })])
      const waiting = provider.getToken()
      await clock.advance(0)
      await expect(waiting).resolves.toBeDefined()
      expect(endpoint.count).toBe(2)
    },
  )

  it('in the past counts as no pause', async () => {
    const { clock } = rig()
    const answer = status(503, '', { 'retry-after': httpDate(clock.epochMs() - 60_000) })
    const { provider } = rig([answer], { clock })
    const waiting = provider.getToken()
    await clock.advance(0)
    await expect(waiting).resolves.toBeDefined()
  })
})

describe('a Retry-After that does not fit', () => {
  it('is in the message, and in the field of the error as far as it is obeyed', async () => {
    const { provider } = rig([status(429, '', { 'retry-after': '3600' })])
    const error = await rejection<TokenRequestError>(provider.getToken())
    expect(error.retryAfterMs).toBe(60_000) // this package waits no longer
    expect(error.message).toContain('3600000 ms')
  })
})

/** The token request on the wire, its time limits and its retries. */
import { createTokenProvider, type TokenProviderOptions, TokenRequestError } from 'merchant-auth'
import nock from 'nock'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { FIRST_COOLDOWN_429_MS, MAX_RETRY_AFTER_429_MS } from '../../src/token/limits/cooldown.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock } from '../support/clock.ts'
import { isOfKind, kindsIn } from '../support/failures.ts'
import {
  type Answer,
  acquired,
  breaksOff,
  deaf,
  ENVIRONMENT,
  failed,
  granted,
  hang,
  MERCHANT_URL,
  noConnection,
  type Rig,
  rejection,
  rig,
  SECRET,
  status,
  TOKEN_ENDPOINT,
  withoutJitter,
} from './harness.ts'

const random = withoutJitter()
afterEach(() => {
  nock.cleanAll()
  nock.restore()
  vi.unstubAllGlobals()
})

const client = { environment: ENVIRONMENT, clientId: 'client-1', clientSecret: SECRET }
const GRANT = { access_token: 'a.b.c', expires_in: 36_000, scope: 'merchant', token_type: 'Bearer' }

describe('the token request', () => {
  it.each<[TokenProviderOptions['bodyFormat'], string, string]>([
    [
      'json',
      'application/json',
      '{"client_id":"client-1","client_secret":"swordfish+with/slash=","audience":"https://api.test.example","grant_type":"client_credentials"}',
    ],
    [
      'form',
      'application/x-www-form-urlencoded',
      'client_id=client-1&client_secret=swordfish%2Bwith%2Fslash%3D&audience=https%3A%2F%2Fapi.test.example&grant_type=client_credentials',
    ],
  ])('as %s is a POST with exactly the four fields, and accepts JSON', async (bodyFormat, type, body) => {
    const { provider, endpoint } = rig([], { bodyFormat })
    await provider.getToken()
    expect(endpoint.requests).toMatchObject([
      { url: TOKEN_ENDPOINT, init: { method: 'POST', redirect: 'manual', body } },
    ])
    expect(endpoint.requests[0]?.init.headers).toEqual({ 'content-type': type, accept: 'application/json' })
  })

  it('is sent as JSON with the real fetch by default', async () => {
    const headers = { reqheaders: { 'content-type': 'application/json' } }
    const fields = { client_id: 'client-1', client_secret: SECRET, audience: ENVIRONMENT.audience }
    if (!nock.isActive()) nock.activate()
    nock(ENVIRONMENT.authUrl, headers)
      .post('/oauth/token', { ...fields, grant_type: 'client_credentials' })
      .reply(200, GRANT)
    const token = await createTokenProvider(client).getToken()
    expect(token).toMatchObject({ value: 'a.b.c', scope: 'merchant', tokenType: 'Bearer' })
  })

  it.each([
    ['https://auth.test.example', 'https://auth.test.example/oauth/token'],
    ['https://auth.test.example/', 'https://auth.test.example/oauth/token'],
    ['https://idp.example:8443/tenant', 'https://idp.example:8443/tenant/oauth/token'],
    ['https://idp.example/tenant/', 'https://idp.example/tenant/oauth/token'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080/oauth/token'],
  ])('with authUrl %s goes to %s, which the event names', async (authUrl, url) => {
    const { provider, endpoint, events } = rig([], { environment: { ...ENVIRONMENT, authUrl } })
    await provider.getToken()
    expect(endpoint.requests.map((request) => request.url)).toEqual([url])
    expect(events[0]).toMatchObject({ type: 'token-requested', url })
  })

  it('uses globalThis.fetch, which is looked up at each use', async () => {
    const provider = createTokenProvider(client)
    const replaced = vi.fn(async () => Response.json(GRANT))
    vi.stubGlobal('fetch', replaced)
    await provider.getToken()
    expect(replaced).toHaveBeenCalledTimes(1)
  })
})

describe('a redirect of the token endpoint', () => {
  const seenAs = (traits: object): Answer => {
    return () =>
      new Proxy(Response.json(GRANT), {
        get: (target, key) => (key in traits ? Reflect.get(traits, key) : Reflect.get(target, key, target)),
      })
  }

  it.each<[unknown, Answer]>([
    [300, status(300, '', { location: 'https://evil.example' })],
    ['followed by a custom fetch', seenAs({ redirected: true, status: 200, ok: true })],
    ['opaque, as in a browser', seenAs({ type: 'opaqueredirect', status: 0, ok: false })],
  ])('causes a TokenRequestError: %s', async (_, answer) => {
    const made = rig([answer])
    const error = await failed(made)
    expect(error).toMatchObject({ name: 'TokenRequestError', code: 'ERR_TOKEN_REDIRECT', retryable: false })
    expect(error.message).toContain(`POST ${TOKEN_ENDPOINT}`)
    expect([made.endpoint.count, made.provider.currentToken()]).toEqual([1, undefined])
  })
})

const stalledWith =
  (code: number, headers: Record<string, string> = {}): Answer =>
  () =>
    new Response(new ReadableStream(), { status: code, headers })

it.each<[string, Answer]>([
  ['that hangs', hang],
  ['whose fetch ignores the signal', deaf],
  ['whose response body stalls', stalledWith(200)],
])('a token request %s is aborted after timeoutMs, and not sent again', async (_, answer) => {
  const { provider, endpoint, clock } = rig([], { timeoutMs: 3_000 })
  endpoint.otherwise = answer
  const waiting = rejection(provider.getToken())
  const aborted = () => endpoint.requests.map(({ init }) => init.signal?.aborted)
  await clock.advance(2_999)
  expect(aborted()).toEqual([false])
  await clock.advance(1)
  expect(aborted()).toEqual([true])
  expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', retryable: true, attempts: 1 })
  expect(clock.sleeping).toBe(0)
})

it('a token request uses an answer that takes nearly all of timeoutMs', async () => {
  const made = rig([(init) => made.clock.sleep(9_999).then(() => granted()(init))])
  await expect(acquired(made, 9_999)).resolves.toBeDefined()
  expect(made.endpoint.count).toBe(1)
})

describe('an error response with a slow body', () => {
  it('that stalls rejects with the status within timeoutMs', async () => {
    const made = rig([stalledWith(400)])
    expect(await failed(made, 9_999)).toMatchObject({
      code: 'ERR_TOKEN_STATUS',
      status: 400,
      retryable: false,
      attempts: 1,
    })
    expect(made.endpoint.count).toBe(1)
  })

  it('that stalls does not delay the error of a redirect', async () => {
    const made = rig([stalledWith(307)])
    expect(await failed(made)).toMatchObject({ code: 'ERR_TOKEN_REDIRECT', status: 307, attempts: 1 })
    expect(made.endpoint.count).toBe(1)
  })

  it('is parsed if the body arrives in time', async () => {
    const slow: Answer = () => {
      const body = new ReadableStream({
        async start(controller) {
          await made.clock.sleep(2_000)
          controller.enqueue(new TextEncoder().encode('{"error":"invalid_client"}'))
          controller.close()
        },
      })
      return new Response(body, { status: 400 })
    }
    const made = rig([slow])
    expect(await failed(made, 2_000)).toMatchObject({ status: 400, error: 'invalid_client' })
  })
})

describe('the last attempt gets the rest of timeoutMs', () => {
  const slow =
    (clock: ManualClock): Answer =>
    async () => {
      await clock.sleep(4_000)
      return new Response('', { status: 503 })
    }
  it.each<[string, (clock: ManualClock) => Answer[], Partial<TokenProviderOptions>]>([
    ['after attempts that failed at once', () => [status(503), status(503), hang], {}],
    ['after slow attempts and pauses', (clock) => [slow(clock), slow(clock), hang], { retries: 5 }],
    ['when it replaces a rejected secret', () => [status(401), hang], { retries: 0 }],
  ])('%s', async (_, answersOn, options) => {
    const clock = new ManualClock()
    const answers = answersOn(clock)
    const attempts = answers.length
    const secrets = ['swordfish-1', 'swordfish-2']
    const clientSecret = () => secrets.shift() ?? 'swordfish-3'
    const { provider, endpoint } = rig(answers, { clock, clientSecret, ...options } as TokenProviderOptions)
    const waiting = rejection(provider.getToken())
    await clock.advance(9_999)
    expect(endpoint.requests[attempts - 1]?.init.signal?.aborted).toBe(false)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts })
  })

  it.each([false, true])('when the clientSecret function is slow (with a store: %s)', async (shared) => {
    const clock = new ManualClock()
    const clientSecret = async () => {
      await clock.sleep(9_000)
      return 'swordfish'
    }
    const store = shared ? new MemoryStore(clock) : undefined
    const { provider } = rig([], { retries: 0, clientSecret, clock, store })
    await expect(acquired({ provider, clock }, 9_000)).resolves.toBeDefined()
  })
})

it('timeoutMs defaults to 10 000 ms', async () => {
  const { provider, endpoint, clock } = rig([hang])
  const waiting = rejection(provider.getToken())
  await clock.advance(9_999)
  expect(endpoint.requests[0]?.init.signal?.aborted).toBe(false)
  await clock.advance(1)
  expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 1 })
})

describe('a failed attempt', () => {
  const offline = () => Promise.reject('offline')
  const connectionCause = { message: 'fetch failed', cause: { code: 'ECONNREFUSED' } }
  const brokenCause = { message: 'terminated', cause: { code: 'ECONNRESET' } }
  const statusError = (code: number) => ({ code: 'ERR_TOKEN_STATUS', status: code })
  const withStatus = (code: number): [unknown, Answer, object] => [code, status(code), statusError(code)]

  it.each<[unknown, Answer, { cause?: object }]>([
    ...[408, 599].map(withStatus),
    ['no connection', noConnection, { code: 'ERR_TOKEN_NETWORK', status: undefined, cause: connectionCause }],
    [
      'a response that breaks off',
      breaksOff(),
      { code: 'ERR_TOKEN_NETWORK', status: undefined, cause: brokenCause },
    ],
    [
      'an empty 200',
      () => new Response(''),
      { code: 'ERR_TOKEN_NETWORK', cause: { message: 'The body is empty, with status 200' } },
    ],
    ['an error that is not an object', offline, { code: 'ERR_TOKEN_NETWORK' }],
    ['a 503 that breaks off', breaksOff(503), { code: 'ERR_TOKEN_STATUS', status: 503 }],
    ...([400, 200] as const).flatMap((code) =>
      ['temporarily_unavailable', 'server_error'].map((error): [string, Answer, object] => [
        `${code} ${error}`,
        status(code, { error }),
        { code: 'ERR_TOKEN_STATUS', status: code, error, message: expect.toSatisfy(isOfKind('server')) },
      ]),
    ),
  ])('is retried: %s', async (_, answer, { cause, ...fields }) => {
    const once = rig([answer])
    await expect(acquired(once)).resolves.toBeDefined()
    expect(once.endpoint.count).toBe(2)
    const always = rig([])
    always.endpoint.otherwise = answer
    const error = await failed(always)
    expect(error).toBeInstanceOf(TokenRequestError)
    expect(error).toMatchObject({ ...fields, attempts: 3, retryable: true })
    if (cause === undefined) expect(error.cause).toBeUndefined()
    else expect(error.cause).toMatchObject(cause)
    expect(always.events.filter(({ type }) => type === 'token-request-failed')).toHaveLength(3)
  })

  it.each<[unknown, Answer, object]>([
    ...[409, 425].map(withStatus),
    ['a 400 that breaks off', breaksOff(400), { code: 'ERR_TOKEN_STATUS', status: 400 }],
  ])('is not retried: %s', async (_, answer, fields) => {
    const made = rig([answer])
    expect(await failed(made)).toMatchObject({ ...fields, attempts: 1, retryable: false })
    expect(made.endpoint.count).toBe(1)
  })

  it.each([
    ['fresh', 100_000],
    ['in its refresh window', 900_000],
  ])('is retried when it was to renew a rejected token: %s', async (_, ageMs) => {
    const { provider, endpoint, clock } = rig([granted()], { retries: 1 })
    const token = await provider.getToken()
    await clock.advance(ageMs)
    endpoint.answers.push(status(503), granted())
    const renewal = provider.renewToken(token, { url: MERCHANT_URL })
    await clock.advance(0) // the pause between the attempts
    expect((await renewal)?.value).not.toBe(token.value)
    expect(endpoint.count).toBe(3)
  })

  it.each([
    [0, 1],
    [1, 2],
    [5, 6],
  ])('with retries: %s is one of %i attempts', async (retries, attempts) => {
    const made = rig([], { retries })
    made.endpoint.otherwise = status(503)
    expect(await failed(made)).toMatchObject({ status: 503, attempts, retryable: true })
    expect(made.endpoint.count).toBe(attempts)
  })
})

describe('the pause before a retry', () => {
  const pausesOf = ({ events }: Rig) =>
    events.flatMap((event) => (event.type === 'token-request-failed' ? [event.nextTryMs] : []))

  it('doubles from 200 ms, and is in the events', async () => {
    random.mockReturnValue(0.999)
    const made = rig([], { retries: 3 })
    made.endpoint.otherwise = status(500)
    const waiting = rejection(made.provider.getToken())
    for (const [pauseMs, requests] of [
      [199.8, 1],
      [399.6, 2],
      [799.2, 3],
    ] as const) {
      await made.clock.advance(pauseMs - 0.1)
      expect(made.endpoint.count).toBe(requests)
      await made.clock.advance(0.1001)
    }
    await waiting
    expect(pausesOf(made)).toEqual([199.8, 399.6, 799.2, undefined])
  })

  it('is at most a fifth of timeoutMs, so that a job with many retries waits for most of it', async () => {
    random.mockReturnValue(1)
    const made = rig([], { retries: 20, timeoutMs: 10_000 })
    made.endpoint.otherwise = status(503)
    const waiting = rejection(made.provider.getToken())
    await made.clock.advance(10_000)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_STATUS' })
    const pauses = pausesOf(made)
    expect(pauses).toEqual([200, 400, 800, 1_600, 2_000, 2_000, 2_000, undefined])
  })

  it('has full jitter', async () => {
    for (const chance of [0, 0.5, 0.25]) random.mockReturnValueOnce(chance)
    const made = rig([], { retries: 3 })
    made.endpoint.otherwise = status(500)
    await failed(made, 400)
    expect(pausesOf(made)).toEqual([0, 200, 200, undefined])
  })

  it('ends the token request if it does not fit into timeoutMs', async () => {
    random.mockReturnValue(0.999)
    const made = rig([], { retries: 20, timeoutMs: 1_000 })
    made.endpoint.otherwise = status(503)
    expect(await failed(made, 1_000)).toMatchObject({ attempts: 6 })
    expect(made.endpoint.count).toBe(6)
  })

  it('is followed by no request if it lasts until timeoutMs, as in a process that was suspended', async () => {
    const made = rig([status(503)])
    const sleep = made.clock.sleep.bind(made.clock)
    made.clock.sleep = (ms, signal) => sleep(ms === 0 ? 10_000 : ms, signal)
    expect(await failed(made, 10_000)).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT' })
    expect(made.endpoint.count).toBe(1)
    expect(made.events.filter(({ type }) => type === 'token-request-failed')).toMatchObject([
      { attempt: 1, status: 503, nextTryMs: 0 },
      { attempt: 2, code: 'ERR_TOKEN_TIMEOUT' },
    ])
  })
})

describe('Retry-After', () => {
  const asksFor = (value: string): Answer => status(429, '', { 'retry-after': value })
  const START = new ManualClock().epochMs()
  const date = (laterMs: number): string => new Date(START + laterMs).toUTCString()

  // RFC 9110 §5.6.7: a recipient must accept all three forms of a date, and all are in UTC.
  it.each(['3', '  3\t', date(3_000), 'Thursday, 01-Jan-26 00:00:03 GMT', 'Thu Jan  1 00:00:03 2026'])(
    'of "%s" is honored in any time zone of the machine',
    async (value) => {
      // Date.parse as it works in Tokyo: a worker thread cannot change its time zone.
      const { parse } = Date
      const tokyo = vi.spyOn(Date, 'parse')
      tokyo.mockImplementation((text) => parse(text.endsWith('GMT') ? text : `${text} GMT+0900`))
      const { provider, endpoint, clock } = rig([asksFor(value)])
      const waiting = provider.getToken()
      await clock.advance(2_999)
      expect(endpoint.count).toBe(1)
      await clock.advance(1)
      expect(endpoint.count).toBe(2)
      await expect(waiting).resolves.toBeDefined()
      tokyo.mockRestore()
    },
  )

  it.each([
    ['an hour ahead', 3_600_000],
    ['an hour behind', -3_600_000],
  ])('as a date counts from the date of the response: a server whose clock is %s', async (_, skewMs) => {
    const headers = { date: date(skewMs), 'retry-after': date(skewMs + 3_000) }
    for (const code of [429, 503]) {
      const { provider, endpoint, clock } = rig([status(code, '', headers)])
      const waiting = provider.getToken()
      await clock.advance(2_999)
      expect(endpoint.count).toBe(1)
      await clock.advance(1)
      await expect(waiting).resolves.toBeDefined()
    }
  })

  it('as a date counts from the clock of this machine if the date of the response is invalid', async () => {
    const made = rig([status(429, '', { date: 'today', 'retry-after': date(60_000) })])
    expect(await failed(made)).toMatchObject({ retryAfterMs: 60_000 })
  })

  it.each(['0', date(-60_000)])('of "%s" does not shorten the backoff', async (value) => {
    random.mockReturnValue(0.999)
    const { provider, endpoint, clock } = rig([asksFor(value)])
    const waiting = provider.getToken()
    await clock.advance(199)
    expect(endpoint.count).toBe(1)
    await clock.advance(1)
    await expect(waiting).resolves.toBeDefined()
  })

  it.each([undefined, 'soon', '-5', '1.5', '', 'Someday, 99 Foo', '6 Nov 2096 08:49:37 GMT'])(
    'after a 429 is required for another attempt, and "%s" is not valid',
    async (value) => {
      const made = rig([value === undefined ? status(429) : asksFor(value)])
      expect(await failed(made)).toMatchObject({
        status: 429,
        attempts: 1,
        retryAfterMs: FIRST_COOLDOWN_429_MS,
      })
      expect(made.endpoint.count).toBe(1)
    },
  )

  it.each([
    ['10', 10_000, '10000 ms'], // exactly timeoutMs
    ['7200', MAX_RETRY_AFTER_429_MS, '7200000 ms'],
  ])(
    'of "%s" that does not fit into timeoutMs ends the request and is in the error',
    async (value, retryAfterMs, asked) => {
      const made = rig([asksFor(value)])
      const error = await failed(made)
      expect(error).toMatchObject({ status: 429, attempts: 1, retryAfterMs })
      expect(error.message).toContain(asked)
      expect(made.endpoint.count).toBe(1)
    },
  )

  it('is not needed for another attempt once a spent quota is full again', async () => {
    const spentFor = (seconds: number): Answer =>
      status(429, '', { 'Auth0-Client-Quota-Limit': `b=per_hour;q=10;r=0;t=${seconds}` })
    const late = rig([spentFor(60)])
    expect(await failed(late)).toMatchObject({ attempts: 1, retryAfterMs: 60_000 })
    const soon = rig([spentFor(2)])
    await acquired(soon, 2_000)
    expect(soon.endpoint.count).toBe(2)
  })
})

class StillClock extends ManualClock {
  standStill(): void {
    this.pass(10_000)
  }
}

it('reads an error body that arrived while the process stood still until timeoutMs had passed', async () => {
  const clock = new StillClock()
  const refused: Answer = (init) => {
    clock.standStill()
    return status(401, { error: 'invalid_client' })(init)
  }
  const error = await rejection<TokenRequestError>(rig([refused], { clock }).provider.getToken())
  expect(error).toMatchObject({ status: 401, error: 'invalid_client' })
})

it('says after a time-out why the attempt before it failed', async () => {
  const reason = Object.assign(new Error('getaddrinfo EAI_AGAIN auth'), { code: 'EAI_AGAIN' })
  const made = rig([() => Promise.reject(reason), hang])
  const error = await failed(made, 10_000)
  expect(error).toMatchObject({
    code: 'ERR_TOKEN_TIMEOUT',
    attempts: 2,
    cause: { code: 'ERR_TOKEN_NETWORK' },
  })
  expect(error.message).toContain('The attempt before failed: POST ')
  expect(error.message).toContain('getaddrinfo EAI_AGAIN auth')
})

it('says after a time-out of an option fetch that it may wait for itself', async () => {
  const CIRCLE = 'it waits for itself'
  const withOption = await failed(rig([hang]), 10_000)
  expect(kindsIn(withOption.message)).toEqual(['no-response'])
  expect(withOption.message).toContain(CIRCLE)
  vi.stubGlobal('fetch', (_: unknown, init: RequestInit) => hang(init))
  const without = await failed(rig([], { fetch: undefined }), 10_000)
  expect(kindsIn(without.message)).toEqual(['no-response'])
  expect(without.message).not.toContain(CIRCLE)
})

it('says after a time-out that the secret was refused before', async () => {
  const secrets = ['made-up-secret-1', 'made-up-secret-2', 'made-up-secret-3']
  const clientSecret = (): string => String(secrets.shift())
  const made = rig([status(503), status(401, { error: 'invalid_client' }), hang], { clientSecret })
  const error = await failed(made, 10_000)
  expect(error).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 3, cause: { error: 'invalid_client' } })
})

it('has the Retry-After of a 429 whose body hangs at the end of timeoutMs', async () => {
  const made = rig([])
  made.endpoint.otherwise = (init) =>
    made.clock.sleep(9_910).then(() => stalledWith(429, { 'retry-after': '600' })(init))
  expect(await failed(made, 10_000)).toMatchObject({
    code: 'ERR_TOKEN_STATUS',
    status: 429,
    retryAfterMs: 600_000,
  })
})

it('is not sent if the process stood still until timeoutMs had passed', async () => {
  const clock = new StillClock()
  const clientSecret = (): string => {
    clock.standStill()
    return SECRET
  }
  const made = rig([granted()], { clock, clientSecret })
  const error = await rejection<TokenRequestError>(made.provider.getToken())
  expect(error).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', retryable: true })
  expect(error.message).toContain(' was not sent. ')
  expect(kindsIn(error.message)).toEqual(['stood-still'])
  expect(made.endpoint.count).toBe(0)
})

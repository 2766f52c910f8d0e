import { TokenRequestError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { breaksOff, noConnection, rejection, rig, status } from './harness.ts'

const random = vi.spyOn(Math, 'random')
beforeEach(() => void random.mockReturnValue(0))
afterEach(() => void random.mockReset())

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
    expect(await rejection(provider.getToken())).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 2 })
    expect(endpoint.count).toBe(1)
    expect(events.at(-1)).toEqual({
      type: 'token-request-failed',
      attempt: 2,
      code: 'ERR_TOKEN_TIMEOUT',
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

  it('is anything down to nothing (full jitter), and told in the events', async () => {
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

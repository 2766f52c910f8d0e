import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { runProgram } from '../support/program.ts'
import { acquired, granted, hang, MERCHANT_URL, noConnection, rig, status, withoutJitter } from './harness.ts'

const random = withoutJitter()

describe('the refresh window', () => {
  it.each([
    { seconds: 36_000, opensMs: 3_600_000 },
    { seconds: 86_400, opensMs: 3_600_000 },
    { seconds: 3_600, opensMs: 720_000 },
    { seconds: 1_000, opensMs: 200_000 },
    { seconds: 100, given: 30_000, opensMs: 30_000 },
    { seconds: 100, given: 90_000, opensMs: 50_000 },
    { seconds: 1_000, jitter: 0.999, opensMs: 150_050 },
    { seconds: 100, given: 90_000, jitter: 0.999, opensMs: 37_512.5 },
  ])(
    'opens $opensMs ms early for a token of $seconds s (refreshAheadMs $given, jitter $jitter)',
    async (row) => {
      random.mockReturnValue(row.jitter ?? 0)
      const answers = [granted({ expires_in: row.seconds })]
      const { provider, clock, endpoint, events } = rig(answers, { refreshAheadMs: row.given })
      const token = await provider.getToken()
      const marginMs = Math.min(10_000, row.seconds * 50)
      await clock.advance(row.seconds * 1_000 - marginMs - row.opensMs - 1)
      expect(provider.currentToken()).toBe(token)
      await settled()
      expect(endpoint.count).toBe(1)
      await clock.advance(1)
      expect(provider.currentToken()).toBe(token)
      await settled()
      expect(endpoint.count).toBe(2)
      expect(provider.currentToken()?.value).not.toBe(token.value)
      expect(events.at(-1)).toEqual({ type: 'token-renewed', reason: 'expiring', environment: 'test' })
    },
  )

  it('causes no request and no timer without a call', async () => {
    const { provider, clock, endpoint } = rig()
    await provider.getToken()
    await clock.advance(900_000)
    expect([endpoint.count, clock.sleeping]).toEqual([1, 0])
  })

  it('of 0 disables background renewals', async () => {
    const { provider, clock, endpoint } = rig([], { refreshAheadMs: 0 })
    await provider.getToken()
    await clock.advance(989_999)
    expect(provider.currentToken()).toBeDefined()
    await settled()
    expect(endpoint.count).toBe(1)
  })
})

describe('a background renewal that fails', () => {
  it.each([
    { when: 'a quarter of the remaining time', leftMs: 200_000, pauseMs: 50_000 },
    { when: 'a quarter of a shorter remaining time', leftMs: 100_000, pauseMs: 25_000 },
    { when: 'a quarter minus 25 % jitter', leftMs: 200_000, chance: 0, pauseMs: 37_500 },
    { when: 'a quarter plus 25 % jitter', leftMs: 200_000, chance: 0.9999, pauseMs: 62_497.5 },
    { when: 'at least five seconds', leftMs: 16_000, pauseMs: 5_000 },
    { when: 'at least five seconds minus 25 % jitter', leftMs: 16_000, chance: 0, pauseMs: 3_750 },
    { when: 'at most five minutes', seconds: 36_000, leftMs: 3_600_000, pauseMs: 300_000 },
    { when: 'a longer Retry-After', leftMs: 200_000, retryAfter: '120', pauseMs: 120_000 },
    {
      when: 'a Retry-After of almost an hour',
      seconds: 36_000,
      leftMs: 3_600_000,
      retryAfter: '3500',
      pauseMs: 3_500_000,
    },
    { when: 'a quarter if Retry-After is shorter', leftMs: 200_000, retryAfter: '49', pauseMs: 50_000 },
    { when: 'a quarter after a 4xx', leftMs: 200_000, code: 400, pauseMs: 50_000 },
  ])(
    'is retried after $when: $pauseMs ms',
    async ({ seconds = 1_000, leftMs, chance = 0.5, retryAfter, code = 503, pauseMs }) => {
      const failure = status(code, '', retryAfter === undefined ? {} : { 'retry-after': retryAfter })
      const { provider, clock, endpoint } = rig([granted({ expires_in: seconds }), failure])
      const token = await provider.getToken()
      random.mockReturnValue(chance)
      await clock.advance(seconds * 1_000 - 10_000 - leftMs)
      expect(await provider.getToken()).toBe(token)
      await clock.advance(pauseMs - 1)
      expect(await provider.getToken()).toBe(token)
      await settled()
      expect(endpoint.count).toBe(2)
      await clock.advance(1)
      expect(await provider.getToken()).toBe(token)
      await settled()
      expect(endpoint.count).toBe(3)
      expect((await provider.getToken()).value).not.toBe(token.value)
    },
  )

  it('does not delay the renewal of the next token, however long its Retry-After', async () => {
    const made = rig([granted(), status(503, '', { 'retry-after': '86400' })], { retries: 0 })
    await made.provider.getToken()
    await made.clock.advance(900_000)
    made.provider.currentToken()
    await made.clock.advance(90_000)
    const next = await made.provider.getToken()
    await made.clock.advance(790_000)
    expect(await made.provider.getToken()).toBe(next)
    await settled()
    expect(made.endpoint.count).toBe(4)
  })

  it('is followed by a new request for a call that waits for it', async () => {
    const made = rig([granted(), hang], { retries: 0 })
    const token = await made.provider.getToken()
    await made.clock.advance(989_999)
    made.provider.currentToken()
    await made.clock.advance(1)
    expect((await acquired(made, 5_000)).value).not.toBe(token.value)
    expect(made.endpoint.count).toBe(3)
  })
})

/** The most token requests in any hour. */
function mostInAnHour(times: readonly number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + 3_600_000).length))
}

describe('an outage of the token endpoint that begins when the refresh window opens', () => {
  it.each([
    { lasts: '45 minutes', seconds: 36_000, outageMs: 45 * 60_000 },
    { lasts: '45 minutes', seconds: 86_400, outageMs: 45 * 60_000 },
    { lasts: '8 minutes', seconds: 3_600, outageMs: 8 * 60_000 },
    { lasts: 'until the cached token expires', seconds: 36_000, outageMs: undefined },
    { lasts: 'until the cached token expires', seconds: 3_600, outageMs: undefined },
  ])(
    'fails no call and causes few requests an hour: lasts $lasts, tokens of $seconds s',
    async ({ seconds, outageMs }) => {
      for (const chance of [0, 0.3, 0.6, 0.999]) {
        random.mockReturnValue(chance)
        const made = rig([granted({ expires_in: seconds })])
        await made.provider.getToken()
        random.mockReset() // real jitter from here on
        const windowMs = Math.min(3_600_000, 200 * seconds) * (1 - 0.25 * chance)
        await made.clock.advance(seconds * 1_000 - 10_000 - windowMs)
        const endsAt = made.clock.monotonicMs() + (outageMs ?? windowMs)
        const askedAt: number[] = []
        made.endpoint.otherwise = (init) => {
          const isDown = made.clock.monotonicMs() < endsAt
          if (isDown) askedAt.push(made.clock.monotonicMs())
          return (isDown ? noConnection : granted())(init)
        }
        for (let passedMs = 0; passedMs < windowMs; passedMs += 1_000) {
          expect(await made.provider.getToken()).toBeDefined()
          await made.clock.advance(1_000)
        }
        const isEarly = endsAt <= made.clock.monotonicMs() - 300_000 // the outage ended well before the token expires
        expect(mostInAnHour(askedAt)).toBeLessThanOrEqual(isEarly ? 15 : 30)
        expect(askedAt.length).toBeGreaterThan(2)
      }
    },
  )
})

it('a background renewal that fails is not followed at once by one that a call began behind it', async () => {
  const gates = [Promise.withResolvers<Response>(), Promise.withResolvers<Response>()]
  const answers = [
    granted({ expires_in: 100 }),
    ...gates.map(
      ({ promise }) =>
        () =>
          promise,
    ),
  ]
  const { provider, clock, endpoint } = rig(answers, { refreshAheadMs: 50_000 })
  const renewal = provider.renewToken(await provider.getToken(), { url: MERCHANT_URL })
  await settled()
  clock.stepWallClock(60_000) // both tokens are in their window now
  provider.currentToken()
  gates[0]?.resolve(await granted({ expires_in: 100 })({}))
  await renewal
  await settled()
  provider.currentToken()
  await settled()
  gates[1]?.reject(new TypeError('fetch failed'))
  await settled()
  expect(endpoint.count).toBe(3)
})

it('a background renewal that hangs does not keep the process alive', async () => {
  const ended = await runProgram(`
    const asked = Promise.withResolvers()
    let calls = 0
    const tokens = createTokenProvider({
      environment: { authUrl: 'https://a.example', audience: 'https://b.example', apiUrls: ['https://b.example'] },
      clientId: 'c', clientSecret: 'swordfish', timeoutMs: 3_600_000, clock,
      fetch: async () => {
        calls += 1
        if (calls === 1) return Response.json({ access_token: 'a', expires_in: 600, token_type: 'bearer' })
        asked.resolve()
        return await new Promise(() => {})
      },
    })
    await tokens.getToken()
    later(570_000) // into the refresh window
    tokens.currentToken()
    await asked.promise
    console.log(calls)`)
  expect(ended).toEqual({ said: '2', code: 0 })
})

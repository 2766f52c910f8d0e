import { describe, expect, it } from 'vitest'
import { BACKGROUND_PAUSE_SHARE } from '../../src/token/limits/request-limits.ts'
import { settled } from '../support/clock.ts'
import { HOUR_MS } from '../support/periods.ts'
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
    async ({ seconds, given, jitter = 0, opensMs }) => {
      random.mockReturnValue(jitter)
      const answers = [granted({ expires_in: seconds })]
      const options = { refreshAheadMs: given, expiryMarginMs: 0 }
      const { provider, clock, endpoint, events } = rig(answers, options)
      const token = await provider.getToken()
      await clock.advance(seconds * 1_000 - opensMs - 1)
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

it('a background renewal may take all of timeoutMs', async () => {
  const { provider, clock, endpoint } = rig([
    granted(),
    (init) => clock.sleep(9_999).then(() => granted()(init)),
  ])
  const token = await provider.getToken()
  await clock.advance(800_000)
  expect(provider.currentToken()).toBe(token)
  await clock.advance(9_999)
  expect(provider.currentToken()?.value).not.toBe(token.value)
  expect(endpoint.count).toBe(2)
})

describe('a background renewal that fails', () => {
  it.each([
    ['a part of the time that the token may still be served', status(503), 100_000 * BACKGROUND_PAUSE_SHARE],
    ['a longer Retry-After', status(503, '', { 'retry-after': '60' }), 60_000],
  ])('is retried after %s', async (_, failure, pauseMs) => {
    const { provider, clock, endpoint } = rig([granted(), failure])
    const token = await provider.getToken()
    random.mockReturnValue(0.5)
    await clock.advance(890_000) // 100 s before its margin
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
  })

  it('is followed by a new request, with all of timeoutMs, for a call that waits for it', async () => {
    const made = rig([granted(), hang], { retries: 0 })
    const token = await made.provider.getToken()
    await made.clock.advance(989_999)
    made.provider.currentToken()
    await made.clock.advance(1)
    made.endpoint.answers.push((init) => made.clock.sleep(9_999).then(() => granted()(init)))
    expect((await acquired(made, 9_999 + 9_999)).value).not.toBe(token.value)
    expect(made.endpoint.count).toBe(3)
  })
})

it.each([
  { lasts: '40 minutes', outageMs: 2_400_000 },
  { lasts: 'until the token expires', outageMs: Number.POSITIVE_INFINITY },
])(
  'an outage of the token endpoint that begins when the refresh window opens fails no call: it lasts $lasts',
  async ({ outageMs }) => {
    const made = rig([granted({ expires_in: 36_000 })], { refreshAheadMs: HOUR_MS, expiryMarginMs: 0 })
    await made.provider.getToken()
    random.mockReset() // real jitter from here on
    await made.clock.advance(9 * HOUR_MS)
    const endsAt = made.clock.monotonicMs() + outageMs
    made.endpoint.otherwise = (init) => (made.clock.monotonicMs() < endsAt ? noConnection : granted())(init)
    for (let passedMs = 0; passedMs < HOUR_MS; passedMs += 1_000) {
      expect(await made.provider.getToken()).toBeDefined()
      await made.clock.advance(1_000)
    }
    expect(made.endpoint.count).toBeGreaterThan(3)
  },
)

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

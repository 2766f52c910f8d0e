import { TokenResponseError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { acquired, failed, granted, rig, withoutJitter } from './harness.ts'

withoutJitter()

describe('the lifetime of a token', () => {
  it.each([
    { seconds: 36_000, marginMs: 10_000 },
    { seconds: 86_400, marginMs: 10_000 },
    { seconds: 200, marginMs: 10_000 },
    { seconds: 100, marginMs: 5_000 },
    { seconds: 1, marginMs: 50 },
    { seconds: 100, given: 0, marginMs: 0 },
    { seconds: 100, given: 7_000, marginMs: 7_000 },
    { seconds: 100, given: 25_000, marginMs: 25_000 },
    { seconds: 100, given: 90_000, marginMs: 25_000 },
  ])(
    'of $seconds s ends $marginMs ms early (expiryMarginMs $given)',
    async ({ seconds, given, marginMs }) => {
      const options = { expiryMarginMs: given, refreshAheadMs: 0 }
      const { provider, clock } = rig([granted({ expires_in: seconds })], options)
      const token = await provider.getToken()
      await clock.advance(seconds * 1_000 - marginMs - 1)
      expect(provider.currentToken()).toBe(token)
      await clock.advance(1)
      expect(provider.currentToken()).toBeUndefined()
    },
  )

  interface Life {
    /** How far the wall clock is set ahead or back while the request is in flight, which takes so long (ms). */
    readonly inFlight?: { readonly stepMs?: number; readonly takesMs?: number }
    /** Steps of the wall clock afterwards (ms); the token is handed out after each. */
    readonly steps?: readonly number[]
    /** How long (ms) the token is handed out from then on. */
    readonly leftMs: number
  }
  it.each<[name: string, life: Life]>([
    ['counts from the moment the request was sent', { inFlight: { takesMs: 4_000 }, leftMs: 986_000 }],
    [
      'ends by the monotonic clock even if the wall clock was set back',
      { steps: [-3_600_000], leftMs: 990_000 },
    ],
    [
      'is not extended if the wall clock is set ahead and back',
      { steps: [600_000, -600_000], leftMs: 390_000 },
    ],
    [
      'includes a sleep of the machine during the request',
      { inFlight: { stepMs: 600_000 }, leftMs: 390_000 },
    ],
    [
      'includes a sleep of the machine after the wall clock was set back',
      { steps: [-600_000, 600_000], leftMs: 390_000 },
    ],
  ])('%s', async (_, { inFlight: { stepMs: sleptMs = 0, takesMs = 0 } = {}, steps = [], leftMs }) => {
    const made = rig([], { refreshAheadMs: 0 })
    const { provider, clock, endpoint } = made
    endpoint.answers.push(async (init) => {
      clock.stepWallClock(sleptMs)
      await clock.sleep(takesMs)
      return await granted()(init)
    })
    const sentAt = clock.epochMs()
    const token = await acquired(made, takesMs)
    expect(token.expiresAt).toBe(sentAt + 1_000_000)
    for (const stepMs of steps) {
      clock.stepWallClock(stepMs)
      expect(provider.currentToken()).toBe(token)
    }
    await clock.advance(leftMs - 1)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('ends by the wall clock if the machine slept, and does not resume if the clock is set back', async () => {
    const { provider, clock } = rig([], { refreshAheadMs: 0 })
    const token = await provider.getToken()
    clock.stepWallClock(989_999)
    expect(provider.currentToken()).toBe(token)
    clock.stepWallClock(1)
    expect(provider.currentToken()).toBeUndefined()
    clock.stepWallClock(-2_000_000)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('that is always over on arrival makes the call fail after three requests', async () => {
    const made = rig([], {
      onEvent: ({ type }) => {
        if (type === 'token-acquired') made.clock.stepWallClock(2_000_000)
      },
    })
    expect(await failed(made)).toBeInstanceOf(TokenResponseError)
    expect(made.endpoint.count).toBe(3)
  })
})

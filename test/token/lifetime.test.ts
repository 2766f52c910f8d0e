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

  /** `wall` steps the wall clock, the first time while the request is in flight. */
  it.each<[name: string, takesMs: number, wall: number[], leftMs: number]>([
    ['counts from the moment the request was sent', 4_000, [0], 986_000],
    ['ends by the monotonic clock even if the wall clock was set back', 0, [0, -3_600_000], 990_000],
    ['ends by the wall clock if the machine slept', 0, [0, 989_999, 1], 0],
    ['is not extended if the wall clock is set ahead and back', 0, [0, 600_000, -600_000], 390_000],
    ['does not resume after the wall clock ended it and is set back', 0, [0, 2_000_000, -2_000_000], 0],
    ['includes a sleep of the machine during the request', 0, [600_000], 390_000],
    ['includes a sleep of the machine after the wall clock was set back', 0, [0, -600_000, 600_000], 390_000],
  ])('%s', async (_, takesMs, [sleptMs = 0, ...wall], leftMs) => {
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
    for (const [n, stepMs] of wall.entries()) {
      clock.stepWallClock(stepMs)
      const ended = leftMs === 0 && (n > 0 || stepMs > 990_000)
      expect(provider.currentToken()).toBe(ended ? undefined : token)
    }
    await clock.advance(Math.max(0, leftMs - 1))
    expect(provider.currentToken()).toBe(leftMs === 0 ? undefined : token)
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('that is always over on arrival makes the call fail after a few requests', async () => {
    const made = rig([], {
      onEvent: ({ type }) => {
        if (type === 'token-acquired') made.clock.stepWallClock(2_000_000)
      },
    })
    expect(await failed(made)).toBeInstanceOf(TokenResponseError)
    expect(made.endpoint.count).toBeLessThan(5)
  })
})

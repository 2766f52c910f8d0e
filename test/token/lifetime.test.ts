import { TokenResponseError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../support/clock.ts'
import { type Answer, granted, rig } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

describe('the life of a token', () => {
  it('counts from the moment the request was sent', async () => {
    const clock = new ManualClock()
    const sentAt = clock.epochMs()
    const slow: Answer = async () => {
      await clock.sleep(4_000)
      return granted()({})
    }
    const { provider } = rig([slow], { clock, refreshAheadMs: 0 })
    const waiting = provider.getToken()
    await clock.advance(4_000)
    expect((await waiting).expiresAt).toBe(sentAt + 1_000_000)
    await clock.advance(985_999)
    expect(provider.currentToken()).toBeDefined()
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })

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
  ])('of $seconds s ends $marginMs ms early (given margin: $given)', async ({ seconds, given, marginMs }) => {
    const { provider, clock } = rig([granted({ expires_in: seconds })], {
      expiryMarginMs: given,
      refreshAheadMs: 0,
    })
    const token = await provider.getToken()
    await clock.advance(seconds * 1_000 - marginMs - 1)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('is followed by a new one when the same call is made again', async () => {
    const { provider, clock, endpoint } = rig()
    const first = await provider.getToken()
    await clock.advance(990_000)
    expect((await provider.getToken()).value).not.toBe(first.value)
    expect(endpoint.count).toBe(2)
  })
})

describe('two clocks', () => {
  it('that jump whenever a token arrives end the looking', async () => {
    const { provider, clock, endpoint } = rig([], {
      onEvent: ({ type }) => {
        if (type === 'token-acquired') clock.stepWallClock(2_000_000)
      },
    })
    await expect(provider.getToken()).rejects.toBeInstanceOf(TokenResponseError)
    expect(endpoint.count).toBeLessThan(5)
  })

  it('end a token on the monotonic one, though the wall clock stepped back', async () => {
    const { provider, clock } = rig([], { refreshAheadMs: 0 })
    await provider.getToken()
    await clock.advance(100_000)
    clock.stepWallClock(-3_600_000)
    await clock.advance(889_999)
    expect(provider.currentToken()).toBeDefined()
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('end a token on the wall clock, when the machine slept', async () => {
    const { provider, clock } = rig()
    await provider.getToken()
    clock.stepWallClock(989_999)
    expect(provider.currentToken()).toBeDefined()
    clock.stepWallClock(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('give no time back when the wall clock, once ahead, is set back', async () => {
    const { provider, clock } = rig([], { refreshAheadMs: 0 })
    await provider.getToken()
    clock.stepWallClock(600_000)
    expect(provider.currentToken()).toBeDefined()
    clock.stepWallClock(-600_000)
    await clock.advance(389_999)
    expect(provider.currentToken()).toBeDefined()
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('do not revive a token that the wall clock has ended', async () => {
    const { provider, clock } = rig()
    await provider.getToken()
    clock.stepWallClock(2_000_000)
    expect(provider.currentToken()).toBeUndefined()
    clock.stepWallClock(-2_000_000)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('count a sleep of the machine while the request was under way', async () => {
    const clock = new ManualClock()
    const slept: Answer = (init) => {
      clock.stepWallClock(600_000)
      return granted()(init)
    }
    const { provider } = rig([slept], { clock, refreshAheadMs: 0 })
    const token = await provider.getToken()
    await clock.advance(389_999)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('still count a sleep of the machine after the wall clock was set back', async () => {
    const { provider, clock } = rig([], { refreshAheadMs: 0 })
    await provider.getToken()
    clock.stepWallClock(-600_000)
    expect(provider.currentToken()).toBeDefined()
    clock.stepWallClock(600_000) // asleep: the monotonic clock stands, ten minutes pass
    await clock.advance(389_999)
    expect(provider.currentToken()).toBeDefined()
    await clock.advance(1)
    expect(provider.currentToken()).toBeUndefined()
  })
})

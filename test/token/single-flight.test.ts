/** Many callers share one token request, and those that wait behind another's look again before they ask. */
import { createHook } from 'node:async_hooks'
import { describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import {
  type Answer,
  acquired,
  granted,
  hang,
  IN_STORE_URL,
  MERCHANT_URL,
  rejection,
  rig,
  status,
  withoutJitter,
} from './harness.ts'

withoutJitter()

describe('many callers', () => {
  it('make one token request, also when they come while it is under way, and all get its token', async () => {
    const made = rig([() => made.clock.sleep(4_000).then(() => granted()({}))])
    const tokens = Array.from({ length: 1_000 }, () => made.provider.getToken())
    await made.clock.advance(3_999)
    tokens.push(acquired(made, 1))
    expect(new Set((await Promise.all(tokens)).map(({ value }) => value)).size).toBe(1)
    expect(made.endpoint.count).toBe(1)
  })

  it('leave the rejected token in the key of no map while it is renewed', async () => {
    const { provider } = rig()
    const token = await provider.getToken()
    const set = vi.spyOn(Map.prototype, 'set')
    const renewals = await Promise.all([provider.renewToken(token), provider.renewToken(token)])
    const keys = set.mock.calls.map(([key]) => String(key))
    set.mockRestore()
    expect(renewals[0]).toBe(renewals[1])
    expect(keys.filter((key) => key.includes(token.value))).toEqual([])
  })
})

describe('a look at the token', () => {
  it.each([
    ['of a fresh one', granted(), 0, 0, 1],
    ['while the background renewal runs', hang, 800_000, 0, 2],
    ['in the cooldown of one that failed', status(503), 800_000, 999, 2],
  ])(
    '%s is synchronous, makes no promise and leaves nothing behind',
    async (_, next, laterMs, thenMs, requests) => {
      const { provider, endpoint, clock, events } = rig([granted(), next], { retries: 0 })
      const token = await provider.getToken()
      await clock.advance(laterMs)
      provider.currentToken()
      await settled() // what the call may have begun has ended
      await clock.advance(thenMs)
      const before = [clock.sleeping, events.length]
      const made: string[] = []
      const hook = createHook({ init: (_, type) => void made.push(type) }).enable()
      const seen = new Set(Array.from({ length: 1_000 }, () => provider.currentToken()))
      hook.disable()
      expect([...seen]).toEqual([token])
      expect(made).toEqual([])
      expect(await provider.getToken()).toBe(token)
      expect([endpoint.count, clock.sleeping, events.length]).toEqual([requests, ...before])
    },
  )

  it('gives nothing where there is no token, and asks for none', async () => {
    const { provider, endpoint } = rig()
    expect(provider.currentToken()).toBeUndefined()
    await settled()
    expect(endpoint.count).toBe(0)
  })
})

/** A provider with a token of 1 000 s (window: the last 200 s before 990 s) whose next answer waits for the test. */
async function held(next: Answer, retries = 0) {
  const gate = Promise.withResolvers<void>()
  const made = rig([granted(), (init) => gate.promise.then(() => next(init))], { retries })
  const token = await made.provider.getToken()
  return { ...made, token, answer: () => gate.resolve() }
}

describe('a background renewal that waits behind a renewal after a rejection', () => {
  it('does not ask again when that one succeeded', async () => {
    const { provider, endpoint, clock, token, answer, events } = await held(granted())
    await clock.advance(789_999)
    const renewal = provider.renewToken(token)
    await clock.advance(1)
    expect(provider.currentToken()).toBe(token)
    answer()
    const newer = await renewal
    await settled()
    expect(provider.currentToken()).toBe(newer)
    expect(endpoint.count).toBe(2)
    expect(events.filter(({ type }) => type === 'token-renewed')).toHaveLength(1)
  })

  it('does not ask again when that one failed, before the cooldown is over', async () => {
    const { provider, endpoint, clock, token, answer } = await held(status(503))
    await clock.advance(789_999)
    const renewal = rejection(provider.renewToken(token))
    await clock.advance(1)
    provider.currentToken()
    answer()
    await renewal
    await settled()
    expect(endpoint.count).toBe(2)
    await clock.advance(1_000)
    expect(provider.currentToken()).toBe(token)
    await settled()
    expect(endpoint.count).toBe(3)
  })
})

describe('a call that waits behind a background renewal', () => {
  it.each([
    ['gets the new token after its own has expired, and does not ask', granted(), undefined],
    [
      'does not ask when that one fails and asks for a pause',
      status(503, '', { 'retry-after': '20' }),
      20_000,
    ],
  ])('%s', async (_, next, retryAfterMs) => {
    const { provider, endpoint, clock, token, answer } = await held(next)
    await clock.advance(989_999)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    const waiting = retryAfterMs === undefined ? provider.getToken() : rejection(provider.getToken())
    await settled()
    answer()
    expect(await waiting).toMatchObject(
      retryAfterMs ? { status: 503, retryAfterMs } : { tokenType: 'Bearer' },
    )
    expect(await waiting).not.toBe(token)
    expect(endpoint.count).toBe(2)
  })

  it('with a rejected token gets the new one, and uses up nothing of the rate limit', async () => {
    const { provider, endpoint, clock, token, answer } = await held(granted())
    await clock.advance(800_000)
    provider.currentToken()
    const renewal = provider.renewToken(token, { url: MERCHANT_URL })
    await settled()
    answer()
    const newer = await renewal
    expect(newer?.value).not.toBe(token.value)
    expect(endpoint.count).toBe(2)
    expect(await provider.renewToken(newer ?? token, { url: MERCHANT_URL })).toBeDefined()
    expect(endpoint.count).toBe(3)
  })

  it('that took nearly all its time and gave the rejected token again, asks in what is left', async () => {
    const slowly =
      (answer: Answer): Answer =>
      async (init) => {
        await made.clock.sleep(4_000)
        return await answer(init)
      }
    const same = granted({ access_token: 'the.same.token' })
    const made = rig([same, slowly(same)])
    const token = await made.provider.getToken()
    await made.clock.advance(800_000)
    made.provider.currentToken()
    const renewal = made.provider.renewToken(token)
    await made.clock.advance(4_000)
    expect((await renewal)?.value).not.toBe(token.value)
    expect(made.endpoint.count).toBe(3)
  })
})

it('an API is not held up by the rate limit of another while a background renewal runs', async () => {
  const same = granted({ access_token: 'the.same.token' })
  const { provider, clock, endpoint, token, answer } = await held(same)
  endpoint.answers.unshift(same)
  await clock.advance(789_999)
  const newer = (await provider.renewToken(token, { url: MERCHANT_URL })) ?? token
  clock.stepWallClock(800_000) // into the window, and no nearer to the next renewal
  provider.currentToken()
  await settled()
  expect(endpoint.count).toBe(3)
  void provider.renewToken(newer, { url: MERCHANT_URL })
  const inStore = provider.renewToken(newer, { url: IN_STORE_URL })
  answer()
  expect((await inStore)?.value).not.toBe(newer.value)
  expect(endpoint.count).toBe(4)
})

/** Many callers share one token request, and those that wait behind another's look again before they ask. */
import { createHook } from 'node:async_hooks'
import { ProviderClosedError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import {
  type Answer,
  granted,
  hang,
  IN_STORE_URL,
  MERCHANT_URL,
  type Rig,
  rejection,
  rig,
  status,
} from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

describe('many callers', () => {
  it('make one token request, and all get its token', async () => {
    const { provider, endpoint } = rig()
    const tokens = await Promise.all(Array.from({ length: 1_000 }, () => provider.getToken()))
    expect(endpoint.count).toBe(1)
    expect(new Set(tokens.map(({ value }) => value)).size).toBe(1)
  })

  it('make one token request also when they come while it is under way', async () => {
    const { provider, endpoint, clock } = rig([hang], { retries: 0 })
    const first = rejection(provider.getToken())
    await clock.advance(9_999)
    const second = rejection(provider.getToken())
    await clock.advance(1)
    await Promise.all([first, second])
    expect(endpoint.count).toBe(1)
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

  it('never see two requests in flight, with renewals and expiry mixed', async () => {
    let inFlight = 0
    let most = 0
    const { provider, clock } = rig([], {
      fetch: async () => {
        inFlight += 1
        most = Math.max(most, inFlight)
        await settled()
        inFlight -= 1
        return granted()({})
      },
    })
    const first = await provider.getToken()
    await clock.advance(800_000)
    provider.currentToken()
    await Promise.all([
      provider.renewToken(first),
      provider.renewToken(first, { url: 'https://api.test.example/in-store/1' }),
      provider.getToken(),
    ])
    await settled()
    expect(most).toBe(1)
  })

  it('with two providers share nothing', async () => {
    const one = rig()
    const other = rig()
    const tokens = await Promise.all([one.provider.getToken(), other.provider.getToken()])
    expect(tokens[0].value).not.toBe(tokens[1].value)
    expect([one.endpoint.count, other.endpoint.count]).toEqual([1, 1])
  })
})

describe('the hot path', () => {
  const fresh = async (): Promise<Rig> => {
    const made = rig()
    await made.provider.getToken()
    await settled() // what the call may have begun has ended
    made.events.length = 0
    return made
  }

  it('is synchronous, gives the same token and leaves nothing behind', async () => {
    const { provider, endpoint, clock, events } = await fresh()
    const token = provider.currentToken()
    expect(token).not.toBeInstanceOf(Promise)
    for (let call = 0; call < 1_000; call += 1) expect(provider.currentToken()).toBe(token)
    expect([endpoint.count, clock.sleeping, events.length]).toEqual([1, 0, 0])
  })

  it('makes no promise and no timer', async () => {
    const { provider } = await fresh()
    const made: string[] = []
    const hook = createHook({ init: (_, type) => void made.push(type) }).enable()
    for (let call = 0; call < 100; call += 1) provider.currentToken()
    hook.disable()
    expect(made).toEqual([])
  })

  it('gives nothing where there is no token, and asks for none', async () => {
    const { provider, endpoint } = rig()
    expect(provider.currentToken()).toBeUndefined()
    await settled()
    expect(endpoint.count).toBe(0)
  })

  it('gives to getToken too, without a further request', async () => {
    const { provider, endpoint } = await fresh()
    expect(await provider.getToken()).toBe(provider.currentToken())
    expect(endpoint.count).toBe(1)
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
  it('after its token has expired gets the new one, and does not ask', async () => {
    const { provider, endpoint, clock, token, answer } = await held(granted())
    await clock.advance(989_999)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    const waiting = provider.getToken()
    await settled()
    answer()
    expect((await waiting).value).not.toBe(token.value)
    expect(endpoint.count).toBe(2)
  })

  it('does not ask when that one fails and asks for a pause', async () => {
    const { provider, endpoint, clock, token, answer } = await held(status(503, '', { 'retry-after': '20' }))
    await clock.advance(989_999)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    const waiting = rejection(provider.getToken())
    await settled()
    answer()
    expect(await waiting).toMatchObject({ status: 503, retryAfterMs: 20_000 })
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
    const made = rig([same, slowly(status(503)), slowly(same)])
    const token = await made.provider.getToken()
    await made.clock.advance(800_000)
    made.provider.currentToken()
    const renewal = made.provider.renewToken(token)
    await made.clock.advance(8_000)
    expect((await renewal)?.value).not.toBe(token.value)
    expect(made.endpoint.count).toBe(4)
  })
})

describe('a renewal after a rejection that fails', () => {
  it('holds back the first call after expiry too: somebody waited for it', async () => {
    const { provider, endpoint, clock } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503 })
    clock.stepWallClock(990_000)
    await expect(provider.getToken()).rejects.toMatchObject({ status: 503, retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(2)
  })
})

describe('two APIs that reject a token while a background renewal runs', () => {
  /** The merchant API has just had a renewal, the in-store API none; the next answer waits for the test. */
  async function limited(next: Answer) {
    const gate = Promise.withResolvers<void>()
    const same = granted({ access_token: 'the.same.token' })
    const made = rig([granted(), same, (init) => gate.promise.then(() => next(init))], { retries: 0 })
    const old = await made.provider.getToken()
    await made.clock.advance(789_999)
    const token = (await made.provider.renewToken(old, { url: MERCHANT_URL })) ?? old
    made.clock.stepWallClock(800_000) // into the window, and no nearer to the next renewal
    made.provider.currentToken()
    await settled()
    expect(made.endpoint.count).toBe(3)
    return { ...made, token, answer: () => gate.resolve() }
  }

  it('each have a rate limit of their own: the one does not wait for what the other may not have', async () => {
    const { provider, endpoint, token, answer } = await limited(granted({ access_token: 'the.same.token' }))
    void provider.renewToken(token, { url: MERCHANT_URL })
    const inStore = provider.renewToken(token, { url: IN_STORE_URL })
    answer()
    expect((await inStore)?.value).not.toBe(token.value)
    expect(endpoint.count).toBe(4)
  })
})

describe('in the refresh window', () => {
  /** The kinds of resources that Node made during 100 looks at the token. */
  function madeBy(look: () => unknown): string[] {
    const made: string[] = []
    const hook = createHook({ init: (_, type) => void made.push(type) }).enable()
    for (let call = 0; call < 100; call += 1) look()
    hook.disable()
    return made
  }

  it('a look at the token makes no promise while the renewal runs', async () => {
    const { provider, clock, endpoint } = rig([granted(), hang], { retries: 0 })
    await provider.getToken()
    await clock.advance(800_000)
    provider.currentToken()
    await settled()
    expect(endpoint.count).toBe(2)
    expect(madeBy(() => provider.currentToken())).toEqual([])
  })

  it('a look at the token makes no promise in the cooldown of a failed one', async () => {
    const { provider, clock, endpoint } = rig([granted(), status(503)], { retries: 0 })
    await provider.getToken()
    await clock.advance(800_000)
    provider.currentToken()
    await settled()
    await clock.advance(999)
    expect(madeBy(() => provider.currentToken())).toEqual([])
    expect(endpoint.count).toBe(2)
  })
})

describe('a provider closed in a cooldown', () => {
  it('rejects with a ProviderClosedError, not with the last failure', async () => {
    const { provider, clock } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await rejection(provider.renewToken(token))
    clock.stepWallClock(990_000)
    await expect(provider.getToken()).rejects.toMatchObject({ status: 503 })
    await provider.close()
    await expect(provider.getToken()).rejects.toBeInstanceOf(ProviderClosedError)
    await expect(provider.renewToken(token)).rejects.toBeInstanceOf(ProviderClosedError)
  })
})

/** Who waits behind another's token request looks again before asking: at the token, the cooldown and the time left. */
import { createHook } from 'node:async_hooks'
import { ProviderClosedError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { type Answer, granted, hang, IN_STORE_URL, MERCHANT_URL, rejection, rig, status } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

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

  it('does not ask when that one fails and asks to be left alone', async () => {
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

  it('with a refused token gets the new one, and uses up no ration', async () => {
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

  it('that took nearly all its time and gave the refused token again, asks in what is left', async () => {
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

  it('is shared by the other API that refused the same token', async () => {
    const { provider, endpoint, token, answer } = await held(status(503))
    const renewals = [MERCHANT_URL, IN_STORE_URL].map((url) => rejection(provider.renewToken(token, { url })))
    await settled()
    answer()
    for (const error of await Promise.all(renewals)) expect(error).toMatchObject({ status: 503 })
    expect(endpoint.count).toBe(2)
  })
})

describe('two APIs that refuse a token while a background renewal runs', () => {
  /** The merchant API has just had a renewal, the in-store API none; the next answer waits for the test. */
  async function rationed(next: Answer) {
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

  it('each go by a ration of their own: the one does not wait for what the other may not have', async () => {
    const { provider, endpoint, token, answer } = await rationed(granted({ access_token: 'the.same.token' }))
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

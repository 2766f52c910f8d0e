/** Concurrent callers share one token request, and a caller that waited for another one checks the cached token first. */
import { createHook } from 'node:async_hooks'
import type { Clock, TokenProviderOptions } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { quiet } from '../store/fleet.ts'
import { FAILURES, MemoryStore } from '../store/memory-store.ts'
import { leaseHeldByAnother } from '../store/scenes.ts'
import { ManualClock, settled } from '../support/clock.ts'
import {
  type Answer,
  acquired,
  deaf,
  granted,
  hang,
  IN_STORE_URL,
  MERCHANT_URL,
  rejection,
  rig,
  SECRET,
  status,
  withoutJitter,
} from './harness.ts'

withoutJitter()

describe('concurrent callers', () => {
  it('share one token request and its token, even if they call while it is in flight', async () => {
    const made = rig([() => made.clock.sleep(4_000).then(() => granted()({}))])
    const tokens = Array.from({ length: 1_000 }, () => made.provider.getToken())
    await made.clock.advance(3_999)
    tokens.push(acquired(made, 1))
    expect(new Set((await Promise.all(tokens)).map(({ value }) => value)).size).toBe(1)
    expect(made.endpoint.count).toBe(1)
  })

  it('share one token request when two APIs reject a token, and get separate errors if it fails', async () => {
    const { provider, endpoint } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    const errors = await Promise.all(
      [MERCHANT_URL, IN_STORE_URL].map((url) => rejection(provider.renewToken(token, { url }))),
    )
    for (const error of errors) expect(error).toMatchObject({ code: 'ERR_TOKEN_STATUS', status: 503 })
    expect(errors[0]).not.toBe(errors[1])
    expect(endpoint.count).toBe(2)
  })
})

describe('currentToken()', () => {
  it.each([
    ['with a fresh token', granted(), 0, 0, 1],
    ['while a background renewal is in flight', hang, 800_000, 0, 2],
    ['in the pause after a failed background renewal', status(503), 800_000, 999, 2],
  ])('creates no async resource and no request: %s', async (_, next, laterMs, thenMs, requests) => {
    const { provider, endpoint, clock } = rig([granted(), next], { retries: 0 })
    const token = await provider.getToken()
    await clock.advance(laterMs)
    provider.currentToken()
    await settled() // the renewal that the call may have started has got as far as it can
    await clock.advance(thenMs)
    const made: string[] = []
    const hook = createHook({ init: (_, type) => void made.push(type) }).enable()
    const seen = new Set(Array.from({ length: 1_000 }, () => provider.currentToken()))
    hook.disable()
    expect([...seen]).toEqual([token])
    expect(made).toEqual([])
    expect(await provider.getToken()).toBe(token)
    expect(endpoint.count).toBe(requests)
  })

  it('returns undefined and makes no token request if no token is cached', async () => {
    const { provider, endpoint } = rig()
    expect(provider.currentToken()).toBeUndefined()
    await settled()
    expect(endpoint.count).toBe(0)
  })
})

/** A provider with a token of 1 000 s (refresh window: 790 s to 990 s) whose next answer waits for the test. */
async function withGatedAnswer(next: Answer, retries = 0) {
  const gate = Promise.withResolvers<void>()
  const made = rig([granted(), (init) => gate.promise.then(() => next(init))], { retries })
  const token = await made.provider.getToken()
  return { ...made, token, answer: () => gate.resolve() }
}

describe('a background renewal that waits behind a renewal after a rejection', () => {
  it('makes no request when that renewal succeeded', async () => {
    const { provider, endpoint, clock, token, answer, events } = await withGatedAnswer(granted())
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

  it('makes no request before the cooldown ends when that renewal failed', async () => {
    const { provider, endpoint, clock, token, answer } = await withGatedAnswer(status(503))
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
  it('gets the new token without another request after the old one expired', async () => {
    const { provider, endpoint, clock, token, answer } = await withGatedAnswer(granted())
    await clock.advance(989_999)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    const waiting = provider.getToken()
    await settled()
    answer()
    expect((await waiting).value).not.toBe(token.value)
    expect(endpoint.count).toBe(2)
  })

  it('makes no request when the renewal fails with a Retry-After', async () => {
    const failure = status(503, '', { 'retry-after': '20' })
    const { provider, endpoint, clock, token, answer } = await withGatedAnswer(failure)
    await clock.advance(989_999)
    expect(provider.currentToken()).toBe(token)
    await clock.advance(1)
    const waiting = rejection(provider.getToken())
    await settled()
    answer()
    expect(await waiting).toMatchObject({ status: 503, retryAfterMs: 20_000 })
    expect(endpoint.count).toBe(2)
  })

  it('begins no cooldown when the renewal fails and leaves no time for another attempt', async () => {
    const clock = new ManualClock()
    const slowSecret = async (): Promise<string> => {
      if (made.endpoint.count > 0) await clock.sleep(4_000)
      return SECRET
    }
    const store = new MemoryStore(clock)
    const made = rig([granted(), deaf], { clock, clientSecret: slowSecret, store })
    await made.provider.getToken()
    await clock.advance(989_999)
    made.provider.currentToken()
    await quiet()
    await clock.advance(1)
    const waiting = rejection(made.provider.getToken())
    await clock.advance(4_000)
    await quiet()
    await clock.advance(5_000)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', retryAfterMs: 0 })
    expect(made.endpoint.count).toBe(2)
  })

  it('needs no quota to spare any longer if its rejected token expires meanwhile', async () => {
    const failure = status(503, '', { 'Auth0-Client-Quota-Limit': 'b=per_hour;q=10;r=2;t=5000' })
    const { provider, endpoint, clock, token, answer } = await withGatedAnswer(failure)
    await clock.advance(989_999)
    provider.currentToken()
    const renewal = provider.renewToken(token, { url: MERCHANT_URL })
    await clock.advance(1)
    answer()
    expect([token, undefined]).not.toContain(await renewal)
    expect(endpoint.count).toBe(3)
  })

  it('fails if its rejected token expires meanwhile and the renewal fails with a Retry-After', async () => {
    const failure = status(503, '', { 'retry-after': '20' })
    const { provider, endpoint, clock, token, answer } = await withGatedAnswer(failure)
    await clock.advance(989_999)
    provider.currentToken()
    const renewal = rejection(provider.renewToken(token, { url: MERCHANT_URL }))
    await clock.advance(1)
    answer()
    expect(await renewal).toMatchObject({ status: 503, retryAfterMs: 20_000 })
    expect(endpoint.count).toBe(2)
  })

  it('gets the new token for a rejected one without using up the rate limit', async () => {
    const { provider, endpoint, clock, token, answer } = await withGatedAnswer(granted())
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
})

describe('a call that waits for most of its time behind a renewal for another API', () => {
  it('has the rest for a renewal of its own if that one yields the same token again', async () => {
    const same = granted({ access_token: 'the.same.token' })
    const { provider, endpoint, clock } = rig([same, (init) => clock.sleep(8_000).then(() => same(init))], {
      retries: 0,
    })
    const token = await provider.getToken()
    const renewals = [MERCHANT_URL, IN_STORE_URL].map((url) => provider.renewToken(token, { url }))
    await clock.advance(8_000)
    const [first, second] = await Promise.all(renewals)
    expect([undefined, 'the.same.token']).not.toContain(second?.value)
    expect(first).toBeUndefined()
    expect(endpoint.count).toBe(3)
  })
})

describe('a call whose API may cause no renewal yet', () => {
  it('gets the token of a renewal that is under way for another API', async () => {
    const { provider, endpoint, clock } = rig([
      granted(),
      granted(),
      () => clock.sleep(100).then(() => granted()({})),
    ])
    const second = await provider.renewToken(await provider.getToken(), { url: IN_STORE_URL })
    const renewal = provider.renewToken(String(second?.value), { url: MERCHANT_URL })
    await settled()
    const joining = provider.renewToken(String(second?.value), { url: IN_STORE_URL })
    await clock.advance(100)
    const third = await renewal
    expect([second, undefined]).not.toContain(third)
    expect(await joining).toBe(third)
    expect(endpoint.count).toBe(3)
  })
})

describe('a token request that was lost with the request that sent it, as on Cloudflare Workers,', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    vi.stubGlobal('navigator', { userAgent: 'Cloudflare-Workers' })
  })
  afterEach(() => {
    vi.useRealTimers()
    vi.unstubAllGlobals()
  })

  /** What was lost has no timers: it never ends. */
  const losing = (answers: Answer[], options: Partial<TokenProviderOptions> = {}) => {
    const clock = {
      ms: 0,
      monotonicMs: () => clock.ms,
      epochMs: () => clock.ms,
      sleep: () => new Promise(() => {}),
    }
    return { ...rig(answers, { timeoutMs: 5_000, clock: clock as object as Clock, ...options }), clock }
  }

  it('is sent again by the calls that wait for it', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider, endpoint } = losing([deaf, () => gate.promise.then(() => granted()({}))])
    const waiting = [provider.getToken(), provider.getToken()]
    await vi.advanceTimersByTimeAsync(5_000)
    expect(endpoint.count).toBe(1)
    await vi.advanceTimersByTimeAsync(1)
    gate.resolve()
    const [first, second] = await Promise.all(waiting)
    expect(second).toBe(first)
    expect(endpoint.count).toBe(2)
  })

  it('fails the calls if it is lost a second time, but no later call', async () => {
    const { provider, endpoint } = losing([deaf, deaf])
    const waiting = rejection(provider.getToken())
    await vi.advanceTimersByTimeAsync(12_000)
    expect(await waiting).toMatchObject({
      message: 'POST https://auth.test.example/oauth/token was lost: use waitUntil().',
      code: 'ERR_TOKEN_TIMEOUT',
      retryable: true,
    })
    await provider.getToken()
    expect(endpoint.count).toBe(3)
  })

  it('holds up no call without a token if it was a background renewal', async () => {
    const { provider, clock } = losing([granted({ expires_in: 100 }), deaf])
    const token = await provider.getToken()
    clock.ms = 90_000
    expect(provider.currentToken()).toBe(token)
    await settled()
    clock.ms = 96_000
    expect((await provider.getToken()).value).not.toBe(token.value)
  })

  it('holds up no call if it was a background renewal, lost long before the token expired', async () => {
    const { provider, endpoint, clock } = losing([granted({ expires_in: 100 }), deaf])
    await provider.getToken()
    clock.ms = 85_000
    expect(provider.currentToken()).toBeDefined()
    await settled()
    clock.ms = 89_999
    provider.currentToken()
    await settled()
    expect(endpoint.count).toBe(2)
    clock.ms = 90_001 // more than timeoutMs later
    provider.currentToken()
    await settled()
    expect(endpoint.count).toBe(3)
    clock.ms = 96_000
    await provider.getToken()
    expect(endpoint.count).toBe(3)
  })

  it('is not one that failed', async () => {
    const { provider, endpoint } = losing([status(400, { error: 'invalid_request' })])
    expect(await rejection(provider.getToken())).toMatchObject({ status: 400, error: 'invalid_request' })
    expect(endpoint.count).toBe(1)
  })

  it('is not one that waits for another process first', async () => {
    const { fleet } = await leaseHeldByAnother(60_000)
    fleet.endpoint.answers.push(hang)
    fleet.answerAfter(2_400)
    const { provider } = fleet.start({ timeoutMs: 5_000 })
    const waiting = provider.getToken()
    for (let passedMs = 0; passedMs < 11_000; passedMs += 50) {
      await fleet.skip(50)
      await vi.advanceTimersByTimeAsync(50)
    }
    expect(await waiting).toBe(provider.currentToken())
    expect(fleet.endpoint.count).toBe(3)
  })

  it('does not hold up close() by a write to the store that was lost, too', async () => {
    const store = new MemoryStore(new ManualClock())
    store.faults.set = FAILURES.hangs
    const { provider } = losing([], { store })
    await provider.getToken()
    const closing = provider.close()
    await vi.advanceTimersByTimeAsync(30_000)
    await expect(closing).resolves.toBeUndefined()
  })
})

it('a provider works where Node.js has no navigator (--no-experimental-global-navigator)', async () => {
  vi.stubGlobal('navigator', undefined)
  onTestFinished(() => void vi.unstubAllGlobals())
  const { provider } = rig()
  await expect(provider.getToken()).resolves.toBeDefined()
})

it('a token request is not lost elsewhere, even if the timers of the process run ahead of its clock', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const gate = Promise.withResolvers<void>()
  const { provider, endpoint } = rig([() => gate.promise.then(() => granted()({}))])
  const waiting = provider.getToken()
  await vi.advanceTimersByTimeAsync(60_000)
  gate.resolve()
  await expect(waiting).resolves.toBeDefined()
  expect(endpoint.count).toBe(1)
})

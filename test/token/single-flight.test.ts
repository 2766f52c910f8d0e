/** Concurrent callers share one token request, and a caller that waited for another one checks the cached token first. */
import { createHook } from 'node:async_hooks'
import { ProviderClosedError, type TokenProviderOptions } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { AFTER_FREEZE_MS, LOST_AFTER_MS, Runs } from '../../src/token/runs.ts'
import { OPERATION_MS } from '../../src/token/shared/encrypted-store.ts'
import { Fleet } from '../store/fleet.ts'
import { MemoryStore } from '../store/memory-store.ts'
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

describe('a call that waits behind a renewal for another API', () => {
  it('has one of its own if that one yields the same token again', async () => {
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
  it('does not wait for a renewal that is under way for another API', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider, endpoint } = rig([granted(), granted(), () => gate.promise.then(() => granted()({}))])
    const second = String(
      (await provider.renewToken(await provider.getToken(), { url: IN_STORE_URL }))?.value,
    )
    const renewal = provider.renewToken(second, { url: MERCHANT_URL })
    await settled()
    expect(await provider.renewToken(second, { url: IN_STORE_URL })).toBeUndefined()
    gate.resolve()
    expect((await renewal)?.value).not.toBe(second)
    expect(endpoint.count).toBe(3)
  })
})

const TIMEOUT_MS = 5_000
const LOST_MS = TIMEOUT_MS + LOST_AFTER_MS

/** Loses what a run waits for, as Cloudflare Workers do when the request that began the run ends. */
class LosingClock extends ManualClock {
  /** The sleep of this length never ends, so often. */
  loses = { ms: TIMEOUT_MS, times: 0 }

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms !== this.loses.ms || this.loses.times === 0) return super.sleep(ms, signal)
    this.loses.times -= 1
    return new Promise(() => {})
  }

  /** Lets time pass without waking anybody yet, as in a process that stood still. */
  standStill(ms: number): void {
    this.pass(ms)
  }
}

describe('a token request that was lost with the request that sent it, as on Cloudflare Workers,', () => {
  const losing = (answers: Answer[], options: Partial<TokenProviderOptions> = {}) => {
    const clock = new LosingClock()
    return { ...rig(answers, { timeoutMs: TIMEOUT_MS, clock, ...options }), clock }
  }

  it('is sent again by the calls that wait for it', async () => {
    const made = losing([deaf])
    made.clock.loses.times = 1
    const first = made.provider.getToken()
    await settled()
    const second = made.provider.getToken()
    await made.clock.advance(LOST_MS - 1)
    expect(made.endpoint.count).toBe(1)
    await made.clock.advance(1)
    expect(await second).toBe(await first)
    expect(made.endpoint.count).toBe(2)
    expect(made.clock.sleeping).toBe(0)
  })

  it('fails the calls if it is lost a second time, but no later call', async () => {
    const { provider, endpoint, clock } = losing([deaf, deaf])
    clock.loses.times = 2
    const waiting = rejection(provider.getToken())
    await clock.advance(2 * LOST_MS)
    expect(await waiting).toMatchObject({
      message: 'POST https://auth.test.example/oauth/token was lost: use waitUntil().',
      code: 'ERR_TOKEN_TIMEOUT',
      retryable: true,
    })
    const later = provider.getToken()
    await clock.advance(AFTER_FREEZE_MS)
    await later
    expect(endpoint.count).toBe(3)
  })

  it('holds up a call that comes afterwards only as long as it may still end', async () => {
    const { provider, endpoint, clock } = losing([granted({ expires_in: 100 }), deaf])
    await provider.getToken()
    await clock.advance(90_000 - LOST_MS)
    clock.loses.times = 1
    expect(provider.currentToken()).toBeDefined()
    await clock.advance(LOST_MS)
    const waiting = provider.getToken()
    await clock.advance(AFTER_FREEZE_MS - 1)
    expect(endpoint.count).toBe(2)
    await clock.advance(1)
    await waiting
    expect(endpoint.count).toBe(3)
  })

  it('holds up no call that comes afterwards once the provider is closed', async () => {
    const { provider, clock } = losing([deaf])
    clock.loses.times = 1
    const waiting = [rejection(provider.getToken())]
    await clock.advance(LOST_MS - 1)
    clock.standStill(1)
    waiting.push(rejection(provider.getToken()))
    await provider.close()
    for (const error of await Promise.all(waiting)) expect(error).toBeInstanceOf(ProviderClosedError)
    await settled()
    expect(clock.sleeping).toBe(0)
  })

  it('is replaced by the next background renewal if it was one', async () => {
    const { provider, endpoint, clock } = losing([granted({ expires_in: 100 }), deaf])
    await provider.getToken()
    await clock.advance(80_000)
    clock.loses.times = 1
    for (const [passedMs, requests] of [
      [0, 2],
      [LOST_MS, 2], // after a freeze it may only be late
      [AFTER_FREEZE_MS - 1, 2],
      [1, 3],
    ] as const) {
      await clock.advance(passedMs)
      expect(provider.currentToken()).toBeDefined()
      await settled()
      expect(endpoint.count).toBe(requests)
    }
  })

  it('is not one that failed', async () => {
    const { provider, endpoint } = losing([status(400, { error: 'invalid_request' })])
    expect(await rejection(provider.getToken())).toMatchObject({ status: 400, error: 'invalid_request' })
    expect(endpoint.count).toBe(1)
  })

  it('is not one that waits for another process first', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    const [key = ''] = fleet.store.keys
    fleet.store.remove(key)
    fleet.store.hold(key, 60_000)
    fleet.answerAfter(TIMEOUT_MS - 100)
    const { provider } = fleet.start({ timeoutMs: TIMEOUT_MS })
    const waiting = provider.getToken()
    for (let passedMs = 0; passedMs < 14_000; passedMs += 50) await fleet.skip(50)
    expect(await waiting).toBe(provider.currentToken())
    expect(fleet.endpoint.count).toBe(2)
  })

  it('holds up its caller no longer if only the write to the store was lost, and never close()', async () => {
    const clock = new LosingClock()
    const store = new MemoryStore(clock)
    store.faults.set = () => {
      clock.loses = { ms: OPERATION_MS, times: 1 }
      return new Promise(() => {})
    }
    const { provider, endpoint } = rig([], { store, clock, timeoutMs: TIMEOUT_MS })
    const waiting = provider.getToken()
    await clock.advance(LOST_MS)
    expect(await waiting).toBe(provider.currentToken())
    expect(endpoint.count).toBe(1)
    await expect(provider.close()).resolves.toBeUndefined()
  })
})

it('a run that was lost while it waited for its turn holds up no later one', async () => {
  const clock = new ManualClock()
  const closed = new AbortController().signal
  const runs = new Runs(clock, { firstStepMs: TIMEOUT_MS, closed, lost: () => new Error('lost') })
  const gate = Promise.withResolvers<void>()
  const first = runs.join('first', () => gate.promise)
  runs.join('second', () => new Promise(() => {})).catch(() => {})
  await clock.advance(TIMEOUT_MS)
  gate.resolve()
  await first
  const ended = vi.fn()
  runs.join('third', async () => {}).then(ended)
  await clock.advance(LOST_MS - 1)
  expect(ended).not.toHaveBeenCalled()
  await clock.advance(1)
  expect(ended).toHaveBeenCalled()
})

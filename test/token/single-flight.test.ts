/** Concurrent callers share one token request, and a caller that waited for another one checks the cached token first. */
import { createHook } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { BUCKET } from '../../src/token/limits/renewals.ts'
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

describe('a background renewal that is due while a rejected token is renewed', () => {
  it('makes no request if that renewal succeeds', async () => {
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

  it('makes no request before the cooldown ends if that renewal fails', async () => {
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
  it('makes no request of its own if that one yields the same token again', async () => {
    const same = granted({ access_token: 'the.same.token' })
    const { provider, endpoint } = rig([same, same])
    const token = await provider.getToken()
    const renewals = [MERCHANT_URL, IN_STORE_URL].map((url) => provider.renewToken(token, { url }))
    expect(await Promise.all(renewals)).toEqual([undefined, undefined])
    expect(endpoint.count).toBe(2)
  })
})

describe('a call whose API may cause no renewal', () => {
  it('does not wait for a renewal that is under way for another API', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider, endpoint } = rig()
    let token = await provider.getToken()
    for (let renewal = 0; renewal < BUCKET; renewal += 1)
      token = (await provider.renewToken(token, { url: IN_STORE_URL })) ?? token
    endpoint.answers.push(() => gate.promise.then(() => granted()({})))
    const renewal = provider.renewToken(token, { url: MERCHANT_URL })
    await settled()
    expect(await provider.renewToken(token, { url: IN_STORE_URL })).toBeUndefined()
    gate.resolve()
    expect([undefined, token]).not.toContain(await renewal)
  })
})

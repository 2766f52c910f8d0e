import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { runProgram } from '../support/program.ts'
import {
  acquired,
  failed,
  granted,
  hang,
  rig,
  status,
  unhandledRejections,
  withoutJitter,
} from './harness.ts'

const random = withoutJitter()

describe('the refresh window', () => {
  it.each([
    { seconds: 36_000, opensMs: 300_000 },
    { seconds: 1_000, opensMs: 200_000 },
    { seconds: 100, given: 30_000, opensMs: 30_000 },
    { seconds: 100, given: 90_000, opensMs: 50_000 },
    { seconds: 1_000, jitter: 0.999, opensMs: 150_050 },
    { seconds: 100, given: 90_000, jitter: 0.999, opensMs: 37_512.5 },
  ])('of a token of $seconds s (given $given, jitter $jitter) is $opensMs ms', async (row) => {
    random.mockReturnValue(row.jitter ?? 0)
    const answers = [granted({ expires_in: row.seconds })]
    const { provider, clock, endpoint, events } = rig(answers, { refreshAheadMs: row.given })
    const token = await provider.getToken()
    const marginMs = Math.min(10_000, row.seconds * 50)
    await clock.advance(row.seconds * 1_000 - marginMs - row.opensMs - 1)
    expect(provider.currentToken()).toBe(token)
    await settled()
    expect(endpoint.count).toBe(1)
    await clock.advance(1)
    expect(provider.currentToken()).toBe(token)
    await settled()
    expect(endpoint.count).toBe(2)
    expect(provider.currentToken()?.value).not.toBe(token.value)
    expect(events.at(-1)).toEqual({ type: 'token-renewed', reason: 'expiring', environment: 'test' })
  })

  it('serves the current token at once, with one renewal behind it', async () => {
    const { provider, clock, endpoint } = rig([granted(), hang])
    const token = await provider.getToken()
    await clock.advance(800_000)
    const served = await Promise.all(Array.from({ length: 100 }, () => provider.getToken()))
    expect(new Set(served)).toEqual(new Set([token]))
    expect(endpoint.count).toBe(2)
  })

  it('asks for nothing while nobody calls', async () => {
    const { provider, clock, endpoint } = rig()
    await provider.getToken()
    await clock.advance(900_000)
    expect([endpoint.count, clock.sleeping]).toEqual([1, 0])
  })

  it('of 0 never renews in the background', async () => {
    const { provider, clock, endpoint } = rig([], { refreshAheadMs: 0 })
    await provider.getToken()
    await clock.advance(989_999)
    expect(provider.currentToken()).toBeDefined()
    await settled()
    expect(endpoint.count).toBe(1)
  })
})

describe('a background renewal that fails', () => {
  it('disturbs no caller, raises no unhandled rejection, and is tried again after the cooldown', async () => {
    const unhandled = unhandledRejections()
    const { provider, clock, endpoint } = rig([granted(), status(503), status(503)], { retries: 0 })
    const token = await provider.getToken()
    for (const [passMs, requests] of [
      [800_000, 2],
      [999, 2],
      [1, 3],
      [1_999, 3],
      [1, 4],
    ] as const) {
      await clock.advance(passMs)
      expect(await provider.getToken()).toBe(token)
      await settled()
      expect(endpoint.count).toBe(requests)
    }
    expect((await provider.getToken()).value).not.toBe(token.value)
    expect(await unhandled()).toBe(0)
  })

  it('leaves the current token in use until it expires', async () => {
    const made = rig([granted()], { retries: 0 })
    made.endpoint.otherwise = status(503)
    const token = await made.provider.getToken()
    await made.clock.advance(789_000)
    for (let at = 790_000; at < 989_000; at += 1_000) expect(await acquired(made, 1_000)).toBe(token)
    await made.clock.advance(2_000)
    expect(await failed(made)).toMatchObject({ status: 503 })
  })

  it.each([
    ['without a Retry-After does not hold back the first call after expiry', status(503), 0],
    ['with one does', status(503, '', { 'retry-after': '20' }), 20_000],
    ['while a call waits for it is followed by a request of that call', hang, 0],
  ])('%s', async (_, answer, heldBackMs) => {
    const made = rig([granted(), answer], { retries: 0 })
    const { provider, clock, endpoint } = made
    const token = await provider.getToken()
    await clock.advance(989_999)
    provider.currentToken()
    await clock.advance(1)
    if (heldBackMs > 0) {
      expect(await failed(made)).toMatchObject({ status: 503, retryAfterMs: heldBackMs - 1 })
      await clock.advance(heldBackMs - 1)
    }
    expect((await acquired(made, 5_000)).value).not.toBe(token.value)
    expect(endpoint.count).toBe(3)
  })
})

it('keeps no process alive by a background renewal that hangs', async () => {
  const ended = await runProgram(`
    const asked = Promise.withResolvers()
    let calls = 0
    const tokens = createTokenProvider({
      environment: { authUrl: 'https://a.example', audience: 'https://b.example', apiUrls: ['https://b.example'] },
      clientId: 'c', clientSecret: 'swordfish', timeoutMs: 3_600_000, clock,
      fetch: async () => {
        calls += 1
        if (calls === 1) return Response.json({ access_token: 'a', expires_in: 600, token_type: 'bearer' })
        asked.resolve()
        return await new Promise(() => {})
      },
    })
    await tokens.getToken()
    later(570_000) // into the window
    tokens.currentToken()
    await asked.promise
    console.log(calls)`)
  expect(ended).toEqual({ said: '2', code: 0 })
})

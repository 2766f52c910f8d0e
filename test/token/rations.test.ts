import { describe, expect, it } from 'vitest'
import { granted, IN_STORE_URL, MERCHANT_URL, type Rig, rejection, rig, status } from './harness.ts'

const DAY = { expires_in: 86_400 }
const MERCHANT = 'https://api.test.example/merchant'

function long(): Rig {
  const made = rig([], { retries: 0 })
  made.endpoint.otherwise = granted(DAY)
  return made
}

/** An API refuses the current token: whether it is renewed. */
async function refused({ provider }: Rig, url = MERCHANT_URL): Promise<boolean> {
  const token = await provider.getToken()
  const newer = await provider.renewToken(token, { url })
  expect(newer?.value).not.toBe(token.value)
  return newer !== undefined
}

describe('renewals after rejections', () => {
  it('are immediate at first, and tell the rejection and the renewal', async () => {
    const made = long()
    await made.provider.getToken()
    made.events.length = 0
    expect(await refused(made)).toBe(true)
    expect(made.events).toMatchObject([
      { type: 'token-rejected', api: MERCHANT },
      { type: 'token-requested' },
      { type: 'token-acquired' },
      { type: 'token-renewed', reason: 'rejected' },
    ])
  })

  it('may follow after 1 s, doubling to 5 min', async () => {
    const made = long()
    expect(await refused(made)).toBe(true)
    const gaps: number[] = []
    for (const gapMs of [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((seconds) => seconds * 1_000)) {
      await made.clock.advance(gapMs - 1)
      if (!(await refused(made))) {
        await made.clock.advance(1)
        if (await refused(made)) gaps.push(gapMs)
      }
    }
    expect(gaps).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000,
    ])
  })

  it('that may not come yet yield nothing, with the event renewal-suppressed', async () => {
    const made = long()
    await refused(made)
    await made.clock.advance(400)
    made.events.length = 0
    expect(await refused(made)).toBe(false)
    expect(made.events).toEqual([
      { type: 'token-rejected', api: MERCHANT, environment: 'test' },
      { type: 'renewal-suppressed', api: MERCHANT, nextRenewalMs: 600, environment: 'test' },
    ])
  })

  it.each([
    { quietMs: 62_001, again: true, of: 'longer than a minute and the gap resets' },
    { quietMs: 62_000, again: false, of: 'a minute and no more resets nothing' },
    { quietMs: 61_999, again: false, of: 'shorter than that resets nothing' },
  ])('begin anew after quiet: $of', async ({ quietMs, again }) => {
    const made = long()
    await refused(made)
    await made.clock.advance(1_000)
    expect(await refused(made)).toBe(true) // the gap is now 2 s
    await made.clock.advance(quietMs)
    expect(await refused(made)).toBe(true)
    await made.clock.advance(1_000)
    expect(await refused(made)).toBe(again)
  })

  it('do not begin anew while rejections go on, though none is renewed', async () => {
    const made = long()
    for (const seconds of [0, 1, 2, 4, 8, 16, 32, 64]) {
      await made.clock.advance(seconds * 1_000)
      expect(await refused(made)).toBe(true)
    }
    for (let waited = 0; waited < 120; waited += 30) {
      await made.clock.advance(30_000)
      expect(await refused(made)).toBe(false)
    }
  })

  it('are rationed for each apiUrls entry by itself', async () => {
    const made = long()
    expect(await refused(made)).toBe(true)
    expect(await refused(made)).toBe(false)
    expect(await refused(made, IN_STORE_URL)).toBe(true)
    expect(await refused(made, IN_STORE_URL)).toBe(false)
    expect(await refused(made, `${MERCHANT}/refunds?a=b`)).toBe(false)
  })

  it('without a url have a ration of their own, and for a foreign url there are none', async () => {
    const made = long()
    expect(await refused(made)).toBe(true)
    const token = await made.provider.getToken()
    const newer = await made.provider.renewToken(token)
    expect(newer).toBeDefined()
    expect(
      await made.provider.renewToken(newer ?? token, { url: new URL('https://x.example') }),
    ).toBeUndefined()
  })

  it('for a place outside apiUrls there are none, and nothing is asked for', async () => {
    const made = long()
    const token = await made.provider.getToken()
    expect(await made.provider.renewToken(token, { url: 'https://x.example/orders' })).toBeUndefined()
    expect(made.endpoint.count).toBe(1)
  })

  it('that failed use up nothing', async () => {
    const made = long()
    const token = await made.provider.getToken()
    for (const cooldownMs of [1_000, 2_000, 4_000]) {
      made.endpoint.answers.push(status(503))
      await expect(made.provider.renewToken(token, { url: MERCHANT_URL })).rejects.toMatchObject({
        status: 503,
      })
      await made.clock.advance(cooldownMs)
    }
    expect(await refused(made)).toBe(true)
    await made.clock.advance(1_000)
    expect(await refused(made)).toBe(true)
  })

  it.each([1, 5, 61.5, 62, 130, 150])(
    'are at most 20 in any hour, however an API that refuses all is called (every %f s)',
    async (seconds) => {
      let now = 0
      const clock = { monotonicMs: () => now, epochMs: () => now, sleep: () => new Promise<void>(() => {}) }
      const { provider, endpoint } = rig([], { clock, retries: 0 })
      endpoint.otherwise = granted(DAY)
      let token = await provider.getToken()
      const renewedAt: number[] = []
      for (let at = 0; at < 2 * 3_600; at += seconds) {
        const newer = await provider.renewToken(token, { url: MERCHANT_URL })
        if (newer !== undefined) {
          token = newer
          renewedAt.push(at)
        }
        now += seconds * 1_000
      }
      const mostInAnHour = Math.max(
        ...renewedAt.map((from) => renewedAt.filter((at) => at >= from && at < from + 3_600).length),
      )
      expect(mostInAnHour).toBeLessThanOrEqual(20)
      expect(mostInAnHour).toBeGreaterThan(10)
      expect(endpoint.count).toBe(renewedAt.length + 1)
    },
  )
})

describe('the ration of an hour', () => {
  it('is used up by the twentieth renewal, and comes back an hour after the first', async () => {
    const made = long()
    for (let pair = 0; pair < 10; pair += 1) {
      expect(await refused(made)).toBe(true)
      await made.clock.advance(1_000)
      expect(await refused(made)).toBe(true)
      await made.clock.advance(62_001) // long enough for the gap to begin anew
    }
    made.events.length = 0
    expect(await refused(made)).toBe(false)
    expect(made.events.at(-1)).toMatchObject({ type: 'renewal-suppressed', nextRenewalMs: 2_969_990 })
    await made.clock.advance(2_969_989)
    expect(await refused(made)).toBe(false)
    await made.clock.advance(1)
    expect(await refused(made)).toBe(true)
    expect(await refused(made)).toBe(false)
    expect(made.endpoint.count).toBe(22)
  })
})

describe('a rejected token', () => {
  it('that is no longer the current one costs no renewal', async () => {
    const { provider, endpoint } = long()
    const old = await provider.getToken()
    const newer = await provider.renewToken(old, { url: MERCHANT_URL })
    expect(await provider.renewToken(old, { url: MERCHANT_URL })).toBe(newer)
    expect(await provider.renewToken(old.value, { url: IN_STORE_URL })).toBe(newer)
    expect(endpoint.count).toBe(2)
  })

  it('that many calls on both APIs had is renewed once for all', async () => {
    const { provider, endpoint } = long()
    const old = await provider.getToken()
    const renewed = await Promise.all(
      Array.from({ length: 1_000 }, (_, n) =>
        provider.renewToken(n % 3 ? old : old.value, { url: n % 2 ? MERCHANT_URL : IN_STORE_URL }),
      ),
    )
    expect(new Set(renewed).size).toBe(1)
    expect(renewed[0]).toBe(provider.currentToken())
    expect(endpoint.count).toBe(2)
  })

  it('that two APIs refuse while no other can be had costs one request, and an error for each', async () => {
    const { provider, endpoint } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    const errors = await Promise.all(
      [MERCHANT_URL, IN_STORE_URL].map((url) => rejection(provider.renewToken(token, { url }))),
    )
    for (const error of errors) expect(error).toMatchObject({ code: 'ERR_TOKEN_STATUS', status: 503 })
    expect(errors[0]).not.toBe(errors[1])
    expect(endpoint.count).toBe(2)
  })

  it('that has expired meanwhile is followed by an ordinary new one', async () => {
    const made = long()
    const old = await made.provider.getToken()
    made.clock.stepWallClock(86_400_000)
    expect((await made.provider.renewToken(old, { url: MERCHANT_URL }))?.value).not.toBe(old.value)
  })

  it('that the token endpoint gives out again yields nothing, and another one later', async () => {
    const { provider, endpoint, clock } = rig([], { retries: 0 })
    endpoint.otherwise = granted({ access_token: 'the.same.token' })
    const token = await provider.getToken()
    expect(await provider.renewToken(token)).toBeUndefined()
    expect(endpoint.count).toBe(2)
    await clock.advance(1_000)
    endpoint.otherwise = granted()
    expect((await provider.renewToken(token))?.value).not.toBe(token.value)
    expect(endpoint.count).toBe(3)
  })

  it('stays in use for calls that were not refused, while it is renewed', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider } = rig([granted(), () => gate.promise.then(() => granted()({}))])
    const token = await provider.getToken()
    const renewal = provider.renewToken(token)
    expect(await provider.getToken()).toBe(token)
    gate.resolve()
    expect((await renewal)?.value).toBe(provider.currentToken()?.value)
  })
})

import { TokenRequestError, TokenResponseError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { type Answer, failed, granted, MERCHANT_URL, type Rig, rejection, rig, status } from './harness.ts'

/** Fails repeatedly, each time when the cooldown ends; resolves with the length of each cooldown. */
async function cooldowns({ provider, endpoint, clock }: Rig, times: number): Promise<number[]> {
  const lengths: number[] = []
  for (let n = 0; n < times; n += 1) {
    await rejection(provider.getToken())
    const asked = endpoint.count
    const { retryAfterMs } = await rejection<TokenRequestError>(provider.getToken())
    expect(endpoint.count, 'requests in the cooldown').toBe(asked)
    const length = Number(retryAfterMs)
    await clock.advance(length - 1)
    expect(await rejection(provider.getToken())).toMatchObject({ retryAfterMs: 1 })
    expect(endpoint.count, 'requests in the cooldown').toBe(asked)
    await clock.advance(1)
    lengths.push(length)
  }
  return lengths
}

function always(answer: Answer): Rig {
  const made = rig([], { retries: 0 })
  made.endpoint.otherwise = answer
  return made
}

describe('the cooldown after consecutive failures', () => {
  it('doubles from 1 s to 5 s after a 500', async () => {
    expect(await cooldowns(always(status(500)), 6)).toEqual([1_000, 2_000, 4_000, 5_000, 5_000, 5_000])
  })

  it('doubles from 1 s to 30 s after a 499', async () => {
    expect(await cooldowns(always(status(499)), 7)).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000,
    ])
  })

  it('doubles from 10 s to 30 min after a 429, and other failures in between do not shorten it', async () => {
    const made = always(status(429))
    expect(await cooldowns(made, 2)).toEqual([10_000, 20_000])
    made.endpoint.answers.push(status(503))
    expect(await cooldowns(made, 8)).toEqual([
      1_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000, 1_800_000,
    ])
  })

  it('lasts as long as the first 429 says, and doubles from 10 s after further ones', async () => {
    const made = always(status(429, '', { 'retry-after': '30' }))
    expect(await cooldowns(made, 4)).toEqual([30_000, 30_000, 30_000, 40_000])
  })

  it('is reset by a success', async () => {
    const made = rig([status(503), status(503), status(503), granted(), status(503)], { retries: 0 })
    expect(await cooldowns(made, 3)).toEqual([1_000, 2_000, 4_000])
    await made.provider.getToken()
    await made.clock.advance(990_000)
    expect(await cooldowns(made, 1)).toEqual([1_000])
  })

  it.each([
    [429, '300', 300_000],
    [503, '60', 60_000],
  ])(
    'follows Retry-After within its limits: status %i, Retry-After %s s, cooldown %i ms',
    async (code, seconds, length) => {
      const answer = status(code, '', { 'retry-after': seconds })
      expect(await failed(always(answer))).toMatchObject({ retryAfterMs: length })
      expect(await cooldowns(always(answer), 1)).toEqual([length])
    },
  )

  it.each([
    [
      'lasts until the last spent quota is full again',
      'b=h;q=10;r=0;t=60,b=d;q=50;r=0;t=900,b=w;r=1;t=2000',
      900_000,
    ],
    ['does not depend on a quota that is not spent', 'b=h;q=10;r=1;t=1800', 10_000],
  ])('%s after a 429', async (_, quotas, length) => {
    const made = always(status(429, '', { 'Auth0-Client-Quota-Limit': quotas }))
    expect(await cooldowns(made, 1)).toEqual([length])
  })

  it('does not depend on a spent quota after a 503', async () => {
    const made = always(status(503, '', { 'Auth0-Client-Quota-Limit': 'b=h;q=10;r=0;t=60' }))
    expect(await cooldowns(made, 1)).toEqual([1_000])
  })
})

describe('a background renewal that fails', () => {
  it('with a 429 that names a time starts a cooldown for calls after expiry', async () => {
    const made = rig([granted(), status(429, '', { 'Auth0-Client-Quota-Limit': 'b=h;q=10;r=0;t=600' })])
    const token = await made.provider.getToken()
    await made.clock.advance(850_000)
    expect(await made.provider.getToken()).toBe(token)
    await made.clock.advance(140_000)
    expect(await failed(made)).toMatchObject({ status: 429, retryAfterMs: 460_000 })
    await made.clock.advance(460_000)
    expect(await made.provider.getToken()).toBeDefined()
    expect(made.endpoint.count).toBe(3)
  })

  it.each([
    ['with a 503 starts none for a rejected token', status(503), true],
    ['with a 429 starts one for a rejected token', status(429), false],
  ])('%s', async (_, answer, isRenewed) => {
    const { provider, clock, endpoint } = rig([granted(), answer])
    const token = await provider.getToken()
    await clock.advance(900_000)
    provider.currentToken()
    await clock.advance(0)
    expect(endpoint.count).toBe(2)
    const newer = await provider.renewToken(token, { url: MERCHANT_URL }).catch(() => undefined)
    expect(newer !== undefined).toBe(isRenewed)
  })
})

describe('a call during the cooldown', () => {
  it.each([
    [
      'TokenRequestError',
      status(503, { error: 'temporarily_unavailable' }),
      TokenRequestError,
      { code: 'ERR_TOKEN_STATUS', status: 503 },
    ],
    [
      'TokenResponseError',
      granted({ token_type: 'mac' }),
      TokenResponseError,
      { code: 'ERR_TOKEN_RESPONSE' },
    ],
  ])(
    'rejects at once with its own copy of the last %s and the remaining time',
    async (_, answer, type, fields) => {
      const { provider, endpoint, clock } = always(answer)
      const twice = () => Promise.all([1, 2].map(() => rejection<TokenRequestError>(provider.getToken())))
      const atFirst = await twice()
      await clock.advance(400)
      const later = await twice()
      for (const error of atFirst) {
        expect(error).toBeInstanceOf(type)
        expect(error).toMatchObject({ ...fields, retryAfterMs: 1_000 })
        expect(error.message).not.toContain('The token endpoint is not asked again')
      }
      for (const error of later) {
        expect(error).toBeInstanceOf(type)
        expect(error).toMatchObject({ ...fields, retryAfterMs: 600 })
        expect(error.message).toMatch(
          / The token endpoint is not asked again for 600 ms, until 2026-01-01T00:00:01\.000Z\.$/,
        )
      }
      expect(new Set([...atFirst, ...later]).size).toBe(4)
      expect(endpoint.count).toBe(1)
    },
  )

  it('for a rejected token rejects with the last error', async () => {
    const { provider, endpoint } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503 })
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503, retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(2)
  })

  it('for a rejected token that has expired meanwhile is one of a caller without a token', async () => {
    const { provider, endpoint, clock } = rig([granted()], { retries: 0 })
    const token = await provider.getToken()
    endpoint.otherwise = status(503)
    for (const pauseMs of [1_000, 2_000, 4_000, 5_000]) {
      await rejection(provider.renewToken(token))
      await clock.advance(pauseMs)
    }
    expect(await provider.renewToken(token)).toBeUndefined() // for 3 s more
    expect(endpoint.count).toBe(5)
    clock.stepWallClock(1_000_000)
    endpoint.otherwise = granted()
    expect(await provider.renewToken(token)).toBeDefined()
    expect(endpoint.count).toBe(6)
  })

  it('is not affected by steps of the wall clock', async () => {
    const { provider, endpoint, clock } = always(status(503))
    await rejection(provider.getToken())
    clock.stepWallClock(3_600_000)
    await expect(provider.getToken()).rejects.toMatchObject({ retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(1)
  })
})

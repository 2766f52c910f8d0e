import { TokenRequestError, TokenResponseError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { type Answer, deaf, granted, noConnection, type Rig, rejection, rig, status } from './harness.ts'

/** Fails again and again, each time at the end of the cooldown; gives the length of each. */
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

describe('the cooldown after failures in a row', () => {
  it.each([
    ['no connection', noConnection],
    ['a 503', status(503)],
    ['a 500', status(500)],
    ['a redirect', status(302)],
    ['a bad answer', granted({ access_token: '' })],
  ])('with %s is 1 s, 2 s, 4 s and then 5 s', async (_, answer) => {
    expect(await cooldowns(always(answer), 6)).toEqual([1_000, 2_000, 4_000, 5_000, 5_000, 5_000])
  })

  it.each([400, 401, 403, 404, 429, 499])('with status %i doubles to 30 s', async (code) => {
    expect(await cooldowns(always(status(code)), 7)).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000,
    ])
  })

  it('is reset by a success', async () => {
    const made = rig([status(503), status(503), status(503), granted(), status(503)], { retries: 0 })
    expect(await cooldowns(made, 3)).toEqual([1_000, 2_000, 4_000])
    await made.provider.getToken()
    await made.clock.advance(990_000)
    expect(await cooldowns(made, 1)).toEqual([1_000])
  })

  it.each([
    ['20', 20_000],
    ['60', 60_000],
    ['3600', 60_000],
    ['0', 1_000],
  ])('lasts as long as a Retry-After of %s s asks, between 1 s and 60 s', async (seconds, length) => {
    expect(await cooldowns(always(status(429, '', { 'retry-after': seconds })), 1)).toEqual([length])
  })

  it('obeys a Retry-After of an answer that is not retried', async () => {
    expect(await cooldowns(always(status(403, '', { 'retry-after': '40' })), 1)).toEqual([40_000])
  })
})

describe('a first failure says how long the token endpoint is not asked again', () => {
  it.each([
    ['a TokenRequestError', status(503), TokenRequestError, 1_000],
    ['a TokenResponseError', granted({ token_type: 'mac' }), TokenResponseError, 1_000],
    ['one with a Retry-After', status(403, '', { 'retry-after': '40' }), TokenRequestError, 40_000],
    ['one with a longer one', status(429, '', { 'retry-after': '3600' }), TokenRequestError, 60_000],
  ])('to all who waited for it: %s', async (_, answer, type, retryAfterMs) => {
    const { provider } = always(answer)
    const errors = await Promise.all([rejection(provider.getToken()), rejection(provider.getToken())])
    for (const error of errors) {
      expect(error).toBeInstanceOf(type)
      expect(error).toMatchObject({ retryAfterMs })
      expect(error.message).not.toContain('is not asked again for another')
    }
    expect(errors[0]).not.toBe(errors[1])
  })

  it('also where a renewal after a rejection fails', async () => {
    const { provider } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503, retryAfterMs: 1_000 })
  })

  it('which is not at all where a call had no time left after a failure in the background', async () => {
    const { provider, clock, endpoint } = rig([granted(), deaf, deaf])
    await provider.getToken()
    await clock.advance(989_999)
    provider.currentToken()
    await clock.advance(1)
    const waiting = rejection(provider.getToken())
    await clock.advance(10_000)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', retryAfterMs: 0 })
    expect(endpoint.count).toBe(3)
  })
})

describe('a call in the cooldown', () => {
  it.each([
    ['TokenRequestError', status(503, { error: 'temporarily_unavailable' }), TokenRequestError],
    ['TokenResponseError', granted({ token_type: 'mac' }), TokenResponseError],
  ])('fails at once with the last %s and what remains, as an error of its own', async (_, answer, type) => {
    const { provider, endpoint, clock } = always(answer)
    const first = await rejection<TokenRequestError & TokenResponseError>(provider.getToken())
    await clock.advance(400)
    const errors = await Promise.all([rejection(provider.getToken()), rejection(provider.getToken())])
    for (const error of errors) {
      expect(error).toBeInstanceOf(type)
      expect(error).not.toBe(first)
      expect(error).toMatchObject({ code: first.code, retryAfterMs: 600 })
      expect(error.message).toContain('600 ms')
      expect('status' in error && error.status).toBe('status' in first && first.status)
    }
    expect(errors[0]).not.toBe(errors[1])
    expect(endpoint.count).toBe(1)
  })

  it('is not made to wait where a token is there', async () => {
    const { provider, endpoint } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await rejection(provider.renewToken(token))
    expect(await provider.getToken()).toBe(token)
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503, retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(2)
  })

  it('that came while the failing request ran shares its failure, and asks no more', async () => {
    const { provider, endpoint } = always(status(503))
    const token = rejection(provider.getToken())
    await Promise.resolve()
    const late = rejection(provider.getToken())
    expect(await token).toMatchObject({ status: 503 })
    expect(await late).toMatchObject({ status: 503 })
    expect(endpoint.count).toBe(1)
  })

  it('that was rejected its token while the background renewal failed is held back, but not after expiry', async () => {
    const { provider, endpoint, clock } = rig([granted({ expires_in: 100 }), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await clock.advance(90_000)
    provider.currentToken()
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503 })
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503, retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(2)
    clock.stepWallClock(10_000)
    expect(await provider.renewToken(token)).toBeDefined()
    expect(endpoint.count).toBe(3)
  })

  it('follows the wall clock in nothing', async () => {
    const { provider, endpoint, clock } = always(status(503))
    await rejection(provider.getToken())
    clock.stepWallClock(3_600_000)
    await expect(provider.getToken()).rejects.toMatchObject({ retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(1)
  })
})

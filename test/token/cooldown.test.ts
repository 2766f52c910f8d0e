/** What calls get in the cooldown after a failed acquisition. */
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

// How long it is after which failures: request-limits.test.ts.
describe('the cooldown after consecutive failures', () => {
  it('grows, and is reset by a success', async () => {
    const made = rig([status(503), status(503), granted(), status(503)], { retries: 0 })
    const [first = 0, second] = await cooldowns(made, 2)
    expect(second).toBeGreaterThan(first)
    await made.provider.getToken()
    await made.clock.advance(990_000)
    expect(await cooldowns(made, 1)).toEqual([first])
  })

  it.each([
    [429, '300', 300_000],
    [503, '20', 20_000],
  ])(
    'follows Retry-After within its limits: status %i, Retry-After %s s, cooldown %i ms',
    async (code, seconds, length) => {
      const answer = status(code, '', { 'retry-after': seconds })
      expect(await failed(always(answer))).toMatchObject({ retryAfterMs: length })
      expect(await cooldowns(always(answer), 1)).toEqual([length])
    },
  )

  it('lasts until the last spent quota is full again after a 429', async () => {
    const quotas = 'b=h;q=10;r=0;t=60,b=d;q=50;r=0;t=900,b=w;r=1;t=2000'
    const made = always(status(429, '', { 'Auth0-Client-Quota-Limit': quotas }))
    expect(await cooldowns(made, 1)).toEqual([900_000])
  })

  it.each([
    ['a quota that is not spent, after a 429', 429, 'b=h;q=10;r=1;t=1800'],
    ['a spent quota, after a 503', 503, 'b=h;q=10;r=0;t=1800'],
  ])('does not depend on %s', async (_, code, quotas) => {
    const withQuota = always(status(code, '', { 'Auth0-Client-Quota-Limit': quotas }))
    expect(await cooldowns(withQuota, 1)).toEqual(await cooldowns(always(status(code)), 1))
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

it('the first failure of a caller starts the same cooldown after background renewals that failed, too', async () => {
  const made = rig([granted()], { retries: 0 })
  await made.provider.getToken()
  made.endpoint.otherwise = status(503)
  await made.clock.advance(790_000)
  for (let passedMs = 0; passedMs < 200_000; passedMs += 10_000) {
    expect(made.provider.currentToken()).toBeDefined()
    await made.clock.advance(10_000)
  }
  expect(made.endpoint.count).toBeGreaterThan(3)
  expect(await cooldowns(made, 1)).toEqual(await cooldowns(always(status(503)), 1))
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
      const remainsMs = Number(atFirst[0]?.retryAfterMs) - 400
      expect(remainsMs).toBeGreaterThan(0)
      const until = new Date(clock.epochMs() + remainsMs).toISOString()
      for (const error of atFirst) {
        expect(error).toBeInstanceOf(type)
        expect(error).toMatchObject({ ...fields, retryAfterMs: remainsMs + 400 })
        expect(error.message).not.toContain('The token endpoint is not asked again')
      }
      for (const error of later) {
        expect(error).toBeInstanceOf(type)
        expect(error).toMatchObject({ ...fields, retryAfterMs: remainsMs })
        const note = ` The token endpoint is not asked again for ${remainsMs} ms, until ${until}.`
        expect(error.message.endsWith(note)).toBe(true)
      }
      expect(new Set([...atFirst, ...later]).size).toBe(4)
      expect(endpoint.count).toBe(1)
    },
  )

  it('for a rejected token rejects with the last error', async () => {
    const { provider, endpoint } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503 })
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503 })
    expect(endpoint.count).toBe(2)
  })

  it('is not affected by steps of the wall clock', async () => {
    const { provider, endpoint, clock } = always(status(503))
    const { retryAfterMs } = await rejection<TokenRequestError>(provider.getToken())
    clock.stepWallClock(3_600_000)
    await expect(provider.getToken()).rejects.toMatchObject({ retryAfterMs })
    expect(endpoint.count).toBe(1)
  })
})

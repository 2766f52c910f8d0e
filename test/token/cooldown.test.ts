import { TokenRequestError, TokenResponseError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { quiet } from '../store/fleet.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock } from '../support/clock.ts'
import {
  type Answer,
  deaf,
  failed,
  granted,
  noConnection,
  type Rig,
  rejection,
  rig,
  SECRET,
  status,
} from './harness.ts'

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
  it.each([
    ['no connection', noConnection],
    ['a 500', status(500)],
    ['a redirect', status(302)],
    ['an invalid token response', granted({ access_token: '' })],
  ])('doubles from 1 s to 5 s: %s', async (_, answer) => {
    expect(await cooldowns(always(answer), 6)).toEqual([1_000, 2_000, 4_000, 5_000, 5_000, 5_000])
  })

  it.each([400, 499])('doubles from 1 s to 30 s: status %i', async (code) => {
    expect(await cooldowns(always(status(code)), 7)).toEqual([
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

  it.each<[seconds: string, lengths: number[]]>([
    ['7', [7_000, 10_000, 20_000, 40_000]],
    ['30', [30_000, 30_000, 30_000, 40_000]],
  ])(
    'lasts as long as the first 429 says, and doubles from 10 s after further ones: %s s',
    async (seconds, lengths) => {
      const made = always(status(429, '', { 'retry-after': seconds }))
      expect(await cooldowns(made, lengths.length)).toEqual(lengths)
    },
  )

  it('is reset by a success', async () => {
    const made = rig([status(503), status(503), status(503), granted(), status(503)], { retries: 0 })
    expect(await cooldowns(made, 3)).toEqual([1_000, 2_000, 4_000])
    await made.provider.getToken()
    await made.clock.advance(990_000)
    expect(await cooldowns(made, 1)).toEqual([1_000])
  })

  it.each([
    [429, '300', 300_000],
    [429, '7200', 3_600_000],
    [429, '7', 7_000],
    [429, '0', 1_000],
    [503, '60', 60_000],
  ])(
    'follows Retry-After within its limits: status %i, Retry-After %s s, cooldown %i ms',
    async (code, seconds, length) => {
      const answer = status(code, '', { 'retry-after': seconds })
      expect(await failed(always(answer))).toMatchObject({ retryAfterMs: length })
      expect(await cooldowns(always(answer), 1)).toEqual([length])
    },
  )

  it('does not start if a call had no time left for an attempt after a failed background renewal', async () => {
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
})

describe('a call during the cooldown', () => {
  it.each([
    ['TokenRequestError', status(503, { error: 'temporarily_unavailable' }), TokenRequestError],
    ['TokenResponseError', granted({ token_type: 'mac' }), TokenResponseError],
  ])('rejects at once with its own copy of the last %s and the remaining time', async (_, answer, type) => {
    const { provider, endpoint, clock } = always(answer)
    const twice = () => Promise.all([1, 2].map(() => rejection<TokenRequestError>(provider.getToken())))
    const atFirst = await twice()
    await clock.advance(400)
    const later = await twice()
    for (const error of [...atFirst, ...later]) {
      const remainsMs = later.includes(error) ? 600 : 1_000
      expect(error).toBeInstanceOf(type)
      expect(error).toMatchObject({ code: atFirst[0]?.code, retryAfterMs: remainsMs })
      expect(error.status).toBe(atFirst[0]?.status)
      const rest = ' The token endpoint is not asked again for 600 ms, until 2026-01-01T00:00:01.000Z.'
      expect(error.message.endsWith(rest)).toBe(later.includes(error))
    }
    expect(new Set([...atFirst, ...later]).size).toBe(4)
    expect(endpoint.count).toBe(1)
  })

  it('for a rejected token rejects with the last error, but not once the token has expired', async () => {
    const { provider, endpoint, clock } = rig([granted({ expires_in: 100 }), status(503)], { retries: 0 })
    const token = await provider.getToken()
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503 })
    await expect(provider.renewToken(token)).rejects.toMatchObject({ status: 503, retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(2)
    clock.stepWallClock(100_000)
    await clock.advance(1_000)
    expect(await provider.renewToken(token)).toBeDefined()
    expect(endpoint.count).toBe(3)
  })

  it('is not affected by steps of the wall clock', async () => {
    const { provider, endpoint, clock } = always(status(503))
    await rejection(provider.getToken())
    clock.stepWallClock(3_600_000)
    await expect(provider.getToken()).rejects.toMatchObject({ retryAfterMs: 1_000 })
    expect(endpoint.count).toBe(1)
  })
})

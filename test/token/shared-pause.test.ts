/** While no token may be requested: processes share the pause after a 429, and look for each other's tokens. */
import type { TokenRequestError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { Fleet, quiet } from '../store/fleet.ts'
import { oneHasNewerToken, sharing } from '../store/scenes.ts'
import { IN_STORE_URL, MERCHANT_URL, rejection, SECRET, status, withoutJitter } from './harness.ts'

withoutJitter()

const url = MERCHANT_URL

describe('the pause after a 429', () => {
  it('holds back every process of the fleet, and the error says why and until when', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(429))
    const one = fleet.start()
    expect(await rejection(one.provider.getToken())).toMatchObject({ status: 429, retryAfterMs: 10_000 })
    await quiet()
    await fleet.skip(4_000)
    const other = fleet.start()
    const error = await rejection(other.provider.getToken())
    const known = { code: 'ERR_TOKEN_STATUS', status: 429, retryable: true }
    expect(error).toMatchObject({ ...known, retryAfterMs: 6_000 })
    expect(error.message).toBe(
      'POST https://auth.test.example/oauth/token returned 429 to another process that shares the store. ' +
        'Too many token requests: try again later (merchant-auth/docs/troubleshooting.md#429-from-the-token-endpoint). ' +
        'The token endpoint is not asked again for 6000 ms, until 2026-01-01T00:00:10.000Z.',
    )
    expect(fleet.endpoint.count).toBe(1)
    await fleet.skip(6_000)
    const { value } = await other.provider.getToken()
    await quiet()
    expect((await one.provider.getToken()).value).toBe(value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('doubles with each further one, whichever process gets it, and starts over after a token', async () => {
    const fleet = new Fleet()
    const refused = async (by = status(429)): Promise<unknown> => {
      fleet.endpoint.answers = [by]
      const { retryAfterMs } = await rejection<TokenRequestError>(fleet.start().provider.getToken())
      await quiet()
      await fleet.skip(Number(retryAfterMs))
      return retryAfterMs
    }
    expect([await refused(), await refused()]).toEqual([10_000, 20_000])
    expect(await refused(status(400))).toBe(1_000)
    expect(await refused()).toBe(40_000)
    fleet.endpoint.answers = []
    await fleet.tokenOf()
    await quiet()
    await fleet.skip(1_000_000)
    expect(await refused()).toBe(10_000)
  })

  it('is ignored once it is over, even if the store keeps its entry', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(429))
    const one = fleet.start()
    await rejection(one.provider.getToken())
    await quiet() // the pause is written
    await fleet.skip(10_000)
    const { value } = await one.provider.getToken()
    await quiet()
    const other = fleet.start()
    await other.provider.getToken()
    const newer = await other.provider.renewToken(value, { url })
    await quiet()
    expect(await fleet.tokenOf()).toBe(newer?.value)
  })

  it('is in the hands of the store when a call gets the error: a program may end then', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(429))
    await rejection(fleet.start().provider.getToken())
    expect(fleet.store.operations).toContain('set')
  })

  it('is deleted once, with the first token after it', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(429))
    const { provider } = fleet.start()
    await rejection(provider.getToken())
    await quiet()
    const deletions = () =>
      fleet.store.asked.filter(({ operation, key }) => operation === 'set' && key.includes('.pause.'))
    fleet.store.asked.length = 0
    await fleet.skip(10_000)
    const token = await provider.getToken()
    await quiet()
    expect(deletions()).toMatchObject([{ ttlMs: 60_000 }])
    await provider.renewToken(token, { url })
    await quiet()
    expect(deletions()).toMatchObject([{ ttlMs: 60_000 }])
  })

  it('that a background renewal began holds back everything else, too', async () => {
    const { fleet, one, other } = await sharing(2)
    await fleet.skip(984_000)
    fleet.endpoint.answers.push(status(429))
    one.provider.currentToken()
    await quiet()
    other.provider.currentToken()
    await quiet()
    await fleet.skip(6_000) // the token has expired
    for (const { provider } of [one, other])
      expect(await rejection(provider.getToken())).toMatchObject({ status: 429, retryAfterMs: 4_000 })
    expect(fleet.endpoint.count).toBe(2)
    await fleet.skip(4_000)
    const { value } = await other.provider.getToken()
    await quiet()
    expect((await one.provider.getToken()).value).toBe(value)
    expect(fleet.endpoint.count).toBe(3)
  })
})

describe('a process in a cooldown', () => {
  it('fails a call at once without calling its clientSecret function', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => new Promise<string>(() => {}))
    const { provider } = fleet.start({ clientSecret, timeoutMs: 4_000, retries: 0 })
    const first = rejection(provider.getToken())
    expect(await fleet.tookMs(first)).toBe(4_000)
    await fleet.skip(999)
    expect(await fleet.tookMs(rejection(provider.getToken()))).toBe(0)
    expect(clientSecret).toHaveBeenCalledTimes(1)
    await fleet.skip(1)
    await fleet.tookMs(rejection(provider.getToken()))
    await fleet.skip(1_500) // of a cooldown of 2 s
    const error = rejection(provider.getToken())
    expect(await fleet.tookMs(error)).toBe(0)
    expect(await error).toMatchObject({ code: 'ERR_CLIENT_SECRET', retryAfterMs: 500 })
    expect(clientSecret).toHaveBeenCalledTimes(2)
  })

  it('looks for the token of another process without calling its clientSecret function', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(400, '', { 'retry-after': '20' }))
    const clientSecret = vi.fn(async () => SECRET)
    const { provider } = fleet.start({ clientSecret })
    await rejection(provider.getToken())
    const { token } = await fleet.begin()
    await fleet.skip(1_000)
    expect((await provider.getToken()).value).toBe(token)
    expect(clientSecret).toHaveBeenCalledTimes(1)
  })

  it('looks for the token of another process at most once a second', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(400, '', { 'retry-after': '20' }))
    const { provider } = fleet.start()
    await rejection(provider.getToken())
    await quiet()
    await fleet.skip(500)
    const { token } = await fleet.begin()
    expect(await rejection(provider.getToken())).toMatchObject({ status: 400 })
    expect(fleet.store.asked).toEqual([])
    await fleet.skip(499)
    expect((await rejection(provider.getToken())) ?? 'none').toMatchObject({ status: 400 })
    await fleet.skip(1)
    expect((await provider.getToken()).value).toBe(token)
  })
})

describe('a newer token of another process', () => {
  it('is looked for at most once a second while the rate limit allows no renewal', async () => {
    const { fleet, one, newer } = await oneHasNewerToken()
    await fleet.skip(1_000)
    const latest = String((await one.provider.renewToken(newer, { url }))?.value)
    await quiet()
    fleet.store.asked.length = 0
    await fleet.skip(500)
    const reject = async (times: number): Promise<void> => {
      for (let time = 0; time < times; time += 1)
        expect(await one.provider.renewToken(latest, { url })).toBeUndefined()
    }
    await reject(10)
    await fleet.skip(499)
    await reject(10)
    expect(fleet.store.operations).toEqual([])
    await fleet.skip(1)
    await reject(10)
    await quiet()
    expect(fleet.store.operations).toEqual(['get'])
    await fleet.skip(499)
    await reject(10)
    expect(fleet.store.operations).toEqual(['get'])
  })

  it('is acquired during the cooldown after a failed request; without one, the error is repeated', async () => {
    const { fleet, one, other, token } = await sharing(2)
    fleet.endpoint.answers.push(status(400, '', { 'retry-after': '20' }))
    await rejection(one.provider.renewToken(token, { url }))
    await fleet.skip(400)
    const error = await rejection(one.provider.renewToken(token, { url }))
    expect(error).toMatchObject({ status: 400, retryAfterMs: 19_600 })
    expect(fleet.endpoint.count).toBe(2)
    const newer = await other.provider.renewToken(token, { url: IN_STORE_URL })
    await fleet.skip(600)
    expect((await one.provider.renewToken(token, { url }))?.value).toBe(newer?.value)
    expect(fleet.endpoint.count).toBe(3)
  })
})

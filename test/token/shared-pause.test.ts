/** While no token may be requested: processes share the pause after a 429, and look for each other's tokens. */
import type { TokenProviderOptions, TokenRequestError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { Fleet, quiet } from '../store/fleet.ts'
import { FAILURES } from '../store/memory-store.ts'
import { leaseHeldByAnother, oneHasNewerToken, renewedUntilLimited, sharing } from '../store/scenes.ts'
import { kindsIn } from '../support/failures.ts'
import { IN_STORE_URL, MERCHANT_URL, rejection, SECRET, status, withoutJitter } from './harness.ts'

withoutJitter()

const url = MERCHANT_URL

/** While no token may be requested, one call in this time looks for that of another process. */
const LOOK_AGAIN_MS = 30_000

const PAUSE_OF_10_S = status(429, '', { 'retry-after': '10' })

describe('the pause after a 429', () => {
  it('holds back every process of the fleet, and the error says why and until when', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(PAUSE_OF_10_S)
    const one = fleet.start()
    expect(await rejection(one.provider.getToken())).toMatchObject({ status: 429, retryAfterMs: 10_000 })
    await quiet()
    await fleet.skip(4_000)
    const other = fleet.start()
    const error = await rejection(other.provider.getToken())
    const known = { code: 'ERR_TOKEN_STATUS', status: 429, retryable: true }
    expect(error).toMatchObject({ ...known, retryAfterMs: 6_000 })
    expect(error.message).toContain(' returned 429 to another process that shares the store. ')
    expect(kindsIn(error.message)).toEqual(['too-many'])
    expect(error.message).toMatch(
      / The token endpoint is not asked again for 6000 ms, until 2026-01-01T00:00:10\.000Z\.$/,
    )
    expect(fleet.endpoint.count).toBe(1)
    await fleet.skip(6_000)
    const { value } = await other.provider.getToken()
    await quiet()
    expect((await one.provider.getToken()).value).toBe(value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('grows with each further one, whichever process gets it, and starts over after a token', async () => {
    const fleet = new Fleet()
    const refused = async (by = status(429)): Promise<number> => {
      fleet.endpoint.answers = [by]
      const { retryAfterMs } = await rejection<TokenRequestError>(fleet.start().provider.getToken())
      await quiet()
      await fleet.skip(Number(retryAfterMs))
      return Number(retryAfterMs)
    }
    const first = await refused()
    const second = await refused()
    expect(second).toBeGreaterThan(first)
    await refused(status(400))
    expect(await refused()).toBeGreaterThan(second)
    fleet.endpoint.answers = []
    await fleet.tokenOf()
    await quiet()
    await fleet.skip(1_000_000)
    expect(await refused()).toBe(first)
  })

  it('is ignored once it is over, even if the store keeps its entry', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(PAUSE_OF_10_S)
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
    fleet.endpoint.answers.push(PAUSE_OF_10_S)
    await rejection(fleet.start().provider.getToken())
    expect(fleet.store.operations).toContain('set')
  })

  it('is part of the one entry of the client, with the token', async () => {
    const { fleet, one } = await sharing()
    const { tokenKey } = fleet.store
    fleet.endpoint.answers.push(PAUSE_OF_10_S)
    await rejection(one.provider.renewToken(one.token, { url }))
    expect(fleet.store.operations).toContain('set')
    expect(fleet.store.keys).toEqual([tokenKey])
    expect(await fleet.tokenOf()).toBe(one.token)
  })

  it('is not written by a process that could not read the entry: it would erase the token', async () => {
    const { fleet, one } = await sharing()
    const late = fleet.start()
    fleet.store.faults.get = FAILURES.rejects
    fleet.endpoint.answers.push(PAUSE_OF_10_S)
    await rejection(late.provider.getToken())
    await quiet()
    expect(fleet.store.operations).not.toContain('set')
    fleet.store.faults.get = undefined
    expect(await fleet.tokenOf()).toBe(one.token)
  })

  it('is not written by a process that has not read the entry since a write failed: it would erase a newer token', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = FAILURES.rejects
    const one = await fleet.begin()
    fleet.store.faults.set = undefined
    const other = await fleet.begin()
    fleet.endpoint.answers.push(PAUSE_OF_10_S)
    expect(await rejection(one.provider.renewToken(one.token, { url }))).toMatchObject({ status: 429 })
    await quiet()
    expect(await fleet.tokenOf()).toBe(other.token)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('ends the wait of another process for the lease, even if that is not released', async () => {
    const fleet = new Fleet()
    fleet.answerAfter(500, PAUSE_OF_10_S)
    fleet.store.faults.release = FAILURES.rejects
    const failing = rejection(fleet.start().provider.getToken())
    await quiet()
    const waiting = rejection(fleet.start().provider.getToken())
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(600)
    for (const error of [failing, waiting]) expect(await error).toMatchObject({ status: 429 })
    expect(fleet.endpoint.count).toBe(1)
  })

  it('that came after a token is not ended by that token, which ends other cooldowns', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(400, '', { 'retry-after': '60' }))
    const late = fleet.start()
    await rejection(late.provider.getToken())
    const one = await fleet.begin()
    fleet.endpoint.answers.push(status(429, '', { 'retry-after': '1500' }))
    await rejection(one.provider.renewToken(one.token, { url }))
    await fleet.skip(LOOK_AGAIN_MS)
    expect((await late.provider.getToken()).value).toBe(one.token)
    fleet.store.asked.length = 0
    const error = await rejection(late.provider.renewToken(one.token, { url }))
    expect(error).toMatchObject({ status: 429, retryAfterMs: 1_500_000 - LOOK_AGAIN_MS })
    expect(fleet.store.operations).toEqual([]) // it is known already
    expect(fleet.endpoint.count).toBe(3)
  })

  it('that a background renewal began holds back everything else, too', async () => {
    const { fleet, one, other } = await sharing(2)
    await fleet.skip(984_000)
    fleet.endpoint.answers.push(PAUSE_OF_10_S)
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
    await fleet.skip(10)
    const error = rejection<TokenRequestError>(provider.getToken())
    expect(await fleet.tookMs(error)).toBe(0)
    const { code, retryAfterMs } = await error
    expect(code).toBe('ERR_CLIENT_SECRET')
    expect(clientSecret).toHaveBeenCalledTimes(1)
    await fleet.skip(Number(retryAfterMs))
    await fleet.tookMs(rejection(provider.getToken()))
    expect(clientSecret).toHaveBeenCalledTimes(2)
  })

  /** A process in a long cooldown, before another one writes its token. */
  async function refused(options: Partial<TokenProviderOptions> = {}) {
    const { releaseLease, ...others } = await leaseHeldByAnother(60_000)
    releaseLease()
    others.fleet.endpoint.answers.push(status(429, '', { 'retry-after': '600' }))
    const { provider } = others.fleet.start(options)
    await rejection(provider.getToken())
    return { ...others, provider }
  }

  it('looks for the token of another process without calling its clientSecret function', async () => {
    const clientSecret = vi.fn(async () => SECRET)
    const { fleet, provider, token, write } = await refused({ clientSecret })
    write()
    await fleet.skip(LOOK_AGAIN_MS)
    expect((await provider.getToken()).value).toBe(token)
    expect(clientSecret).toHaveBeenCalledTimes(1)
  })

  it('is in none any more when it has found the token of another process', async () => {
    const { fleet, provider, token, write } = await refused()
    write()
    await fleet.skip(LOOK_AGAIN_MS)
    expect((await provider.getToken()).value).toBe(token)
    expect([token, undefined]).not.toContain((await provider.renewToken(token, { url }))?.value)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('looks for the token of another process once in 30 s, and fails all other calls at once', async () => {
    const { fleet, provider, token, write } = await refused()
    fleet.store.asked.length = 0
    const fails = async (): Promise<void> => {
      const failing = rejection(provider.getToken())
      expect(await fleet.tookMs(failing)).toBe(0)
      expect(await failing).toMatchObject({ status: 429 })
    }
    await fleet.skip(LOOK_AGAIN_MS - 1)
    await fails()
    expect(fleet.store.operations).toEqual([])
    await fleet.skip(1)
    await fails()
    await fails()
    expect(fleet.store.operations).toEqual(['get'])
    write()
    fleet.store.asked.length = 0
    await fleet.skip(LOOK_AGAIN_MS - 1)
    await fails()
    expect(fleet.store.operations).toEqual([])
    await fleet.skip(1)
    expect((await provider.getToken()).value).toBe(token)
  })
})

describe('a newer token of another process', () => {
  it('is looked for once in 30 s while the rate limit allows no renewal', async () => {
    const { fleet, one } = await oneHasNewerToken()
    await renewedUntilLimited(fleet, one, 3 * LOOK_AGAIN_MS)
    const latest = String(one.provider.currentToken()?.value)
    await fleet.skip(LOOK_AGAIN_MS)
    await one.provider.renewToken(latest, { url })
    fleet.store.asked.length = 0
    const reject = async (): Promise<void> => {
      for (let time = 0; time < 10; time += 1)
        expect(await one.provider.renewToken(latest, { url })).toBeUndefined()
    }
    await fleet.skip(LOOK_AGAIN_MS - 1)
    await reject()
    expect(fleet.store.operations).toEqual([])
    await fleet.skip(1)
    await reject()
    await quiet()
    expect(fleet.store.operations).toEqual(['get'])
    await fleet.skip(LOOK_AGAIN_MS - 1)
    await reject()
    expect(fleet.store.operations).toEqual(['get'])
  })

  it('is acquired during the cooldown after a failed request; without one, the error is repeated', async () => {
    const { fleet, one, other, token } = await sharing(2)
    fleet.endpoint.answers.push(status(400, '', { 'retry-after': '60' }))
    const { retryAfterMs } = await rejection<TokenRequestError>(one.provider.renewToken(token, { url }))
    await fleet.skip(400)
    const error = await rejection(one.provider.renewToken(token, { url }))
    expect(error).toMatchObject({ status: 400, retryAfterMs: Number(retryAfterMs) - 400 })
    expect(fleet.endpoint.count).toBe(2)
    const newer = await other.provider.renewToken(token, { url: IN_STORE_URL })
    await fleet.skip(LOOK_AGAIN_MS)
    expect((await one.provider.renewToken(token, { url }))?.value).toBe(newer?.value)
    expect(fleet.endpoint.count).toBe(3)
  })
})

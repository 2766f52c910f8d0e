/** The client secret of processes that share a token: it seals where no keys are given, and may be had from a function. */
import { ProviderClosedError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { Fleet, failuresOf, quiet } from '../store/fleet.ts'
import { hang, rejection, SECRET, status } from './harness.ts'

const encryptionKeys = ['a key of at least thirty-two bytes']

describe('a client secret', () => {
  it('seals where no keys are given: those with another share nothing with it', async () => {
    const fleet = new Fleet()
    const one = await fleet.begin({ clientSecret: 'secret-no-1' })
    const two = await fleet.begin({ clientSecret: 'secret-no-2' })
    expect(one.token).not.toBe(two.token)
    for (const { clientSecret, token } of [
      { ...one, clientSecret: 'secret-no-1' },
      { ...two, clientSecret: async () => 'secret-no-2' },
    ])
      expect((await fleet.begin({ clientSecret })).token).toBe(token)
    expect([fleet.endpoint.count, fleet.store.keys.length]).toEqual([2, 2])
  })

  it('that a function replaces leads to entries under the new one', async () => {
    const fleet = new Fleet()
    let secret = 'secret-no-1'
    const { provider } = await fleet.begin({ clientSecret: () => secret })
    secret = 'secret-no-2'
    await fleet.skip(1_000_000)
    const { value } = await provider.getToken()
    await quiet()
    expect((await fleet.begin({ clientSecret: 'secret-no-2' })).token).toBe(value)
    expect((await fleet.begin({ clientSecret: 'secret-no-1' })).token).not.toBe(value)
  })

  it('is asked for once for the look and the request', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => SECRET)
    await fleet.begin({ clientSecret })
    expect(clientSecret).toHaveBeenCalledTimes(1)
  })

  it('that was replaced between the look and the request yields nothing for those who have the old one', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => 'secret-no-2').mockImplementationOnce(() => 'secret-no-1')
    fleet.endpoint.answers.push(status(401))
    const { token } = await fleet.begin({ clientSecret })
    expect([clientSecret.mock.calls.length, fleet.store.keys]).toEqual([2, []])
    expect((await fleet.begin({ clientSecret: 'secret-no-1' })).token).not.toBe(token)
  })

  it('that cannot be had any more still opens what another process has put there', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => SECRET)
    const { provider } = await fleet.begin({ clientSecret })
    clientSecret.mockImplementation(() => {
      throw new Error('the vault is shut')
    })
    await fleet.skip(1_000_000)
    const { token } = await fleet.begin()
    expect((await provider.getToken()).value).toBe(token)
  })

  it('is asked for once where a token is taken from the store, and not at all with keys', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(async () => SECRET)
    await fleet.begin()
    await fleet.begin({ clientSecret })
    expect(clientSecret).toHaveBeenCalledTimes(1)
    await fleet.begin({ encryptionKeys })
    await fleet.begin({ clientSecret, encryptionKeys })
    expect(clientSecret).toHaveBeenCalledTimes(1)
    expect(fleet.endpoint.count).toBe(2)
  })
})

describe('a clientSecret function', () => {
  it.each([
    ['throws', () => Promise.reject(new Error('the vault is shut'))],
    ['yields undefined', () => undefined],
    ['yields an empty text', () => ''],
  ])('that %s fails the token request as without a store, which is left alone', async (_, clientSecret) => {
    const fleet = new Fleet()
    const { provider, events } = fleet.start({ clientSecret: clientSecret as () => string })
    const failing = rejection(provider.getToken())
    await fleet.tookMs(failing)
    expect(await failing).toMatchObject({ code: 'ERR_CLIENT_SECRET', attempts: 3 })
    expect([fleet.store.asked, fleet.endpoint.count, failuresOf(events)]).toEqual([[], 0, []])
  })

  it('that hangs fails it within timeoutMs', async () => {
    const fleet = new Fleet()
    const failing = rejection(
      fleet.start({ clientSecret: () => new Promise<string>(() => {}) }).provider.getToken(),
    )
    expect(await fleet.tookMs(failing)).toBe(10_000)
    expect(await failing).toMatchObject({ code: 'ERR_CLIENT_SECRET' })
    expect([fleet.store.asked, fleet.clock.sleeping]).toEqual([[], 0])
  })

  it.each([
    ['hangs', () => new Promise<string>(() => {})],
    ['throws', () => Promise.reject(new Error('the vault is shut'))],
  ])('that %s keeps nobody from a token in the store, where there are keys', async (_, clientSecret) => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys })
    const { provider } = fleet.start({ clientSecret, encryptionKeys })
    expect((await provider.getToken()).value).toBe(token)
  })

  it('that hangs while the lease is held has it given back in the end', async () => {
    const fleet = new Fleet()
    const clientSecret = (): Promise<string> => new Promise(() => {})
    const failing = rejection(fleet.start({ clientSecret, encryptionKeys }).provider.getToken())
    expect(await fleet.tookMs(failing)).toBe(10_000)
    expect(await failing).toMatchObject({ code: 'ERR_CLIENT_SECRET', attempts: 2 })
    await quiet()
    expect([fleet.store.leased, fleet.clock.sleeping]).toEqual([0, 0])
  })

  it('that hangs before the look is left at once by close()', async () => {
    const fleet = new Fleet()
    const { provider } = fleet.start({ clientSecret: () => new Promise<string>(() => {}) })
    const waiting = rejection(provider.getToken())
    await quiet()
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect([fleet.store.asked, fleet.clock.sleeping, fleet.endpoint.count]).toEqual([[], 0, 0])
  })

  it('that takes its time leaves the token request what remains of timeoutMs', async () => {
    const fleet = new Fleet()
    fleet.endpoint.otherwise = hang
    const clientSecret = async (): Promise<string> => {
      await fleet.clock.sleep(2_000)
      return SECRET
    }
    const failing = rejection(fleet.start({ clientSecret }).provider.getToken())
    expect(await fleet.tookMs(failing)).toBe(10_000)
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT' })
    expect(fleet.store.operations).toContain('get')
  })

  it('that throws once is a failed attempt, and the token stays with the process', async () => {
    const fleet = new Fleet()
    const clientSecret = vi
      .fn<() => string>()
      .mockReturnValue(SECRET)
      .mockImplementationOnce(() => {
        throw new Error('the vault is shut')
      })
    const { provider, events } = fleet.start({ clientSecret })
    const waiting = provider.getToken()
    await fleet.tookMs(waiting)
    await expect(waiting).resolves.toBeDefined()
    await quiet()
    expect([fleet.store.asked, failuresOf(events)]).toEqual([[], []])
    await fleet.skip(1_000_000)
    await provider.getToken()
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set', 'release'])
  })
})

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { MERCHANT_URL } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

const [a, b] = ['an old key of at least 32 bytes ..', 'a new key of at least 32 bytes ..']
const tokenKeys = ({ store }: Fleet): string[] => store.keys.filter((key) => key.startsWith('v1.token.'))

describe('encryptionKeys', () => {
  it('are needed to read: other keys are no failure, and see nothing', async () => {
    const fleet = new Fleet()
    await fleet.begin({ encryptionKeys: [a] })
    for (const options of [{ encryptionKeys: [b] }, {}]) {
      const { provider, events } = fleet.start(options)
      await provider.getToken()
      expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
    }
    await quiet()
    expect(tokenKeys(fleet)).toHaveLength(3)
  })

  it('take the place of the client secret, which may then differ', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys: [a] })
    const other = fleet.start({ encryptionKeys: [a], clientSecret: 'another-swordfish' })
    expect((await other.provider.getToken()).value).toBe(token)
  })

  it('all read', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys: [a] })
    for (const encryptionKeys of [
      [b, a],
      ['the newest key, of at least 32 bytes', b, a],
    ]) {
      const { provider, events } = fleet.start({ encryptionKeys })
      expect((await provider.getToken()).value).toBe(token)
      expect(failuresOf(events)).toEqual([])
    }
  })

  it('are read in their order', async () => {
    const fleet = new Fleet()
    const older = await fleet.begin({ encryptionKeys: [a] })
    const newer = await fleet.begin({ encryptionKeys: [b] })
    expect((await fleet.start({ encryptionKeys: [b, a] }).provider.getToken()).value).toBe(newer.token)
    expect((await fleet.start({ encryptionKeys: [a, b] }).provider.getToken()).value).toBe(older.token)
  })

  it('write with the first', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys: [b, a] })
    expect((await fleet.start({ encryptionKeys: [b] }).provider.getToken()).value).toBe(token)
    expect((await fleet.start({ encryptionKeys: [a] }).provider.getToken()).value).not.toBe(token)
  })

  it('are copied when they are given', async () => {
    const fleet = new Fleet()
    const encryptionKeys = [a]
    const { provider } = fleet.start({ encryptionKeys })
    encryptionKeys[0] = b
    await provider.getToken()
    await quiet()
    const reader = fleet.start({ encryptionKeys: [a] })
    await reader.provider.getToken()
    expect(sourcesOf(reader.events)).toEqual(['store'])
  })

  it('can be replaced one deployment at a time: [old], [old, new], [new, old], [new]', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys: [a] })
    for (const encryptionKeys of [
      [a, b],
      [b, a],
    ])
      expect((await fleet.begin({ encryptionKeys })).token).toBe(token)
    expect(fleet.endpoint.count).toBe(1)
    await fleet.skip(1_000_000)
    const renewed = await fleet.begin({ encryptionKeys: [b, a] })
    expect((await fleet.begin({ encryptionKeys: [b] })).token).toBe(renewed.token)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('in the middle of that leave two entries side by side, over which nobody fights', async () => {
    const fleet = new Fleet()
    const older = await fleet.begin({ encryptionKeys: [a] })
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    await fleet.skip(790_000) // both are due; each first key has a lease of its own
    newer.provider.currentToken()
    older.provider.currentToken()
    await fleet.pass(100)
    const [entryOfOld, entryOfNew] = [older, newer].map(({ provider }) => provider.currentToken()?.value)
    expect(entryOfOld).not.toBe(entryOfNew)
    expect(tokenKeys(fleet)).toHaveLength(2)
    expect([fleet.endpoint.count, fleet.store.leased]).toEqual([3, 0])
    for (const [encryptionKeys, token] of [
      [[a], entryOfOld],
      [[b, a], entryOfNew],
      [[b], entryOfNew],
    ] as const)
      expect((await fleet.start({ encryptionKeys }).provider.getToken()).value).toBe(token)
    expect(fleet.store.operations).not.toContain('delete')
  })

  it("in the middle of that let a refused token be followed by the other entry's", async () => {
    const fleet = new Fleet()
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    const older = await fleet.begin({ encryptionKeys: [a] })
    const taken = await newer.provider.renewToken(newer.token, { url: MERCHANT_URL })
    expect([taken?.value, fleet.endpoint.count]).toEqual([older.token, 2])
  })

  it('in the middle of that let nobody take a refused token again', async () => {
    const fleet = new Fleet()
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    await fleet.begin({ encryptionKeys: [a] })
    await newer.provider.renewToken(newer.token, { url: MERCHANT_URL })
    await quiet()
    const next = fleet.start({ encryptionKeys: [b, a] })
    expect((await next.provider.getToken()).value).not.toBe(newer.token)
  })

  it('in the middle of that keep what another has put in the place of a refused token', async () => {
    const fleet = new Fleet()
    const older = await fleet.begin({ encryptionKeys: [a] })
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    const replaced = await older.provider.renewToken(older.token, { url: MERCHANT_URL })
    await quiet()
    expect((await newer.provider.renewToken(newer.token, { url: MERCHANT_URL }))?.value).toBe(replaced?.value)
    await quiet()
    expect((await fleet.start({ encryptionKeys: [a] }).provider.getToken()).value).toBe(replaced?.value)
    expect(fleet.endpoint.count).toBe(2)
  })
})

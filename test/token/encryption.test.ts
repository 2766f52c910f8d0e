/** Entries in the store reveal nothing, and invalid entries are not used. */
import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { findLeaks } from '../support/leaks.ts'
import { ENVIRONMENT, granted, IN_STORE_URL, MERCHANT_URL, SECRET, withoutJitter } from './harness.ts'

withoutJitter()

const [a, b] = ['an old key of at least 32 bytes ..', 'a new key of at least 32 bytes ..']
const tokenKeys = ({ store }: Fleet): string[] => store.keys.filter((key) => key.startsWith('v1.token.'))

describe('encryptionKeys', () => {
  it('are required to read an entry, which is absent for a process with other keys', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys: [a] })
    expect(await fleet.tokenOf({ encryptionKeys: [a], clientSecret: 'another-swordfish' })).toBe(token)
    for (const options of [{ encryptionKeys: [b] }, {}]) {
      const { provider, events } = fleet.start(options)
      await provider.getToken()
      expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
    }
    await quiet()
    expect(tokenKeys(fleet)).toHaveLength(3)
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

  it('keep one entry for each first key during a rotation, renewed independently', async () => {
    const fleet = new Fleet()
    const older = await fleet.begin({ encryptionKeys: [a] })
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    await fleet.skip(790_000) // both are in their refresh window; each first key has its own lease
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
      expect(await fleet.tokenOf({ encryptionKeys })).toBe(token)
  })

  it("replace a rejected token with the other entry's during a rotation", async () => {
    const fleet = new Fleet()
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    const older = await fleet.begin({ encryptionKeys: [a] })
    const acquired = await newer.provider.renewToken(newer.token, { url: MERCHANT_URL })
    expect([acquired?.value, fleet.endpoint.count]).toEqual([older.token, 2])
  })
})

const DAY_S = 86_400

/** A fleet whose store has every kind of entry: a token and the rate limits of two APIs. */
async function fleetWithFullStore(options = {}) {
  const fleet = new Fleet()
  fleet.endpoint.otherwise = (init) => granted({ expires_in: DAY_S, scope: 'merchant:all' })(init)
  const process = await fleet.begin(options)
  let token: string | undefined = process.token
  for (const url of [MERCHANT_URL, IN_STORE_URL]) {
    token = (await process.provider.renewToken(String(token), { url }))?.value
    await quiet()
  }
  expect(fleet.store.keys.length).toBe(3)
  return { fleet, ...process, token: String(token) }
}

/** Everything visible in the store, including the decoded base64 parts of the entries. */
function visibleIn({ store }: Fleet): string[] {
  const values = store.keys.map((key) => store.entry(key)?.value ?? '')
  const parts = [...store.keys, ...values].flatMap((text) => text.split('.'))
  return [...store.keys, ...values, ...parts.map((part) => Buffer.from(part, 'base64').toString('latin1'))]
}

describe('a reader of the store without the keys', () => {
  it.each([
    ['the client secret', {}],
    ['encryptionKeys', { encryptionKeys: [a, b] }],
  ])('sees only hashed keys, and no token, scope, secret, client or URL: with %s', async (_, options) => {
    const { fleet, token } = await fleetWithFullStore(options)
    const words = [
      'merchant',
      'swordfish',
      'client-1',
      'test.example',
      'expires',
      SECRET,
      ENVIRONMENT.audience,
    ]
    expect(findLeaks(visibleIn(fleet), [token, ...words, ...Object.values(options).flat()])).toEqual([])
    for (const { key } of fleet.store.asked) {
      expect(key).toMatch(/^v1\.(?:token|pause|renewals-[\w-]{43})\.[\w-]{43}\.[\w-]{16}$/)
      expect(key.length).toBeLessThanOrEqual(120)
    }
  })

  it('cannot tell from the store keys whether two clients have the same secret', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    await fleet.begin({ clientId: 'client-2' })
    const [one = [], other = []] = fleet.store.keys.map((key) => key.split('.'))
    expect([one.at(-2) === other.at(-2), one.at(-1) === other.at(-1)]).toEqual([false, false])
  })
})

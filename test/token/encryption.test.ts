/** Entries in the store reveal nothing, and invalid entries are not used. */
import { describe, expect, it } from 'vitest'
import { EncryptionKey } from '../../src/token/shared/encryption.ts'
import { Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { findLeaks } from '../support/leaks.ts'
import { ENVIRONMENT, granted, IN_STORE_URL, MERCHANT_URL, SECRET, withoutJitter } from './harness.ts'

withoutJitter()

const [a, b] = ['an old key of at least 32 bytes ..', 'a new key of at least 32 bytes ..']
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
    expect(fleet.store.keys).toHaveLength(3)
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
    expect(fleet.store.keys).toHaveLength(2)
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

/** A fleet whose entry has a token and the limits of two APIs. */
async function fleetWithFullStore(options = {}) {
  const fleet = new Fleet()
  fleet.endpoint.otherwise = (init) => granted({ expires_in: DAY_S, scope: 'merchant:all' })(init)
  const process = await fleet.begin(options)
  let token: string | undefined = process.token
  for (const url of [MERCHANT_URL, IN_STORE_URL]) {
    token = (await process.provider.renewToken(String(token), { url }))?.value
    await quiet()
  }
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
      expect(key).toMatch(/^v2\.token\.[\w-]{43}\.[\w-]{16}$/)
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

/** AES-256-GCM: NIST SP 800-38D. */
const IV_BYTES = 12
const TAG_BYTES = 16

describe('an encrypted entry', () => {
  const KEY = 'v2.token.client.id'
  const TEXT = '{"token":"mine"}'
  const key = (secret = a, client = 'client-1'): EncryptionKey => new EncryptionKey(secret, client)

  /** Its bytes after the version and the id of the key. */
  const bytesOf = (encrypted: string): Buffer => Buffer.from(encrypted.split('.')[2] ?? '', 'base64url')
  const withBytes = (bytes: Uint8Array): string =>
    `v2.${key().id}.${Buffer.from(bytes).toString('base64url')}`

  it('is v2, the id of the key, and an IV, the encrypted text and a tag in base64url', () => {
    const encrypted = key().encrypt(KEY, TEXT)
    expect(encrypted.startsWith(`v2.${key().id}.`)).toBe(true)
    expect(encrypted).toMatch(/^v2\.[\w-]{16}\.[\w-]+$/)
    expect(bytesOf(encrypted)).toHaveLength(IV_BYTES + TEXT.length + TAG_BYTES)
    expect(key().decrypt(KEY, encrypted)).toBe(TEXT)
  })

  it('has a new IV each time', () => {
    const ivs = Array.from({ length: 50 }, () =>
      bytesOf(key().encrypt(KEY, TEXT)).subarray(0, IV_BYTES).toString('hex'),
    )
    expect(new Set(ivs).size).toBe(50)
  })

  it.each(['', 'ä€😀', 'x'.repeat(10_000)])('keeps every text: %#', (text) => {
    expect(key().decrypt(KEY, key().encrypt(KEY, text))).toBe(text)
  })

  it('is not read with any bit altered', () => {
    const bytes = bytesOf(key().encrypt(KEY, TEXT))
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const altered = Uint8Array.from(bytes)
      altered[bit >> 3] = Number(altered[bit >> 3]) ^ (1 << (bit & 7))
      expect(key().decrypt(KEY, withBytes(altered)), `bit ${bit}`).toBeUndefined()
    }
  })

  it('is not read cut off anywhere, such as with a shorter tag', () => {
    const bytes = bytesOf(key().encrypt(KEY, TEXT))
    for (let length = 0; length < bytes.length; length += 1)
      expect(key().decrypt(KEY, withBytes(bytes.subarray(0, length))), `${length} bytes`).toBeUndefined()
    expect(key().decrypt(KEY, withBytes(Buffer.concat([bytes, Buffer.of(0)])))).toBeUndefined()
  })

  it.each<[name: string, change: (encrypted: string) => string]>([
    ['another version', (encrypted) => encrypted.replace('v2.', 'v3.')],
    ['the id of another key', (encrypted) => encrypted.replace(key().id, key(b).id)],
    ['a further part', (encrypted) => `${encrypted}.`],
    ['a missing part', (encrypted) => encrypted.slice(0, encrypted.lastIndexOf('.'))],
    ['nothing', () => ''],
  ])('is not read with %s', (_, change) => {
    expect(key().decrypt(KEY, change(key().encrypt(KEY, TEXT)))).toBeUndefined()
  })

  it('is not read under the key of another entry', () => {
    expect(key().decrypt('v2.token.client.other', key().encrypt(KEY, TEXT))).toBeUndefined()
  })

  it.each([
    ['another secret', b, 'client-1'],
    ['the same secret of another client', a, 'client-2'],
  ])('is not read with %s, whose id is another one', (_, secret, client) => {
    const [, , content] = key().encrypt(KEY, TEXT).split('.')
    expect(key(secret, client).id).not.toBe(key().id)
    expect(key(secret, client).decrypt(KEY, `v2.${key(secret, client).id}.${content}`)).toBeUndefined()
  })

  it('that cannot be read counts as absent, is an event, and is replaced', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    const { tokenKey } = fleet.store
    const { value, ttlMs } = fleet.store.entry(tokenKey) ?? { value: '', ttlMs: 0 }
    fleet.store.put(tokenKey, value.slice(0, -2), ttlMs)
    const { provider, events } = fleet.start()
    const replaced = (await provider.getToken()).value
    expect(replaced).not.toBe(token)
    expect(failuresOf(events)).toContainEqual({ operation: 'get', code: 'UNREADABLE' })
    expect(await fleet.tokenOf()).toBe(replaced)
  })

  it('of one entry of the store is not read in the place of another', async () => {
    const fleet = new Fleet()
    await fleet.begin({ encryptionKeys: [a] })
    await fleet.begin({ encryptionKeys: [a], clientId: 'client-2' })
    const [one = '', other = ''] = fleet.store.keys
    const { value, ttlMs } = fleet.store.entry(one) ?? { value: '', ttlMs: 0 }
    fleet.store.put(other, value, ttlMs)
    const { provider, events } = fleet.start({ encryptionKeys: [a], clientId: 'client-2' })
    await provider.getToken()
    expect(sourcesOf(events)).toEqual(['endpoint'])
  })
})

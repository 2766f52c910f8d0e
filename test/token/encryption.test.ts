/** What is in the store shows nothing, and entries that somebody else changed are of no use. */

import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { encryptedByHand, sharing } from '../store/scenes.ts'
import { findLeaks } from '../support/leaks.ts'
import {
  ENVIRONMENT,
  granted,
  IN_STORE_URL,
  MERCHANT_URL,
  rejection,
  SECRET,
  withoutJitter,
} from './harness.ts'

withoutJitter()

const [a, b] = ['an old key of at least 32 bytes ..', 'a new key of at least 32 bytes ..']
const tokenKeys = ({ store }: Fleet): string[] => store.keys.filter((key) => key.startsWith('v1.token.'))

describe('encryptionKeys', () => {
  it('are needed to read: other keys are no failure, and see nothing', async () => {
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

  it('are read in their order, written with the first, and copied when they are given', async () => {
    const fleet = new Fleet()
    const encryptionKeys = [b, a]
    const { provider } = fleet.start({ encryptionKeys })
    encryptionKeys[0] = 'another key of at least 32 bytes'
    const newer = (await provider.getToken()).value
    await quiet()
    expect(await fleet.tokenOf({ encryptionKeys: [b] })).toBe(newer)
    const older = await fleet.begin({ encryptionKeys: [a] })
    expect(older.token).not.toBe(newer)
    expect(await fleet.tokenOf({ encryptionKeys: [b, a] })).toBe(newer)
    expect(await fleet.tokenOf({ encryptionKeys: [a, b] })).toBe(older.token)
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
      expect(await fleet.tokenOf({ encryptionKeys })).toBe(token)
    expect(fleet.store.operations).not.toContain('delete')
  })

  it("in the middle of that let a rejected token be followed by the other entry's, and nobody take it again", async () => {
    const fleet = new Fleet()
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    const older = await fleet.begin({ encryptionKeys: [a] })
    const taken = await newer.provider.renewToken(newer.token, { url: MERCHANT_URL })
    expect([taken?.value, fleet.endpoint.count]).toEqual([older.token, 2])
    await quiet()
    expect(await fleet.tokenOf({ encryptionKeys: [b, a] })).not.toBe(newer.token)
  })

  it('in the middle of that keep what another has put in the place of a rejected token', async () => {
    const fleet = new Fleet()
    const older = await fleet.begin({ encryptionKeys: [a] })
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    const replaced = await older.provider.renewToken(older.token, { url: MERCHANT_URL })
    await quiet()
    expect((await newer.provider.renewToken(newer.token, { url: MERCHANT_URL }))?.value).toBe(replaced?.value)
    await quiet()
    expect(await fleet.tokenOf({ encryptionKeys: [a] })).toBe(replaced?.value)
    expect(fleet.endpoint.count).toBe(2)
  })
})

const DAY_S = 86_400

/** A fleet that has everything in the store that there can be: a token, and the rate limits of two APIs. */
async function wellStocked(options = {}) {
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

/** Everything that somebody sees who reads the store, also in the parts of the entries that are base64. */
function seen({ store }: Fleet): string[] {
  const values = store.keys.map((key) => store.entry(key)?.value ?? '')
  const parts = [...store.keys, ...values].flatMap((text) => text.split('.'))
  return [...store.keys, ...values, ...parts.map((part) => Buffer.from(part, 'base64').toString('latin1'))]
}

describe('somebody who reads the store', () => {
  it.each([
    ['the client secret', {}],
    ['keys of their own', { encryptionKeys: [a, b] }],
  ])('finds hashes for names, and no token, scope, secret, client or address: by %s', async (_, options) => {
    const { fleet, token } = await wellStocked(options)
    const words = [
      'merchant',
      'swordfish',
      'client-1',
      'test.example',
      'expires',
      SECRET,
      ENVIRONMENT.audience,
    ]
    expect(findLeaks(seen(fleet), [token, ...words, ...Object.values(options).flat()])).toEqual([])
    for (const { key } of fleet.store.asked) {
      expect(key).toMatch(/^v1\.(?:token|renewals-[\w-]{43})\.[\w-]{43}\.[\w-]{16}$/)
      expect(key.length).toBeLessThanOrEqual(120)
    }
  })

  it('cannot tell by a name whether two clients have the same secret', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    await fleet.begin({ clientId: 'client-2' })
    const [one = [], other = []] = fleet.store.keys.map((key) => key.split('.'))
    expect([one.at(-2) === other.at(-2), one.at(-1) === other.at(-1)]).toEqual([false, false])
  })

  it('sees no key in an error that quotes one, nor in the log output of a provider', async () => {
    const encryptionKey = 'marlin-marlin-marlin-marlin-marlin'
    const clientSecret = () => Promise.reject(new Error(`no secret for ${encryptionKey}`))
    const options = { clientSecret, encryptionKeys: [encryptionKey], retries: 0 }
    const { provider, events } = new Fleet().start(options)
    const { cause } = await rejection(provider.getToken())
    expect(String(cause)).toBe('Error: no secret for [hidden]')
    const printed = inspect(provider, { depth: 9, showHidden: true }) + JSON.stringify([provider, events])
    expect(printed).not.toContain('marlin')
  })
})

describe('somebody who writes to the store', () => {
  it.each([
    [{ version: 2, token: 'head.body' }],
    [{ lifetimeMs: 1_000_000 }],
    [{ value: 5, lifetimeMs: 1_000_000 }],
    [{ value: 'head.body' }],
    [{ value: 'head.body', lifetimeMs: 0 }],
    [{ value: 'head.body', lifetimeMs: -1 }],
    [{ value: 'head.body', lifetimeMs: '1000000' }],
    [{ value: 'head.body', lifetimeMs: 1_000_000, scope: 5 }],
    [null],
    ['head.body'],
  ])('and has the key causes an event, and no use of an entry of another kind: %j', async (content) => {
    const { fleet } = await sharing()
    fleet.store.put(fleet.store.tokenKey, await encryptedByHand(fleet.store.tokenKey, content), 1_000_000)
    const { provider, events } = fleet.start()
    await provider.getToken()
    await quiet()
    expect([fleet.endpoint.count, sourcesOf(events)]).toEqual([2, ['endpoint']])
    expect(failuresOf(events)).toEqual([{ operation: 'get', code: 'UNREADABLE' }])
    const next = fleet.start() // finds what was written over it
    await next.provider.getToken()
    expect(sourcesOf(next.events)).toEqual(['store'])
  })

  it('and has the key, may write as this package does', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    const content = { value: 'written.by.hand', lifetimeMs: 1_000_000 }
    fleet.store.put(fleet.store.tokenKey, await encryptedByHand(fleet.store.tokenKey, content), 500_000)
    expect(await fleet.tokenOf()).toBe('written.by.hand')
  })
})

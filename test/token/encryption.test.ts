/** What is in the store shows nothing, and entries that somebody else changed are of no use. */

import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { encryptedByHand } from '../store/scenes.ts'
import { findLeaks } from '../support/leaks.ts'
import { ENVIRONMENT, granted, IN_STORE_URL, MERCHANT_URL, rejection, SECRET } from './harness.ts'

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

  it("in the middle of that let a rejected token be followed by the other entry's", async () => {
    const fleet = new Fleet()
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    const older = await fleet.begin({ encryptionKeys: [a] })
    const taken = await newer.provider.renewToken(newer.token, { url: MERCHANT_URL })
    expect([taken?.value, fleet.endpoint.count]).toEqual([older.token, 2])
  })

  it('in the middle of that let nobody take a rejected token again', async () => {
    const fleet = new Fleet()
    const newer = await fleet.begin({ encryptionKeys: [b, a] })
    await fleet.begin({ encryptionKeys: [a] })
    await newer.provider.renewToken(newer.token, { url: MERCHANT_URL })
    await quiet()
    const next = fleet.start({ encryptionKeys: [b, a] })
    expect((await next.provider.getToken()).value).not.toBe(newer.token)
  })

  it('in the middle of that keep what another has put in the place of a rejected token', async () => {
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

const DAY_S = 86_400
const UNREADABLE = { operation: 'get', code: 'UNREADABLE' }

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
    [
      'keys of their own',
      { encryptionKeys: ['a key of at least thirty-two bytes', 'and an older one of as many bytes'] },
    ],
  ])(
    'finds no token, scope, secret, client or address, where entries are encrypted with %s',
    async (_, options) => {
      const { fleet, token } = await wellStocked(options)
      const hidden = [
        token,
        'merchant',
        SECRET,
        'swordfish',
        'client-1',
        ENVIRONMENT.audience,
        'test.example',
        'expires',
        ...Object.values(options).flat(),
      ]
      expect(findLeaks(seen(fleet), hidden)).toEqual([])
    },
  )

  it('finds names made of hashes alone, of at most 120 harmless characters', async () => {
    const { fleet } = await wellStocked()
    for (const { key } of fleet.store.asked) {
      expect(key).toMatch(/^v1\.(?:token|ration-[\w-]{43})\.[\w-]{43}\.[\w-]{16}$/)
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

  it('sees no key in an error that quotes one', async () => {
    const encryptionKey = 'marlin-marlin-marlin-marlin-marlin'
    const clientSecret = () => Promise.reject(new Error(`no secret for ${encryptionKey}`))
    const { provider } = new Fleet().start({ clientSecret, encryptionKeys: [encryptionKey], retries: 0 })
    const { cause } = await rejection(provider.getToken())
    expect(String(cause)).toBe('Error: no secret for [hidden]')
  })

  it('sees nothing of it in the log output of a provider', async () => {
    const { provider, events } = await wellStocked({ encryptionKeys: ['marlin-marlin-marlin-marlin-marlin'] })
    const printed = inspect(provider, { depth: 9, showHidden: true }) + JSON.stringify([provider, events])
    expect(printed).not.toContain('marlin')
  })
})

describe('somebody who writes to the store', () => {
  /** Another process finds the token's entry changed: it must ask for a token of its own. */
  const expectOfNoUse = async (fleet: Fleet, value: string): Promise<void> => {
    fleet.store.put(fleet.store.tokenKey, value, 1_000_000)
    const asked = fleet.endpoint.count
    const { provider, events } = fleet.start()
    await provider.getToken()
    await quiet()
    expect([fleet.endpoint.count, sourcesOf(events)]).toEqual([asked + 1, ['endpoint']])
    expect(failuresOf(events)).toEqual([UNREADABLE])
    const next = fleet.start() // finds what was written over it
    await next.provider.getToken()
    expect(sourcesOf(next.events)).toEqual(['store'])
  }

  it.each([
    ['another version', { version: 2, token: 'head.body' }],
    ['no token', { lifetimeMs: 1_000_000 }],
    ['a token that is no text', { value: 5, lifetimeMs: 1_000_000 }],
    ['no lifetime', { value: 'head.body' }],
    ['a lifetime of nothing', { value: 'head.body', lifetimeMs: 0 }],
    ['a negative lifetime', { value: 'head.body', lifetimeMs: -1 }],
    ['a lifetime that is no number', { value: 'head.body', lifetimeMs: '1000000' }],
    ['a scope that is no text', { value: 'head.body', lifetimeMs: 1_000_000, scope: 5 }],
    ['null', null],
    ['a text', 'head.body'],
  ])(
    'and has the key, but has other ideas of an entry, causes an event, and no use of it: %s',
    async (_, content) => {
      const fleet = new Fleet()
      await fleet.begin()
      await expectOfNoUse(fleet, await encryptedByHand(fleet.store.tokenKey, content))
    },
  )

  it('and has the key, may write as this package does', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    const content = { value: 'written.by.hand', lifetimeMs: 1_000_000 }
    fleet.store.put(fleet.store.tokenKey, await encryptedByHand(fleet.store.tokenKey, content), 500_000)
    expect((await fleet.start().provider.getToken()).value).toBe('written.by.hand')
  })
})

/** EncryptedStore: operations have a time limit, failures become events, and entries are encrypted. */

import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import type { AuthEvent, Clock, TokenStore } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { createEmit } from '../../src/events/emit.ts'
import { DEFAULT_SLOTS } from '../../src/store/operation-queue.ts'
import { UNREADABLE } from '../../src/store/token-store.ts'
import { EncryptedStore, type Entry } from '../../src/token/shared/encrypted-store.ts'
import { answers, FAILURES, MemoryStore, slow } from '../store/memory-store.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { rejection } from './harness.ts'

const SECRET = 'swordfish'
const CLIENT = 'client'
const CONTENT = { value: 'head.body.signature', lifetimeMs: 1_000 }
/** The time limits of the first operation, and of the others. */
const FIRST_MS = 2_000
const LIMIT_MS = 1_000

type Content = typeof CONTENT

const entry = (content: Content, ttlMs: number) => () => ({ content, ttlMs })

/** The entries, one for each key. */
async function entriesOf(store: EncryptedStore<Content>): Promise<Entry<Content>[]> {
  const entries: Entry<Content>[] = []
  for await (const entry of store.read()) entries.push(entry)
  return entries
}

function encrypting(inner: TokenStore, clock: Clock, { keys = [SECRET] } = {}) {
  const events: AuthEvent[] = []
  const store = new EncryptedStore<Content>(inner, {
    name: 'token',
    client: CLIENT,
    encryptionKeys: keys,
    clock,
    emit: createEmit((event) => events.push(event), undefined),
  })
  const read = async () => (await entriesOf(store))[0]
  return { events, store, read }
}

function made({ leases = true } = {}) {
  const clock = new ManualClock()
  const inner = new MemoryStore(clock, { leases })
  return { clock, inner, ...encrypting(inner, clock) }
}

describe('a store that works', () => {
  it('receives every operation with its arguments, and causes no event', async () => {
    const { clock, inner, events, store, read } = made()
    await store.write(entry(CONTENT, 500))
    const key = inner.tokenKey
    await clock.advance(200)
    const readAt = { monotonicMs: clock.monotonicMs(), epochMs: clock.epochMs() }
    expect(await read()).toEqual({ content: CONTENT, ttlMs: 300, readAt })
    const release = await store.lease(700)
    expect(await store.lease(700)).toBeUndefined()
    await release?.()
    expect(inner.asked).toEqual([
      { operation: 'set', key, ttlMs: 500 },
      { operation: 'get', key },
      { operation: 'lease', key, ttlMs: 700 },
      { operation: 'lease', key, ttlMs: 700 },
      { operation: 'release', key },
    ])
    expect([events, clock.sleeping]).toEqual([[], 0])
  })

  it("gets nothing of this package's where it releases a lease: locks of other packages take arguments", async () => {
    const { inner, store } = made()
    const release = vi.fn(async (..._: unknown[]) => {})
    Object.assign(inner, { lease: async () => release })
    await (await store.lease(700))?.()
    expect(release.mock.calls).toEqual([[]])
  })

  it('does not have to support leases', async () => {
    expect(made().store.hasLeases).toBe(true)
    const { store } = made({ leases: false })
    expect([store.hasLeases, await store.lease(100)]).toEqual([false, undefined])
  })

  it('returns an entry with readAt set to the moment at which the read began, not to that of its wait', async () => {
    const { clock, inner, store, read } = made()
    await store.write(entry(CONTENT, 10_000))
    inner.faults.get = slow(clock, 400)
    const reads = Array.from({ length: DEFAULT_SLOTS + 1 }, () => read()) // the last one waits for a slot
    const from = clock.monotonicMs()
    await clock.advance(800)
    const begun = (await Promise.all(reads)).map((entry) => (entry?.readAt.monotonicMs ?? 0) - from)
    expect(begun).toEqual([...Array.from({ length: DEFAULT_SLOTS }, () => 0), 400])
  })

  it('receives an entry as it is when its write begins', async () => {
    const { clock, inner, store, read } = made()
    inner.faults.set = slow(clock, 400)
    const from = clock.monotonicMs()
    const create = () => ({ content: { ...CONTENT, lifetimeMs: clock.monotonicMs() - from }, ttlMs: 9_000 })
    // The last one waits for a slot.
    const writes = Array.from({ length: DEFAULT_SLOTS + 1 }, () => store.write(create))
    await clock.advance(800)
    await Promise.all(writes)
    expect((await read())?.content.lifetimeMs).toBe(400)
  })

  it('receives the TTL in whole milliseconds', async () => {
    const { inner, store } = made()
    await store.write(entry(CONTENT, 1_999.9))
    expect(inner.asked.map(({ ttlMs }) => ttlMs)).toEqual([1_999])
  })
})

describe('a store that fails', () => {
  it('times out, in its first operation later than in the others', async () => {
    const { clock, inner, events, read } = made()
    inner.faults.get = slow(clock, FIRST_MS + 1)
    for (const limitMs of [FIRST_MS, LIMIT_MS]) {
      events.length = 0
      const ended = rejection(read())
      await clock.advance(limitMs - 1)
      expect(events).toEqual([])
      await clock.advance(1)
      await ended
      expect(events).toEqual([{ type: 'store-failed', operation: 'get', code: 'ETIMEDOUT' }])
      await clock.advance(FIRST_MS)
    }
  })

  it('times out after a second when it is written, even first', async () => {
    const { clock, inner, events, store } = made()
    inner.faults.set = FAILURES.hangs
    const ended = rejection(store.write(entry(CONTENT, 500)))
    await clock.advance(LIMIT_MS - 1)
    expect(events).toEqual([])
    await clock.advance(1)
    await ended
    expect(events).toEqual([{ type: 'store-failed', operation: 'set', code: 'ETIMEDOUT' }])
  })

  it('gets a lease released that was granted too late, and a failed release has no effect', async () => {
    for (const release of [undefined, FAILURES.rejects, FAILURES.throws, FAILURES.hangs]) {
      const { clock, inner, events, store } = made()
      inner.faults.lease = slow(clock, FIRST_MS + 1)
      inner.faults.release = release
      const ended = rejection(store.lease(10_000))
      await clock.advance(FIRST_MS)
      await ended
      await clock.advance(1_000)
      expect(inner.operations).toEqual(['lease', 'release'])
      expect([events.length, clock.sleeping]).toEqual([1, 0])
    }
  })

  it('emits no further event when an operation rejects after its timeout', async () => {
    const { clock, inner, events, read } = made()
    inner.faults.get = async () => {
      await clock.sleep(FIRST_MS + 50)
      throw new Error('late')
    }
    const ended = rejection(read())
    await clock.advance(FIRST_MS)
    await ended
    await clock.advance(50) // an unhandled rejection would fail this run
    await settled()
    expect([events.length, clock.sleeping]).toEqual([1, 0])
  })

  it('is not asked after the signal was aborted, but to release a lease, and that is no event', async () => {
    const { inner, events, store } = made()
    const aborting = new AbortController()
    const { signal } = aborting
    const release = await store.lease(700, signal)
    const reason = new Error('closed')
    aborting.abort(reason)
    expect(await rejection(store.read(signal).next())).toBe(reason)
    expect(await rejection(store.lease(700, signal))).toBe(reason)
    expect(await rejection(store.write(entry(CONTENT, 500), signal))).toBe(reason)
    await release?.()
    expect([inner.operations, events]).toEqual([['lease', 'release'], []])
  })

  it.each([undefined, null, { value: 'text', ttlMs: 0 }, { value: 'text', ttlMs: -1 }])(
    'may return %j for no entry',
    async (found) => {
      const { inner, events, read } = made()
      inner.faults.get = answers(found)
      expect([await read(), events]).toEqual([undefined, []])
    },
  )

  it.each([NaN, Infinity])(
    'has failed where it returns an entry with the time to live %d, which is not used',
    async (ttlMs) => {
      const { inner, events, read, store } = made()
      await store.write(entry(CONTENT, 500))
      const found = inner.entry(inner.tokenKey)
      inner.faults.get = answers({ ...found, ttlMs })
      expect(await read()).toBeUndefined()
      expect(events).toEqual([{ type: 'store-failed', operation: 'get', code: UNREADABLE }])
    },
  )

  it('that returns something else than a text has failed', async () => {
    const { inner, events, read } = made()
    inner.faults.get = answers({ value: Buffer.from('text'), ttlMs: 500 })
    await rejection(read())
    expect(events).toEqual([{ type: 'store-failed', operation: 'get', code: 'TypeError' }])
  })
})

/** The key derivation (RFC 5869) as documented. */
const derived = (bytes: number, purpose: string) =>
  new Uint8Array(hkdfSync('sha256', SECRET, CLIENT, `merchant-auth v2 ${purpose}`, bytes))

const KEY_ID = Buffer.from(derived(12, 'id')).toString('base64url')
const KEY = `v2.token.${CLIENT}.${KEY_ID}`

/** Encrypts without the package, as documented. */
function byHand(text: string): string {
  const iv = Buffer.alloc(12, 7)
  const cipher = createCipheriv('aes-256-gcm', derived(32, 'entry'), iv, { authTagLength: 16 })
  cipher.setAAD(Buffer.from(KEY))
  const bytes = Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return `v2.${KEY_ID}.${bytes.toString('base64url')}`
}

/** The text of an entry as it is in the store. */
async function encrypted(content = CONTENT): Promise<string> {
  const { inner, store } = made()
  await store.write(entry(content, 500))
  return inner.entry(KEY)?.value ?? ''
}

async function decrypted(value: string): Promise<unknown> {
  const { inner, read } = made()
  inner.put(KEY, value, 500)
  return (await read())?.content
}

// Which entries are not read: encryption.test.ts.
describe('an entry', () => {
  it.each([[CONTENT], [{ value: 'ключ', lifetimeMs: 0 }]])(
    'is read as it was written: %j',
    async (content) => {
      expect(await decrypted(await encrypted(content))).toEqual(content)
    },
  )

  it('has the version, the ID of its key, a random IV, and the text encrypted with AES-256-GCM', async () => {
    const entry = await encrypted()
    const [version, id, sealed = '', ...more] = entry.split('.')
    expect([version, id, more]).toEqual(['v2', KEY_ID, []])
    const bytes = Buffer.from(sealed, 'base64url')
    const decipher = createDecipheriv('aes-256-gcm', derived(32, 'entry'), bytes.subarray(0, 12), {
      authTagLength: 16,
    })
    decipher.setAAD(Buffer.from(KEY))
    decipher.setAuthTag(bytes.subarray(-16))
    const text = Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString()
    expect(JSON.parse(text)).toEqual(CONTENT)
    expect((await encrypted()).split('.')[2]?.slice(0, 16)).not.toBe(sealed.slice(0, 16))
  })

  it('can be read if it was encrypted as documented', async () => {
    expect(await decrypted(byHand(JSON.stringify(CONTENT)))).toEqual(CONTENT)
  })

  it('is read with each of the keys, and written with the first one', async () => {
    const clock = new ManualClock()
    const inner = new MemoryStore(clock)
    await encrypting(inner, clock, { keys: ['old'] }).store.write(entry(CONTENT, 500))
    const { store } = encrypting(inner, clock, { keys: ['new', 'old'] })
    expect(await entriesOf(store)).toMatchObject([{ content: CONTENT }])
    await store.write(entry({ ...CONTENT, lifetimeMs: 2 }, 500))
    expect((await entriesOf(store)).map(({ content }) => content.lifetimeMs)).toEqual([2, 1_000])
    expect(await entriesOf(encrypting(inner, clock, { keys: ['new'] }).store)).toHaveLength(1)
  })

  it('is read with a further key although that of the first one is damaged', async () => {
    const clock = new ManualClock()
    const inner = new MemoryStore(clock)
    const { store, events } = encrypting(inner, clock, { keys: ['new', SECRET] })
    await store.write(entry(CONTENT, 500))
    const [damaged = ''] = inner.keys
    inner.put(damaged, 'text', 500)
    await encrypting(inner, clock).store.write(entry(CONTENT, 500))
    expect(await entriesOf(store)).toHaveLength(1)
    expect(events).toEqual([{ type: 'store-failed', operation: 'get', code: 'UNREADABLE' }])
  })
})

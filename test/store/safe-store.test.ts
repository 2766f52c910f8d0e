/** SafeStore: operations have a time limit, failures become events, and entries are encrypted. */
import { hkdfSync } from 'node:crypto'
import { CompactEncrypt, CompactSign } from 'jose'
import type { AuthEvent, Clock, TokenStore } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { createEmit } from '../../src/events.ts'
import { type Entry, SafeStore } from '../../src/store/safe-store.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { answers, FAILURES, MemoryStore, slow } from './memory-store.ts'

const SECRET = 'swordfish'
const CLIENT = 'client'
const CONTENT = { value: 'head.body.signature', lifetimeMs: 1_000 }
/** The time limits of the first operation, and of the others. */
const FIRST_MS = 2_000
const LIMIT_MS = 1_000

/** The entries with this name, one for each key. */
async function entriesOf(store: SafeStore, name = 'token'): Promise<Entry<unknown>[]> {
  const entries: Entry<unknown>[] = []
  for await (const entry of store.read(name)) entries.push(entry)
  return entries
}

function safe(inner: TokenStore, clock: Clock, { client = CLIENT, keys = [SECRET] } = {}) {
  const events: AuthEvent[] = []
  const emit = createEmit((event) => events.push(event), undefined)
  const store = new SafeStore(inner, { client, encryptionKeys: keys, clock, emit })
  const read = async () => (await entriesOf(store))[0]
  return { events, store, read }
}

function made({ leases = true } = {}) {
  const clock = new ManualClock()
  const inner = new MemoryStore(clock, { leases })
  return { clock, inner, ...safe(inner, clock) }
}

describe('a store that works', () => {
  it('receives every operation with its arguments, and causes no event', async () => {
    const { clock, inner, events, store, read } = made()
    await store.write('token', { content: CONTENT, ttlMs: () => 500 })
    const key = inner.tokenKey
    await clock.advance(200)
    const readAt = { monotonicMs: clock.monotonicMs(), epochMs: clock.epochMs() }
    expect(await read()).toEqual({ content: CONTENT, ttlMs: 300, readAt })
    const release = await store.lease('token', 700)
    expect(await store.lease('token', 700)).toBeUndefined()
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

  it('does not have to support leases', async () => {
    expect(made().store.hasLeases).toBe(true)
    const { store } = made({ leases: false })
    expect([store.hasLeases, await store.lease('token', 100)]).toEqual([false, undefined])
  })

  it('returns an entry with readAt set to the start of the read', async () => {
    const { clock, inner, store, read } = made()
    await store.write('token', { content: CONTENT, ttlMs: () => 10_000 })
    inner.faults.get = slow(clock, 100)
    const readAt = { monotonicMs: clock.monotonicMs(), epochMs: clock.epochMs() }
    const waiting = read()
    await clock.advance(100)
    expect(await waiting).toMatchObject({ ttlMs: 9_900, readAt })
  })

  it.each([
    [0.9, []],
    [1, [1]],
    [1_999.9, [1_999]],
  ])('receives the TTL in whole milliseconds, and no entry of less than one: %d ms, %j', async (ms, ttls) => {
    const { inner, store } = made()
    await store.write('token', { content: CONTENT, ttlMs: () => ms })
    expect(inner.asked.map(({ ttlMs }) => ttlMs)).toEqual(ttls)
  })
})

describe('a store that fails', () => {
  it('times out, in its first operation later than in the others', async () => {
    const { clock, inner, events, read } = made()
    inner.faults.get = FAILURES.hangs
    for (const limitMs of [FIRST_MS, LIMIT_MS]) {
      events.length = 0
      const ended = rejection(read())
      await clock.advance(limitMs - 1)
      expect(events).toEqual([])
      await clock.advance(1)
      await ended
      expect(events).toEqual([{ type: 'store-failed', operation: 'get', code: 'ETIMEDOUT' }])
    }
  })

  it('gets a lease released that was granted too late, and a failed release has no effect', async () => {
    for (const release of [undefined, FAILURES.rejects, FAILURES.hangs]) {
      const { clock, inner, events, store } = made()
      inner.faults.lease = slow(clock, FIRST_MS + 1)
      inner.faults.release = release
      const ended = rejection(store.lease('token', 10_000))
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

  it.each([undefined, null, { value: 'text', ttlMs: 0 }, { value: 'text', ttlMs: -1 }])(
    'may return %j for no entry',
    async (found) => {
      const { inner, events, read } = made()
      inner.faults.get = answers(found)
      expect([await read(), events]).toEqual([undefined, []])
    },
  )
})

describe('the code of a store-failed event', () => {
  const codeOf = async (error: unknown): Promise<unknown> => {
    const { inner, events, read } = made()
    inner.faults.get = () => Promise.reject(error)
    await rejection(read())
    return events
  }

  it.each([
    ['ECONNREFUSED', Object.assign(new Error('connect 10.0.0.1:6379'), { code: 'ECONNREFUSED' })],
    ['READONLY', new Error("READONLY You can't write against a read only replica.")],
    ['OOM', new Error("OOM command not allowed when used memory > 'maxmemory'.")],
    ['CLUSTERDOWN', new Error('CLUSTERDOWN The cluster is down')],
    ['NOAUTH', new Error('NOAUTH')],
    ['ERR_STORE_2', { code: 'ERR_STORE_2' }],
    ['ClientClosedError', new (class ClientClosedError extends Error {})('The client is closed')],
  ])('is %s', async (code, error) => {
    expect(await codeOf(error)).toEqual([{ type: 'store-failed', operation: 'get', code }])
  })

  it.each([
    ['has a sentence as its message', new Error('Socket closed unexpectedly')],
    ['begins with capitals and other characters', new Error('ABC-swordfish')],
    ['begins with capitals and a colon', new Error('SWORDFISHES: no')],
    ['has capitals in the middle', new Error('the code is ECONNREFUSED')],
    ['has capitals on the second line', new Error('lost\nECONNREFUSED')],
    ['begins with one capital', new Error('A store failed')],
    ['has a numeric code', { code: 111 }],
    ['is undefined', undefined],
  ])('is omitted if the error %s', async (_, error) => {
    expect(await codeOf(error)).toEqual([{ type: 'store-failed', operation: 'get' }])
  })
})

/** The key derivation (RFC 5869) as documented. */
const derived = (bytes: number, purpose: string) =>
  new Uint8Array(hkdfSync('sha256', SECRET, CLIENT, `merchant-auth v1 ${purpose}`, bytes))

const KEY_ID = Buffer.from(derived(12, 'id')).toString('base64url')
const KEY = `v1.token.${CLIENT}.${KEY_ID}`

const text = (content: unknown) => new TextEncoder().encode(JSON.stringify(content))

/** Encrypts without the package, with the right key. */
const byHand = (header: { alg: string; enc: string }, bytes: number, content: Uint8Array) =>
  new CompactEncrypt(content).setProtectedHeader(header).encrypt(derived(bytes, `entry ${KEY}`))

/** The text of an entry as it is in the store. */
async function encrypted(content: unknown = CONTENT): Promise<string> {
  const { inner, store } = made()
  await store.write('token', { content, ttlMs: () => 500 })
  return inner.entry(KEY)?.value ?? ''
}

/** Reads an entry; expects an UNREADABLE event if and only if that fails. */
async function decrypted(value: string): Promise<unknown> {
  const { inner, events, read } = made()
  inner.put(KEY, value, 500)
  const entry = await read()
  const unreadable = [{ type: 'store-failed', operation: 'get', code: 'UNREADABLE' }]
  expect(events).toEqual(entry === undefined ? unreadable : [])
  return entry?.content
}

describe('an entry', () => {
  it.each([[CONTENT], [{ value: 'ключ', scope: '' }]])('is read as it was written: %j', async (content) => {
    expect(await decrypted(await encrypted(content))).toEqual(content)
  })

  it('is a JWE whose header has only the algorithms and the key ID, and is different each time', async () => {
    const entry = await encrypted()
    const [header = '', ...rest] = entry.split('.')
    const expected = { alg: 'dir', enc: 'A256GCM', kid: KEY_ID }
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual(expected)
    expect([rest.length, rest[0]]).toEqual([4, '']) // no encrypted key
    expect(await encrypted()).not.toBe(entry)
  })

  it('can be read if its key was derived as documented', async () => {
    expect(await decrypted(await byHand({ alg: 'dir', enc: 'A256GCM' }, 32, text(CONTENT)))).toEqual(CONTENT)
  })

  it('has another key for another secret, client or name, and cannot be moved there', async () => {
    const value = await encrypted()
    const clock = new ManualClock()
    const inner = new MemoryStore(clock)
    for (const { store, name } of [
      { store: safe(inner, clock, { client: 'other' }).store, name: 'token' },
      { store: safe(inner, clock, { keys: ['Swordfish'] }).store, name: 'token' },
      { store: safe(inner, clock).store, name: 'renewals' },
    ]) {
      await store.write(name, { content: CONTENT, ttlMs: () => 500 })
      for (const key of inner.keys) inner.put(key, value, 500)
      expect(await entriesOf(store, name)).toEqual([])
    }
    expect(new Set([KEY, ...inner.keys]).size).toBe(4)
  })

  it.each([
    ['header', 0],
    ['initialization vector', 2],
    ['ciphertext', 3],
    ['tag', 4],
  ])('cannot be read after a change of its %s', async (_, part) => {
    const parts = (await encrypted()).split('.')
    const changed = Buffer.from(parts[part] ?? '', 'base64url')
    changed[5] = Number(changed[5]) ^ 1
    expect(await decrypted(parts.with(part, changed.toString('base64url')).join('.'))).toBeUndefined()
  })

  it.each([
    { alg: 'dir', enc: 'A128GCM', bytes: 16 },
    { alg: 'dir', enc: 'A128CBC-HS256', bytes: 32 },
    { alg: 'A256KW', enc: 'A256GCM', bytes: 32 },
    { alg: 'PBES2-HS256+A128KW', enc: 'A256GCM', bytes: 32 },
  ])('cannot be read with another algorithm: $alg, $enc', async ({ alg, enc, bytes }) => {
    expect(await decrypted(await byHand({ alg, enc }, bytes, text(CONTENT)))).toBeUndefined()
  })

  it('cannot be read if it is only signed, not encrypted, or not JSON', async () => {
    const secret = derived(32, `entry ${KEY}`)
    const plain = Buffer.from(JSON.stringify(CONTENT)).toString('base64url')
    for (const value of [
      await new CompactSign(text(CONTENT)).setProtectedHeader({ alg: 'HS256' }).sign(secret),
      `${Buffer.from('{"alg":"none"}').toString('base64url')}...${plain}.`,
      JSON.stringify(CONTENT),
      await byHand({ alg: 'dir', enc: 'A256GCM' }, 32, new TextEncoder().encode('{"value":')),
    ])
      expect(await decrypted(value), value).toBeUndefined()
  })
})

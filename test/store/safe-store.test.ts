/** SafeStore: operations have a time limit, failures become events, and entries are encrypted. */
import { hkdfSync } from 'node:crypto'
import { MessageChannel } from 'node:worker_threads'
import { CompactEncrypt, CompactSign, FlattenedEncrypt } from 'jose'
import type { AuthEvent, Clock, TokenStore } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { systemClock } from '../../src/clock.ts'
import { createEmit } from '../../src/events.ts'
import { SafeStore } from '../../src/store/safe-store.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { rejection } from '../token/harness.ts'
import { answers, FAILURES, MemoryStore, slow } from './memory-store.ts'

const SECRET = 'swordfish'
const ANY = z.custom<unknown>((value) => value !== undefined)
const CLIENT = 'client'
const CONTENT = { value: 'head.body.signature', lifetimeMs: 1_000 }

function safe(inner: TokenStore, clock: Clock, { client = CLIENT, keys = [SECRET] } = {}) {
  const events: AuthEvent[] = []
  const emit = createEmit((event) => events.push(event), undefined)
  const store = new SafeStore(inner, { client, encryptionKeys: keys, clock, emit, secrets: ['SWORDFISH'] })
  const [place] = store.placesOf('token')
  return { events, store, place, key: place.key, read: () => store.read(place, ANY) }
}

function made({ leases = true } = {}) {
  const clock = new ManualClock()
  const inner = new MemoryStore(clock, { leases })
  return { clock, inner, ...safe(inner, clock) }
}

type Made = Pick<ReturnType<typeof made>, 'store' | 'place' | 'read'>
const OPERATIONS = {
  get: ({ read }: Made) => read(),
  set: ({ store }: Made) => store.write('token', { content: CONTENT, ttlMs: () => 500 }),
  delete: ({ store, place }: Made) => store.delete(place, undefined),
  lease: ({ store }: Made) => store.lease('token', 700),
}

describe('a store that works', () => {
  it('receives every operation with its arguments, and causes no event', async () => {
    const { clock, inner, events, key, ...rest } = made()
    await OPERATIONS.set(rest)
    await clock.advance(200)
    const readAt = { monotonicMs: clock.monotonicMs(), epochMs: clock.epochMs() }
    expect(await OPERATIONS.get(rest)).toEqual({ content: CONTENT, ttlMs: 300, readAt })
    const lease = await OPERATIONS.lease(rest)
    expect(await OPERATIONS.lease(rest)).toBeUndefined()
    await lease?.release()
    await OPERATIONS.delete(rest)
    expect(await OPERATIONS.get(rest)).toBeUndefined()
    expect(inner.asked).toEqual([
      { operation: 'set', key, ttlMs: 500 },
      { operation: 'get', key },
      { operation: 'lease', key, ttlMs: 700 },
      { operation: 'lease', key, ttlMs: 700 },
      { operation: 'release', key },
      { operation: 'delete', key },
      { operation: 'get', key },
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

  it.each([null, false, 0, ''])('can deny a lease with %j', async (no) => {
    const { inner, store } = made()
    inner.faults.lease = answers(no)
    expect(await store.lease('token', 1)).toBeUndefined()
  })
})

describe('a store that fails', () => {
  it('times out after its operationTimeoutMs, which is read for each operation', async () => {
    const { clock, inner, events, read } = made()
    inner.faults.get = FAILURES.hangs
    for (const ms of [40, 3_000]) {
      inner.operationTimeoutMs = ms
      const ended = rejection(read())
      await clock.advance(ms - 1)
      events.length = 0
      await clock.advance(1)
      await ended
      expect(events.length).toBe(1)
    }
  })

  it('gets a lease released that was granted too late, and a failed release has no effect', async () => {
    for (const release of [undefined, FAILURES.throws, FAILURES.rejects, FAILURES.hangs]) {
      const { clock, inner, events, store } = made()
      inner.faults.lease = slow(clock, 400)
      inner.faults.release = release
      const ended = rejection(store.lease('token', 1_000))
      await clock.advance(250)
      await ended
      await clock.advance(1_000)
      expect(inner.operations).toEqual(['lease', 'release'])
      expect([events.length, clock.sleeping]).toEqual([1, 0])
    }
  })

  it('gets no release call if the late answer denies the lease', async () => {
    const { clock, inner, store, key } = made()
    inner.hold(key, 60_000)
    inner.faults.lease = slow(clock, 400)
    const ended = rejection(store.lease('token', 1_000))
    await clock.advance(1_000)
    await ended
    expect(inner.operations).toEqual(['lease'])
  })

  it('emits no further event when an operation rejects after its timeout', async () => {
    const { clock, inner, events, read } = made()
    inner.faults.get = async () => {
      await clock.sleep(300)
      throw new Error('late')
    }
    const ended = rejection(read())
    await clock.advance(250)
    await ended
    await clock.advance(50) // an unhandled rejection would fail this run
    await settled()
    expect([events.length, clock.sleeping]).toEqual([1, 0])
  })
})

describe('a process whose event loop was blocked', () => {
  const blockFor = (ms: number): void => {
    const until = performance.now() + ms
    while (performance.now() < until);
  }
  const others = { set: async () => {}, delete: async () => {} }

  it('does not time out its store because of its own delay', async () => {
    const get = async () => {
      await new Promise((resolve) => setImmediate(resolve)) // as node-redis does before it sends
      await new Promise((resolve) => setTimeout(resolve, 2))
      return undefined
    }
    const { read } = safe({ ...others, get }, systemClock)
    const answer = read()
    blockFor(300)
    await expect(answer).resolves.toBeUndefined()
  })

  it('reads an answer that arrived in the meantime, even after the time limit', async () => {
    const { port1, port2 } = new MessageChannel()
    const get = (): Promise<undefined> =>
      new Promise((resolve) => {
        port2.once('message', () => resolve(undefined))
        port1.postMessage('')
      })
    await new Promise((go) => setImmediate(go)) // timers run next, and incoming messages after them
    const waiting = safe({ ...others, get, operationTimeoutMs: 5 }, systemClock).read()
    blockFor(20)
    await expect(waiting).resolves.toBeUndefined()
    port1.close()
  })
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
    ['LOADING', { code: 'loading', message: 'LOADING Redis is loading the dataset in memory' }],
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
    ['begins with more than 40 capitals', new Error('A'.repeat(41))],
    ['has a numeric code', { code: 111 }],
    ['is a string', 'ECONNREFUSED'],
    ['is undefined', undefined],
    ['is null', null],
    [
      'has a throwing getter',
      Object.defineProperty({}, 'code', { get: () => FAILURES.throws(async () => {}) }),
    ],
    ['has a secret as its code', { code: 'SWORDFISH' }],
  ])('is omitted if the error %s', async (_, error) => {
    expect(await codeOf(error)).toEqual([{ type: 'store-failed', operation: 'get' }])
  })
})

/** The key derivation (RFC 5869) as documented. */
const derived = (bytes: number, purpose: string) =>
  new Uint8Array(hkdfSync('sha256', SECRET, CLIENT, `merchant-auth v1 ${purpose}`, bytes))

const text = (content: unknown) => new TextEncoder().encode(JSON.stringify(content))

/** Encrypts without the package, with the right key. */
const byHand = (header: { alg: string; enc: string }, bytes: number, content: Uint8Array) =>
  new CompactEncrypt(content).setProtectedHeader(header).encrypt(derived(bytes, `entry ${made().key}`))

/** The text of an entry as it is in the store. */
async function encrypted(content: unknown = CONTENT): Promise<string> {
  const { inner, store, key } = made()
  await store.write('token', { content, ttlMs: () => 500 })
  return inner.entry(key)?.value ?? ''
}

/** Reads an entry; expects an UNREADABLE event if and only if that fails. */
async function decrypted(value: string, { inner, events, key, read } = made()): Promise<unknown> {
  inner.put(key, value, 500)
  const entry = await read()
  const unreadable = [{ type: 'store-failed', operation: 'get', code: 'UNREADABLE' }]
  expect(events).toEqual(entry === undefined ? unreadable : [])
  return entry?.content
}

describe('an entry', () => {
  it.each([[CONTENT], [{ value: 'ключ', scope: '' }], ['text'], [5], [null], [[]]])(
    'is read as it was written: %j',
    async (content) => {
      expect(await decrypted(await encrypted(content))).toEqual(content)
    },
  )

  it('is a JWE of five parts whose header has only the algorithms and the key ID', async () => {
    const [header = '', ...rest] = (await encrypted()).split('.')
    const kid = made().key.split('.').at(-1)
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({
      alg: 'dir',
      enc: 'A256GCM',
      kid,
    })
    expect([rest.length, rest[0]]).toEqual([4, '']) // no encrypted key
  })

  it('is encrypted differently each time', async () => {
    expect(await encrypted()).not.toBe(await encrypted())
  })

  it('can be read if its key was derived as documented', async () => {
    const value = await byHand({ alg: 'dir', enc: 'A256GCM' }, 32, text(CONTENT))
    expect(await decrypted(value)).toEqual(CONTENT)
  })

  it('cannot be read under another store key, with another secret, or for another client', async () => {
    const value = await encrypted()
    const clock = new ManualClock()
    const inner = new MemoryStore(clock)
    for (const other of [{ client: 'other' }, { keys: ['Swordfish'] }])
      expect(await decrypted(value, { clock, inner, ...safe(inner, clock, other) })).toBeUndefined()
    const { store, events } = safe(inner, clock)
    const [place] = store.placesOf('ration')
    inner.put(place.key, value, 500)
    expect([await store.read(place, ANY), events.length]).toEqual([undefined, 1])
  })

  it.each([
    ['header', 0],
    ['initialization vector', 2],
    ['ciphertext', 3],
    ['tag', 4],
  ])('cannot be read after a change in any byte of its %s', async (_, part) => {
    const parts = (await encrypted()).split('.')
    const original = Buffer.from(parts[part] ?? '', 'base64url')
    expect(original.length).toBeGreaterThan(10)
    for (const [at, byte] of original.entries()) {
      const changed = Buffer.from(original)
      changed[at] = byte ^ 1
      expect(await decrypted(parts.with(part, changed.toString('base64url')).join('.'))).toBeUndefined()
    }
  })

  it('cannot be read with an encrypted key inserted, a part missing or repeated, or truncated', async () => {
    const whole = await encrypted()
    const parts = whole.split('.')
    for (const changed of [
      parts.with(1, 'AAAA').join('.'),
      parts.slice(0, 4).join('.'),
      `${whole}.${parts[4]}`,
      whole.slice(0, -1),
      whole.slice(1),
      ` ${whole}`,
      parts.with(4, '').join('.'),
      parts.with(4, (parts[4] ?? '').slice(0, 6)).join('.'),
      '',
      '....',
      'text',
    ])
      expect(await decrypted(changed), changed).toBeUndefined()
  })

  it.each([
    { alg: 'dir', enc: 'A128GCM', bytes: 16 },
    { alg: 'dir', enc: 'A192GCM', bytes: 24 },
    { alg: 'dir', enc: 'A128CBC-HS256', bytes: 32 },
    { alg: 'dir', enc: 'A256CBC-HS512', bytes: 64 },
    { alg: 'A256KW', enc: 'A256GCM', bytes: 32 },
    { alg: 'A256GCMKW', enc: 'A256GCM', bytes: 32 },
    { alg: 'PBES2-HS256+A128KW', enc: 'A256GCM', bytes: 32 },
  ])(
    'cannot be read with another algorithm, even with the right secret: $alg, $enc',
    async ({ alg, enc, bytes }) => {
      expect(await decrypted(await byHand({ alg, enc }, bytes, text(CONTENT)))).toBeUndefined()
    },
  )

  it('cannot be read if it is only signed, not encrypted, or not JSON', async () => {
    const secret = derived(32, `entry ${made().key}`)
    const signed = await new CompactSign(text(CONTENT)).setProtectedHeader({ alg: 'HS256' }).sign(secret)
    const plain = Buffer.from(JSON.stringify(CONTENT)).toString('base64url')
    const none = Buffer.from('{"alg":"none"}').toString('base64url')
    const header = { alg: 'dir', enc: 'A256GCM' }
    const flattened = await new FlattenedEncrypt(text(CONTENT)).setProtectedHeader(header).encrypt(secret)
    for (const value of [
      signed,
      `${none}.${plain}.`,
      `${none}...${plain}.`,
      JSON.stringify(flattened),
      JSON.stringify(CONTENT),
      plain,
      await byHand(header, 32, new TextEncoder().encode('{"value":')),
    ])
      expect(await decrypted(value), value).toBeUndefined()
  })

  it('is rejected quickly if its header requests billions of PBES2 iterations', async () => {
    const header = { alg: 'PBES2-HS512+A256KW', enc: 'A256GCM', p2s: 'AAAA', p2c: 4_000_000_000 } // would take an hour
    const begin = Buffer.from(JSON.stringify(header)).toString('base64url')
    expect(await decrypted(`${begin}.AAAA.AAAAAAAAAAAAAAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA`)).toBeUndefined()
  })

  it('is not decrypted beyond 256 KiB', async () => {
    const value = await encrypted('x'.repeat(196_520))
    expect(value.length).toBe(262_144)
    expect(await decrypted(value)).toHaveLength(196_520)
    expect(await decrypted(await encrypted('x'.repeat(196_521)))).toBeUndefined()
  })
})

describe('the key ID', () => {
  const idOf = (other: Parameters<typeof safe>[2]): string =>
    safe(made().inner, systemClock, other).key.split('.').at(-1) ?? ''

  it('is derived as documented, and differs for another secret or client', () => {
    expect(idOf({})).toBe(Buffer.from(derived(12, 'id')).toString('base64url'))
    expect(new Set([idOf({}), idOf({ keys: ['Swordfish'] }), idOf({ client: 'other' })]).size).toBe(3)
  })
})

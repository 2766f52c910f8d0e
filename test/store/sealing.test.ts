/** Sealed entries: read by those who have the key, for the name that they were sealed for, and by nobody else. */
import { hkdfSync } from 'node:crypto'
import { CompactEncrypt, CompactSign, FlattenedEncrypt } from 'jose'
import { describe, expect, it } from 'vitest'
import { SealedStore } from '../../src/store/sealed-store.ts'
import { SealingKey } from '../../src/store/sealing.ts'
import { WatchedStore } from '../../src/store/watched-store.ts'
import { ManualClock } from '../support/clock.ts'
import { MemoryStore } from './memory-store.ts'

const SECRET = 'swordfish'
const SALT = 'salt'
const NAME = 'v1.token.client.key'
const CONTENT = { value: 'head.body.signature', lifetimeMs: 1_000 }

const key = new SealingKey(SECRET, SALT)
const text = (content: unknown) => new TextEncoder().encode(JSON.stringify(content))

/** RFC 5869, as it is written down in the documentation. */
const derived = (bytes: number, name = NAME) =>
  new Uint8Array(hkdfSync('sha256', SECRET, SALT, `merchant-auth v1 entry ${name}`, bytes))

/** Sealed by hand, with the right key. */
const sealed = (header: { alg: string; enc: string }, bytes: Uint8Array, content: unknown) =>
  new CompactEncrypt(text(content)).setProtectedHeader(header).encrypt(bytes)

describe('what is sealed', () => {
  it.each([[CONTENT], [{ value: 'ключ', scope: '' }], ['text'], [5], [null], [[]]])(
    'can be opened under its name with the same key: %j',
    async (content) => {
      expect(await new SealingKey(SECRET, SALT).open(NAME, await key.seal(NAME, content))).toEqual(content)
    },
  )

  it('is a JWE of five parts whose header names algorithm and key, and no more', async () => {
    const [header = '', ...rest] = (await key.seal(NAME, CONTENT)).split('.')
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({
      alg: 'dir',
      enc: 'A256GCM',
      kid: key.id,
    })
    expect([rest.length, rest[0]]).toEqual([4, '']) // no encrypted key
  })

  it('is another text each time', async () => {
    expect(await key.seal(NAME, CONTENT)).not.toBe(await key.seal(NAME, CONTENT))
  })

  it('can be opened by whoever derives the key as it is written down', async () => {
    expect(await key.open(NAME, await sealed({ alg: 'dir', enc: 'A256GCM' }, derived(32), CONTENT))).toEqual(
      CONTENT,
    )
  })

  it.each([
    ['under another name', key, 'v1.token.client.other'],
    ['with another secret', new SealingKey('Swordfish', SALT), NAME],
    ['for another client with the same secret', new SealingKey(SECRET, 'pepper'), NAME],
  ])('cannot be opened %s', async (_, other, name) => {
    expect(await other.open(name, await key.seal(NAME, CONTENT))).toBeUndefined()
  })

  it.each([
    ['header', 0],
    ['initialization vector', 2],
    ['ciphertext', 3],
    ['tag', 4],
  ])('cannot be opened after a change in any byte of its %s', async (_, part) => {
    const parts = (await key.seal(NAME, CONTENT)).split('.')
    const original = Buffer.from(parts[part] ?? '', 'base64url')
    expect(original.length).toBeGreaterThan(10)
    for (const [at, byte] of original.entries()) {
      const changed = Buffer.from(original)
      changed[at] = byte ^ 1
      expect(await key.open(NAME, parts.with(part, changed.toString('base64url')).join('.'))).toBeUndefined()
    }
  })

  it('cannot be opened with an encrypted key put in, a part left out or doubled, or cut', async () => {
    const whole = await key.seal(NAME, CONTENT)
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
      expect(await key.open(NAME, changed)).toBeUndefined()
  })
})

describe('what was sealed in another way', () => {
  it.each([
    { alg: 'dir', enc: 'A128GCM', bytes: 16 },
    { alg: 'dir', enc: 'A192GCM', bytes: 24 },
    { alg: 'dir', enc: 'A128CBC-HS256', bytes: 32 },
    { alg: 'dir', enc: 'A256CBC-HS512', bytes: 64 },
    { alg: 'A256KW', enc: 'A256GCM', bytes: 32 },
    { alg: 'A256GCMKW', enc: 'A256GCM', bytes: 32 },
    { alg: 'PBES2-HS256+A128KW', enc: 'A256GCM', bytes: 32 },
  ])('cannot be opened, even with the right secret: $alg, $enc', async ({ alg, enc, bytes }) => {
    expect(await key.open(NAME, await sealed({ alg, enc }, derived(bytes), CONTENT))).toBeUndefined()
  })

  it('cannot be opened where it is signed, or neither signed nor sealed', async () => {
    const signed = await new CompactSign(text(CONTENT)).setProtectedHeader({ alg: 'HS256' }).sign(derived(32))
    const plain = Buffer.from(JSON.stringify(CONTENT)).toString('base64url')
    const none = Buffer.from('{"alg":"none"}').toString('base64url')
    const {
      ciphertext,
      iv,
      tag,
      protected: header,
    } = await new FlattenedEncrypt(text(CONTENT))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(derived(32))
    const unsecured = [
      signed,
      `${none}.${plain}.`,
      `${none}...${plain}.`,
      JSON.stringify({ protected: header, iv, ciphertext, tag }),
      JSON.stringify(CONTENT),
      plain,
    ]
    for (const value of unsecured) expect(await key.open(NAME, value)).toBeUndefined()
  })

  it('costs no time where it asks for a key to be derived billions of times', async () => {
    const header = { alg: 'PBES2-HS512+A256KW', enc: 'A256GCM', p2s: 'AAAA', p2c: 4_000_000_000 } // an hour, and the test would end first
    const begin = Buffer.from(JSON.stringify(header)).toString('base64url')
    expect(await key.open(NAME, `${begin}.AAAA.AAAAAAAAAAAAAAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA`)).toBeUndefined()
  })

  it('and is no JSON counts as absent', async () => {
    const value = await new CompactEncrypt(new TextEncoder().encode('{"value":'))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(derived(32))
    expect(await key.open(NAME, value)).toBeUndefined()
  })
})

describe('the name of a key', () => {
  it('is the same for the same secret and client, and for no others', () => {
    expect(key.id).toBe(new SealingKey(SECRET, SALT).id)
    const ids = [key, new SealingKey('Swordfish', SALT), new SealingKey(SECRET, 'pepper')].map(({ id }) => id)
    expect(new Set(ids).size).toBe(3)
  })

  it('is derived as it is written down, so that all processes of a fleet know it', () => {
    const id = hkdfSync('sha256', SECRET, SALT, 'merchant-auth v1 id', 12)
    expect(key.id).toBe(Buffer.from(id).toString('base64url'))
  })

  it('is short, and says nothing of the secret', () => {
    expect(key.id).toMatch(/^[\w-]{16}$/)
    expect(Buffer.from(key.id, 'base64url').toString('latin1')).not.toContain(SECRET.slice(0, 4))
    expect(Buffer.from(key.id, 'base64url')).not.toEqual(Buffer.from(derived(12)))
  })
})

describe('the store of sealed entries', () => {
  it.each([
    [0.9, []],
    [1, [1]],
    [1_999.9, [1_999]],
  ])('keeps an entry that has %d ms left for so many whole ones: %j', async (ms, kept) => {
    const clock = new ManualClock()
    const inner = new MemoryStore(clock)
    const store = new SealedStore(
      new WatchedStore(inner, { clock, emit: () => {}, isSecret: () => false }),
      'client',
      [SECRET],
    )
    await store.write('token', CONTENT, () => ms)
    expect(inner.asked.map(({ ttlMs }) => ttlMs)).toEqual(kept)
  })
})

import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { scrub, scrubbedCause, shownUrl, UsedSecrets } from '../src/secret.ts'

const SECRET = 'pa"ss+w/ö&rd='

const percent = (text: string): string =>
  [...text].map((char) => `%${char.charCodeAt(0).toString(16)}`).join('')

const throwing = (): never => {
  throw new Error(SECRET)
}

describe('scrub', () => {
  it.each([
    ['plain', SECRET],
    ['in JSON', JSON.stringify(SECRET).slice(1, -1)],
    ['percent-encoded', encodeURIComponent(SECRET)],
    ['percent-encoded as a whole URL', encodeURI(SECRET)],
    ['form-encoded', new URLSearchParams({ s: SECRET }).toString().slice(2)],
    ['base64', Buffer.from(SECRET).toString('base64')],
    ['base64 without padding', Buffer.from(SECRET).toString('base64').replaceAll('=', '')],
    ['base64url', Buffer.from(SECRET).toString('base64url')],
    ['in HTML', SECRET.replace(/&/g, '&amp;').replace(/"/g, '&quot;')],
  ])('takes a secret out that is written %s', (_, written) => {
    const scrubbed = scrub(`before ${written} between ${written} after`, [SECRET])
    expect(scrubbed).not.toContain(written)
    expect(scrubbed).toMatch(/^before .+ between .+ after$/)
  })

  it.each([
    ['percent-encoded in lower case', "it's%2bhush%2fhush"],
    ['with numbers for HTML characters', 'it&#39;s+hush/hush'],
    ['with hexadecimal numbers', 'it&#x27;s&#x2B;hush/hush'],
    ['with JavaScript escapes', 'it\\u0027s+hush\\/hush'],
    ['in a mixture', 'it&apos;s%2Bhush/hush'],
  ])('shows nothing of a text that has a secret %s', (_, written) => {
    expect(scrub(`before ${written} after`, ["it's+hush/hush"])).toBe('[hidden]')
  })

  it.each([
    ['percent-encoded twice', encodeURIComponent(encodeURIComponent("it's+hush/hush"))],
    ['in JSON in JSON', 'it\\\\\\u0027s+hush/hush'],
    ['in hexadecimal', Buffer.from("it's+hush/hush").toString('hex').toUpperCase()],
    ['with a character in it that nobody sees', "it's+hush\u200B/hush"],
    [
      'in base64, percent-encoded',
      percent(`${Buffer.from('???').toString('base64')}${Buffer.from("it's+hush/hush").toString('base64')}`),
    ],
  ])('shows nothing of a text that has a secret %s', (_, written) => {
    expect(scrub(`before ${written} after`, ["it's+hush/hush"])).toBe('[hidden]')
  })

  it.each(['', '1', '12', '123'])('takes it out of the base64 of a longer text (%s before it)', (before) => {
    const base64 = Buffer.from(`{"client_id":"c${before}","client_secret":"${SECRET}","x":1}`).toString(
      'base64',
    )
    expect(scrub(`before Basic ${base64} after`, [SECRET])).toBe('before Basic [hidden] after')
    const url = Buffer.from(`c${before}:${SECRET}>?~~`).toString('base64url')
    expect(scrub(`before ${url} after`, [SECRET])).toBe('before [hidden] after')
  })

  it.each([
    ['\\u002B', '{"client_secret":"Zx9\\u002BabQ7"}'],
    ['\\x2b', "b'Zx9\\x2babQ7'"],
    ['\\u{2b}', 'Zx9\\u{2b}abQ7'],
    ['%u002b', 'Zx9%u002babQ7'],
    ['&plus;', 'Zx9&plus;abQ7'],
  ])('shows nothing of a text in which a + is written %s before letters of hexadecimal', (_, written) => {
    expect(scrub(written, ['Zx9+abQ7'])).toBe('[hidden]')
    expect(scrub(written, ['Zx9-abQ7'])).toBe(written)
  })

  it('reads a text once for each secret, however long it is and whatever it is made of', () => {
    const used = new UsedSecrets()
    for (let nth = 0; nth < 16; nth += 1) used.add(`head-${nth}.${'payload'.repeat(100)}.signature`)
    const startedAt = performance.now()
    for (const part of ['a', '\\', '%41', '&#', '\u200B', 'A+/='])
      expect(scrub(part.repeat(9_000 / part.length), used)).not.toBe('')
    expect(scrub('a'.repeat(10_001), used)).toBe('[hidden]')
    expect(performance.now() - startedAt).toBeLessThan(5_000) // it was minutes once; now it is a part of a second
  })

  it('does not take its own word for a secret', () => {
    expect(scrub('one and two', ['one', 'hidden', 'den'])).toMatch(/ and two$/)
    expect(scrub('one and two', ['two', 'den'])).toBe('one and [hidden]')
  })

  it('remembers the sixteen secrets that were used last', () => {
    const used = new UsedSecrets()
    for (let nth = 0; nth < 17; nth += 1) used.add(`secret-${nth}-`)
    used.add('secret-1-')
    used.add('secret-17-')
    expect([...used]).toEqual([
      ...Array.from({ length: 14 }, (_, nth) => `secret-${nth + 3}-`),
      'secret-1-',
      'secret-17-',
    ])
    expect(scrub('secret-1- secret-2- secret-17-', used)).toBe('[hidden] secret-2- [hidden]')
  })

  it('shows nothing of a text that is escaped without end', () => {
    let text = 'x'
    for (let times = 0; times < 9; times += 1) text = encodeURIComponent(`%${text}`)
    expect(scrub(text, ['swordfish'])).toBe('[hidden]')
  })

  it('leaves a text alone that has a short secret by chance', () => {
    const text =
      'the base64 of a short text stands in many a text: WJ, QW, and so does a part of its hexadecimal, 6162'
    expect(scrub(text, ['abc'])).toBe(text)
  })

  it('finds a secret that is longer than the text, which grows when it is read', () => {
    expect('İİİ'.toLowerCase()).toHaveLength(6)
    expect(scrub('İİİ', ['İİİ'.toLowerCase()])).toBe('[hidden]')
  })

  it('takes out every secret, and leaves other text alone', () => {
    expect(scrub('one two three', ['one', 'three'])).toMatch(/^\S+ two \S+$/)
    expect(scrub('nothing here', ['one'])).toBe('nothing here')
    expect(scrub('nothing here', [])).toBe('nothing here')
  })

  it('does not fail on half a surrogate pair', () => {
    expect(scrub('x \uD800y', ['\uD800y'])).toBe('x [hidden]')
  })
})

describe('a scrubbed cause', () => {
  it('keeps name, message, code and the chain, and nothing else', () => {
    const inner = Object.assign(new Error('connect'), { code: 'ECONNREFUSED', request: SECRET })
    const cause = new TypeError(`failed with ${SECRET}`, { cause: inner })
    const copy = scrubbedCause(Object.assign(cause, { config: { data: SECRET } }), [SECRET])
    expect(copy).toMatchObject({ name: 'TypeError', cause: { message: 'connect', code: 'ECONNREFUSED' } })
    expect(copy).not.toHaveProperty('config')
    expect(copy?.cause).not.toHaveProperty('request')
    expect(inspect(copy, { depth: 9, showHidden: true })).not.toContain(SECRET)
    expect(copy?.stack).not.toContain(SECRET)
  })

  it('of an AggregateError goes on with its first error', () => {
    const aggregate = new AggregateError([new Error('first'), new Error('second')], 'all failed')
    expect(scrubbedCause(aggregate, [])).toMatchObject({ message: 'all failed', cause: { message: 'first' } })
  })

  it('ends, though the chain does not', () => {
    const endless = new Error('round')
    endless.cause = endless
    let depth = 0
    for (let error: unknown = scrubbedCause(endless, []); error instanceof Error; error = error.cause)
      depth += 1
    expect(depth).toBeGreaterThan(1)
    expect(depth).toBeLessThan(20)
  })

  it.each([
    ['whose cause throws', Object.defineProperty(new Error('x'), 'cause', { get: throwing })],
    ['whose errors throw', Object.defineProperty(new Error('x'), 'errors', { get: throwing })],
    ['whose message cannot be read', Object.assign(new Error('x'), { message: { toString: throwing } })],
    ['whose code throws', Object.defineProperty(new Error('x'), 'code', { get: throwing })],
    ['that is a proxy which throws', new Proxy(new Error('x'), { get: throwing })],
  ])('of an error %s is an error that can be read', (_, unreadable) => {
    const copy = scrubbedCause(unreadable, [SECRET])
    expect(copy).toBeInstanceOf(Error)
    expect(inspect(copy, { depth: 9, showHidden: true })).not.toContain(SECRET)
  })

  it.each([undefined, null, 'text', 5])('of %j is none', (value) => {
    expect(scrubbedCause(value, [])).toBeUndefined()
  })

  it('of an object that is no error is an error', () => {
    expect(scrubbedCause({}, [])).toMatchObject({ name: 'Error', message: '' })
    expect(scrubbedCause({ code: 5 }, [])).not.toHaveProperty('code')
  })
})

describe('the place of a URL', () => {
  it.each([
    ['https://u:p@api.example:8443/a/b?token=x#y', 'https://api.example:8443/a/b'],
    ['https://api.example', 'https://api.example/'],
  ])('of %s is %s', (url, shown) => {
    expect(shownUrl(url)).toBe(shown)
    expect(shownUrl(new URL(url))).toBe(shown)
  })

  it('of what is no URL shows nothing of it', () => {
    expect(shownUrl('secret stuff')).not.toContain('secret')
  })
})

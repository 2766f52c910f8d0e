import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { redact, redactedCause, shownUrl, UsedSecrets } from '../src/redact.ts'
import { growth } from './support/growth.ts'

const SECRET = 'pa"ss+w/ö&rd='

const percent = (text: string): string =>
  [...text].map((char) => `%${char.charCodeAt(0).toString(16)}`).join('')

const throwing = (): never => {
  throw new Error(SECRET)
}

describe('redact', () => {
  const PLUS = "it's+hush/hush"
  const LONG = 'merchant-secret-Qz81'
  it.each([
    [SECRET, 'in upper case', SECRET.toUpperCase()],
    ['SwordFish', 'in lower case, as hosts are', 'https://swordfish.example'],
    [SECRET, 'in JSON', JSON.stringify(SECRET).slice(1, -1)],
    [SECRET, 'percent-encoded', encodeURIComponent(SECRET)],
    [SECRET, 'percent-encoded as a whole URL', encodeURI(SECRET)],
    [SECRET, 'form-encoded', new URLSearchParams({ s: SECRET }).toString().slice(2)],
    [SECRET, 'base64', Buffer.from(SECRET).toString('base64')],
    [SECRET, 'base64 without padding', Buffer.from(SECRET).toString('base64').replaceAll('=', '')],
    [SECRET, 'base64url', Buffer.from(SECRET).toString('base64url')],
    [SECRET, 'in HTML', SECRET.replace(/&/g, '&amp;').replace(/"/g, '&quot;')],
    [PLUS, 'percent-encoded in lower case', "it's%2bhush%2fhush"],
    [PLUS, 'with decimal HTML references', 'it&#39;s+hush/hush'],
    [PLUS, 'with hexadecimal HTML references', 'it&#x27;s&#x2B;hush/hush'],
    [PLUS, 'with JavaScript escapes', 'it\\u0027s+hush\\/hush'],
    [PLUS, 'in a mixture of encodings', 'it&apos;s%2Bhush/hush'],
    [PLUS, 'percent-encoded twice', encodeURIComponent(encodeURIComponent(PLUS))],
    [PLUS, 'in JSON in JSON', 'it\\\\\\u0027s+hush/hush'],
    [PLUS, 'in hexadecimal', Buffer.from(PLUS).toString('hex').toUpperCase()],
    [PLUS, 'in hexadecimal with spaces', 'ab 69 74 27 73 2b 68 75 73 68 2f 68 75 73 68'],
    [PLUS, 'with an invisible character in it', "it's+hush\u200B/hush"],
    [PLUS, 'over two lines', "it's+hush\n  /hush"],
    [PLUS, 'with a space for a plus, as in a form', "it's hush/hush"],
    [PLUS, 'in base64, percent-encoded', percent(`${btoa('???')}${btoa(PLUS)}`)],
    // Secrets that look like escapes.
    ['50%41"off-secret', 'in JSON', '50%41\\"off-secret'],
    ['50%41"off-secret', 'in base64 of JSON', btoa('{"s":"50%41\\"off-secret"}')],
    ['pa%20ss\\word', 'in JSON', 'pa%20ss\\\\word'],
    ['Tr0ub4dor\\&3x', 'in HTML', 'Tr0ub4dor\\&#38;3x'],
    ['a\\"b\\"cdefgh', 'in HTML', 'a\\&quot;b\\&quot;cdefgh'],
    ['k&lt;"abcdef', 'in JSON', 'k&lt;\\"abcdef'],
    [LONG, 'in base64 with spaces', 'aWQ6 bWVy Y2hh bnQt c2Vj cmV0 LVF6 ODE='],
    [LONG, 'in full-width characters', 'ｍｅｒｃｈａｎｔ－ｓｅｃｒｅｔ－Ｑｚ８１'],
    // The text grows when it is decoded.
    ['İİİ'.toLowerCase(), 'that is longer than the text', 'İİİ'],
  ])('hides a text that contains the secret %j %s', (secret, _, written) => {
    expect(redact(`before ${written} after`, [secret])).toBe('[hidden]')
  })

  it.each(['', '1', '12', '123'])(
    'finds a secret in the base64 of a longer text (%s before it)',
    (before) => {
      const fields = JSON.stringify({ client_id: `c${before}`, client_secret: SECRET, x: 1 })
      const texts = [
        fields,
        `c${before}:${SECRET}>?~~`,
        new URLSearchParams({ s: before + SECRET }).toString(),
      ]
      for (const text of texts) {
        const base64 = Buffer.from(text).toString('base64')
        for (const written of [base64, Buffer.from(text).toString('base64url'), `x${base64}`, `/a/${base64}`])
          expect(redact(`before Basic ${written} after`, [SECRET])).toBe('[hidden]')
        expect(redact(base64.replace(/.{20}/g, '$&\r\n'), [SECRET])).toBe('[hidden]')
        expect(redact(`before Basic ${base64} after`, ['of another kind'])).toContain(base64)
      }
    },
  )

  it.each([
    ['unencoded', 'the e here'],
    ['within a word', 'the end'],
    ['in another case', 'E'],
    ['percent-encoded', '%65'],
  ])('hides the whole text if it contains a one-character secret %s', (_, text) => {
    // The rest of the text would reveal the character.
    expect(redact(text, ['e'])).toBe('[hidden]')
    expect(redact(text, ['z'])).toBe(text)
  })

  it.each([
    ['\\u002B', '{"client_secret":"Zx9\\u002BabQ7"}'],
    ['\\x2b', "b'Zx9\\x2babQ7'"],
    ['\\u{2b}', 'Zx9\\u{2b}abQ7'],
    ['%u002b', 'Zx9%u002babQ7'],
    ['&plus;', 'Zx9&plus;abQ7'],
  ])('hides a text in which a + is written %s before hexadecimal letters', (_, written) => {
    expect(redact(written, ['Zx9+abQ7'])).toBe('[hidden]')
    expect(redact(written, ['Zx9-abQ7'])).toBe(written)
  })

  it('takes linear time, whatever the text contains', () => {
    const used = new UsedSecrets()
    for (let nth = 0; nth < 16; nth += 1) used.add(`head-${nth}.${'payload'.repeat(100)}.signature`)
    for (const part of ['a', '\\', '%25', '%41', '&#', '\u200B', 'A+/=']) {
      const read = (text: string) => expect(redact(text, used)).not.toBe('')
      expect(growth(read, (length) => part.repeat(length / part.length), 1_200)).toBeLessThan(24)
    }
    expect(redact('a'.repeat(10_001), used)).toBe('[hidden]')
  })

  it('does not treat its own placeholder as a secret', () => {
    const secrets = ['the secret', 'hidden', 'den', 'hidden] x']
    expect(redact('the secret and x', secrets)).toBe('[hidden] and x')
    expect(redact('[hidden]', secrets)).toBe('[hidden]')
  })

  it('remembers the sixteen most recently used secrets', () => {
    const used = new UsedSecrets()
    for (let nth = 0; nth < 17; nth += 1) used.add(`secret-${nth}-`)
    used.add('secret-1-')
    used.add('secret-17-')
    expect([...used]).toEqual([
      ...Array.from({ length: 14 }, (_, nth) => `secret-${nth + 3}-`),
      'secret-1-',
      'secret-17-',
    ])
    expect(redact('secret-1- secret-2- secret-17-', used)).toBe('[hidden] secret-2- [hidden]')
  })

  it('hides a text with too many levels of escapes', () => {
    let text = 'x'
    for (let times = 0; times < 9; times += 1) text = encodeURIComponent(`%${text}`)
    expect(redact(text, ['swordfish'])).toBe('[hidden]')
  })

  it('does not change a text that contains a short secret by chance', () => {
    const text =
      'the base64 of a short text stands in many a text: WJ, QW, and so does a part of its hexadecimal, 6162'
    expect(redact(text, ['abc'])).toBe(text)
  })

  it('replaces every secret, and no other text', () => {
    const secrets = ['secret-one', 'secret-one-and-more', '', 'secret-three']
    expect(redact('secret-one two secret-one-and-more secret-three', secrets)).toBe(
      '[hidden] two [hidden] [hidden]',
    )
    expect(redact(`before ${SECRET} between ${SECRET} after`, [SECRET])).toBe(
      'before [hidden] between [hidden] after',
    )
    expect(redact('nothing here', ['one'])).toBe('nothing here')
    expect(redact('half a pair \uD800y', ['\uD800y'])).toBe('[hidden]')
    expect(redact('nothing here', [])).toBe('nothing here')
  })
})

describe('a redacted cause', () => {
  it('keeps name, message, code and the chain, and nothing else', () => {
    const inner = Object.assign(new Error('connect'), { code: 'ECONNREFUSED', request: SECRET })
    const cause = new TypeError(`failed with ${SECRET}`, { cause: inner })
    const copy = redactedCause(Object.assign(cause, { config: { data: SECRET } }), [SECRET])
    expect(copy).toMatchObject({ name: 'TypeError', cause: { message: 'connect', code: 'ECONNREFUSED' } })
    expect(copy).not.toHaveProperty('config')
    expect(copy?.cause).not.toHaveProperty('request')
    expect(inspect(copy, { depth: 9, showHidden: true })).not.toContain(SECRET)
    expect(copy?.stack).not.toContain(SECRET)
  })

  it('keeps known names, codes and messages even if they contain a secret, and hides others', () => {
    const inner = Object.assign(new Error('x'), { code: 'ECONNREFUSED' })
    const cause = new TypeError('fetch failed', { cause: inner })
    const secrets = ['fetch', 'TypeError', 'E', 'ECONNREFUSED']
    expect(redactedCause(cause, secrets)).toMatchObject({
      name: 'TypeError',
      message: 'fetch failed',
      cause: { code: 'ECONNREFUSED' },
    })
    const own = Object.assign(new Error('x'), { name: 'NoMoreMilkError', code: 'E_MILK' })
    expect(redactedCause(own, [])).toMatchObject({ name: 'NoMoreMilkError', code: 'E_MILK' })
    expect(redactedCause(own, secrets)).toMatchObject({ name: '[hidden]', code: '[hidden]' })
  })

  it('of an AggregateError continues with its first error', () => {
    const aggregate = new AggregateError([new Error('first'), new Error('second')], 'all failed')
    expect(redactedCause(aggregate, [])).toMatchObject({ message: 'all failed', cause: { message: 'first' } })
  })

  it('has a finite chain even if the original chain is circular', () => {
    const endless = new Error('round')
    endless.cause = endless
    let depth = 0
    for (let error: unknown = redactedCause(endless, []); error instanceof Error; error = error.cause)
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
    const copy = redactedCause(unreadable, [SECRET])
    expect(copy).toBeInstanceOf(Error)
    expect(inspect(copy, { depth: 9, showHidden: true })).not.toContain(SECRET)
  })

  it.each([undefined, null, 'text', 5])('of %j is undefined', (value) => {
    expect(redactedCause(value, [])).toBeUndefined()
  })

  it('of an object that is not an error is an error', () => {
    expect(redactedCause({}, [])).toMatchObject({ name: 'Error', message: '' })
    expect(redactedCause({ code: 5 }, [])).not.toHaveProperty('code')
  })
})

describe('shownUrl', () => {
  it.each([
    ['https://u:p@api.example:8443/a/b?token=x#y', 'https://api.example:8443/a/b'],
    ['https://api.example', 'https://api.example/'],
    ['https://api.example/a/hush-hush/b', 'https://api.example/a/[hidden]/b'],
    ['https://api.example/a/%68ush-hush/b', 'https://api.example/[hidden]'],
    ['https://api.example/a/b?hush-hush', 'https://api.example/a/b'],
  ])('turns %s into %s', (url, shown) => {
    expect(shownUrl(url, ['hush-hush'])).toBe(shown)
    expect(shownUrl(new URL(url), ['hush-hush'])).toBe(shown)
    if (!url.includes('hush')) expect(shownUrl(url)).toBe(shown)
    expect(URL.canParse(shown)).toBe(true)
  })

  it('hides a text that is not a URL', () => {
    expect(shownUrl('secret stuff')).not.toContain('secret')
  })
})

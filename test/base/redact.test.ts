import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { redact, redactedCause, shownUrl, UsedSecrets } from '../../src/base/redact.ts'

const SECRET = 'pa"ss+w/ö &rd='

describe('redact', () => {
  it.each([
    ['verbatim', SECRET],
    ['in JSON', 'pa\\"ss+w/ö &rd='],
    ['in the JSON of PHP', 'pa\\"ss+w\\/\\u00f6 &rd='],
    ['in the JSON of .NET', 'pa\\u0022ss\\u002Bw/\\u00F6 \\u0026rd='],
    ['percent-encoded', 'pa%22ss%2Bw%2F%C3%B6%20%26rd%3D'],
    ['percent-encoded in lower case', 'pa%22ss%2bw%2f%c3%b6%20%26rd%3d'],
    ['in a path', 'pa%22ss+w/%C3%B6%20&rd='],
    ['in a form', 'pa%22ss%2Bw%2F%C3%B6+%26rd%3D'],
  ])('replaces a secret %s', (_, written) => {
    expect(redact(`before ${written} between ${written} after`, [SECRET])).toBe(
      'before [hidden] between [hidden] after',
    )
  })

  it.each([
    ['one with + and %2B', 'ab+cd%2Bef%C3%B6', 'ab cd+efö'],
    ['in JSON, of which only a part is a form', 'pa"ss+%2bword', 'pa\\"ss +word'],
    ['where only %2B is decoded', 'ab+cd%2Bef', 'ab+cd+ef'],
    ['where only + is decoded', 'ab+cd%2Bef', 'ab cd%2Bef'],
    ['that is encoded again', 'ab+cd%2Bef', 'ab%20cd%2Bef'],
    ['with an & and a % that begins nothing', '50%off+a&b=c%', '50%off a&b=c%'],
    ['that is shorter then', '%41%42%43%44-secret', 'ABCD-secret'],
  ])('replaces a secret as a form reader decodes it: %s', (_, secret, decoded) => {
    const server = (text: string) => redact(text, [secret])
    expect(server(`no ${decoded} here`)).toBe('no [hidden] here')
    expect(server(decoded)).toBe('[hidden]')
  })

  it('does not search for a secret that has fewer than 8 characters as a form reader decodes it', () => {
    expect(redact('ABCD and %41%42%43%44', ['%41%42%43%44'])).toBe('ABCD and [hidden]')
  })

  it.each(['', 'i', 'id', 'id:'])('replaces a secret in the base64 of %j and the secret', (before) => {
    const bytes = Buffer.from(`${before}${SECRET}`)
    for (const written of [bytes.toString('base64'), bytes.toString('base64url')]) {
      const shown = redact(`before Basic ${written} after`, [SECRET])
      expect(shown).toMatch(/^before Basic [\w+/-]*\[hidden\][\w+/-]?=* after$/)
    }
  })

  it.each([
    ['as a form encodes it', new URLSearchParams({ id: SECRET }).toString().replace('=', ':')],
    ['as encodeURIComponent does', `id:${encodeURIComponent(SECRET)}`],
  ])('replaces a secret in the base64 of HTTP Basic, %s', (_, credentials) => {
    const shown = redact(`Basic ${Buffer.from(credentials).toString('base64')}`, [SECRET])
    expect(shown).toMatch(/^Basic [\w+/-]{4,6}\[hidden\][\w+/-]?=*$/)
  })

  it('replaces every secret, longer ones first, and no other text', () => {
    const secrets = ['secret-one', 'secret-one-and-more', '', 'secret-three']
    expect(redact('secret-one two secret-one-and-more secret-three', secrets)).toBe(
      '[hidden] two [hidden] [hidden]',
    )
    expect(redact('nothing here', secrets)).toBe('nothing here')
  })

  it('does not search for a secret of fewer than 8 characters', () => {
    expect(redact('seven77 and eight888', ['seven77', 'eight888'])).toBe('seven77 and [hidden]')
  })

  it('replaces a secret as long as a response may be', () => {
    const secret = '+/'.repeat(32 * 1024)
    expect(redact(`before ${secret} after`, [secret])).toBe('before [hidden] after')
  })
})

it('the sixteen most recently used secrets are remembered, and those that are kept', () => {
  const used = new UsedSecrets()
  used.keep('token', 'kept')
  for (let nth = 0; nth < 17; nth += 1) used.add(`secret-${nth}`)
  used.add('secret-1')
  used.add('secret-17')
  expect([...used]).toEqual([
    'kept',
    ...Array.from({ length: 14 }, (_, nth) => `secret-${nth + 3}`),
    'secret-1',
    'secret-17',
  ])
})

describe('a redacted cause', () => {
  it('keeps name, message, code, stack and the chain, and nothing else', () => {
    const inner = Object.assign(new Error('connect'), { code: 'ECONNREFUSED', request: SECRET })
    const cause = new TypeError(`failed with ${SECRET}`, { cause: inner })
    const copy = redactedCause(Object.assign(cause, { config: { data: SECRET } }), [SECRET])
    expect(copy).toMatchObject({
      name: 'TypeError',
      message: 'failed with [hidden]',
      cause: { message: 'connect', code: 'ECONNREFUSED' },
    })
    expect(copy?.stack).toContain('redact.test.ts')
    expect(inspect(copy, { depth: 9 })).not.toContain(SECRET)
  })

  it('keeps the name of an error class and the code of a system whole, even if a secret is in them', () => {
    const cause = Object.assign(new TypeError('fetch failed'), { code: 'ECONNREFUSED' })
    const copy = redactedCause(cause, ['TypeError', 'ECONNREFUSED', 'CONNREFUSED'])
    expect(copy).toMatchObject({ name: 'TypeError', code: 'ECONNREFUSED' })
  })

  it('has an unknown JWT hidden', () => {
    const quoting = new Error('the vault rejected eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln')
    expect(redactedCause(quoting, [])?.message).toBe('the vault rejected [hidden]')
  })

  it.each(['swordfish-4711', `${'swordfish-4711'.repeat(5)} {`, '{"secret": swordfish-4711}'])(
    'has what JSON.parse quotes of %j hidden',
    (text) => {
      let failure: unknown
      try {
        JSON.parse(text)
      } catch (error) {
        failure = error
      }
      expect(inspect(failure)).toContain('swordf')
      expect(inspect(redactedCause(failure, []))).not.toContain('swordf')
      expect(redactedCause(failure, [])?.message).toMatch(/^[^"]*\[hidden\](?:\.{3})? is not valid JSON$/)
    },
  )

  it('of an AggregateError has its errors, ten at most', () => {
    const errors = Array.from({ length: 20 }, (_, n) => new Error(`address ${n} ${SECRET}`))
    const copy = redactedCause(new AggregateError(errors, 'all failed'), [SECRET]) as AggregateError
    expect(copy).toBeInstanceOf(AggregateError)
    expect(copy.message).toBe('all failed')
    expect(copy.errors.map(({ message }) => message)).toEqual(
      errors.slice(0, 10).map((_, n) => `address ${n} [hidden]`),
    )
  })

  it('has a finite chain even if the original chain is circular', () => {
    const endless = new Error('round')
    endless.cause = endless
    let depth = 0
    for (let error: unknown = redactedCause(endless, []); error instanceof Error; error = error.cause)
      depth += 1
    expect(depth).toBe(5)
  })

  it.each([undefined, null, 'text'])('of %j is undefined', (value) => {
    expect(redactedCause(value, [])).toBeUndefined()
  })

  it('of an object that is not an error is an error', () => {
    expect(redactedCause({ message: { text: SECRET } }, [])).toMatchObject({ name: 'Error', message: '' })
  })
})

describe('shownUrl', () => {
  it.each([
    ['https://u:p@api.example:8443/a/b?token=x#y', 'https://api.example:8443/a/b'],
    ['https://api.example/a/hush-hush/b', 'https://api.example/a/[hidden]/b'],
    ['secret stuff', '(not a URL)'],
  ])('turns %s into %s', (url, shown) => {
    expect(shownUrl(url, ['hush-hush'])).toBe(shown)
  })
})

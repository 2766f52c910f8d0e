/** Log output never contains a secret, and redaction never changes the package's own words, whatever the secret is. */
import assert from 'node:assert'
import { Console } from 'node:console'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import { serialize } from 'node:v8'
import type { TokenRequestError } from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { thrownBy } from '../support/problems.ts'
import { forget } from '../support/recorded.ts'
import { type Answer, failed, granted, noConnection, rejection, rig, SECRET, status } from './harness.ts'

/** As consoles and loggers write a value, at any depth. */
const inspected = (value: unknown): string => inspect(value, { depth: Infinity, maxStringLength: null })

describe('an access token', () => {
  it.each([
    ['with a scope', { scope: 'merchant in-store' }, ['tokenType', 'expiresAt', 'scope']],
    ['without a scope', {}, ['tokenType', 'expiresAt']],
    ['whose scope is not a string', { scope: ['merchant'] }, ['tokenType', 'expiresAt']],
  ])('%s is frozen, has exactly the documented fields and hides its value', async (_, fields, keys) => {
    const token = await rig([granted({ ...fields, access_token: 'a.b.c' })]).provider.getToken()
    expect(Object.keys(token)).toEqual(keys)
    expect(token).toMatchObject({ tokenType: 'Bearer', value: 'a.b.c' })
    expect(Object.isFrozen(token)).toBe(true)
    expect(inspected(token)).not.toContain('a.b.c')
  })

  it('hides its value from JSON, copies, comparisons and log output', async () => {
    const token = await rig([granted({ access_token: 'a.b.c', scope: 'merchant' })]).provider.getToken()
    const table = new PassThrough()
    new Console(table).table([token])
    const different = await rig([granted({ access_token: 'd.e.f' })]).provider.getToken()
    const diff = String(thrownBy(() => assert.deepStrictEqual({ token }, { token: different })))
    expect(diff).toContain('scope')
    const shown = [
      JSON.stringify(token),
      JSON.stringify({ ...token }),
      JSON.stringify(Object.entries(token)),
      JSON.stringify(structuredClone(token)),
      serialize(token).toString('latin1'),
      String(table.read()),
      String(token),
      diff,
      inspected([{ token }]),
    ]
    for (const text of shown) expect(text).not.toMatch(/a\.b\.c|d\.e\.f/)
    expect([token.value, token.value === 'a.b.c']).toEqual(['a.b.c', true])
  })
})

describe('the log output of', () => {
  it('a provider contains its environment, but neither the secret nor the token', async () => {
    const { provider } = rig([granted({ access_token: 'a.b.c' })])
    await provider.getToken()
    const statics = createStaticTokenProvider({ value: 'a.b.c' })
    expect(inspected(provider)).toContain('auth.test.example')
    for (const text of [inspected(provider), inspected(statics)]) {
      expect(text).not.toContain('a.b.c')
      expect(text).not.toContain(SECRET)
    }
  })
})

beforeEach(() => void vi.spyOn(process, 'emitWarning').mockReturnValue())
afterEach(() => void vi.restoreAllMocks())

const ORDINARY = 'an-ordinary-secret'
const ODD = [
  ...['wrong', 'client', 'secret', 'e', 'a', 't', 'o', ' ', '[', 'hidden', 'ok', '1', 'E', 'REFUSED'],
  ...['invalid_client', 'ERR_TOKEN_STATUS', 'ECONNREFUSED', 'READONLY', 'TypeError', 'Check authUrl'],
]

/** The package's own words in the error and the events of a failed token request. */
async function ownWords(clientSecret: string, answer: Answer): Promise<unknown> {
  const { provider, events } = rig([answer], { clientSecret, retries: 0 })
  const error = await rejection<TokenRequestError>(provider.getToken())
  const { name, message, code, error: oauth, cause } = error
  const causes: unknown[] = []
  for (let below = cause; below instanceof Error; below = below.cause)
    causes.push([below.name, (below as { code?: string }).code])
  return { name, message, code, oauth, causes, toJSON: error.toJSON(), events }
}

const coded = (code: string): Error =>
  new TypeError('fetch failed', { cause: Object.assign(new Error('a reason'), { code }) })

const unreadable = async (code: string): Promise<Response> =>
  new Response(new ReadableStream({ pull: (controller) => controller.error(coded(code)) }))

const FAILURES: [string, Answer][] = [
  ['a rejected client', status(401, { error: 'invalid_client' })],
  ['a rejected audience', status(403, { error: 'access_denied' })],
  ['a rejected target', status(400, { error: 'invalid_target' })],
  ['a 503', status(503)],
  ['no connection', noConnection],
  ['a redirect', status(302)],
  ['an invalid token response', granted({ expires_in: -1 })],
  ['an answer that cannot be decompressed', () => unreadable('Z_DATA_ERROR')],
  ['an answer that cannot be decompressed by zstd', () => unreadable('ZSTD_error_prefix_unknown')],
  ['a TLS alert', () => Promise.reject(coded('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION'))],
]

describe.each(ODD)('the client secret %j', (clientSecret) => {
  afterEach(forget) // here the secrets are words that may appear in outcomes

  const isEverywhere = clientSecret === ' '
  it.each(isEverywhere ? [] : ['x'])('is hidden in text from the token endpoint', async (word) => {
    const echo = `${word} ${clientSecret} ${word}`
    const made = rig([status(401, { error: echo, error_description: echo })], { clientSecret, retries: 0 })
    const error = await failed(made)
    const emitted = (made.events.at(-1) as { error?: string }).error
    for (const text of [error.error, error.errorDescription, emitted])
      expect(text?.replace('[hidden]', '')).not.toContain(clientSecret)
  })

  it.each(FAILURES)("does not change the package's own words after %s", async (_, answer) => {
    expect(await ownWords(clientSecret, answer)).toEqual(await ownWords(ORDINARY, answer))
  })

  it.each(['ECONNREFUSED', 'READONLY'])('does not hide the error code %s of a store', async (code) => {
    const fails = () => Promise.reject(new Error(`${code} for a reason`))
    const store = { get: fails, set: fails }
    const { provider, events } = rig([], { clientSecret, store })
    await provider.getToken()
    expect(events).toContainEqual({ type: 'store-failed', operation: 'get', code, environment: 'test' })
  })
})

describe('a short client secret', () => {
  it.each([
    ['7 characters, one warning', 'sevench', 1],
    ['6 characters from a function, one warning', () => 'sixchr', 1],
    ['8 characters, no warning', '8 is ok!', 0],
  ])('emits at most one process warning, which does not contain it: %s', async (_, clientSecret, count) => {
    const rigs = [rig([], { clientSecret }), rig([], { clientSecret })]
    const warnings = vi.mocked(process.emitWarning).mock.calls
    // A text is known before the first token is requested.
    expect(warnings).toHaveLength(typeof clientSecret === 'string' ? count : 0)
    for (const { provider } of rigs) await provider.getToken()
    expect(warnings).toHaveLength(count)
    for (const warning of warnings) {
      expect(warning).toEqual([
        expect.stringContaining('fewer than 8 characters'),
        { code: 'MERCHANT_AUTH_WEAK_SECRET' },
      ])
      expect(JSON.stringify(warning)).not.toMatch(/sevench|sixchr/)
    }
  })
})

describe('an error description that is too long to search for secrets', () => {
  const long = Array.from({ length: 1_000 }, (_, n) => String(n).padStart(5, 's')).join('')
  it.each([
    // The cut could leave half of another secret at its end.
    ['is hidden entirely if it contains a secret', `x${long}${long}`, '[hidden]'],
    ['is cut off if it contains no secret', 'too long, '.repeat(2_000), 'too long, '.repeat(30)],
  ])('%s', async (_, error_description, errorDescription) => {
    const made = rig([status(400, { error: 'x', error_description })], { clientSecret: long })
    expect(await failed(made)).toMatchObject({ errorDescription })
  })
})

/** No secret is in log output, and the package's own words stay whole, whatever the secret is. */
import assert from 'node:assert'
import { Console } from 'node:console'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import { serialize } from 'node:v8'
import type { TokenRequestError } from 'merchant-auth'
import { createStaticTokenProvider, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { thrownBy } from '../support/problems.ts'
import { forget } from '../support/recorded.ts'
import { type Answer, failed, granted, noConnection, rejection, rig, SECRET, status } from './harness.ts'

/** With every option of inspect that may show more. */
const MORE = [{}, { showHidden: true }, { getters: true }, { showProxy: true }, { customInspect: false }]
const ALL = { showHidden: true, getters: true, showProxy: true, customInspect: false, depth: Infinity }

function inspected(value: object): string[] {
  return [...MORE, ALL].map((options) => inspect(value, { ...options, maxStringLength: null }))
}

describe('an access token', () => {
  it.each([
    ['with a scope', { scope: 'merchant in-store' }, ['tokenType', 'expiresAt', 'scope']],
    ['without one', {}, ['tokenType', 'expiresAt']],
    ['whose scope is no text', { scope: ['merchant'] }, ['tokenType', 'expiresAt']],
  ])('%s has these fields and no others, is frozen, and hides its value', async (_, fields, keys) => {
    const token = await rig([granted({ ...fields, access_token: 'a.b.c' })]).provider.getToken()
    expect(Object.keys(token)).toEqual(keys)
    expect(token).toMatchObject({ tokenType: 'Bearer', value: 'a.b.c' })
    expect(Object.isFrozen(token)).toBe(true)
    for (const text of inspected(token)) expect(text).not.toContain('a.b.c')
  })

  it('hides its value from everything that copies, compares or logs it', async () => {
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
      inspect([{ token }], ALL),
      inspect(Object.getPrototypeOf(token), ALL),
    ]
    for (const text of shown) expect(text).not.toMatch(/a\.b\.c|d\.e\.f/)
    expect([token.value, token.value === 'a.b.c']).toEqual(['a.b.c', true])
  })
})

describe('no log output of', () => {
  it('a provider shows the secret or the token, but its environment', async () => {
    const { provider } = rig([granted({ access_token: 'a.b.c' })])
    await provider.getToken()
    const statics = createStaticTokenProvider({ value: 'a.b.c' })
    for (const text of inspected(provider)) expect(text).toContain('auth.test.example')
    for (const text of [...inspected(provider), ...inspected(statics)]) {
      expect(text).not.toContain('a.b.c')
      expect(text).not.toContain(SECRET)
    }
  })

  it('a sandbox shows its client secret', async () => {
    await using sandbox = await startSandbox()
    for (const text of [...inspected(sandbox), ...inspected(sandbox.test)])
      expect(text).not.toContain(sandbox.test.clientSecret)
  })
})

beforeEach(() => void vi.spyOn(process, 'emitWarning').mockReturnValue())
afterEach(() => void vi.restoreAllMocks())

const ORDINARY = 'an-ordinary-secret'
const ODD = [
  ...['wrong', 'client', 'secret', 'e', 'a', 't', 'o', ' ', '[', 'hidden', 'ok', '1', 'E', 'REFUSED'],
  ...['invalid_client', 'ERR_TOKEN_STATUS', 'ECONNREFUSED', 'READONLY', 'TypeError', 'Check authUrl'],
]

/** What is the package's own in a failed token request. */
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
  ['a status', status(503)],
  ['no connection', noConnection],
  ['a redirect', status(302)],
  ['no token', granted({ expires_in: -1 })],
  ['an answer that cannot be decompressed', () => unreadable('Z_DATA_ERROR')],
  ['an answer that cannot be decompressed by zstd', () => unreadable('ZSTD_error_prefix_unknown')],
  ['a TLS alert', () => Promise.reject(coded('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION'))],
]

describe.each(ODD)('with the secret %j', (clientSecret) => {
  afterEach(forget) // the words are secrets that may appear

  const isEverywhere = clientSecret === ' '
  it.each(isEverywhere ? [] : ['x'])('foreign text shows none of it', async (word) => {
    const echo = `${word} ${clientSecret} ${word}`
    const made = rig([status(401, { error: echo, error_description: echo })], { clientSecret, retries: 0 })
    const error = await failed(made)
    const emitted = (made.events.at(-1) as { error?: string }).error
    for (const text of [error.error, error.errorDescription, emitted])
      expect(text?.replace('[hidden]', '')).not.toContain(clientSecret)
  })

  it.each(FAILURES)('all words of ours are there after %s', async (_, answer) => {
    expect(await ownWords(clientSecret, answer)).toEqual(await ownWords(ORDINARY, answer))
  })

  it.each(['ECONNREFUSED', 'READONLY'])('a store that fails with %s says so', async (code) => {
    const fails = () => Promise.reject(new Error(`${code} for a reason`))
    const store = { get: fails, set: fails, delete: fails }
    const { provider, events } = rig([], { clientSecret, store })
    await provider.getToken()
    expect(events).toContainEqual({ type: 'store-failed', operation: 'get', code, environment: 'test' })
  })
})

describe('a weak secret', () => {
  it.each([
    ['of 7 characters', 'sevench', 1],
    ['yielded by a function', () => 'sixchr', 1],
    ['of 8, which is not weak', '8 is ok!', 0],
  ])('%s is a process warning once, which does not show it', async (_, clientSecret, count) => {
    for (const { provider } of [rig([], { clientSecret }), rig([], { clientSecret })])
      await provider.getToken()
    const warnings = vi.mocked(process.emitWarning).mock.calls
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

describe('an error description that is longer than is searched', () => {
  const long = Array.from({ length: 1_000 }, (_, n) => String(n).padStart(5, 's')).join('')
  it.each([
    // Half of another secret may stand at its end.
    ['nothing where a secret stands in it', `x${long}${long}`, '[hidden]'],
    ['its beginning where none does', 'too long, '.repeat(2_000), 'too long, '.repeat(30)],
  ])('shows %s', async (_, error_description, errorDescription) => {
    const made = rig([status(400, { error: 'x', error_description })], { clientSecret: long })
    expect(await failed(made)).toMatchObject({ errorDescription })
  })
})

/** No secret is in log output, and the package's own words stay whole, whatever the secret is. */
import assert from 'node:assert'
import { Console } from 'node:console'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import { serialize } from 'node:v8'
import type { TokenRequestError } from 'merchant-auth'
import { createStaticTokenProvider, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { forget } from '../support/recorded.ts'
import { type Answer, granted, noConnection, rejection, rig, SECRET, status } from './harness.ts'

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
    let diff = ''
    try {
      assert.deepStrictEqual({ token }, { token: different })
    } catch (error) {
      diff = (error as Error).message
    }
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
  it('a provider shows the secret or the token', async () => {
    const { provider } = rig([granted({ access_token: 'a.b.c' })])
    await provider.getToken()
    const statics = createStaticTokenProvider({ value: 'a.b.c' })
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

const failed = (code: string): Error =>
  new TypeError('fetch failed', { cause: Object.assign(new Error('a reason'), { code }) })

const unreadable = async (code: string): Promise<Response> =>
  new Response(new ReadableStream({ pull: (controller) => controller.error(failed(code)) }))

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
  ['a TLS alert', () => Promise.reject(failed('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION'))],
]

describe.each(ODD)('with the secret %j', (clientSecret) => {
  afterEach(forget) // the words are secrets that may appear

  it.each(FAILURES)('all words of ours are there after %s', async (_, answer) => {
    expect(await ownWords(clientSecret, answer)).toEqual(await ownWords(ORDINARY, answer))
  })

  it.each(['ECONNREFUSED', 'READONLY'])('a store that fails with %s says so', async (code) => {
    const fails = () => Promise.reject(new Error(`${code} for a reason`))
    const { provider, events } = rig([], {
      clientSecret,
      store: { get: fails, set: fails, delete: fails },
    })
    await provider.getToken()
    expect(events).toContainEqual({ type: 'store-failed', operation: 'get', code, environment: 'test' })
  })
})

describe.each(ODD.filter((secret) => secret !== ' '))('with the secret %j, foreign text', (clientSecret) => {
  afterEach(forget)

  it('shows none of it', async () => {
    const echo = `x ${clientSecret} x`
    const { provider, events } = rig([status(401, { error: echo, error_description: echo })], {
      clientSecret,
      retries: 0,
    })
    const error = await rejection<TokenRequestError>(provider.getToken())
    for (const text of [error.error, error.errorDescription, (events.at(-1) as { error?: string }).error])
      expect(text?.replace('[hidden]', '')).not.toContain(clientSecret)
  })
})

describe('a weak secret', () => {
  const warnings = async (clientSecret: string | (() => string)): Promise<unknown[]> => {
    await rig([], { clientSecret }).provider.getToken()
    await rig([], { clientSecret }).provider.getToken()
    return vi.mocked(process.emitWarning).mock.calls
  }

  it.each([
    ['given', 'sevench'],
    ['yielded by a function', () => 'sixchr'],
  ])('that is %s is one process warning, which does not show it', async (_, clientSecret) => {
    const [warning, ...others] = await warnings(clientSecret)
    expect(warning).toEqual([
      expect.stringContaining('fewer than 8 characters'),
      { code: 'MERCHANT_AUTH_WEAK_SECRET' },
    ])
    expect(others).toEqual([])
    expect(JSON.stringify(warning)).not.toMatch(/sevench|sixchr/)
  })

  it('has fewer than 8 characters', async () => {
    expect(await warnings('8 is ok!')).toEqual([])
  })
})

describe('an error description that is longer than is searched', () => {
  it('shows nothing where a secret stands in it: half of another may stand at its end', async () => {
    const clientSecret = Array.from({ length: 1_000 }, (_, n) => String(n).padStart(5, 's')).join('')
    const error_description = `x${clientSecret}${clientSecret}`
    const { provider } = rig([status(400, { error: 'x', error_description })], { clientSecret })
    expect(await rejection(provider.getToken())).toMatchObject({ errorDescription: '[hidden]' })
  })

  it('shows its beginning where none does', async () => {
    const { provider } = rig([status(400, { error: 'x', error_description: 'too long, '.repeat(2_000) })])
    const { errorDescription } = await rejection<Error & { errorDescription: string }>(provider.getToken())
    expect(errorDescription).toBe('too long, '.repeat(30))
  })
})

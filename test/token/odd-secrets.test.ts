/** Secrets that are ordinary words: the package's own words, codes and names stay whole, and foreign text shows none. */
import type { TokenRequestError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { forget } from '../support/recorded.ts'
import { type Answer, granted, noConnection, rejection, rig, status } from './harness.ts'

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
  ['a refused client', status(401, { error: 'invalid_client' })],
  ['a refused audience', status(403, { error: 'access_denied' })],
  ['a refused target', status(400, { error: 'invalid_target' })],
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

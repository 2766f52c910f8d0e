/** Log output never contains a secret, and redaction never changes the package's own words, whatever the secret is. */
import assert from 'node:assert'
import { Console } from 'node:console'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import { serialize } from 'node:v8'
import { createAuthFetch, type TokenRequestError } from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LEAST_SECRET } from '../../src/base/redact.ts'
import { thrownBy } from '../support/problems.ts'
import { forget } from '../support/recorded.ts'
import { failed, granted, type Rig, rejection, rig, SECRET, status } from './harness.ts'

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
      diff,
      inspected([{ token }]),
    ]
    for (const text of shown) expect(text).not.toMatch(/a\.b\.c|d\.e\.f/)
    expect(`Bearer ${token}`).toBe('Bearer [AccessToken: use its value]')
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

it("a client secret that is one of the package's own words changes none of them", async () => {
  const outcome = async (clientSecret: string): Promise<unknown> => {
    const { provider, events } = rig([status(503)], { clientSecret, retries: 0 })
    const error = await rejection<TokenRequestError>(provider.getToken())
    return [error.toJSON(), events]
  }
  const ordinary = await outcome('an-ordinary-secret')
  for (const word of ['ERR_TOKEN_STATUS', 'TokenRequestError', 'Check authUrl', 'token-requested'])
    expect(await outcome(word)).toEqual(ordinary)
  forget() // here the secrets are words that may appear in outcomes
})

describe('a short client secret', () => {
  const LONG_ENOUGH = 'Qz7+Qz7+Qz7+Qz7+'.slice(0, LEAST_SECRET)
  const SHORT = LONG_ENOUGH.slice(1)
  const SHORTER = SHORT.slice(1)
  it.each([
    ['a character too few, one warning at once', SHORT, 1, 1],
    ['two too few, from a function, one warning when it is asked', () => SHORTER, 0, 1],
    ['just enough, no warning', LONG_ENOUGH, 0, 0],
  ])(
    'emits at most one process warning, which does not contain it: %s',
    async (_, clientSecret, first, all) => {
      const rigs = [rig([], { clientSecret }), rig([], { clientSecret })]
      const warnings = vi.mocked(process.emitWarning).mock.calls
      expect(warnings).toHaveLength(first)
      for (const { provider } of rigs) await provider.getToken()
      expect(warnings).toHaveLength(all)
      for (const warning of warnings) {
        expect(warning).toEqual([
          expect.stringContaining(`fewer than ${LEAST_SECRET} characters`),
          expect.objectContaining({ code: 'MERCHANT_AUTH_WEAK_SECRET' }),
        ])
        expect(JSON.stringify(warning)).not.toContain(SHORTER)
      }
    },
  )
})

describe('the token-withheld event', () => {
  const OWN_SECRET = 'the-secret-that-was-pasted'
  const elsewhere = async ({ provider }: Rig, text: string): Promise<void> => {
    const send = createAuthFetch(provider, { fetch: async () => new Response() })
    await send(`https://elsewhere.example/of/${encodeURIComponent(text)}/x`)
  }
  const hidden = { type: 'token-withheld', url: 'https://elsewhere.example/of/[hidden]/x' }

  it('hides a client secret that was never sent', async () => {
    const made = rig([], { clientSecret: OWN_SECRET })
    await elsewhere(made, OWN_SECRET)
    expect(made.events).toMatchObject([hidden])
  })

  it('hides the cached token after any number of assertions', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0)
    let jti = 0
    const clientAssertion = () => `head.claims-of-jti-${++jti}.signature`
    const options = { clientSecret: undefined, clientAssertion, refreshAheadMs: 43_200_000 }
    const made = rig([granted({ expires_in: 86_400 })], options)
    const { value } = await made.provider.getToken()
    made.endpoint.otherwise = status(503)
    await made.clock.advance(43_200_000)
    for (let minute = 0; made.endpoint.count <= 17 && minute < 700; minute += 1) {
      await made.clock.advance(60_000)
      made.provider.currentToken()
    }
    expect(made.endpoint.count).toBe(18)
    await elsewhere(made, value)
    expect(made.events.at(-1)).toMatchObject(hidden)
  })
})

describe('an error that quotes a secret has it hidden:', () => {
  const failing = (quoted: string) => () =>
    Promise.reject(new Error(`The vault does not take ${quoted}, sorry`))

  it('an assertion, by its form', async () => {
    const clientAssertion = failing('eyJoZWFkIjp7fX0.eyJib2R5Ijp7fX0.c2lnbmF0dXJl')
    const { cause } = await failed(rig([], { clientSecret: undefined, clientAssertion, retries: 0 }))
    expect(cause).toMatchObject({ message: 'The vault does not take [hidden], sorry' })
  })

  it('an encryption key', async () => {
    const encryptionKey = 'marlin-marlin-marlin-marlin-marlin'
    const clientSecret = failing(encryptionKey)
    const made = rig([], { clientSecret, encryptionKeys: [encryptionKey], retries: 0 })
    const { cause } = await failed(made)
    expect(cause).toMatchObject({ message: 'The vault does not take [hidden], sorry' })
    expect(inspected(made.provider)).not.toContain('marlin')
  })
})

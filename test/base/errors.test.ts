import { inspect } from 'node:util'
import {
  ConfigurationError,
  createTokenProvider,
  isMerchantAuthError,
  MerchantAuthError,
  ProviderClosedError,
  TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { kindsIn, stepIn } from '../support/failures.ts'
import { thrownBy } from '../support/problems.ts'
import { ENVIRONMENT, granted, noConnection, rejection, rig, SECRET, status } from '../token/harness.ts'

const FIELDS = {
  code: 'ERR_TOKEN_STATUS',
  retryable: true,
  attempts: 3,
  status: 503,
  error: 'temporarily_unavailable',
  errorDescription: 'Later.',
  retryAfterMs: 5_000,
} as const
const requestError = new TokenRequestError('bad', { ...FIELDS, cause: new Error('inner') })
const responseError = new TokenResponseError('bad', [{ field: 'expires_in', reason: 'is missing' }])
const closedError = new ProviderClosedError()
const configurationError = new ConfigurationError('Wrong', [
  { option: 'clientId', kind: 'missing', reason: 'must be a non-empty string' },
])

describe('every error', () => {
  it.each([
    ['TokenRequestError', requestError, 'ERR_TOKEN_STATUS'],
    ['TokenResponseError', responseError, 'ERR_TOKEN_RESPONSE'],
    ['ProviderClosedError', closedError, 'ERR_PROVIDER_CLOSED'],
    ['ConfigurationError', configurationError, 'ERR_CONFIGURATION'],
  ])('of the class %s has its name and its code, and extends MerchantAuthError', (name, error, code) => {
    expect(error).toBeInstanceOf(MerchantAuthError)
    expect(error).toMatchObject({ name, code })
    expect(error.stack).toContain(name)
    expect(inspect(error)).toContain(name)
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ name, code, message: error.message })
  })

  it('has the fields of its class, also in JSON', () => {
    expect(requestError).toMatchObject(FIELDS)
    expect(requestError.cause).toMatchObject({ message: 'inner' })
    expect(JSON.parse(JSON.stringify(requestError))).toMatchObject(FIELDS)
    expect(JSON.parse(JSON.stringify(responseError)).issues).toEqual(responseError.issues)
    expect(JSON.parse(JSON.stringify(configurationError)).problems).toEqual(configurationError.problems)
  })

  it.each([
    ['a failed connection', noConnection],
    ['an HTTP status', status(404)],
    ['a redirect', status(307)],
    ['an invalid response', granted({ expires_in: null })],
  ])('about %s names the method, the URL without the query, and what to do', async (_, answer) => {
    const { provider } = rig([answer], { retries: 0 })
    const { message } = await rejection(provider.getToken())
    expect(message).toMatch(/POST https:\/\/auth\.test\.example\/oauth\/token(?![?#\w])/)
    expect(kindsIn(message).length === 1 || stepIn(message) !== undefined, message).toBe(true)
  })
})

describe('the browser check of createTokenProvider', () => {
  const options = { environment: ENVIRONMENT, clientId: 'c', clientSecret: SECRET }
  it.each([
    ['no process global', undefined],
    ['a process without versions', {}],
    ['a process without versions.node', { versions: {} }],
  ])('throws ERR_BROWSER: %s', (_, process) => {
    vi.stubGlobal('document', {})
    vi.stubGlobal('process', process)
    const thrown = thrownBy(() => createTokenProvider(options))
    vi.unstubAllGlobals()
    expect(thrown).toBeInstanceOf(ConfigurationError)
    const reason =
      'belongs on a server: anybody who opens the page could read it. ' +
      'See merchant-auth/docs/troubleshooting.md#in-client-code'
    expect(thrown).toMatchObject({
      message: expect.stringContaining('merchant-auth does not run in a browser'),
      code: 'ERR_BROWSER',
      problems: [{ option: 'clientSecret', kind: 'invalid', reason }],
    })
  })

  it('does not throw on Node.js with a document (jsdom)', () => {
    vi.stubGlobal('document', {})
    expect(thrownBy(() => createTokenProvider(options))).toBeUndefined()
    vi.unstubAllGlobals()
  })
})

describe('isMerchantAuthError', () => {
  it('recognizes the errors of another copy of the package', async () => {
    vi.resetModules()
    const copy = await import('../../src/base/errors.ts')
    const foreign = new copy.ProviderClosedError()
    expect(foreign).not.toBeInstanceOf(ProviderClosedError)
    expect(isMerchantAuthError(foreign)).toBe(true)
    expect(copy.isMerchantAuthError(closedError)).toBe(true)
  })

  it.each([new Error('other'), { code: 'ERR_TOKEN_STATUS' }, null, undefined])('rejects %s', (value) => {
    expect(isMerchantAuthError(value)).toBe(false)
  })
})

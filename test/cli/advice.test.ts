// What to do, for each kind of failure: from an error of this package to a step, a sentence and an exit code.
import { ConfigurationError, ProviderClosedError, TokenRequestError, TokenResponseError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import type { AdviceContext } from '../../src/cli/advice-network.ts'
import { diagnose } from '../../src/cli/diagnosis.ts'

const CONTEXT: AdviceContext = { host: 'auth.example:8443', connected: false }

function status(code: number, error?: string, retryAfterMs?: number): TokenRequestError {
  const failure = { code: 'ERR_TOKEN_STATUS', retryable: false, attempts: 1 } as const
  return new TokenRequestError('failed', { ...failure, status: code, error, answer: { retryAfterMs } })
}

function network(...codes: readonly string[]): TokenRequestError {
  const cause = codes.reduceRight<Error | undefined>(
    (inner, code) => Object.assign(new Error(`words of ${code}`, inner && { cause: inner }), { code }),
    undefined,
  )
  const failure = { code: 'ERR_TOKEN_NETWORK', retryable: true, attempts: 1 } as const
  return new TokenRequestError('failed', { ...failure, cause })
}

function timeout(): TokenRequestError {
  return new TokenRequestError('failed', { code: 'ERR_TOKEN_TIMEOUT', retryable: true, attempts: 1 })
}

describe('an error status', () => {
  it.each([
    [401, undefined, 'The client id or the client secret is wrong'],
    [400, 'invalid_client', 'The client id or the client secret is wrong'],
    [401, 'access_denied', 'The client id or the client secret is wrong'],
    [400, 'unauthorized_client', 'may not ask for tokens by client credentials'],
    [403, 'unauthorized_client', 'may not ask for tokens by client credentials'],
    [400, 'unsupported_grant_type', 'gives no tokens for client credentials'],
    [401, undefined, 'a list of allowed addresses'],
    [403, undefined, 'a list of allowed addresses'],
    [415, undefined, '--body-format form'],
    [400, undefined, '--body-format form'],
    [403, undefined, 'may not have a token for this audience'],
    [403, 'access_denied', 'may not have a token for this audience'],
    [400, 'invalid_target', 'may not have a token for this audience'],
    [400, 'invalid_request', '--body-format form'],
    [400, 'toString', 'Check MERCHANT_AUTH_URL, MERCHANT_AUTH_CLIENT_ID and MERCHANT_AUTH_AUDIENCE'],
    [404, undefined, 'no token endpoint at this URL'],
    [405, undefined, 'no token endpoint at this URL'],
    [408, undefined, 'in trouble, not this set-up. Try again later'],
    [500, undefined, 'in trouble, not this set-up. Try again later'],
  ])('%i with the error %s is told as it is', (code, error, advice) => {
    expect(diagnose(status(code, error), CONTEXT)).toMatchObject({
      step: 'answer',
      exitCode: 5,
      code: 'ERR_TOKEN_STATUS',
      status: code,
      advice: expect.stringContaining(advice),
    })
  })

  it('says when to try again, where the answer does', () => {
    expect(diagnose(status(429, undefined, 29_001), CONTEXT)?.advice).toBe(
      'Too many token requests were made. Try again in 30 s.',
    )
    const failure = { code: 'ERR_TOKEN_STATUS', retryable: true, attempts: 1, status: 503 } as const
    const asked = new TokenRequestError('answered 503.', {
      ...failure,
      answer: { retryAfterMs: 3_600_000 },
      retryAfterMs: 60_000, // what the package itself waits
    })
    expect(diagnose(asked, CONTEXT)?.advice).toMatch(/Try again in 3600 s\.$/)
    const own = new TokenRequestError('answered 503.', { ...failure, retryAfterMs: 1_000 })
    expect(diagnose(own, CONTEXT)?.advice).toMatch(/Try again later\.$/)
  })
})

describe('no answer', () => {
  it.each([
    [['ENOTFOUND'], 'name', 'Check the spelling'],
    [['EAI_AGAIN'], 'name', 'The name server gave no answer'],
    [['ECONNREFUSED'], 'connection', 'Nothing listens on auth.example:8443'],
    [['ECONNRESET'], 'connection', 'The connection was cut'],
    [['EHOSTUNREACH'], 'connection', 'There is no way to this host'],
    [['ENETUNREACH'], 'connection', 'There is no way to this network'],
    [['ETIMEDOUT'], 'connection', 'The host does not answer'],
    [['UND_ERR_CONNECT_TIMEOUT'], 'connection', 'The host does not answer'],
    [['EWHATEVER'], 'connection', 'Check the URL, the network'],
    [['toString'], 'connection', 'Check the URL, the network'],
    [[], 'connection', 'Check the URL, the network'],
    [['CERT_HAS_EXPIRED'], 'tls', 'has expired'],
    [['CERT_NOT_YET_VALID'], 'tls', 'not valid yet'],
    [['CERT_REVOKED'], 'tls', 'was revoked'],
    [['ERR_TLS_CERT_ALTNAME_INVALID'], 'tls', 'for other names than auth.example:8443'],
    [['SELF_SIGNED_CERT_IN_CHAIN'], 'tls', 'NODE_EXTRA_CA_CERTS'],
    [['UNABLE_TO_VERIFY_LEAF_SIGNATURE'], 'tls', 'NODE_EXTRA_CA_CERTS'],
    [['ERR_SSL_WRONG_VERSION_NUMBER'], 'tls', 'does not speak TLS'],
    [['EPROTO'], 'tls', 'does not speak TLS'],
    [['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION'], 'tls', 'client certificate (mutual TLS)'],
  ])('with the code %j is a matter of the %s', (codes, step, advice) => {
    const diagnosis = diagnose(network(...codes), CONTEXT)
    expect(diagnosis).toMatchObject({ step, exitCode: 4, advice: expect.stringContaining(advice) })
    expect(diagnosis?.cause).toBe(codes[0])
  })

  it('on a connection is a matter of the answer, whatever the code', () => {
    for (const code of ['ECONNRESET', 'UND_ERR_SOCKET', 'EWHATEVER']) {
      expect(diagnose(network(code), { ...CONTEXT, connected: true })).toMatchObject({
        step: 'answer',
        cause: code,
      })
    }
  })

  it('has the words of the last cause where a code says little', () => {
    expect(diagnose(network('UND_ERR_ABORTED', 'E2'), CONTEXT)).toMatchObject({
      text: 'no connection to auth.example:8443 (UND_ERR_ABORTED: words of E2)',
      cause: 'UND_ERR_ABORTED',
    })
  })

  it('by a proxy that was reached tells its answer from the fault of the far side', () => {
    const there = { ...CONTEXT, proxy: { host: 'proxy.example:3128', connected: true } }
    const answered = (status: number): TokenRequestError =>
      new TokenRequestError('failed', {
        code: 'ERR_TOKEN_NETWORK',
        retryable: true,
        attempts: 1,
        cause: Object.assign(
          new Error('aborted', { cause: new Error(`Proxy response (${status}) !== 200`) }),
          {
            code: 'UND_ERR_ABORTED',
          },
        ),
      })
    expect(diagnose(answered(407), there)?.advice).toContain('the user name and the password')
    expect(diagnose(answered(403), there)?.advice).toContain('does not allow this host')
    for (const status of [502, 503, 504]) {
      expect(diagnose(answered(status), there)?.advice).toContain('does not reach this host')
    }
    expect(diagnose(network('CERT_HAS_EXPIRED'), there)).toMatchObject({ step: 'tls' })
    expect(diagnose(network('UNABLE_TO_VERIFY_LEAF_SIGNATURE'), there)?.advice).toContain(
      'NODE_EXTRA_CA_CERTS',
    )
  })

  it('by a proxy names the proxy', () => {
    const there = { ...CONTEXT, proxy: { host: 'proxy.example:3128', connected: true } }
    expect(diagnose(network('UND_ERR_ABORTED'), there)?.text).toMatch(
      /^the proxy proxy\.example:3128 made no/,
    )
    expect(diagnose(timeout(), there)?.text).toMatch(/^the proxy proxy\.example:3128 made no/)
    const gone = { ...CONTEXT, proxy: { host: 'proxy.example:3128', connected: false } }
    expect(diagnose(network('ENOTFOUND'), gone)).toMatchObject({
      step: 'connection',
      text: 'no connection to the proxy proxy.example:3128 (ENOTFOUND)',
    })
  })

  it('in time tells whether there was a connection', () => {
    expect(diagnose(timeout(), CONTEXT)).toMatchObject({ step: 'connection', exitCode: 4 })
    expect(diagnose(timeout(), { ...CONTEXT, connected: true })).toMatchObject({
      step: 'answer',
      exitCode: 4,
    })
    expect(diagnose(timeout(), { ...CONTEXT, proxyHint: 'A hint.' })?.advice).toMatch(/ A hint\.$/)
  })
})

describe('other failures', () => {
  it('have an exit code by what is wrong', () => {
    const options = new ConfigurationError('wrong', [{ option: 'a', reason: 'b' }])
    expect(diagnose(options, CONTEXT)).toMatchObject({ step: 'options', exitCode: 3, text: 'a: b' })
    const secret = new TokenRequestError('failed', {
      code: 'ERR_CLIENT_SECRET',
      retryable: true,
      attempts: 1,
      cause: new Error('hung'),
    })
    expect(diagnose(secret, CONTEXT)).toMatchObject({
      step: 'options',
      exitCode: 3,
      text: 'the client secret could not be read (hung)',
    })
    const redirect = new TokenRequestError('failed', {
      code: 'ERR_TOKEN_REDIRECT',
      retryable: false,
      attempts: 1,
      status: 302,
    })
    expect(diagnose(redirect, CONTEXT)).toMatchObject({ step: 'answer', exitCode: 5 })
    const field = new TokenResponseError('wrong', [{ field: 'expires_in', reason: 'must be there' }])
    expect(diagnose(field, CONTEXT)).toMatchObject({
      step: 'token',
      exitCode: 6,
      advice: expect.stringContaining('§5.1'),
    })
    expect(diagnose(new ProviderClosedError(), CONTEXT)).toMatchObject({ exitCode: 1 })
    expect(diagnose(new Error('another'), CONTEXT)).toBeUndefined()
  })
})

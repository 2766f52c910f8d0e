// `check` if the token request fails: the step, the exit code and the advice for each kind of failure.
import { channel } from 'node:diagnostics_channel'
import dns from 'node:dns'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Finding } from '../../src/cli/report.ts'
import { kindsIn, stepIn } from '../support/failures.ts'
import { certificate, startHttps } from './certificates.ts'
import { check, eachWithSandbox, type Variables } from './rig.ts'

const at = eachWithSandbox()

/** The kinds of an advice; where its kind has no words of its own, the step that has them. */
function kindsOf({ advice = '' }: Partial<Finding> = {}): readonly string[] {
  const kinds = kindsIn(advice)
  return kinds.length > 0 ? kinds : [stepIn(advice) ?? '']
}

describe('a failed token request', () => {
  it.each([
    ['a status', { kind: 'status', status: 503 }, 5, { step: 'response', code: 'ERR_TOKEN_STATUS' }],
    ['a reset', { kind: 'reset' }, 4, { step: 'response', code: 'ERR_TOKEN_NETWORK', cause: 'ECONNRESET' }],
    ['a truncated response', { kind: 'truncated-body' }, 4, { step: 'response', code: 'ERR_TOKEN_NETWORK' }],
  ] as const)(
    'with %s is not retried, and is reported with machine-readable codes',
    async (_, fault, code, finding) => {
      at.test.fail('token', fault)
      const outcome = await check(at)
      expect(outcome.code).toBe(code)
      expect(outcome.last).toMatchObject({ result: 'failed', ...finding })
      expect(at.test.counts.token).toBe(1)
    },
  )

  it('with an invalid response names the invalid field, and what to do', async () => {
    at.test.fail('token', { kind: 'json', body: { access_token: 'a.b.c', token_type: 'Bearer' } })
    const { code, last } = await check(at)
    expect(code).toBe(6)
    expect(last?.text).toContain('expires_in')
    expect(kindsOf(last)).toEqual(['no-lifetime'])
    at.test.fail('token', { kind: 'json', body: { expires_in: 60, token_type: 'Bearer' } })
    expect(kindsOf((await check(at)).last)).toEqual(['no-token'])
  })

  it('at the end of the life of a token that is issued until then asks to try again', async () => {
    const body = { access_token: 'a.b.c', token_type: 'Bearer', expires_in: 0 }
    at.test.fail('token', { kind: 'json', body })
    const { code, last } = await check(at)
    expect(code).toBe(6)
    expect(kindsOf(last)).toEqual(['expired-token'])
    expect(at.test.counts.token).toBe(1)
  })

  it('with an error in a 200 says what it is', async () => {
    const body = { error: 'invalid_client', error_description: 'Unknown client' }
    at.test.fail('token', { kind: 'json', body })
    const { code, last } = await check(at)
    expect(code).toBe(5)
    expect(last).toMatchObject({ step: 'response', status: 200, error: 'invalid_client' })
    expect(last?.text).toBe('the token endpoint returned 200, invalid_client: Unknown client')
    expect(kindsOf(last)).toEqual(['client'])
  })

  it('with an error of another shape says what it is, and does not guess the format', async () => {
    const body = { title: 'Unknown tenant', detail: 'No tenant of this name.' }
    at.test.fail('token', { kind: 'status', status: 400, body })
    const { last } = await check(at)
    expect(last?.text).toBe('the token endpoint returned 400, Unknown tenant: No tenant of this name.')
    expect(kindsOf(last)).toEqual(['other'])
  })

  it.each([
    [401, 'access_denied', 'client'],
    [401, undefined, 'client'],
    [401, 'unauthorized', 'client'],
    [403, undefined, 'audience'],
    [400, 'invalid_target', 'audience'],
    [400, 'unauthorized_client', 'grant'],
    [400, 'unsupported_grant_type', 'grant-type'],
    [400, 'invalid_request', 'fields'],
    [415, undefined, 'format'],
    [400, 'invalid_scope', 'scope'],
    [400, 'other', 'other'],
    [404, undefined, 'no-endpoint'],
    [405, undefined, 'no-endpoint'],
    [408, undefined, 'server'],
    [503, undefined, 'server'],
    [500, undefined, 'server-500'],
    [501, undefined, 'server-501'],
  ])('with status %i and the error %s has the advice of its kind', async (status, error, kind) => {
    at.test.fail('token', { kind: 'status', status, body: error && { error } })
    const { code, last } = await check(at)
    expect(code).toBe(5)
    expect(last).toMatchObject({ step: 'response', status })
    expect(last?.error).toBe(error)
    expect(kindsOf(last)).toEqual([kind])
  })

  it.each([
    ['Laminas', { title: 'invalid_client', status: 400, detail: 'No such client.' }, 'client'],
    ['Okta', { errorCode: 'invalid_client', errorSummary: 'Invalid value.' }, 'client'],
    ['Apigee', { ErrorCode: 'invalid_request', Error: 'Required param : grant_type' }, 'format'],
    ['plain text', 'Missing parameter: grant_type', 'format'],
  ])('with an OAuth error in the shape of %s has the advice for that error', async (_, body, kind) => {
    at.test.fail('token', { kind: 'status', status: 400, body })
    expect(kindsOf((await check(at)).last)).toEqual([kind])
  })

  it('suggests a form, but not where a form was sent', async () => {
    at.test.fail('token', { kind: 'status', status: 400 }, { times: 2 })
    const json = await check(at)
    const form = await check(at, ['--body-format', 'form'])
    for (const { last } of [json, form]) expect(kindsOf(last)).toEqual(['fields'])
    expect(json.last?.advice).toContain('MERCHANT_AUTH_BODY_FORMAT=form')
    expect(form.last?.advice).not.toContain('=form')
  })

  it.each([
    [429, 30, 'too-many', ' in 30 s'],
    [503, 3_600, 'server', ' in 3600 s'], // longer than the package itself waits
    [503, 100_000, 'server', ' in more than a day'],
  ])('with status %i and Retry-After: %i says when to try again', async (status, retryAfter, kind, when) => {
    at.test.fail('token', { kind: 'status', status, retryAfter, body: { error: 'access_denied' } })
    const { last } = await check(at)
    expect(kindsOf(last)).toEqual([kind])
    expect(last?.advice).toContain(when)
  })
})

describe('a token request without a response', () => {
  afterEach(() => vi.unstubAllGlobals())

  /** What undici reports: the host, whether it was connected, and whether the request was sent. */
  interface Reported {
    readonly proxy?: readonly [host: string, connected: boolean]
    readonly sent?: boolean
  }
  const PROXY = ['proxy.example:3128', true] as const

  /** Runs check with a fetch that fails with a chain of causes that have these codes. */
  async function checkFailing(
    causes: readonly (string | Error)[],
    { proxy, sent = false }: Reported = {},
    changed: Variables = { NODE_USE_ENV_PROXY: '1' },
  ) {
    vi.stubGlobal('fetch', async (url: string) => {
      if (proxy !== undefined) {
        const name = proxy[1] ? 'undici:client:connected' : 'undici:client:connectError'
        channel(name).publish({ connectParams: { host: proxy[0] } })
      }
      if (sent) channel('undici:client:sendHeaders').publish({ request: new URL(url), socket: {} })
      const cause = causes.reduceRight<Error | undefined>(causedBy, undefined)
      throw new TypeError('fetch failed', { cause })
    })
    return await check(at, ['--auth-url', 'https://auth.example:8443'], changed)
  }

  function causedBy(cause: Error | undefined, code: string | Error): Error {
    if (code instanceof Error) return code
    return Object.assign(new Error(`words of ${code}`, cause && { cause }), { code })
  }

  it.each([
    ['EAI_AGAIN', 'name', 'no-dns'],
    ['ENOTFOUND', 'name', 'unknown-host'],
    ['ECONNREFUSED', 'connection', 'nothing-listens'],
    ['ECONNRESET', 'connection', 'connection'],
    ['EHOSTUNREACH', 'connection', 'connection'],
    ['UND_ERR_CONNECT_TIMEOUT', 'connection', 'connection'],
    ['EWHATEVER', 'connection', 'unknown'],
    ['CERT_NOT_YET_VALID', 'tls', 'certificate'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls', 'certificate'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls', 'unknown-authority'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls', 'no-tls'],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'tls', 'tls'],
  ])('with the code %s fails at the step %s', async (cause, step, kind) => {
    const { code, last } = await checkFailing([cause])
    expect(code).toBe(4)
    expect(last).toMatchObject({ step, cause })
    expect(kindsOf(last)).toContain(kind)
    expect(last?.text).toContain(`auth.example:8443 (words of ${cause})`)
    if (step !== 'connection') return
    const sent = await checkFailing([cause], { sent: true })
    expect(sent.last).toMatchObject({ step: 'response', cause })
    expect(kindsOf(sent.last)).toEqual(['broken-off'])
  })

  it.each([
    ['UND_ERR_HEADERS_OVERFLOW', 'response', 'cannot be read', 'headers-too-large'],
    ['HPE_INVALID_HEADER_TOKEN', 'response', 'cannot be read', 'response'],
    ['Z_DATA_ERROR', 'response', 'cannot be read', 'encoding'],
    ['UND_ERR_INVALID_ARG', 'connection', 'was not sent', 'other-undici'],
  ])('with the code %s says that each request fails, at the step %s', async (cause, step, text, kind) => {
    for (const sent of [true, false]) {
      const { code, last } = await checkFailing([cause], { sent })
      expect(code).toBe(4)
      expect(last).toMatchObject({ step, cause, text: expect.stringContaining(text) })
      expect(kindsOf(last)).toEqual([kind])
    }
  })

  it('has the reason for each address of a host', async () => {
    const errors = ['connect ENETUNREACH 2001:db8::1:443', 'connect ETIMEDOUT 203.0.113.1:443']
    const cause = Object.assign(new AggregateError(errors.map((text) => new Error(text))), {
      code: 'ETIMEDOUT',
    })
    const { last } = await checkFailing([cause])
    expect(last?.text).toContain(`(${errors.join('; ')})`)
    expect(kindsOf(last)).toEqual(['one-of-several-addresses'])
  })

  it('names what returned no Response', async () => {
    vi.stubGlobal('fetch', async () => ({ ok: true }))
    const { code, last } = await check(at)
    expect([code, last?.step]).toEqual([4, 'response'])
    expect(last?.text).toContain('the global fetch returned something else')
    expect(kindsIn(last?.text ?? '')).toEqual(['no-response-object'])
  })

  const SET_BOTH = /If this network requires a proxy, set HTTPS_PROXY and NODE_USE_ENV_PROXY=1\.$/
  const SET_OTHER =
    /HTTPS_PROXY is set, but Node\.js .* need NODE_USE_ENV_PROXY=1 in the environment\. .*NO_PROXY\.$/
  it.each([
    [undefined, '192.0.2.1', SET_BOTH],
    ['http://127.0.0.1:1', '192.0.2.1', SET_OTHER],
    ['http://127.0.0.1:1', '127.0.0.1', /^(?!.*PROXY)/],
  ])(
    'suggests a proxy if it times out before it connects: HTTPS_PROXY=%s, to %s',
    async (HTTPS_PROXY, host, advice) => {
      vi.stubGlobal('fetch', () => new Promise(() => {}))
      const args = ['--timeout-ms', '50', '--auth-url', `https://${host}`]
      const { code, last } = await check(at, args, { HTTPS_PROXY })
      expect(code).toBe(4)
      expect(last).toMatchObject({ step: 'connection', advice: expect.stringMatching(advice) })
      expect(kindsOf(last)).toEqual(['no-connection-in-time'])
      expect(last?.text).toBe(`no connection to ${host} in time`)
    },
  )

  it('names the DNS server if the name is not resolved in time', async () => {
    using _ = vi.spyOn(dns, 'lookup').mockImplementation((() => {}) as never)
    vi.stubGlobal('fetch', () => new Promise(() => {}))
    const { code, steps, last } = await check(at, [
      '--timeout-ms',
      '50',
      '--auth-url',
      'https://auth.example',
    ])
    expect([code, steps.map(({ step }) => step)]).toEqual([4, ['options', 'name']])
    expect(last?.text).toBe('cannot resolve auth.example in time')
    expect(kindsOf(last)).toEqual(['no-dns'])
  })

  it.each([
    ['http://127.0.0.1:4000', true],
    ['http://localhost:4000', true],
    ['https://auth.example:4000', false],
  ])('asks whether the sandbox is running if nothing listens at %s', async (url, isLocal) => {
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('fetch failed', { cause })))
    const { code, last } = await check(at, ['--auth-url', url])
    expect(code).toBe(4)
    expect(last).toMatchObject({ step: 'connection', cause: 'ECONNREFUSED' })
    expect(kindsOf(last)).toEqual([isLocal ? 'nothing-listens-here' : 'nothing-listens'])
  })

  it('distinguishes a failure behind a proxy from a proxy that cannot be reached', async () => {
    const sent = await checkFailing(['ECONNRESET'], { proxy: PROXY, sent: true })
    expect(sent.last).toMatchObject({ step: 'response' })
    expect((await checkFailing(['ENOTFOUND'], { proxy: ['proxy.example:3128', false] })).last).toMatchObject({
      step: 'connection',
      text: 'cannot connect to the proxy proxy.example:3128 (words of ENOTFOUND)',
    })
  })

  it('fails at the response step if the server closes the connection because it expects TLS', async () => {
    const port = await startHttps(await certificate('localhost'))
    const { code, last } = await check(at, ['--auth-url', `http://localhost:${port}`])
    expect(code).toBe(4)
    expect(last).toMatchObject({ step: 'response', cause: 'UND_ERR_SOCKET' })
    expect(kindsOf(last)).toEqual(['broken-off'])
  })
})

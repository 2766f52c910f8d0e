// `check` if the token request fails: the step, the exit code and the advice for each kind of failure.
import { channel } from 'node:diagnostics_channel'
import dns from 'node:dns'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { certificate, startHttps } from './certificates.ts'
import { check, eachWithSandbox, type Variables } from './rig.ts'

const at = eachWithSandbox()

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

  it('with an invalid response names the invalid field, and what to do or the RFC section', async () => {
    at.test.fail('token', { kind: 'json', body: { access_token: 'a.b.c', token_type: 'Bearer' } })
    const { code, last } = await check(at)
    expect(code).toBe(6)
    expect(last?.text).toContain('expires_in')
    expect(last?.advice).toContain('option fetch')
    at.test.fail('token', { kind: 'json', body: { expires_in: 60, token_type: 'Bearer' } })
    expect((await check(at)).last?.advice).toContain('RFC 6749 §5.1')
  })

  it('at the end of the life of a token that is issued until then asks to try again', async () => {
    const body = { access_token: 'a.b.c', token_type: 'Bearer', expires_in: 0 }
    at.test.fail('token', { kind: 'json', body })
    const { code, last } = await check(at)
    expect(code).toBe(6)
    expect(last?.advice).toContain('Try again in a second.')
    expect(at.test.counts.token).toBe(1)
  })

  it('with an error in a 200 says what it is', async () => {
    const body = { error: 'invalid_client', error_description: 'Unknown client' }
    at.test.fail('token', { kind: 'json', body })
    const { code, last } = await check(at)
    expect(code).toBe(5)
    expect(last).toMatchObject({ step: 'response', status: 200, error: 'invalid_client' })
    expect(last?.text).toBe('the token endpoint returned 200, invalid_client: Unknown client')
    expect(last?.advice).toContain(CLIENT)
  })

  it('with an error of another shape says what it is, and does not guess the format', async () => {
    const body = { title: 'Unknown tenant', detail: 'No tenant of this name.' }
    at.test.fail('token', { kind: 'status', status: 400, body })
    const { last } = await check(at)
    expect(last?.text).toBe('the token endpoint returned 400, Unknown tenant: No tenant of this name.')
    expect(last?.advice).not.toContain(FORMAT)
  })

  it('at a missing path says that the command cannot use the fetch of a program', async () => {
    at.test.fail('token', { kind: 'status', status: 404 })
    expect((await check(at)).last?.advice).toContain('option fetch, which the command cannot use')
  })

  const CLIENT = 'The token endpoint rejects the client ID or the client secret'
  const AUDIENCE = 'may not request a token for this audience'
  const BETWEEN =
    'path or a slash at its end (check MERCHANT_AUTH_URL, and docs/another-token-endpoint.md), or from something in between'
  const FORMAT = '--body-format form'
  const NO_ENDPOINT = 'There is no token endpoint at this URL'
  const SERVICE = 'The token endpoint, or what is in front of it, is in trouble. Try again later.'
  const NOT_ALLOWED = 'may not use the client credentials grant'
  it.each([
    [401, 'access_denied', CLIENT],
    [400, 'unauthorized_client', NOT_ALLOWED],
    [400, 'unsupported_grant_type', 'does not support the client credentials grant'],
    [401, undefined, BETWEEN],
    [401, 'unauthorized', BETWEEN],
    [403, undefined, BETWEEN],
    [415, undefined, FORMAT],
    [400, 'invalid_request', FORMAT],
    [403, undefined, AUDIENCE],
    [400, 'invalid_target', AUDIENCE],
    [400, 'other', 'check MERCHANT_AUTH_URL, the client ID and its secret'],
    [404, undefined, NO_ENDPOINT],
    [405, undefined, NO_ENDPOINT],
    [400, 'invalid_scope', '--token-parameter'],
    [408, undefined, SERVICE],
  ])('with status %i and the error %s has its own advice', async (status, error, advice) => {
    at.test.fail('token', { kind: 'status', status, body: error && { error } })
    const { code, last } = await check(at)
    expect(code).toBe(5)
    expect(last).toMatchObject({ step: 'response', status, advice: expect.stringContaining(advice) })
    expect(last?.error).toBe(error)
  })

  it.each([
    ['Laminas', { title: 'invalid_client', status: 400, detail: 'No such client.' }, CLIENT],
    ['Okta', { errorCode: 'invalid_client', errorSummary: 'Invalid value.' }, CLIENT],
    ['Apigee', { ErrorCode: 'invalid_request', Error: 'Required param : grant_type' }, FORMAT],
    ['plain text', 'Missing parameter: grant_type', FORMAT],
  ])('with an OAuth error in the shape of %s has the advice for that error', async (_, body, advice) => {
    at.test.fail('token', { kind: 'status', status: 400, body })
    expect((await check(at)).last?.advice).toContain(advice)
  })

  it.each([
    [401, 'access_denied'],
    [400, 'invalid_target'],
  ])('with status %i and the OAuth error %s is one of the token endpoint itself', async (status, error) => {
    at.test.fail('token', { kind: 'status', status, body: { error } })
    expect((await check(at)).last?.advice).not.toContain(BETWEEN)
  })

  it('does not suggest a form where a form was sent', async () => {
    at.test.fail('token', { kind: 'status', status: 400 })
    const { last } = await check(at, ['--body-format', 'form'])
    expect(last?.advice).toBe(
      'The token endpoint does not accept the request: its form, a field that it requires (--token-parameter NAME=VALUE), or the ' +
        'client ID and its secret or assertion. Check these, and MERCHANT_AUTH_URL.',
    )
  })

  it.each([
    [429, 30, 'Too many tokens were requested. Try again in 30 s.'],
    [503, 3_600, 'Try again in 3600 s.'], // longer than the package itself waits
    [503, 100_000, 'Try again in more than a day.'],
  ])('with status %i and Retry-After: %i says when to try again', async (status, retryAfter, advice) => {
    at.test.fail('token', { kind: 'status', status, retryAfter, body: { error: 'access_denied' } })
    expect((await check(at)).last?.advice).toContain(advice)
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
    ['EAI_AGAIN', 'name', 'The DNS server did not respond'],
    ['ECONNRESET', 'connection', 'The connection was reset'],
    ['EHOSTUNREACH', 'connection', 'no route to this host'],
    ['UND_ERR_CONNECT_TIMEOUT', 'connection', 'The host does not respond'],
    ['EWHATEVER', 'connection', 'check the URL, the network'],
    ['CERT_NOT_YET_VALID', 'tls', 'not valid yet'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls', 'for another host name'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls', 'NODE_EXTRA_CA_CERTS'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls', 'does not speak TLS'],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'tls', 'client certificate (mutual TLS)'],
  ])('with the code %s fails at the step %s', async (cause, step, advice) => {
    const { code, last } = await checkFailing([cause])
    expect(code).toBe(4)
    expect(last).toMatchObject({ step, cause, advice: expect.stringContaining(advice) })
    expect(last?.text).toContain(`auth.example:8443 (words of ${cause})`)
    if (step !== 'connection') return
    const sent = await checkFailing([cause], { sent: true })
    const closed = expect.stringMatching(/https:.*mutual TLS/)
    expect(sent.last).toMatchObject({ step: 'response', cause, advice: closed })
  })

  it.each([
    ['UND_ERR_HEADERS_OVERFLOW', 'response', 'cannot be read', '--max-http-header-size'],
    ['HPE_INVALID_HEADER_TOKEN', 'response', 'cannot be read', 'not valid HTTP'],
    ['Z_DATA_ERROR', 'response', 'cannot be read', 'Content-Encoding'],
    ['UND_ERR_INVALID_ARG', 'connection', 'was not sent', 'dispatcher'],
  ])('with the code %s says that each request fails, at the step %s', async (cause, step, text, advice) => {
    for (const sent of [true, false]) {
      const { code, last } = await checkFailing([cause], { sent })
      expect(code).toBe(4)
      expect(last).toMatchObject({ step, cause, text: expect.stringContaining(text) })
      expect(last?.advice).toContain(advice)
    }
  })

  it('has the reason for each address of a host', async () => {
    const errors = ['connect ENETUNREACH 2001:db8::1:443', 'connect ETIMEDOUT 203.0.113.1:443']
    const cause = Object.assign(new AggregateError(errors.map((text) => new Error(text))), {
      code: 'ETIMEDOUT',
    })
    const { last } = await checkFailing([cause])
    expect(last?.text).toContain(`(${errors.join('; ')})`)
    expect(last?.advice).toContain('--network-family-autoselection-attempt-timeout')
  })

  it('names what returned no Response', async () => {
    vi.stubGlobal('fetch', async () => ({ ok: true }))
    const { code, last } = await check(at)
    expect([code, last?.step]).toEqual([4, 'response'])
    expect(last?.text).toContain('the function of the global fetch returned something that is not a Response')
  })

  const SET_BOTH = /If this network requires a proxy, set HTTPS_PROXY and NODE_USE_ENV_PROXY=1\.$/
  const SET_OTHER =
    /HTTPS_PROXY is set, but Node\.js .* need NODE_USE_ENV_PROXY=1 in the environment\. .*NO_PROXY\.$/
  it.each([
    [undefined, '192.0.2.1', SET_BOTH],
    ['http://127.0.0.1:1', '192.0.2.1', SET_OTHER],
    ['http://127.0.0.1:1', '127.0.0.1', /may not speak TLS\.$/],
  ])(
    'suggests a proxy if it times out before it connects: HTTPS_PROXY=%s, to %s',
    async (HTTPS_PROXY, host, advice) => {
      vi.stubGlobal('fetch', () => new Promise(() => {}))
      const args = ['--timeout-ms', '50', '--auth-url', `https://${host}`]
      const { code, last } = await check(at, args, { HTTPS_PROXY })
      expect(code).toBe(4)
      expect(last).toMatchObject({ step: 'connection', advice: expect.stringMatching(advice) })
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
    expect(last?.advice).toContain('DNS server')
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
    expect(last?.advice?.includes('a new port and a new secret')).toBe(isLocal)
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
    expect(last?.advice).toContain('https:')
  })
})

import { inspect } from 'node:util'
import { type TokenProviderOptions, TokenResponseError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import {
  type Answer,
  breaksOff,
  deaf,
  ENVIRONMENT,
  failed,
  granted,
  noConnection,
  rejection,
  rig,
  SECRET,
  status,
} from './harness.ts'

const WHERE = 'POST https://auth.test.example/oauth/token'

/** What a call without retries rejects with after `waitedMs`. */
const failure = (answer: Answer, options: Partial<TokenProviderOptions> = {}, waitedMs = 0) =>
  failed(rig([answer], { retries: 0, ...options }), waitedMs)

const text = (body: string, type = 'application/json'): Answer => {
  return () => new Response(body, { headers: { 'content-type': type } })
}

const TOKEN = 'must be a non-empty string of the characters of a bearer token (RFC 6750 §2.1)'
const EXPIRES = 'must be a positive whole number of seconds'
const BEARER = 'must be Bearer'
const TOO_LONG = 'must not be longer than 65536 bytes'

/** Expects the answer to be rejected without a retry, with an error that names each field and the reason. */
async function expectIssues(answer: Answer, issues: Record<string, string>): Promise<void> {
  const made = rig([answer])
  const error = await failed<TokenResponseError>(made, 900)
  expect(error).toBeInstanceOf(TokenResponseError)
  expect(error).toMatchObject({ code: 'ERR_TOKEN_RESPONSE', name: 'TokenResponseError' })
  expect(error.issues).toEqual(Object.entries(issues).map(([field, reason]) => ({ field, reason })))
  const named = Object.entries(issues).map((issue) => issue.join(' '))
  expect(error.message).toBe(`${WHERE} returned no token response: ${named.join('; ')}. Check authUrl.`)
  expect([made.endpoint.count, made.provider.currentToken()]).toEqual([1, undefined])
}

describe('expires_in', () => {
  it.each([
    [1, 1],
    ['007', 7],
    [315_360_000, 315_360_000],
    [999_999_999_999, 315_360_000], // ten years at most: a later date does not exist
  ])('of %j is accepted as %i s', async (expires_in, seconds) => {
    const { provider, clock } = rig([granted({ expires_in })])
    expect((await provider.getToken()).expiresAt).toBe(clock.epochMs() + seconds * 1_000)
  })

  it.each([undefined, 0, '0', 3_600.5, '-1', ' 3600 ', '0x10', '٣٦', [3_600]])(
    'of %j is rejected, and the error names it',
    async (expires_in) => {
      await expectIssues(granted({ expires_in }), { expires_in: EXPIRES })
    },
  )
})

describe('access_token', () => {
  it.each(['a', 'AZaz09-._~+/', 'abc=='])('of %s is accepted', async (access_token) => {
    const { provider } = rig([granted({ access_token })])
    expect((await provider.getToken()).value).toBe(access_token)
  })

  it.each([undefined, '', 'abcdef\n', 'abc\tdef', 'abc,def', ' abc', '==='])(
    'of %j is rejected, and the error names it',
    async (access_token) => {
      await expectIssues(granted({ access_token }), { access_token: TOKEN })
    },
  )
})

describe('token_type and scope', () => {
  it.each([undefined, '', 'mac', 'Bearer ', 'xBearer', ['Bearer']])(
    'token_type %j is rejected',
    (token_type) => expectIssues(granted({ token_type }), { token_type: BEARER }),
  )

  const LONG = Array.from({ length: 6_000 }, (_, n) => `scope:${n}`).join(' ') // 64 KiB is the limit

  it.each([['merchant'], [''], [LONG], [undefined]])('scope %.20j is passed on unchanged', async (scope) => {
    expect((await rig([granted({ scope })]).provider.getToken()).scope).toBe(scope)
  })

  it('a secret in a scope is hidden', async () => {
    const access_token = 'head.body.signature'
    const { provider } = rig([granted({ access_token, scope: `${LONG} ${access_token}` })])
    expect((await provider.getToken()).scope).toBe(`${LONG} [hidden]`)
  })

  it('the error names every invalid field', async () => {
    const bad = granted({ access_token: '', expires_in: 0, token_type: 'mac' })
    await expectIssues(bad, { access_token: TOKEN, expires_in: EXPIRES, token_type: BEARER })
  })
})

describe('the token response', () => {
  const VALID = '{"access_token":"a.b.c","token_type":"Bearer","expires_in":3600}'

  it.each([
    ['a byte order mark', text(`\uFEFF${VALID}`)],
    ['status 201', () => new Response(VALID, { status: 201 })],
    ['exactly 64 KiB', text(VALID.padEnd(65_536))],
  ])('with %s is accepted', async (_, answer) => {
    await expect(rig([answer]).provider.getToken()).resolves.toBeDefined()
  })

  it('is decoded as a whole, wherever its chunks end', async () => {
    const body = new TextEncoder().encode(VALID.replace('}', ',"scope":"händler"}'))
    const chunks: Answer = () =>
      new Response(ReadableStream.from(Array.from(body, (byte) => Uint8Array.of(byte))))
    expect((await rig([chunks]).provider.getToken()).scope).toBe('händler')
  })

  it.each(['<html>', 'null', '[]', '"a.b.c"'])('that is not a JSON object is rejected: %s', (body) =>
    expectIssues(text(body), { body: 'must be a JSON object' }),
  )

  it('is rejected and its body canceled after 64 KiB', async () => {
    let pulled = 0
    const cancelled = vi.fn()
    const endless: Answer = () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            pulled += 1
            controller.enqueue(new Uint8Array(16 * 1024))
          },
          cancel: cancelled,
        }),
      )
    await expectIssues(endless, { body: TOO_LONG })
    expect(pulled).toBeLessThan(10)
    expect(cancelled).toHaveBeenCalledTimes(1)
  })

  it('is not echoed in the error', async () => {
    const { provider } = rig([text('{"access_token":"eyJ0b2tlbg.body.sig" oops')])
    expect(inspect(await rejection(provider.getToken()), { depth: 9 })).not.toContain('eyJ0b2tlbg')
  })
})

describe('an error response (RFC 6749)', () => {
  it('becomes a TokenRequestError with error and errorDescription, in which an echoed secret is hidden', async () => {
    const body = { error: 'invalid_client', error_description: `Unknown client (${SECRET}).` }
    expect(await failure(status(401, body))).toMatchObject({
      name: 'TokenRequestError',
      code: 'ERR_TOKEN_STATUS',
      status: 401,
      error: 'invalid_client',
      errorDescription: 'Unknown client ([hidden]).',
      attempts: 1,
      retryable: false,
    })
  })

  it.each([
    ['null', 'null'],
    ['numbers', { error: 5, error_description: {} }],
    ['empty strings', { error: '', error_description: '' }],
    ['nothing', ''],
    ['100 000 characters', 'x'.repeat(100_000)],
  ])('is reported with its status alone if it has %s in its body', async (_, body) => {
    const error = await failure(status(400, body))
    expect(error).toMatchObject({ status: 400, code: 'ERR_TOKEN_STATUS' })
    expect(error.error).toBeUndefined()
    expect(error.errorDescription).toBeUndefined()
  })

  it('has its description shortened and put on one line', async () => {
    const error = await failure(
      status(400, { error: 'x', error_description: `a\r\nb\u0007${'c'.repeat(9_999)}` }),
    )
    expect(error.errorDescription).toMatch(/^a b c+…$/)
    expect(error.errorDescription?.length).toBe(300)
  })
})

const FORMAT =
  "Check authUrl, clientId and audience. A server that takes a form instead of JSON needs bodyFormat: 'form'."
const oauth = (error?: string, error_description?: string) => ({ error, error_description })

describe('the error message for a status', () => {
  const CHECK = 'Check authUrl, clientId and audience.'
  const TROUBLE = 'The token endpoint is in trouble: try again later.'
  const AUDIENCE = 'Check that this client may ask for this audience.'
  const GRANT = 'Ask the service to allow this client the client credentials grant.'
  it.each([
    [400, '', '400', FORMAT],
    [415, '', '415', FORMAT],
    [400, oauth('unsupported_grant_type'), '400 (unsupported_grant_type)', FORMAT],
    [400, oauth('invalid_request', 'No audience.'), '400 (invalid_request: No audience.)', FORMAT],
    [400, oauth(undefined, 'No audience.'), '400 (No audience.)', FORMAT],
    [400, oauth('', ''), '400', FORMAT],
    [400, oauth('invalid_scope'), '400 (invalid_scope)', CHECK],
    [404, '<html>', '404', CHECK],
    [499, '', '499', CHECK],
    [401, '', '401', 'Check authUrl, clientId and clientSecret.'],
    [401, oauth('access_denied'), '401 (access_denied)', 'Check authUrl, clientId and clientSecret.'],
    [400, oauth('invalid_client'), '400 (invalid_client)', 'Check authUrl, clientId and clientSecret.'],
    [403, '', '403', AUDIENCE],
    [400, oauth('access_denied'), '400 (access_denied)', AUDIENCE],
    [400, oauth('invalid_target'), '400 (invalid_target)', AUDIENCE],
    [403, oauth('unauthorized_client'), '403 (unauthorized_client)', GRANT],
    [408, '', '408', TROUBLE],
    [500, '', '500', TROUBLE],
    [503, '', '503', TROUBLE],
  ])('of %i with %j names the answer and what to do', async (code, body, answered, advice) => {
    expect((await failure(status(code, body))).message).toBe(`${WHERE} returned ${answered}. ${advice}`)
  })

  it.each([400, 415])('of %i to a form request does not suggest bodyFormat', async (code) => {
    const error = await failure(status(code, oauth('invalid_request')), { bodyFormat: 'form' })
    expect(error.message).toBe(`${WHERE} returned ${code} (invalid_request). ${CHECK}`)
  })

  it('includes the Retry-After of the endpoint', async () => {
    const error = await failure(status(429, oauth('slow_down'), { 'retry-after': '45' }))
    expect(error.message).toBe(
      `${WHERE} returned 429 (slow_down). It asks for a pause of 45000 ms. Too many token requests: try again later ` +
        '(merchant-auth/docs/troubleshooting.md#429-from-the-token-endpoint). ' +
        'The token endpoint is not asked again for 45000 ms, until 2026-01-01T00:00:45.000Z.',
    )
  })

  it('names the spent quotas and when they are full again', async () => {
    const spent = (headers: Record<string, string>) => failure(status(429, '', headers))
    const one = await spent({ 'Auth0-Client-Quota-Limit': 'b=per_hour;q=10;r=0;t=1800' })
    expect(one.message).toContain(
      'The quota per_hour has 0 of 10 token requests left; it is full again in 1800 s.',
    )
    const two = await spent({ ratelimit: '"burst";r=0, "day";r=0' })
    expect(two.message).toContain(
      'The quota burst has 0 token requests left. The quota day has 0 token requests left.',
    )
  })

  it.each([
    ['https://x.example/?secret', '', ' to https://x.example'],
    ['/login', 'https://idp.example/oauth/token', ' to https://idp.example'],
    ['/login', '', ''], // a stubbed response has no URL to resolve the location against
    ['https://[', '', ''],
    [`https://${'x'.repeat(60)}.${'y'.repeat(60)}`, '', ` to https://${'x'.repeat(60)}.${'y'.repeat(31)}`],
    [undefined, 'https://idp.example/oauth/token', ''],
  ])(
    'that redirects to %j names the origin and says that redirects are not followed',
    async (location, url, to) => {
      const headers: Record<string, string> = location === undefined ? {} : { location }
      const answer = async () =>
        Object.defineProperty(await status(307, '', headers)({}), 'url', { value: url })
      expect((await failure(answer)).message).toBe(
        `${WHERE} returned a redirect${to}, which is never followed: it would forward the credentials. Check authUrl.`,
      )
    },
  )
})

describe('the error message without a complete response', () => {
  const nameless = () => Promise.reject(new TypeError('fetch failed'))
  const NETWORK = 'Check authUrl and the network.'
  const INCOMPLETE = 'Try again later, or check the network, proxies and firewalls.'
  const SLOW = 'The token endpoint hangs or is slow: try again later, or raise timeoutMs.'

  it.each<[string, Answer, number?]>([
    [`received no response (ECONNREFUSED). ${NETWORK}`, noConnection],
    [`received no response. ${NETWORK}`, nameless],
    [`received an incomplete response (ECONNRESET). ${INCOMPLETE}`, breaksOff()],
    [`returned no response within 10000 ms. ${SLOW}`, deaf],
    [`returned no response within 801 ms. ${SLOW}`, deaf, 801],
  ])('%s', async (message, answer, timeoutMs) => {
    const error = await failure(answer, { timeoutMs }, timeoutMs ?? 10_000)
    expect(error.message).toBe(`${WHERE} ${message}`)
  })

  it.each(['http://127.0.0.1:4000', 'http://localhost:4000', 'http://[::1]:4000'])(
    'suggests the sandbox if nothing listens at %s',
    async (authUrl) => {
      const error = await failure(noConnection, { environment: { ...ENVIRONMENT, authUrl } })
      expect(error.message).toBe(
        `POST ${authUrl}/oauth/token received no response (ECONNREFUSED). Nothing listens on this port: check authUrl. ` +
          'If it is the sandbox, is it running? Each start has a new port and a new secret.',
      )
    },
  )

  it('does not suggest the sandbox if a local server fails in another way', async () => {
    const authUrl = 'http://127.0.0.1:4000'
    const error = await failure(nameless, { environment: { ...ENVIRONMENT, authUrl } })
    expect(error.message).toBe(`POST ${authUrl}/oauth/token received no response. ${NETWORK}`)
  })
})

it('a token that expired before it arrived is rejected', async () => {
  const late: Answer = async (init) => {
    await made.clock.sleep(950)
    return await granted({ expires_in: 1 })(init)
  }
  const made = rig([late])
  const error = await failed<TokenResponseError>(made, 950)
  expect(error.issues).toEqual([{ field: 'expires_in', reason: 'is shorter than the request took' }])
  expect(error.message).toBe(
    `${WHERE} returned a token that expired before it could be used. ` +
      'Its lifetime is shorter than the request took.',
  )
  expect([made.provider.currentToken(), made.endpoint.count]).toEqual([undefined, 1])
  expect(made.events.map(({ type }) => type)).toEqual(['token-requested', 'token-request-failed'])
})

import { inspect } from 'node:util'
import { type TokenProviderOptions, TokenResponseError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { kindsIn } from '../support/failures.ts'
import {
  type Answer,
  breaksOff,
  deaf,
  ENVIRONMENT,
  failed,
  granted,
  noConnection,
  type Rig,
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

const TOKEN = 'must be a non-empty string of visible ASCII characters'
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
  const hasToken = Object.keys(issues).every((field) => field === 'expires_in' || field === 'token_type')
  const kind = 'body' in issues ? 'not-a-token-endpoint' : 'no-token'
  const what = hasToken ? 'a token response that cannot be used' : 'no token response'
  const prefix = `${WHERE} returned ${what}: ${named.join('; ')}. `
  expect(error.message.slice(0, prefix.length)).toBe(prefix)
  expect(kindsIn(error.message)).toEqual([hasToken ? 'incomplete-token' : kind])
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

  it.each([undefined, null])(
    'of %j is rejected, and the error names the option for that',
    async (expires_in) => {
      const error = await failed<TokenResponseError>(rig([granted({ expires_in })]))
      expect(error.issues).toEqual([{ field: 'expires_in', reason: 'is missing' }])
      expect(kindsIn(error.message)).toEqual(['no-lifetime'])
      expect(error.message).toContain('lifetimeIfMissingMs')
    },
  )

  it('that is missing is the given lifetime; what a response says takes precedence', async () => {
    const options = { lifetimeIfMissingMs: 60_000 }
    const { provider, clock } = rig([granted({ expires_in: undefined })], options)
    expect((await provider.getToken()).expiresAt).toBe(clock.epochMs() + 60_000)
    expect((await rig([granted({ expires_in: 7 })], options).provider.getToken()).expiresAt).toBe(
      clock.epochMs() + 7_000,
    )
    await expectIssues(granted({ expires_in: -1 }), { expires_in: EXPIRES })
  })

  it.each([3_600.5, '-1', ' 3600 ', '0x10', '٣٦', [3_600]])(
    'of %j is rejected, and the error names it',
    async (expires_in) => {
      await expectIssues(granted({ expires_in }), { expires_in: EXPIRES })
    },
  )
})

describe('access_token', () => {
  it.each(['a', 'AZaz09-._~+/', 'abc==', '00D!AQ.x', '1|abc', '===', 'abc,def', '!"#$%&\'()*<>@[\\]^`{}'])(
    'of %s is accepted',
    async (access_token) => {
      const { provider } = rig([granted({ access_token })])
      expect((await provider.getToken()).value).toBe(access_token)
    },
  )

  it.each([undefined, '', 'abcdef\n', 'abc\tdef', ' abc', 'abc def', 'abc\x7f', 'abcé', 7])(
    'of %j is rejected, and the error names it',
    async (access_token) => {
      await expectIssues(granted({ access_token }), { access_token: TOKEN })
    },
  )
})

describe('token_type and scope', () => {
  it.each([null, '', 'mac', 'Bearer ', 'xBearer', ['Bearer']])('token_type %j is rejected', (token_type) =>
    expectIssues(granted({ token_type }), { token_type: BEARER }),
  )

  it('token_type that is missing is Bearer', async () => {
    const { provider } = rig([granted({ token_type: undefined })])
    expect(await provider.getToken()).toMatchObject({ tokenType: 'Bearer' })
  })

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
    const bad = granted({ access_token: '', expires_in: -1, token_type: 'mac' })
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

it('may be a Response of node-fetch 2, whose body is the bytes themselves', async () => {
  const body = Buffer.from('{"access_token":"a.b.c","token_type":"Bearer","expires_in":60}')
  const made = rig([() => ({ ok: true, status: 200, headers: new Headers(), body }) as unknown as Response])
  expect((await made.provider.getToken()).value).toBe('a.b.c')
})

describe('a token without life left on arrival', () => {
  const late: (ms: number) => Answer = (ms) => async (init) => {
    await made.clock.sleep(ms)
    return await granted({ expires_in: 1 })(init)
  }
  let made: Rig
  const tries = () =>
    made.events.flatMap((event) => (event.type === 'token-request-failed' ? [event.nextTryMs] : []))

  it.each<[name: string, answer: Answer, tookMs: number]>([
    ['expires_in 0', granted({ expires_in: 0 }), 0],
    ['expires_in "0"', granted({ expires_in: '0' }), 0],
    ['a request that took longer', late(950), 950],
  ])('is requested again, a second later at the earliest: %s', async (_, answer, tookMs) => {
    made = rig([answer, granted()])
    const waiting = made.provider.getToken()
    await made.clock.advance(tookMs + 999)
    expect(made.endpoint.count).toBe(1)
    await made.clock.advance(1)
    expect(await waiting).toBeDefined()
    expect([made.endpoint.count, tries()]).toEqual([2, [1_000]])
  })

  it.each<[name: string, options: Partial<TokenProviderOptions>, attempts: number]>([
    ['retries', {}, 3],
    ['no retries', { retries: 0 }, 1],
    ['little of timeoutMs', { timeoutMs: 1_500 }, 2],
  ])('is an error that names the field, when no attempt is left: %s', async (_, options, attempts) => {
    made = rig([], options)
    made.endpoint.otherwise = granted({ expires_in: 0 })
    const error = await failed<TokenResponseError>(made, 2_000)
    expect(error).toMatchObject({ name: 'TokenResponseError', code: 'ERR_TOKEN_RESPONSE' })
    expect(error.issues).toEqual([{ field: 'expires_in', reason: 'is shorter than the request took' }])
    expect(error.message).toContain(
      `${WHERE} returned a token that expired before it could be used: expires_in`,
    )
    expect(kindsIn(error.message)).toEqual(['expired-token'])
    expect([made.endpoint.count, made.provider.currentToken()]).toEqual([attempts, undefined])
  })

  it('in the background is not requested again, and no caller notices', async () => {
    made = rig([granted(), granted({ expires_in: 0 })])
    const token = await made.provider.getToken()
    await made.clock.advance(900_000)
    expect(await made.provider.getToken()).toBe(token)
    await made.clock.advance(2_000)
    expect(await made.provider.getToken()).toBe(token)
    expect([made.endpoint.count, tries()]).toEqual([2, [undefined]])
  })
})

describe('an error with a success status', () => {
  it.each<[body: Record<string, unknown>, said: string]>([
    [
      { error: 'invalid_client', error_description: 'client_secret is invalid' },
      'invalid_client: client_secret is invalid',
    ],
    [{ ok: false, error: 'bad_client_secret' }, 'bad_client_secret'],
    [{ error: 'invalid_client', access_token: '', token_type: '', expires_in: 0 }, 'invalid_client'],
    [{ error: 'limit', message: `Ask later, ${SECRET}` }, 'limit: Ask later, [hidden]'],
  ])('is a TokenRequestError with that status: %j', async (body, said) => {
    const made = rig([text(JSON.stringify(body))])
    const error = await failed(made)
    expect(error).toMatchObject({
      name: 'TokenRequestError',
      code: 'ERR_TOKEN_STATUS',
      status: 200,
      error: body['error'],
      retryable: false,
    })
    expect(error.message).toContain(`${WHERE} returned 200 (${said}). `)
    expect(made.endpoint.count).toBe(1)
    expect(made.events.at(-1)).toMatchObject({
      type: 'token-request-failed',
      status: 200,
      error: body['error'],
    })
  })

  it('that rejects the client asks for another secret', async () => {
    const secrets = ['swordfish-1', 'swordfish-2']
    const rejected = text(JSON.stringify({ error: 'invalid_client' }))
    const { provider, endpoint } = rig([rejected], { clientSecret: () => secrets.shift() ?? '' })
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(endpoint.count).toBe(2)
  })

  it('counts for nothing beside a usable token', async () => {
    await expect(rig([granted({ error: '' })]).provider.getToken()).resolves.toBeDefined()
    await expect(rig([granted({ error: 'none' })]).provider.getToken()).resolves.toBeDefined()
  })
})

describe('an error response of another shape', () => {
  it.each<[shape: string, body: unknown, said: string]>([
    [
      'RFC 9457',
      { type: 'https://x.example/p', title: 'Forbidden client', status: 400, detail: 'No such tenant.' },
      'Forbidden client: No such tenant.',
    ],
    [
      'Okta',
      {
        errorCode: 'E0000022',
        errorSummary: 'Not supported.',
        errorLink: 'E0000022',
        errorId: 'oae1',
        errorCauses: [],
      },
      'E0000022: Not supported.',
    ],
    [
      'Google, Microsoft Graph',
      { error: { code: 400, message: 'API key not valid.', status: 'INVALID' } },
      'API key not valid.',
    ],
    ['AWS', { message: 'Missing Authentication Token' }, 'Missing Authentication Token'],
    ['AWS, older', { Message: 'Denied', Code: 'AccessDenied' }, 'Denied: AccessDenied'],
    [
      'Spring',
      { timestamp: '2026-01-01', status: 400, error: 'Bad Request', message: 'No grant.', path: '/oauth' },
      'Bad Request: No grant.',
    ],
    [
      'Apigee',
      { fault: { faultstring: 'Invalid key', detail: { errorcode: 'oauth.v2.InvalidKey' } } },
      'Invalid key: oauth.v2.InvalidKey',
    ],
    [
      'WSO2',
      { fault: { code: 900_901, message: 'Invalid Credentials', description: 'Wrong client.' } },
      '900901: Invalid Credentials: Wrong client.',
    ],
    ['JSON:API', { errors: [{ status: '400', title: 'Bad field', detail: 'grant' }] }, 'Bad field: grant'],
    ['five of more texts', { errors: ['a', 'b', 'c', 'd', 'e', 'f'] }, 'a: b: c: d: e'],
    ['a list', [{ message: 'expired client', errorCode: 'INVALID' }], 'expired client: INVALID'],
    ['FusionAuth', { generalErrors: [{ code: '[locked]', message: 'Locked.' }] }, '[locked]: Locked.'],
    [
      'its status and its error again',
      { error: 'no', code: 400, message: 'no', detail: ' Denied. ', title: '' },
      'no: Denied.',
    ],
    ['a number', { code: 12, details: null, errors: [7, true] }, '12: 7'],
    ['more than five reasons', { errors: ['a', 'b', 'c', 'd', 'e', 'f'] }, 'a: b: c: d: e'],
    [
      'reasons too deep',
      { error: { error: { error: { error: { error: 'x' }, code: 'y' } } }, code: 'z' },
      'y: z',
    ],
    ['fields of other names', { code: 'a', xcode: 'b', codex: 'c', 'trace-code': 'd' }, 'a'],
    [
      'fields with a hyphen',
      { 'response-code': 401, 'developer-message': 'No such client' },
      'No such client',
    ],
    [
      'what validation says of a field',
      { errors: { ClientId: ['Required.'] }, list: [] },
      'ClientId: Required.',
    ],
    ['plain text', 'error code:\n1020', 'error code: 1020'],
    ['text with spaces around it', '  denied  ', 'denied'],
    ['a page', '<html><head><title>Access Denied</title></head>', 'Access Denied'],
    [
      'a page whose title says nothing',
      '<title>Error</title><pre>Error: no such client<br>at',
      'Error: no such client',
    ],
    ['a page without a title', '<p>Unknown client</p><p>Go back</p>', 'Unknown client'],
    ['a page with spaces', '\n <html><h1 class="x"> Access Denied </h1>', 'Access Denied'],
    ['XML', '<?xml version="1.0"?><Error><Message>No such client</Message></Error>', 'No such client'],
    [
      'XML with a namespace',
      '<?xml version="1.0"?><ams:fault><ams:error_description>Unknown</ams:error_description></ams:fault>',
      'Unknown',
    ],
    [
      'Micronaut',
      { message: 'Bad Request', _embedded: { errors: [{ message: 'Wrong id' }] } },
      'Bad Request: Wrong id',
    ],
    ['a number alone', '429', '429'],
    ['a value of no type', { message: true, errors: null, title: 'Denied' }, 'Denied'],
    [
      'a date as a list',
      { timestamp: [2026, 11, 27], message: 'No grant_type', tokens: ['a.b.c'] },
      'No grant_type',
    ],
    ['an echoed secret', { message: `Unknown: ${SECRET}` }, 'Unknown: [hidden]'],
  ])('has one line of it in its message: %s', async (_, body, said) => {
    const error = await failure(status(400, body))
    expect(error.message).toContain(`${WHERE} returned 400 (${said}). `)
    expect(error.errorDescription).toBeUndefined()
  })

  it.each<[body: unknown]>([
    ['Bad Request'],
    ['<title>400 Bad Request</title>'],
    [{ status: 400, title: 'Bad Request' }],
  ])('that says nothing else than its status suggests bodyFormat: %j', async (body) => {
    expect((await failure(status(400, body))).message).toContain("bodyFormat: 'form'")
  })

  it('is cut to 300 characters', async () => {
    const error = await failure(status(400, { detail: 'x'.repeat(9_999) }))
    expect(error.message).toContain(` (${'x'.repeat(299)}…). `)
  })

  it('says nothing beside an error_description', async () => {
    const error = await failure(status(400, { ...oauth('invalid_scope', 'No.'), message: 'Something else' }))
    expect(error.message).toContain(' (invalid_scope: No.). ')
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

const oauth = (error?: string, error_description?: string) => ({ error, error_description })

describe('the error message for a status', () => {
  it.each([
    [400, '', '400', 'fields'],
    [415, '', '415', 'format'],
    [400, oauth('unsupported_grant_type'), '400 (unsupported_grant_type)', 'grant-type'],
    [400, oauth('invalid_request', 'No audience.'), '400 (invalid_request: No audience.)', 'audience'],
    [400, oauth('invalid_request', 'No client_id.'), '400 (invalid_request: No client_id.)', 'fields'],
    [400, oauth(undefined, 'No audience.'), '400 (No audience.)', 'audience'],
    [400, oauth('', ''), '400', 'fields'],
    [400, oauth('invalid_scope'), '400 (invalid_scope)', 'scope'],
    [400, oauth('invalid_scope', 'No secret.'), '400 (invalid_scope: No secret.)', 'scope'],
    [400, { message: 'Invalid credentials' }, '400 (Invalid credentials)', 'client'],
    [400, oauth('invalid_request', "No 'scope'."), "400 (invalid_request: No 'scope'.)", 'scope'],
    [404, '<html>', '404', 'no-endpoint'],
    [404, { message: 'No audience' }, '404 (No audience)', 'no-endpoint'],
    [405, '', '405', 'no-endpoint'],
    [410, '', '410', 'no-endpoint'],
    [401, oauth('unauthorized_client'), '401 (unauthorized_client)', 'grant'],
    [400, oauth('invalid_grant'), '400 (invalid_grant)', 'grant'],
    [
      400,
      oauth('invalid_grant', 'no_valid_keys_or_signatures'),
      '400 (invalid_grant: no_valid_keys_or_signatures)',
      'client',
    ],
    [
      401,
      oauth('unauthorized_client', 'Invalid client credentials'),
      '401 (unauthorized_client: Invalid client credentials)',
      'client',
    ],
    [499, '', '499', 'other'],
    [401, '', '401', 'client'],
    [401, oauth('access_denied'), '401 (access_denied)', 'client'],
    [400, oauth('invalid_client'), '400 (invalid_client)', 'client'],
    [403, '', '403', 'audience'],
    [400, oauth('access_denied'), '400 (access_denied)', 'audience'],
    [400, oauth('invalid_target'), '400 (invalid_target)', 'audience'],
    [400, oauth('invalid_audience'), '400 (invalid_audience)', 'audience'],
    [403, oauth('unauthorized_client'), '403 (unauthorized_client)', 'grant'],
    [403, { message: 'Client authentication failed' }, '403 (Client authentication failed)', 'client'],
    [
      403,
      { message: 'Missing scope for client_credentials' },
      '403 (Missing scope for client_credentials)',
      'scope',
    ],
    [400, { message: 'Bad certificates' }, '400 (Bad certificates)', 'client'],
    [400, { message: 'Bad signature' }, '400 (Bad signature)', 'client'],
    [
      400,
      { message: 'Invalid client_secret or missing client_id' },
      '400 (Invalid client_secret or missing client_id)',
      'client',
    ],
    [400, { message: 'We require client_id' }, '400 (We require client_id)', 'format'],
    [400, { message: 'It must contain a client_secret' }, '400 (It must contain a client_secret)', 'format'],
    [
      400,
      { message: 'client_secret not sent, but required' },
      '400 (client_secret not sent, but required)',
      'format',
    ],
    [403, { message: 'Signature ID 200001' }, '403 (Signature ID 200001)', 'audience'],
    [
      401,
      { message: 'client_secret is missing or wrong' },
      '401 (client_secret is missing or wrong)',
      'client',
    ],
    [403, { message: 'may not grant scopes' }, '403 (may not grant scopes)', 'scope'],
    [403, { detail: "your browser's signature" }, "403 (your browser's signature)", 'audience'],
    [408, '', '408', 'server'],
    [500, '', '500', 'server-500'],
    [503, '', '503', 'server'],
    [503, oauth('invalid_request', 'server_error'), '503 (invalid_request: server_error)', 'server'],
    [500, oauth('invalid_client', 'No database.'), '500 (invalid_client: No database.)', 'server-500'],
    // As services return them, with what was wrong.
    [
      401,
      oauth('unauthorized_client', 'No service account.'),
      '401 (unauthorized_client: No service account.)',
      'grant',
    ],
    [
      400,
      oauth('unauthorized_client', 'Invalid client secret'),
      '400 (unauthorized_client: Invalid client secret)',
      'client',
    ],
    [403, { message: 'invalid client secret' }, '403 (invalid client secret)', 'client'],
    [400, { message: 'Missing grant type' }, '400 (Missing grant type)', 'format'],
    [400, { error: 'Bad Request', message: 'No grant_type' }, '400 (Bad Request: No grant_type)', 'format'],
    [403, { message: 'No grant_type' }, '403 (No grant_type)', 'format'],
    [422, { detail: 'field required' }, '422 (field required)', 'fields'],
    [415, oauth('server_error'), '415 (server_error)', 'format'],
    [406, '', '406', 'format'],
    [
      400,
      oauth('invalid_request', "No grant_type; scope='null'"),
      "400 (invalid_request: No grant_type; scope='null')",
      'format',
    ],
    [
      400,
      oauth('invalid_request', 'The assertion is unknown'),
      '400 (invalid_request: The assertion is unknown)',
      'client',
    ],
    [
      400,
      oauth('invalid_request', 'Invalid JWT token. No thumbprint'),
      '400 (invalid_request: Invalid JWT token. No thumbprint)',
      'client',
    ],
    [
      400,
      oauth('invalid_request', 'invalid client_assertion format'),
      '400 (invalid_request: invalid client_assertion format)',
      'client',
    ],
    [
      400,
      oauth('invalid_request', 'must contain client_assertion or client_secret'),
      '400 (invalid_request: must contain client_assertion or client_secret)',
      'format',
    ],
    [
      400,
      oauth('invalid_request', 'client_secret is invalid'),
      '400 (invalid_request: client_secret is invalid)',
      'client',
    ],
    [
      400,
      oauth('invalid_request', 'Transport certificate not found in the request'),
      '400 (invalid_request: Transport certificate not found in the request)',
      'client',
    ],
    [
      400,
      oauth('invalid_request', "the 'aud' is invalid"),
      "400 (invalid_request: the 'aud' is invalid)",
      'client',
    ],
    [
      400,
      { developerMessage: 'The parameter client_id is required', errorCode: 'AUTH-008' },
      '400 (The parameter client_id is required: AUTH-008)',
      'format',
    ],
    [
      400,
      { client_id: ['This field is required.'], hosts: [] },
      '400 (client_id: This field is required.)',
      'format',
    ],
    [
      400,
      oauth('invalid_request', 'client_secret is required'),
      '400 (invalid_request: client_secret is required)',
      'format',
    ],
    [
      401,
      oauth('unauthorized_client', 'Missing or invalid client_secret'),
      '401 (unauthorized_client: Missing or invalid client_secret)',
      'client',
    ],
    [
      400,
      { response: { errors: [{ message: 'ClientId is Invalid' }] } },
      '400 (ClientId is Invalid)',
      'other',
    ],
    [401, oauth('server_error', 'access_denied'), '401 (server_error: access_denied)', 'client'],
    [501, '', '501', 'server-501'],
    [403, '<title>Error report</title><h1>No IP</h1>', '403 (No IP)', 'audience'],
    [403, '<title>Acme Gateway - Error</title>', '403 (Acme Gateway - Error)', 'audience'],
    [401, { message: 'No request.formparam.client_id' }, '401 (No request.formparam.client_id)', 'format'],
    [400, { message: 'Wrong content type' }, '400 (Wrong content type)', 'format'],
    [403, { message: 'content-type blocked' }, '403 (content-type blocked)', 'audience'],
    [400, { ...oauth('invalid_client', 'See x.'), hint: 'See x' }, '400 (invalid_client: See x.)', 'client'],
    [
      401,
      { ...oauth('invalid_client', 'Failed.'), hint: 'Check the `client_id` parameter' },
      '401 (invalid_client: Failed.: Check the `client_id` parameter)',
      'client',
    ],
    [
      401,
      { ...oauth('invalid_client', 'Failed.'), error_hint: 'It supports "client_secret_basic".' },
      '401 (invalid_client: Failed.: It supports "client_secret_basic".)',
      'client',
    ],
  ])('of %i with %j names the answer and what to do', async (code, body, answered, kind) => {
    const { message } = await failure(status(code, body))
    expect(message).toContain(`${WHERE} returned ${answered}. `)
    expect(kindsIn(message)).toEqual([kind])
  })

  it.each([400, 415])('of %i to a form request does not suggest a form', async (code) => {
    const error = await failure(status(code, oauth('invalid_request')), { bodyFormat: 'form' })
    expect(kindsIn(error.message)).toEqual(['fields'])
    expect(error.message).not.toContain("'form'")
  })

  it.each([
    ['Missing the grant type', true],
    ['We require grant_type', true],
    ['no grant_type', true],
    ['grant type not found', true],
    ['grant_type is required', true],
    ['the value of grant_type was null', true],
    ['Unknown grant type', false],
    ['grant_type x', false],
  ])(
    'of 400 to a form request tells a grant type that is not found from an unknown one: %s',
    async (text, isMissed) => {
      const { message } = await failure(status(400, { message: text }), { bodyFormat: 'form' })
      expect(message).toContain(`returned 400 (${text}). `)
      expect(kindsIn(message)).toEqual([isMissed ? 'fields' : 'grant'])
    },
  )

  it('of 429 names the quota that is spent, and no other', async () => {
    const quotas = 'b=per_hour;q=10;r=0;t=60,b=per_day;q=50;r=40;t=600'
    const { message } = await failure(status(429, '', { 'auth0-client-quota-limit': quotas }))
    expect(message).toContain('per_hour')
    expect(message).not.toContain('per_day')
  })

  it('of 429 says to wait, whatever error is beside it', async () => {
    const error = await failure(status(429, oauth('access_denied', 'Too Many Requests')))
    expect(error.message).toContain(`${WHERE} returned 429 (access_denied: Too Many Requests). `)
    expect(kindsIn(error.message)).toEqual(['too-many'])
  })

  it('includes the Retry-After of the endpoint', async () => {
    const error = await failure(status(429, oauth('slow_down'), { 'retry-after': '45' }))
    expect(error.message).toContain(`${WHERE} returned 429 (slow_down). It asks for a pause of 45000 ms. `)
    expect(kindsIn(error.message)).toEqual(['too-many'])
    expect(error.message).toMatch(
      / The token endpoint is not asked again for 45000 ms, until 2026-01-01T00:00:45\.000Z\.$/,
    )
  })

  it('names the spent quotas and when they are full again', async () => {
    const spent = (headers: Record<string, string>) => failure(status(429, '', headers))
    const one = await spent({ 'Auth0-Client-Quota-Limit': 'b=per_hour;q=10;r=0;t=1800' })
    expect(one.message).toContain(
      'The quota per_hour has 0 of 10 token requests left; it is full again in 1800 s.',
    )
    const two = await spent({ 'Auth0-Organization-Quota-Limit': 'b=burst;r=0,b=day;r=0' })
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
      const { message } = await failure(answer)
      expect(message).toContain(
        `${WHERE} returned a redirect${to}, which is never followed: it would forward the credentials. `,
      )
      expect(kindsIn(message)).toEqual(['redirect'])
    },
  )

  it.each([
    ['https://auth.test.example/oauth/token/', 'redirect-here'],
    ['https://other.test.example/oauth/token/', 'redirect'],
  ])('that redirects to %s tells another path from another host: %s', async (location, kind) => {
    const { message } = await failure(status(307, '', { location }))
    expect(kindsIn(message)).toEqual([kind])
  })
})

/** The headers and a part of the body arrive, and nothing else. */
const stalled: Answer = async () =>
  new Response(new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode('{')) }))

describe('the error message without a complete response', () => {
  it.each<[string, string, Answer, number?]>([
    ['received no response (connect ECONNREFUSED). ', 'nothing-listens', noConnection],
    ['received an incomplete or empty response (read ECONNRESET). ', 'broken-off', breaksOff()],
    [
      'received an incomplete or empty response (The body is empty, with status 200). ',
      'broken-off',
      text(''),
    ],
    ['returned no response within 801 ms. ', 'no-response', deaf, 801],
    ['returned 200, but not its whole body within 801 ms. ', 'slow-body', stalled, 801],
  ])('begins with: %s(%s)', async (message, kind, answer, timeoutMs) => {
    const error = await failure(answer, { timeoutMs }, timeoutMs)
    expect(error.message.slice(0, WHERE.length + 1 + message.length)).toBe(`${WHERE} ${message}`)
    expect(kindsIn(error.message)).toEqual([kind])
  })

  it.each([
    ['http://127.0.0.1:4000', true],
    ['http://localhost:4000', true],
    ['http://[::1]:4000', true],
    ['https://auth.test.example', false],
  ])('asks whether the sandbox is running if nothing listens at %s: %s', async (authUrl, isLocal) => {
    const error = await failure(noConnection, { environment: { ...ENVIRONMENT, authUrl } })
    expect(kindsIn(error.message)).toEqual([isLocal ? 'nothing-listens-here' : 'nothing-listens'])
  })
})

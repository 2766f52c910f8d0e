/** What is accepted as a token response, what an error answer says, and every message to the letter. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import {
  createTokenProvider,
  type TokenProviderOptions,
  type TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { readRetryAfter } from '../../src/token/token-response.ts'
import { ManualClock } from '../support/clock.ts'
import {
  type Answer,
  breaksOff,
  deaf,
  ENVIRONMENT,
  granted,
  noConnection,
  rejection,
  rig,
  SECRET,
  status,
} from './harness.ts'

afterEach(() => void vi.restoreAllMocks())

const WHERE = 'POST https://auth.test.example/oauth/token'

/** What a call rejects with after `waitedMs` of one attempt. */
async function failure<T extends Error = TokenRequestError>(
  answer: Answer,
  options: Partial<TokenProviderOptions> = {},
  waitedMs = 0,
): Promise<T> {
  const { provider, clock } = rig([answer], { retries: 0, ...options })
  const waiting = rejection<T>(provider.getToken())
  await clock.advance(waitedMs)
  return await waiting
}

const SECONDS_IN_10_YEARS = 10 * 365 * 86_400
const text = (body: string, type = 'application/json'): Answer => {
  return () => new Response(body, { headers: { 'content-type': type } })
}

async function issuesOf(answer: Answer): Promise<string[]> {
  const { provider, endpoint, clock } = rig([answer])
  const error = await rejection<TokenResponseError>(provider.getToken())
  expect(error).toBeInstanceOf(TokenResponseError)
  expect(error).toMatchObject({ code: 'ERR_TOKEN_RESPONSE', name: 'TokenResponseError' })
  expect(error.message).toContain('POST https://auth.test.example/oauth/token')
  await clock.advance(900)
  expect(endpoint.count, 'not retried within the call').toBe(1)
  expect(provider.currentToken()).toBeUndefined()
  return [...new Set(error.issues.map(({ field }) => field))]
}

describe('expires_in', () => {
  it.each([
    [3_600, 3_600],
    ['3600', 3_600],
    [1, 1],
    [36_000, 36_000],
    [86_400, 86_400],
    ['007', 7],
  ])('of %j is a lifetime', async (expires_in, seconds) => {
    const { provider, clock } = rig([granted({ expires_in })])
    expect((await provider.getToken()).expiresAt).toBe(clock.epochMs() + seconds * 1_000)
  })

  it.each([SECONDS_IN_10_YEARS + 3 * 86_400, 1e15, '99999999999999999999', '9'.repeat(400)])(
    'of %s is clamped to 10 years',
    async (expires_in) => {
      const { provider, clock } = rig([granted({ expires_in })])
      const lifetime = (await provider.getToken()).expiresAt - clock.epochMs()
      expect(Math.round(lifetime / (365.25 * 86_400_000))).toBe(10)
    },
  )

  it.each([
    ['missing', undefined],
    ['null', null],
    ['0', 0],
    ['"0"', '0'],
    ['negative', -1],
    ['"-1"', '-1'],
    ['fractional', 3_600.5],
    ['fractional text', '3600.5'],
    ['true', true],
    ['false', false],
    ['an array', [3_600]],
    ['an object', {}],
    ['empty text', ''],
    ['a blank', ' '],
    ['text with blanks', ' 3600 '],
    ['exponential text', '1e3'],
    ['hexadecimal text', '0x10'],
    ['"NaN"', 'NaN'],
    ['"Infinity"', 'Infinity'],
    ['other text', 'an hour'],
    ['other digits', '٣٦'],
  ])('%s is rejected, by name', async (_, expires_in) => {
    expect(await issuesOf(granted({ expires_in }))).toEqual(['expires_in'])
  })

  it('beyond all numbers is rejected', async () => {
    const body = '{"access_token":"a.b.c","token_type":"Bearer","expires_in":1e400}'
    expect(await issuesOf(text(body))).toEqual(['expires_in'])
  })
})

describe('access_token', () => {
  it.each(['a', 'a.b.c', 'AZaz09-._~+/', 'abc=', 'abc=='])('of %s is accepted', async (access_token) => {
    const { provider } = rig([granted({ access_token })])
    expect((await provider.getToken()).value).toBe(access_token)
  })

  it.each([
    ['missing', undefined],
    ['null', null],
    ['empty', ''],
    ['a number', 5],
    ['an object', { a: 1 }],
    ['with a blank', 'abc def'],
    ['with a line break', 'abcdef\r\nX-Evil: 1'],
    ['with a line break at its end', 'abcdef\n'],
    ['with a tab', 'abc\tdef'],
    ['with a quote', 'abc"def'],
    ['with a comma', 'abc,def'],
    ['with letters beyond ASCII', 'abcdéf'],
    ['with = in the middle', 'abc=def'],
    ['of = alone', '==='],
  ])('%s is rejected, by name', async (_, access_token) => {
    expect(await issuesOf(granted({ access_token }))).toEqual(['access_token'])
  })
})

describe('token_type and scope', () => {
  it.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('token_type %s is accepted', async (token_type) => {
    const { provider } = rig([granted({ token_type })])
    expect((await provider.getToken()).tokenType).toBe('Bearer')
  })

  it.each([undefined, null, '', 'mac', 'DPoP', 'Bearer ', 'xBearer', 5])(
    'token_type %j is rejected',
    async (token_type) => {
      expect(await issuesOf(granted({ token_type }))).toEqual(['token_type'])
    },
  )

  it('scope is handed on where there is one, and may be missing', async () => {
    expect((await rig([granted({ scope: 'merchant' })]).provider.getToken()).scope).toBe('merchant')
    expect((await rig([granted()]).provider.getToken()).scope).toBeUndefined()
  })

  const LONG = Array.from({ length: 6_000 }, (_, n) => `scope:${n}`).join(' ') // 64 KiB is the limit

  it('a scope is handed on whole, however long', async () => {
    const token = await rig([granted({ scope: LONG })]).provider.getToken()
    expect(token.scope).toBe(LONG)
  })

  it.each([
    ['the token', {}, 'head.body.signature'],
    ['a client secret', { clientSecret: 'swordfish/abc' }, 'swordfish/abc'],
    ['a client secret of several words', { clientSecret: 'sword fish and chips' }, 'sword fish and chips'],
    ['an encoded client secret', { clientSecret: 'sword fish/abc' }, 'sword%20fish%2Fabc'],
  ])('a long scope with %s anywhere in it is hidden', async (_, options, secret) => {
    for (const at of [0, 3_990, 4_000, 7_995, 30_000, LONG.length]) {
      const scope = `${LONG.slice(0, at)} ${secret} ${LONG.slice(at)}`
      const { provider } = rig([granted({ access_token: 'head.body.signature', scope })], options)
      expect((await provider.getToken()).scope).toBe('[hidden]')
    }
  })

  it.each([5, null, ['merchant'], {}])('scope %j, which is no text, is left out', async (scope) => {
    const token = await rig([granted({ scope })]).provider.getToken()
    expect(token.scope).toBeUndefined()
    expect(JSON.parse(JSON.stringify(token))).not.toHaveProperty('scope')
  })

  it('every bad field is named', async () => {
    const bad = granted({ access_token: '', expires_in: 0, token_type: 'mac' })
    expect((await issuesOf(bad)).sort()).toEqual(['access_token', 'expires_in', 'token_type'])
  })
})

describe('the answer as a whole', () => {
  const VALID = '{"access_token":"a.b.c","token_type":"Bearer","expires_in":3600}'

  it.each([
    ['unknown further fields', granted({ refresh_token: 'x', id_token: 5, __proto__: {} })],
    ['text/plain around JSON', text(VALID, 'text/plain')],
    ['text/html around JSON', text(VALID, 'text/html')],
    ['a byte order mark', text(`\uFEFF${VALID}`)],
    ['a body just below 64 KiB', text(VALID.padEnd(64 * 1024))],
    ['status 201', () => new Response(VALID, { status: 201 })],
  ])('with %s is accepted', async (_, answer) => {
    await expect(rig([answer]).provider.getToken()).resolves.toBeDefined()
  })

  it.each([
    ['HTML', text('<html>maintenance</html>', 'text/html')],
    ['nothing', text('')],
    ['no body at all', () => new Response(null, { status: 200 })],
    ['status 204', () => new Response(null, { status: 204 })],
    ['truncated JSON', text(VALID.slice(0, -5))],
    ['null', text('null')],
    ['an array', text(`[${VALID}]`)],
    ['a number', text('5')],
    ['a string', text('"a.b.c"')],
    ['a body over 64 KiB', text(VALID.padEnd(64 * 1024 + 1))],
  ])('of %s is rejected', async (_, answer) => {
    expect((await issuesOf(answer)).length).toBeGreaterThan(0)
  })

  it.each([
    ['as gzip and is not', 'gzip', Buffer.from(VALID)],
    ['as deflate and is not', 'deflate', Buffer.from(VALID)],
    ['as br and is not', 'br', Buffer.alloc(40, 255)],
  ])('that is announced %s is rejected, and not retried', async (_, encoding, body) => {
    const headers = { 'content-encoding': encoding, 'content-type': 'application/json' }
    const server = createServer((_, response) => response.writeHead(200, headers).end(body))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const ask: Answer = () => fetch(url)
    try {
      expect(await issuesOf(ask)).toEqual(['body'])
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })

  it('is cut off after 64 KiB, however much would follow', async () => {
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
    expect(await issuesOf(endless)).toEqual(['body'])
    expect(pulled).toBeLessThan(10)
    expect(cancelled).toHaveBeenCalledTimes(1)
  })

  it('in characters of many bytes, split anywhere, is read right', async () => {
    const bytes = new TextEncoder().encode(VALID.replace('}', ',"scope":"größe"}'))
    const dripped: Answer = () =>
      new Response(
        new ReadableStream({
          start(controller) {
            for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
            controller.close()
          },
        }),
      )
    expect((await rig([dripped]).provider.getToken()).scope).toBe('größe')
  })

  it('is echoed in no error', async () => {
    const { provider } = rig([text('{"access_token":"eyJ0b2tlbg.body.sig" oops')])
    expect(inspect(await rejection(provider.getToken()), { depth: 9 })).not.toContain('eyJ0b2tlbg')
  })
})

describe('an error answer of RFC 6749', () => {
  it('is a TokenRequestError with error and errorDescription', async () => {
    const error = await failure(
      status(401, { error: 'invalid_client', error_description: 'Unknown client.' }),
    )
    expect(error).toMatchObject({
      name: 'TokenRequestError',
      code: 'ERR_TOKEN_STATUS',
      status: 401,
      error: 'invalid_client',
      errorDescription: 'Unknown client.',
      attempts: 1,
      retryable: false,
    })
  })

  it.each([
    ['no JSON', '<html>'],
    ['null', 'null'],
    ['an array', '[1]'],
    ['numbers', { error: 5, error_description: {} }],
    ['empty texts', { error: '', error_description: '' }],
    ['nothing', ''],
    ['too much', 'x'.repeat(100_000)],
  ])('with %s in its body has its status all the same', async (_, body) => {
    const error = await failure(status(400, body))
    expect(error).toMatchObject({ status: 400, code: 'ERR_TOKEN_STATUS' })
    expect(error.error).toBeUndefined()
    expect(error.errorDescription).toBeUndefined()
  })

  it('of many lines is shown on one, and not at full length', async () => {
    const error = await failure(
      status(400, { error: 'x', error_description: `a\r\nb\u0007${'c'.repeat(9_999)}` }),
    )
    expect(error.errorDescription).toMatch(/^a b c+$/)
    expect(error.errorDescription?.length).toBeLessThan(1_000)
  })

  it.each([
    ['plain', SECRET],
    ['base64', Buffer.from(SECRET).toString('base64')],
    ['base64 without padding', Buffer.from(SECRET).toString('base64').replaceAll('=', '')],
    ['base64url', Buffer.from(SECRET).toString('base64url')],
    ['percent-encoded', encodeURIComponent(SECRET)],
    ['form-encoded', new URLSearchParams({ s: SECRET }).toString().slice(2)],
  ])('that echoes the secret (%s) shows nothing of it', async (_, echoed) => {
    const error = await failure(
      status(401, { error: `bad ${echoed}`, error_description: `secret ${echoed} is wrong` }),
    )
    expect(error.errorDescription).toMatch(/^(?:secret )?\[hidden\](?: is wrong)?$/)
    for (const shown of [inspect(error, { depth: 9 }), JSON.stringify(error), error.stack, error.message])
      expect(shown).not.toContain(echoed)
  })

  it('that echoes a secret which a function yielded shows nothing of it', async () => {
    const echo = status(400, { error: 'invalid_request', error_description: 'got vault-secret-77' })
    const { provider } = rig([echo], { clientSecret: async () => 'vault-secret-77' })
    const error = await rejection<TokenRequestError>(provider.getToken())
    expect(error.errorDescription).toMatch(/^got /)
    expect(inspect(error)).not.toContain('vault-secret-77')
  })

  it('that echoes the token which was issued last shows nothing of it', async () => {
    const echo = { error: 'invalid_request', error_description: 'you have eyJh.cGF5.c2ln still' }
    const answers = [granted({ access_token: 'eyJh.cGF5.c2ln' }), status(400, echo)]
    const { provider, clock } = rig(answers)
    await provider.getToken()
    await clock.advance(990_000)
    const error = await rejection<TokenRequestError>(provider.getToken())
    expect(error.errorDescription).toMatch(/^you have .* still$/)
    expect(inspect(error)).not.toContain('cGF5')
  })

  it('leaves no secret in the cause, should fetch put it there', async () => {
    const thrown = Object.assign(new TypeError(`bad body ${SECRET}`), {
      config: { data: SECRET },
      code: SECRET,
    })
    const { provider } = rig([() => Promise.reject(thrown)], { retries: 0 })
    const error = await rejection(provider.getToken())
    expect(error.cause).toMatchObject({ name: 'TypeError' })
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET)
  })
})

describe('a real server', () => {
  const servers: ReturnType<typeof createServer>[] = []
  afterEach(() => {
    for (const server of servers.splice(0)) server.close().closeAllConnections()
  })

  async function providerOn(listener: Parameters<typeof createServer>[1]) {
    const server = createServer(listener ?? (() => {}))
    servers.push(server)
    await new Promise<void>((go) => server.listen(0, '127.0.0.1', go))
    const authUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const environment = { ...ENVIRONMENT, authUrl }
    return createTokenProvider({ environment, clientId: 'c', clientSecret: SECRET, retries: 0 })
  }

  it('that sends a gzip bomb is cut off', async () => {
    const bomb = gzipSync(Buffer.alloc(20 * 1024 * 1024, ' '))
    const provider = await providerOn((_, answer) => {
      answer.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'application/json' }).end(bomb)
    })
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_RESPONSE' })
  })

  it('that ends before its content-length is no connection', async () => {
    const provider = await providerOn((_, answer) => {
      answer.writeHead(200, { 'content-length': '500' }).write('{"access_token":')
      setImmediate(() => answer.destroy())
    })
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: true })
  })

  it('that closes the connection is no connection', async () => {
    const provider = await providerOn((request) => request.socket.destroy())
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: true })
  })
})

describe('a Retry-After date', () => {
  afterEach(() => void vi.restoreAllMocks())

  // RFC 9110 §5.6.7: a recipient must accept all three, and all are in UTC.
  it.each(['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'])(
    'of the form "%s" is read, in any time zone of the machine',
    (value) => {
      // As Date.parse is in Tokyo: a worker thread cannot change its time zone.
      const { parse } = Date
      vi.spyOn(Date, 'parse').mockImplementation((text) =>
        parse(text.endsWith('GMT') ? text : `${text} GMT+0900`),
      )
      const answer = new Response('', { headers: { 'retry-after': value } })
      expect(readRetryAfter(answer, Date.UTC(1994, 10, 6, 8, 49, 7))).toBe(30_000)
    },
  )
})

const FORMAT =
  "Check authUrl, clientId and audience. A server that takes a form instead of JSON needs bodyFormat: 'form'."
const oauth = (error?: string, error_description?: string) => ({ error, error_description })

describe('the message of a status', () => {
  it.each([
    [400, '', ` answered 400. ${FORMAT}`],
    [415, '', ` answered 415. ${FORMAT}`],
    [400, oauth('unsupported_grant_type'), ` answered 400 (unsupported_grant_type). ${FORMAT}`],
    [400, oauth('invalid_scope'), ' answered 400 (invalid_scope). Check authUrl, clientId and audience.'],
    [404, '<html>', ' answered 404. Check authUrl, clientId and audience.'],
    [401, '', ' answered 401. Check clientId and clientSecret.'],
    [400, oauth('invalid_client'), ' answered 400 (invalid_client). Check clientId and clientSecret.'],
    [403, '', ' answered 403. Check that this client may ask for this audience.'],
    [
      400,
      oauth('access_denied'),
      ' answered 400 (access_denied). Check that this client may ask for this audience.',
    ],
    [408, '', ' answered 408. The token endpoint is in trouble: try again later.'],
    [429, '', ' answered 429. Too many token requests: try again later.'],
    [499, '', ' answered 499. Check authUrl, clientId and audience.'],
    [500, '', ' answered 500. The token endpoint is in trouble: try again later.'],
    [503, '', ' answered 503. The token endpoint is in trouble: try again later.'],
    [
      400,
      oauth('invalid_request', 'No audience.'),
      ` answered 400 (invalid_request: No audience.). ${FORMAT}`,
    ],
    [400, oauth(undefined, 'No audience.'), ` answered 400 (No audience.). ${FORMAT}`],
    [400, oauth('', ''), ` answered 400. ${FORMAT}`],
  ])('%i with %j says what was answered and what to do', async (code, body, message) => {
    expect((await failure(status(code, body))).message).toBe(WHERE + message)
  })

  it.each([400, 415])('%i to a form says nothing of the form', async (code) => {
    const error = await failure(status(code, oauth('invalid_request')), { bodyFormat: 'form' })
    expect(error.message).toBe(
      `${WHERE} answered ${code} (invalid_request). Check authUrl, clientId and audience.`,
    )
  })

  it('says how long the endpoint asks for a pause', async () => {
    const error = await failure(status(429, oauth('slow_down'), { 'retry-after': '45' }))
    expect(error.message).toBe(
      `${WHERE} answered 429 (slow_down). It asks for a pause of 45000 ms. Too many token requests: try again later.`,
    )
  })

  it.each([
    ['https://x.example/?secret', ' to https://x.example'],
    ['/login', ''], // the answer of a stub has no URL that it is relative to
    ['https://[', ''],
    [undefined, ''],
  ])('that redirects to %j says where to, and that nothing is followed', async (location, to) => {
    const headers: Record<string, string> = location === undefined ? {} : { location }
    expect((await failure(status(307, '', headers))).message).toBe(
      `${WHERE} answered with a redirect${to}, which is never followed: it would forward the client secret. Check authUrl.`,
    )
  })

  it('ends, for a call in the cooldown, with what remains of it', async () => {
    const { provider, clock } = rig([status(503)], { retries: 0 })
    await rejection(provider.getToken())
    await clock.advance(400)
    expect((await rejection(provider.getToken())).message).toBe(
      `${WHERE} answered 503. The token endpoint is in trouble: try again later.` +
        ' The token endpoint is not asked again for another 600 ms after this failure.',
    )
  })
})

describe('the message of no answer', () => {
  it('names the code of the innermost error that has one', async () => {
    expect((await failure(noConnection)).message).toBe(
      `${WHERE} received no response (ECONNREFUSED). Check authUrl and the network.`,
    )
  })

  it('goes without where there is none', async () => {
    expect((await failure(() => Promise.reject(new TypeError('fetch failed')))).message).toBe(
      `${WHERE} received no response. Check authUrl and the network.`,
    )
  })

  it('is another where it began, and broke off before its end', async () => {
    expect((await failure(breaksOff())).message).toBe(
      `${WHERE} received an incomplete response (ECONNRESET). Try again later, or check the network, proxies and firewalls.`,
    )
  })

  it.each([
    [undefined, 10_000],
    [801, 801],
  ])('in time (timeoutMs: %s) says how long was waited', async (timeoutMs, waitedMs) => {
    expect((await failure(deaf, { timeoutMs }, waitedMs)).message).toBe(
      `${WHERE} was not answered within ${waitedMs} ms. ` +
        'The token endpoint hangs or is slow: try again later, or raise timeoutMs.',
    )
  })
})

describe('the message of a clientSecret function', () => {
  const NEXT = `, so no token was requested at https://auth.test.example/oauth/token.`

  it.each([
    ['that throws', () => Promise.reject(new Error(SECRET)), 'threw'],
    ['that yields nothing', () => '', 'yielded no secret'],
    ['that hangs', () => new Promise<string>(() => {}), 'did not answer in time'],
  ])('%s says so', async (_, clientSecret, what) => {
    const error = await failure(granted(), { clientSecret }, 10_000)
    expect(error.message).toBe(`The clientSecret function ${what}${NEXT}`)
    expect(error.retryable).toBe(true)
  })
})

describe('the message and the issues of an answer that is no token response', () => {
  const TOKEN = 'must be a non-empty string of the characters of a bearer token (RFC 6750 §2.1)'
  const EXPIRES = 'must be a positive whole number of seconds'
  const text = (body: string | null) => () => new Response(body)

  it.each([
    ['no access_token', granted({ access_token: undefined }), 'access_token', TOKEN],
    ['a bad access_token', granted({ access_token: 'a b' }), 'access_token', TOKEN],
    ['expires_in missing', granted({ expires_in: undefined }), 'expires_in', EXPIRES],
    ['expires_in 0', granted({ expires_in: 0 }), 'expires_in', EXPIRES],
    ['expires_in "0"', granted({ expires_in: '0' }), 'expires_in', EXPIRES],
    ['expires_in -1', granted({ expires_in: -1 }), 'expires_in', EXPIRES],
    ['no token_type', granted({ token_type: undefined }), 'token_type', 'must be Bearer'],
    ['token_type xBearer', granted({ token_type: 'xBearer' }), 'token_type', 'must be Bearer'],
    ['token_type mac', granted({ token_type: 'mac' }), 'token_type', 'must be Bearer'],
    ['HTML', text('<html>'), 'body', 'must be a JSON object'],
    ['nothing', text(''), 'body', 'must be a JSON object'],
    ['no body', text(null), 'body', 'must be a JSON object'],
    ['64 KiB and a byte', text(' '.repeat(65_537)), 'body', 'must not be longer than 65536 bytes'],
  ])('for %s name the field and the reason', async (_, answer, field, reason) => {
    const error = await failure<TokenResponseError>(answer)
    expect(error.issues).toEqual([{ field, reason }])
    expect(error.message).toBe(
      `${WHERE} gave an answer that is not a token response: ${field} ${reason}. Check authUrl.`,
    )
  })

  it('name all of them at once', async () => {
    expect((await failure(granted({ expires_in: null, token_type: 5 }))).message).toBe(
      `${WHERE} gave an answer that is not a token response: expires_in ${EXPIRES}; token_type must be Bearer. Check authUrl.`,
    )
  })

  it('for a token that was over when it came say that its life is too short', async () => {
    const clock = new ManualClock()
    const late: Answer = async (init) => {
      await clock.sleep(950)
      return await granted({ expires_in: 1 })(init)
    }
    const { provider, endpoint, events } = rig([late], { clock })
    const waiting = rejection<TokenResponseError>(provider.getToken())
    await clock.advance(950)
    const error = await waiting
    expect(error.issues).toEqual([{ field: 'expires_in', reason: 'is shorter than the request took' }])
    expect(error.message).toBe(
      `${WHERE} returned a token that expired before it could be used. ` +
        'Its lifetime is shorter than the request took.',
    )
    expect([provider.currentToken(), endpoint.count]).toEqual([undefined, 1])
    expect(events.map(({ type }) => type)).toEqual(['token-requested', 'token-request-failed'])
  })
})

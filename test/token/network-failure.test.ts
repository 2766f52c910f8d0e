/** A token request that gets no response, or one that cannot be read: what the error says, and what is retried. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { createTokenProvider, TokenRequestError } from 'merchant-auth'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { networkFailureOf } from '../../src/token/request/network-failure.ts'
import { type Answer, ENVIRONMENT, failed, rejection, rig, SECRET, status, withoutJitter } from './harness.ts'

withoutJitter()

/** Rejects as fetch does, with these codes in the chain of causes; the innermost has the message. */
function failing(codes: readonly (string | undefined)[], message = 'the innermost reason'): Answer {
  const cause = codes.reduceRight<Error | undefined>(
    (inner, code) =>
      Object.assign(new Error(inner ? 'outer' : message, inner && { cause: inner }), code && { code }),
    undefined,
  )
  return () => Promise.reject(new TypeError('fetch failed', { cause }))
}

/** Makes a call for which each attempt gets this answer. */
async function call(answer: Answer) {
  const made = rig([])
  made.endpoint.otherwise = answer
  const error = await failed(made)
  expect(error.message).toMatch(/\.$/) // the whole advice
  return { ...made, error }
}

describe('what fails each time is not retried, and its advice is in the message:', () => {
  it.each<[code: string, advice: string]>([
    ['UND_ERR_HEADERS_OVERFLOW', '--max-http-header-size'],
    ['HPE_INVALID_HEADER_TOKEN', 'not valid HTTP'],
    ['HPE_INVALID_CHUNK_SIZE', 'not valid HTTP'],
    ['UND_ERR_RES_EXCEEDED_MAX_SIZE', 'not valid HTTP'],
    ['Z_DATA_ERROR', 'Content-Encoding'],
    ['ERR__ERROR_FORMAT_PADDING_1', 'Content-Encoding'],
    ['ZSTD_error_prefix_unknown', 'Content-Encoding'],
    ['CERT_HAS_EXPIRED', 'must renew it'],
    ['CERT_NOT_YET_VALID', 'not valid yet'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'for another host name'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'NODE_EXTRA_CA_CERTS'],
    ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'NODE_EXTRA_CA_CERTS'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'NODE_EXTRA_CA_CERTS'],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'mutual TLS'],
    ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', 'mutual TLS'],
    ['ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE', 'mutual TLS'], // OpenSSL 3.5
    ['UNSPECIFIED', 'too weak'],
    ['INVALID_PURPOSE', 'not for servers'],
    ['ERR_ACCESS_DENIED', '--allow-net'],
    ['ERR_OSSL_BAD_DECRYPT', 'private key or a certificate cannot be read'],
    ['ERR_OSSL_X509_KEY_VALUES_MISMATCH', 'private key or a certificate cannot be read'],
    ['ERR_CRYPTO_UNSUPPORTED_OPERATION', 'private key or a certificate cannot be read'],
    ['UND_ERR_INVALID_ARG', 'dispatcher'],
  ])('%s', async (code, advice) => {
    for (const codes of [[code], ['ERR_NETWORK', code]]) {
      const { error, endpoint } = await call(failing(codes))
      expect(error).toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: false, attempts: 1 })
      expect(error.message).toContain(`(${code}: the innermost reason)`)
      expect(error.message).toContain(advice)
      expect(endpoint.count).toBe(1)
    }
  })

  it.each<[what: string, answer: Answer, says: RegExp]>([
    ['a PFX with another passphrase', failing([undefined], 'mac verify failure'), /cannot be read/],
    [
      'more encodings than fetch decodes',
      failing([undefined], 'too many content-encodings in response: 7, maximum allowed is 5'),
      /cannot be read .*names too many/,
    ],
    [
      'an AbortSignal of jsdom',
      failing(
        [undefined],
        'RequestInit: Expected signal ("AbortSignal {}") to be an instance of AbortSignal.',
      ),
      /was not sent .*jsdom.* environment "node" \(.*\): .*#test-environments\. /,
    ],
    [
      'a fetch of happy-dom',
      failing([undefined], 'Cross-Origin Request Blocked: The Same Origin Policy disallows reading'),
      /was not sent .*happy-dom.* environment "node"/,
    ],
    [
      'the fetch that jsdom lacks',
      () => Promise.reject(new TypeError('fetch is not a function')),
      /was not sent .*jsdom.* environment "node"/,
    ],
    [
      'a header that undici refuses',
      failing(['UND_ERR_INVALID_ARG'], 'invalid connection header'),
      /was not sent .*fetch refuses a header/,
    ],
    [
      'a value that no header has',
      () => Promise.reject(new TypeError('Headers.append: "a\nb" is an invalid header value.')),
      /was not sent .*fetch refuses a header/,
    ],
    [
      'an axios of the fetch function that throws at a 401',
      failing(['ERR_BAD_REQUEST'], 'Request failed with status code 401'),
      /cannot be read .*Let it return that response/,
    ],
    [
      'an old got of the fetch function that throws at a 401',
      () => Promise.reject(new Error('Response code 401 (Unauthorized)', { cause: {} })),
      /cannot be read \(Response code 401 .*Let it return that response/,
    ],
    [
      'the empty cause of a newer got',
      () => Promise.reject(new Error('Request failed with status code 403', { cause: new Error('') })),
      /cannot be read \(Request failed with status code 403\)/,
    ],
    [
      'another value that no header has',
      () => Promise.reject(new TypeError('Headers.set: "x\ny" is an invalid header value.')),
      /was not sent .*fetch refuses a header/,
    ],
    ['a URL without a host', failing(['ERR_INVALID_URL'], 'Invalid URL'), /was not sent .*must be absolute/],
    [
      'a proxy of Node.js 26 that asks for a password',
      failing(['UND_ERR_INVALID_ARG'], 'Proxy Authentication Required (407)'),
      /The proxy refuses/,
    ],
    [
      'an expired certificate in Deno',
      () => Promise.reject(new TypeError('client error: invalid peer certificate: Expired')),
      /must renew it/,
    ],
    [
      'a certificate for another name in Deno',
      () =>
        Promise.reject(
          new TypeError('client error: invalid peer certificate: certificate not valid for name "a"'),
        ),
      /for another host name/,
    ],
    [
      'what is not a dispatcher',
      failing([undefined], 'agent.dispatch is not a function'),
      /was not sent .*A dispatcher works/,
    ],
    [
      'a port that fetch refuses',
      failing([undefined], 'bad port'),
      /was not sent \(bad port\)\. .*Change the port/,
    ],
    [
      'a certificate that Deno refuses',
      () => Promise.reject(new TypeError('client error: invalid peer certificate: UnknownIssuer')),
      /UnknownIssuer\)\. .*certificate authority/,
    ],
    [
      'a slip in the fetch function',
      () => Promise.reject(new ReferenceError('proxy is not defined')),
      /was not sent \(ReferenceError: proxy is not defined\)\. Correct the fetch function\.$/,
    ],
  ])('%s', async (_, answer, says) => {
    const { error, endpoint } = await call(answer)
    expect(error).toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: false, attempts: 1 })
    expect(error.message).toMatch(says)
    expect(endpoint.count).toBe(1)
  })

  const readResponse = Response.json({})
  beforeAll(() => readResponse.text())

  it('not a fetch function that has read an error, as for a log', async () => {
    const { error } = await call(async () => {
      const response = new Response('{"error":"slow_down"}', {
        status: 429,
        headers: { 'retry-after': '600' },
      })
      await response.text()
      return response
    })
    expect(error).toMatchObject({ status: 429, answer: { retryAfterMs: 600_000 } })
  })

  it.each<[what: string, value: unknown]>([
    ['undefined', undefined],
    ['text', 'token'],
    ['an object with what a mock needs elsewhere', { ok: true, status: 200, json: async () => ({}) }],
    ['text as the body of a response', { ok: true, status: 200, headers: new Headers(), body: '{}' }],
    ['a response without a body', { ok: true, status: 200, headers: new Headers() }],
    ['a response that was read before', readResponse],
  ])('a fetch function that returns %s', async (_, value) => {
    const { error, endpoint } = await call(() => value as Response)
    expect(error).toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: false, attempts: 1 })
    expect(error.message).toContain(
      'the function of the option fetch returned something that is not a Response',
    )
    expect(endpoint.count).toBe(1)
  })
})

describe('what may succeed later is retried:', () => {
  it.each<[what: string, answer: Answer]>([
    ['a connection that ends in the headers', failing(['HPE_INVALID_EOF_STATE'])],
    ['a compressed body that ends early', failing(['Z_BUF_ERROR'])],
    ['fewer bytes than announced', failing(['UND_ERR_RES_CONTENT_LENGTH_MISMATCH'])],
    ['an unknown code', failing(['EWHATEVER'])],
    [
      'an axios of the fetch function that throws at a 503',
      failing(['ERR_BAD_RESPONSE'], 'Request failed with status code 503'),
    ],
    [
      'a page where the fetch function expects JSON',
      () => Promise.reject(new SyntaxError("Unexpected token '<'")),
    ],
    ['no file descriptors', failing(['EMFILE'])],
    ['a TLS alert in Deno', () => Promise.reject(new TypeError('received fatal alert: ProtocolVersion'))],
    [
      'a lost connection in Deno',
      () => Promise.reject(new TypeError('error sending request: connection reset')),
    ],
    ['a lost connection in Workers', () => Promise.reject(new Error('Network connection lost.'))],
  ])('%s', async (_, answer) => {
    const { error, endpoint } = await call(answer)
    expect(error).toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: true, attempts: 3 })
    expect(endpoint.count).toBe(3)
  })
})

describe('the advice for a code of fetch', () => {
  const ANY =
    'Unless the reason says more, check the URL, the network, the firewall, the proxy, and your own fetch function, if there is one.'
  const meaningOf = (code: string) =>
    networkFailureOf(Object.assign(new Error('the reason'), { code }), { isLoopback: false })

  /** Codes with the beginning of their advice. */
  const CODES: [code: string, advice: string][] = [
    ['UND_ERR_HEADERS_OVERFLOW', 'Its headers are larger than'],
    ['UND_ERR_SOCKET', 'Try again. If it happens again'],
    ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'Try again. If it happens again'],
    ['HPE_INVALID_EOF_STATE', 'Try again. If it happens again'],
    ['Z_BUF_ERROR', 'Try again. If it happens again'],
    ['Z_DATA_ERROR', 'Its body is not in the encoding'],
    ['ERR_BROTLI_DECODER_ERROR', 'Its body is not in the encoding'],
    ['ERR__ERROR_FORMAT_PADDING_1', 'Its body is not in the encoding'],
    ['ZSTD_error_prefix_unknown', 'Its body is not in the encoding'],
    ['CERT_HAS_EXPIRED', "The server's certificate, or that of one"],
    ['CERT_NOT_YET_VALID', "The server's certificate is not valid yet"],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'The certificate is for another host name'],
    ['HOSTNAME_MISMATCH', 'The certificate is for another host name'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'The server may not send its intermediate certificate'],
    ['INVALID_CA', 'No certificate authority that Node.js trusts'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'No certificate authority that Node.js trusts'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'This port does not speak TLS'],
    ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'This port does not speak TLS'],
    ['EPROTO', 'The server may require a client certificate'],
    ['ERR_OSSL_BAD_DECRYPT', 'A private key or a certificate cannot be read'],
    ['ERR_CRYPTO_UNSUPPORTED_OPERATION', 'A private key or a certificate cannot be read'],
    ['ERR_ACCESS_DENIED', 'The permission model of Node.js'],
    ['UND_ERR_INVALID_ARG', 'A dispatcher works with the fetch of its own undici'],
    ['ERR_HTTP2_INVALID_CONNECTION_HEADERS', 'HTTP/2 has no such header'],
    ['EMFILE', 'This process has too many'],
    ['UND_ERR_NOT_SUPPORTED', 'fetch refuses a header'],
    ['UND_ERR_REQ_CONTENT_LENGTH_MISMATCH', 'fetch refuses a header'],
    ['UND_ERR_DESTROYED', 'This program has closed the dispatcher'],
    ['UND_ERR_CLOSED', 'This program has closed the dispatcher'],
    ['ENOTFOUND', 'Check the spelling of the host name'],
    ['EAI_AGAIN', 'The DNS server did not respond'],
    ['ETIMEDOUT', 'The host does not respond'],
    ['UND_ERR_CONNECT_TIMEOUT', 'The host does not respond'],
    ['ECONNREFUSED', 'Nothing listens on this port, or a firewall'],
    ['EHOSTUNREACH', 'There is no route to this host'],
    ['ENETUNREACH', 'There is no route to this host'],
    ['ECONNRESET', 'The connection was reset'],
  ]
  /** Families of codes, of which the beginning counts. */
  const FAMILIES: [code: string, advice: string][] = [
    ['HPE_INVALID_CONSTANT', 'It is not valid HTTP'],
    ['UND_ERR_RES_EXCEEDED', 'It is not valid HTTP'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'The server may require a client certificate'],
    ['ERR_SSL_NO_CIPHER_MATCH', 'The server may require a client certificate'],
    ['ERR_HTTP2_STREAM_ERROR', 'The server, or a gateway in front of it, ended the HTTP/2 stream'],
    ['ERR_TLS_HANDSHAKE_TIMEOUT', 'The server may require a client certificate'],
  ]

  it.each([...CODES, ...FAMILIES])('is its own: %s', (code, advice) => {
    expect(meaningOf(code).advice.slice(0, advice.length)).toBe(advice)
    expect(meaningOf(code).advice).toMatch(/\.$/)
    expect(meaningOf(code).code).toBe(code)
  })

  it.each([
    [403, true, /^The proxy refuses/],
    [407, true, /^The proxy refuses/],
    [502, false, /^The proxy did not open a tunnel/],
  ])('of a tunnel that a proxy does not open is in its message: %i', (status, isLasting, advice) => {
    const error = new Error(`Proxy response (${status}) !== 200 when HTTP Tunneling`)
    const failure = networkFailureOf(Object.assign(error, { code: 'UND_ERR_ABORTED' }), { isLoopback: false })
    expect(failure).toMatchObject({ isLasting, advice: expect.stringMatching(advice) })
  })

  it('of a TLS handshake that is cut is in its message', () => {
    const error = new Error('Client network socket disconnected before secure TLS connection was established')
    const failure = networkFailureOf(Object.assign(error, { code: 'ECONNRESET' }), { isLoopback: false })
    expect(failure).toMatchObject({ step: 'tls', code: 'ECONNRESET', isLasting: false })
    expect(failure.advice).toContain('mutual TLS')
  })

  it('of EPROTO is in its message', () => {
    const error = new Error(
      'write EPROTO 0A:error:0A00010B:SSL routines:ssl3_get_record:wrong version number',
    )
    const failure = networkFailureOf(Object.assign(error, { code: 'EPROTO' }), { isLoopback: false })
    expect(failure).toMatchObject({ code: 'EPROTO', advice: expect.stringContaining('does not speak TLS') })
  })

  it.each(CODES)('is not for a longer code that contains it: %s', (code, advice) => {
    for (const longer of [`x${code}`, `${code}.`]) expect(meaningOf(longer).advice).not.toContain(advice)
  })

  it.each(FAMILIES)('is not for a code that contains the name of its family: %s', (code) => {
    expect(meaningOf(`x${code}`).advice).toBe(ANY)
  })

  it.each([
    'no bad port',
    'bad ports',
    'x mac verify failure',
    'mac verify failures',
    'not too many content-encodings',
    'x fetch is not a function',
    'fetch is not a function x',
    'x Cross-Origin Request Blocked',
  ])('is not for a longer message: %s', (message) => {
    expect(networkFailureOf(new Error(message), { isLoopback: false }).advice).toBe(ANY)
  })

  it('names the sandbox where nothing listens on this machine, and only there', () => {
    const refused = (code: string) =>
      networkFailureOf(Object.assign(new Error('x'), { code }), { isLoopback: true }).advice
    expect(refused('ECONNREFUSED')).toMatch(/Each start has a new port .* In a container, .*\.$/)
    expect(refused('ECONNRESET')).not.toContain('Each start has a new port')
    expect(meaningOf('ECONNREFUSED').advice).not.toContain('Each start has a new port')
  })

  it('names the time where one of several addresses timed out, and only there', () => {
    const of = (code: string, ...errors: string[]) => {
      const each = errors.map((message) => Object.assign(new Error(message), { code }))
      return networkFailureOf(Object.assign(new AggregateError(each), { code }), { isLoopback: false }).advice
    }
    expect(of('ETIMEDOUT', 'a', 'b')).toContain('a fraction of a second')
    expect(of('ETIMEDOUT', 'a')).not.toContain('a fraction of a second')
    expect(of('EHOSTUNREACH', 'a', 'b')).not.toContain('a fraction of a second')
  })

  it('has a code on one line, of limited length', () => {
    expect(meaningOf(`E\n${'X'.repeat(99)}`).code).toHaveLength(60)
  })

  it('stands beside the name of an error without a message', () => {
    const reasonOf = (error: Error) => networkFailureOf(error, { isLoopback: false }).reason
    expect(reasonOf(new RangeError(''))).toBe('RangeError')
    expect(reasonOf(Object.assign(new RangeError(''), { code: 'EX' }))).toBe('EX')
  })
})

it('of a host with several addresses the message has the reason of each', async () => {
  const errors = [
    Object.assign(new Error('connect ENETUNREACH 2001:db8::1:443'), { code: 'ENETUNREACH' }),
    Object.assign(new Error('connect ETIMEDOUT 203.0.113.1:443'), { code: 'ETIMEDOUT' }),
  ]
  const cause = Object.assign(new AggregateError(errors), { code: 'ENETUNREACH' })
  const { error } = await call(() => Promise.reject(new TypeError('fetch failed', { cause })))
  expect(error.message).toContain('(connect ENETUNREACH 2001:db8::1:443; connect ETIMEDOUT 203.0.113.1:443)')
  expect(error.message).toContain('--network-family-autoselection-attempt-timeout')
  expect(error.cause).toMatchObject({
    cause: { errors: errors.map(({ message, code }) => ({ message, code })) },
  })
})

it('what is no Error has a reason, too', async () => {
  const { error } = await call(() => Promise.reject('boom'))
  expect(error.message).toContain('received no response (what was thrown is no Error). ')
})

it.each([
  ['UND_ERR_SOCKET', 'connection'],
  ['CERT_HAS_EXPIRED', 'tls'],
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'tls'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'tls'],
  ['ENOTFOUND', 'name'],
])('check shows %s at its step %s', (code, step) => {
  const failure = Object.assign(new Error('failed'), { code })
  expect(networkFailureOf(failure, { isLoopback: false }).step).toBe(step)
})

it('a reason that echoes the secret is redacted and on one line', async () => {
  const { error } = await call(failing(['EPROTO'], `wrong\r\n${SECRET}`))
  expect(error.message).toContain('(EPROTO: wrong [hidden])')
})

it('the cooldown after what fails each time grows to that of a 4xx', async () => {
  const pausesAfter = async (answer: Answer): Promise<unknown[]> => {
    const { provider, clock } = await call(answer)
    const pauses: unknown[] = []
    for (let n = 0; n < 6; n += 1) {
      const { retryAfterMs } = await rejection<TokenRequestError>(provider.getToken())
      pauses.push(retryAfterMs)
      await clock.advance(Number(retryAfterMs))
      await rejection(provider.getToken())
    }
    return pauses
  }
  const lasting = failing(['CERT_HAS_EXPIRED'])
  expect(await pausesAfter(lasting)).toEqual(await pausesAfter(status(400)))
})

describe('on real connections', () => {
  const TOKEN = '{"access_token":"a.b.c","token_type":"Bearer","expires_in":3600}'
  const answer = (fields: string, body = TOKEN): string => `HTTP/1.1 200 OK\r\n${fields}\r\n\r\n${body}`
  const LENGTH = `content-length: ${TOKEN.length}`

  it.each<[what: string, answer: string, isBrokenOff: boolean]>([
    ['17 kB of headers', answer(`x: ${'x'.repeat(17_000)}\r\n${LENGTH}`), false],
    ['a header with a control character in its name', answer(`x\u0001y: z\r\n${LENGTH}`), false],
    ['a chunk without a size', answer('transfer-encoding: chunked', `zz\r\n${TOKEN}\r\n0\r\n\r\n`), false],
    ['no HTTP at all', 'SSH-2.0-OpenSSH_9\r\n', false],
    ['a body that is not gzip', answer(`content-encoding: gzip\r\n${LENGTH}`), false],
    ['a body that is not Brotli', answer(`content-encoding: br\r\n${LENGTH}`), false],
    ['fewer bytes than announced', answer('connection: close\r\ncontent-length: 900'), true],
    ['an end in the headers', 'HTTP/1.1 200 OK\r\ncontent-ty', true],
  ])('%s: a response that cannot be read, or is broken off', async (_, text, isBrokenOff) => {
    let requests = 0
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        requests += 1
        socket.end(text)
      })
    })
    onTestFinished(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const authUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const tokens = createTokenProvider({
      environment: { ...ENVIRONMENT, authUrl },
      clientId: 'client-1',
      clientSecret: SECRET,
      timeoutMs: 30_000,
      retries: 2,
    })
    const error = await rejection<TokenRequestError>(tokens.getToken())
    expect(error).toBeInstanceOf(TokenRequestError)
    expect([error.retryable, error.attempts, requests]).toEqual(isBrokenOff ? [true, 3, 3] : [false, 1, 1])
    expect(error.message.includes('returned a response that cannot be read')).toBe(!isBrokenOff)
  })
})

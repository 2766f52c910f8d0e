/** A token request that gets no response, or one that cannot be read: what the error says, and what is retried. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import axios, { type AxiosRequestConfig } from 'axios'
import { createTokenProvider, TokenRequestError } from 'merchant-auth'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { adviceOf } from '../../src/advice/failure.ts'
import { networkFailureOf } from '../../src/advice/network.ts'
import { kindsIn } from '../support/failures.ts'
import { type Answer, ENVIRONMENT, failed, rejection, rig, SECRET, status, withoutJitter } from './harness.ts'

withoutJitter()

/** The kind of a failure of the network, whose advice must be in the message. */
function kindOf({ cause, message }: TokenRequestError): string {
  const { failure } = networkFailureOf(cause as Error, { isLoopback: false })
  expect(message).toContain(adviceOf(failure))
  return failure.kind
}

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
  it.each<[code: string, kind: string]>([
    ['UND_ERR_HEADERS_OVERFLOW', 'headers-too-large'],
    ['HPE_HEADER_OVERFLOW', 'headers-too-large'],
    ['HPE_INVALID_HEADER_TOKEN', 'not-http'],
    ['HPE_INVALID_CHUNK_SIZE', 'not-http'],
    ['HPE_UNEXPECTED_CONTENT_LENGTH', 'not-http'],
    ['UND_ERR_RES_EXCEEDED_MAX_SIZE', 'not-http'],
    ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'not-http'], // of two different Content-Lengths
    ['Z_DATA_ERROR', 'encoding'],
    ['ERR__ERROR_FORMAT_PADDING_1', 'encoding'],
    ['ZSTD_error_prefix_unknown', 'encoding'],
    ['CERT_HAS_EXPIRED', 'certificate'],
    ['CERT_NOT_YET_VALID', 'certificate'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'certificate'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'unknown-authority'],
    ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unknown-authority'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unknown-authority'],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'client-certificate'],
    ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', 'client-certificate'],
    ['ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE', 'client-certificate'], // OpenSSL 3.5
    ['UNSPECIFIED', 'certificate'],
    ['INVALID_PURPOSE', 'certificate'],
    ['ERR_ACCESS_DENIED', 'program'],
    ['ERR_OSSL_BAD_DECRYPT', 'unreadable-key'],
    ['ERR_OSSL_X509_KEY_VALUES_MISMATCH', 'unreadable-key'],
    ['ERR_CRYPTO_UNSUPPORTED_OPERATION', 'unreadable-key'],
    ['UND_ERR_INVALID_ARG', 'other-undici'],
  ])('%s', async (code, kind) => {
    for (const codes of [[code], ['ERR_NETWORK', code]]) {
      const { error, endpoint } = await call(failing(codes))
      expect(error).toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: false, attempts: 1 })
      expect(error.message).toContain(`(${code}: the innermost reason)`)
      expect(kindOf(error)).toBe(kind)
      expect(endpoint.count).toBe(1)
    }
  })

  it.each<[what: string, answer: Answer, kind: string]>([
    ['a PFX with another passphrase', failing([undefined], 'mac verify failure'), 'unreadable-key'],
    [
      'more encodings than fetch decodes',
      failing([undefined], 'too many content-encodings in response: 7, maximum allowed is 5'),
      'encoding',
    ],
    [
      'an AbortSignal of jsdom',
      failing(
        [undefined],
        'RequestInit: Expected signal ("AbortSignal {}") to be an instance of AbortSignal.',
      ),
      'no-fetch',
    ],
    [
      'a fetch of happy-dom',
      failing([undefined], 'Cross-Origin Request Blocked: The Same Origin Policy disallows reading'),
      'no-fetch',
    ],
    [
      'the fetch that jsdom lacks',
      () => Promise.reject(new TypeError('fetch is not a function')),
      'no-fetch',
    ],
    [
      'a header that undici refuses',
      failing(['UND_ERR_INVALID_ARG'], 'invalid connection header'),
      'program',
    ],
    [
      'a value that no header has',
      () => Promise.reject(new TypeError('Headers.append: "a\nb" is an invalid header value.')),
      'program',
    ],
    [
      'an axios of the fetch function that throws at a 401',
      failing(['ERR_BAD_REQUEST'], 'Request failed with status code 401'),
      'thrown-4xx',
    ],
    [
      'an old got of the fetch function that throws at a 401',
      () => Promise.reject(new Error('Response code 401 (Unauthorized)', { cause: {} })),
      'thrown-4xx',
    ],
    [
      'the empty cause of a newer got',
      () => Promise.reject(new Error('Request failed with status code 403', { cause: new Error('') })),
      'thrown-4xx',
    ],
    [
      'another value that no header has',
      () => Promise.reject(new TypeError('Headers.set: "x\ny" is an invalid header value.')),
      'program',
    ],
    ['a URL without a host', failing(['ERR_INVALID_URL'], 'Invalid URL'), 'program'],
    [
      'a proxy of Node.js 26 that asks for a password',
      failing(['UND_ERR_INVALID_ARG'], 'Proxy Authentication Required (407)'),
      'proxy-refuses',
    ],
    [
      'an expired certificate in Deno',
      () => Promise.reject(new TypeError('client error: invalid peer certificate: Expired')),
      'certificate',
    ],
    [
      'a certificate for another name in Deno',
      () =>
        Promise.reject(
          new TypeError('client error: invalid peer certificate: certificate not valid for name "a"'),
        ),
      'certificate',
    ],
    ['what is not a dispatcher', failing([undefined], 'agent.dispatch is not a function'), 'other-undici'],
    ['a port that fetch refuses', failing([undefined], 'bad port'), 'program'],
    [
      'a certificate that Deno refuses',
      () => Promise.reject(new TypeError('client error: invalid peer certificate: UnknownIssuer')),
      'unknown-authority',
    ],
    [
      'a slip in the fetch function',
      () => Promise.reject(new ReferenceError('proxy is not defined')),
      'program',
    ],
  ])('%s', async (_, answer, kind) => {
    const { error, endpoint } = await call(answer)
    expect(error).toMatchObject({ code: 'ERR_TOKEN_NETWORK', retryable: false, attempts: 1 })
    expect(kindOf(error)).toBe(kind)
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
    expect(kindsIn(error.message)).toEqual(['no-response-object'])
    expect(error.message).toContain('option fetch')
    expect(endpoint.count).toBe(1)
  })
})

describe('what may succeed later is retried:', () => {
  it.each<[what: string, answer: Answer]>([
    ['a connection that ends in the headers', failing(['HPE_INVALID_EOF_STATE'])],
    ['a compressed body that ends early', failing(['Z_BUF_ERROR'])],
    [
      'fewer bytes than announced',
      () =>
        Promise.reject(
          new TypeError('terminated', {
            cause: Object.assign(new Error('length'), { code: 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' }),
          }),
        ),
    ],
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

describe('the kind for a code of fetch', () => {
  const foundFor = (code: string, message = 'the reason') =>
    networkFailureOf(Object.assign(new Error(message), { code }), { isLoopback: false })
  const kindFor = (code: string, message?: string) => foundFor(code, message).failure.kind

  const CODES: [code: string, kind: string][] = [
    ['UND_ERR_HEADERS_OVERFLOW', 'headers-too-large'],
    ['HPE_HEADER_OVERFLOW', 'headers-too-large'],
    ['UND_ERR_SOCKET', 'broken-off'],
    ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'broken-off'],
    ['HPE_INVALID_EOF_STATE', 'broken-off'],
    ['Z_BUF_ERROR', 'broken-off'],
    ['Z_DATA_ERROR', 'encoding'],
    ['ERR_BROTLI_DECODER_ERROR', 'encoding'],
    ['ERR__ERROR_FORMAT_PADDING_1', 'encoding'],
    ['ZSTD_error_prefix_unknown', 'encoding'],
    ['CERT_HAS_EXPIRED', 'certificate'],
    ['CERT_NOT_YET_VALID', 'certificate'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'certificate'],
    ['HOSTNAME_MISMATCH', 'certificate'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unknown-authority'],
    ['INVALID_CA', 'unknown-authority'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'unknown-authority'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'no-tls'],
    ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'no-tls'],
    ['EPROTO', 'tls'],
    ['ERR_OSSL_BAD_DECRYPT', 'unreadable-key'],
    ['ERR_CRYPTO_UNSUPPORTED_OPERATION', 'unreadable-key'],
    ['ERR_ACCESS_DENIED', 'program'],
    ['UND_ERR_INVALID_ARG', 'other-undici'],
    ['ERR_HTTP2_INVALID_CONNECTION_HEADERS', 'program'],
    ['EMFILE', 'too-many-files'],
    ['UND_ERR_NOT_SUPPORTED', 'program'],
    ['UND_ERR_REQ_CONTENT_LENGTH_MISMATCH', 'program'],
    ['UND_ERR_DESTROYED', 'dispatcher-closed'],
    ['UND_ERR_CLOSED', 'dispatcher-closed'],
    ['ENOTFOUND', 'unknown-host'],
    ['EAI_AGAIN', 'no-dns'],
    ['ETIMEDOUT', 'no-connection'],
    ['UND_ERR_CONNECT_TIMEOUT', 'no-connection'],
    ['ECONNREFUSED', 'nothing-listens'],
    ['EHOSTUNREACH', 'no-connection'],
    ['ENETUNREACH', 'no-connection'],
    ['ECONNRESET', 'no-connection'],
  ]
  /** Families of codes, of which the beginning counts. */
  const FAMILIES: [code: string, kind: string][] = [
    ['HPE_INVALID_CONSTANT', 'not-http'],
    ['UND_ERR_RES_EXCEEDED', 'not-http'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'client-certificate'],
    ['ERR_SSL_NO_CIPHER_MATCH', 'tls'],
    ['ERR_HTTP2_STREAM_ERROR', 'http2'],
    ['ERR_TLS_HANDSHAKE_TIMEOUT', 'tls'],
  ]

  it.each([...CODES, ...FAMILIES])('%s is %s', (code, kind) => {
    expect(foundFor(code)).toMatchObject({ code, failure: { kind } })
  })

  it.each([
    [403, 'proxy-refuses', true],
    [407, 'proxy-refuses', true],
    [502, 'no-connection', undefined],
  ])('of a tunnel that a proxy does not open is in its message: %i', (status, kind, isLasting) => {
    const { failure } = foundFor('UND_ERR_ABORTED', `Proxy response (${status}) !== 200 when HTTP Tunneling`)
    expect([failure.kind, failure.isLasting]).toEqual([kind, isLasting])
  })

  it('of a TLS handshake that is cut is in its message', () => {
    const message = 'Client network socket disconnected before secure TLS connection was established'
    const { failure, code } = foundFor('ECONNRESET', message)
    expect([failure.kind, failure.isLasting, code]).toEqual(['tls', undefined, 'ECONNRESET'])
  })

  it('of EPROTO is in its message', () => {
    const message = 'write EPROTO 0A:error:0A00010B:SSL routines:ssl3_get_record:wrong version number'
    expect(kindFor('EPROTO', message)).toBe('no-tls')
  })

  it.each(CODES)('is not for a longer code that contains it: %s', (code, kind) => {
    for (const longer of [`x-${code}`, `${code}.`]) expect(kindFor(longer)).not.toBe(kind)
  })

  it.each(FAMILIES)('is not for a code that contains the name of its family: %s', (code) => {
    expect(kindFor(`x${code}`)).toBe('unknown')
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
    expect(networkFailureOf(new Error(message), { isLoopback: false }).failure.kind).toBe('unknown')
  })

  it('is one of its own where nothing listens on this machine, and only there', () => {
    const here = (code: string) =>
      networkFailureOf(Object.assign(new Error('x'), { code }), { isLoopback: true }).failure.kind
    expect([here('ECONNREFUSED'), here('ECONNRESET')]).toEqual(['nothing-listens-here', 'no-connection'])
  })

  it('is one of its own where one of several addresses timed out, and only there', () => {
    const of = (code: string, ...errors: string[]) => {
      const each = errors.map((message) => Object.assign(new Error(message), { code }))
      const error = Object.assign(new AggregateError(each), { code })
      return networkFailureOf(error, { isLoopback: false }).failure.kind
    }
    expect(of('ETIMEDOUT', 'a', 'b')).toBe('one-of-several-addresses')
    expect(of('ETIMEDOUT', 'a')).toBe('no-connection')
    expect(of('EHOSTUNREACH', 'a', 'b')).toBe('no-connection')
  })

  it('has a code on one line, of limited length', () => {
    expect(foundFor(`E\n${'X'.repeat(99)}`).code).toHaveLength(60)
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
  expect(kindOf(error)).toBe('one-of-several-addresses')
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
  expect(networkFailureOf(failure, { isLoopback: false }).failure.step).toBe(step)
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

/** A function for the option fetch that uses axios, and so node:http. */
const axiosFetch = (async (url: string, { method, headers, body, signal }: RequestInit) => {
  const { data, ...response } = await axios.request<string>({
    url,
    method,
    headers,
    data: body,
    signal,
    adapter: 'http',
    responseType: 'text',
    validateStatus: () => true,
  } as AxiosRequestConfig)
  return new Response(data, { status: response.status })
}) as typeof fetch

describe('on real connections', () => {
  const TOKEN = '{"access_token":"a.b.c","token_type":"Bearer","expires_in":3600}'
  const answer = (fields: string, body = TOKEN): string => `HTTP/1.1 200 OK\r\n${fields}\r\n\r\n${body}`
  const LENGTH = `content-length: ${TOKEN.length}`

  const ANSWERS: [what: string, answer: string, isBrokenOff: boolean][] = [
    ['17 kB of headers', answer(`x: ${'x'.repeat(17_000)}\r\n${LENGTH}`), false],
    ['a header with a control character in its name', answer(`x\u0001y: z\r\n${LENGTH}`), false],
    ['a chunk without a size', answer('transfer-encoding: chunked', `zz\r\n${TOKEN}\r\n0\r\n\r\n`), false],
    ['no HTTP at all', 'SSH-2.0-OpenSSH_9\r\n', false],
    ['a body that is not gzip', answer(`content-encoding: gzip\r\n${LENGTH}`), false],
    ['a body that is not Brotli', answer(`content-encoding: br\r\n${LENGTH}`), false],
    ['two different Content-Lengths', answer(`${LENGTH}\r\ncontent-length: 900`), false],
    ['fewer bytes than announced', answer('connection: close\r\ncontent-length: 900'), true],
    ['an end in the headers', 'HTTP/1.1 200 OK\r\ncontent-ty', true],
  ]
  const CLIENTS = { fetch, axios: axiosFetch }
  const cases = ANSWERS.flatMap((row) =>
    (['fetch', 'axios'] as const).map((client) => [client, ...row] as const),
  )

  it.each(cases)(
    'with %s, %s: a response that cannot be read, or is broken off',
    async (client, _, text, isBrokenOff) => {
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
        fetch: CLIENTS[client],
      })
      const error = await rejection<TokenRequestError>(tokens.getToken())
      expect(error).toBeInstanceOf(TokenRequestError)
      expect([error.retryable, error.attempts, requests]).toEqual(isBrokenOff ? [true, 3, 3] : [false, 1, 1])
      expect(error.message.includes('returned a response that cannot be read')).toBe(!isBrokenOff)
    },
  )
})

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import { createTokenProvider, type TokenRequestError } from 'merchant-auth'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { readRetryAfter } from '../../src/token/token-response.ts'
import { ENVIRONMENT, granted, rejection, rig, SECRET, status } from './harness.ts'

async function failure(code: number, body: unknown): Promise<TokenRequestError> {
  const { provider } = rig([status(code, body)], { retries: 0 })
  return await rejection<TokenRequestError>(provider.getToken())
}

describe('an error answer of RFC 6749', () => {
  it('is a TokenRequestError with error and errorDescription', async () => {
    const error = await failure(401, { error: 'invalid_client', error_description: 'Unknown client.' })
    expect(error).toMatchObject({
      name: 'TokenRequestError',
      code: 'ERR_TOKEN_STATUS',
      status: 401,
      error: 'invalid_client',
      errorDescription: 'Unknown client.',
      attempts: 1,
      retryable: false,
    })
    for (const part of [
      'POST https://auth.test.example/oauth/token',
      '401',
      'invalid_client',
      'Unknown client.',
    ])
      expect(error.message).toContain(part)
  })

  it.each([
    [400, 'authUrl'],
    [401, 'clientSecret'],
    [403, 'audience'],
    [408, 'later'],
    [429, 'later'],
    [503, 'later'],
  ])('with status %i says what to do next', async (code, word) => {
    expect((await failure(code, '')).message).toContain(word)
  })

  it.each([
    ['no JSON', '<html>'],
    ['null', 'null'],
    ['an array', '[1]'],
    ['numbers', { error: 5, error_description: {} }],
    ['nothing', ''],
    ['too much', 'x'.repeat(100_000)],
  ])('with %s in its body has its status all the same', async (_, body) => {
    const error = await failure(400, body)
    expect(error).toMatchObject({ status: 400, code: 'ERR_TOKEN_STATUS' })
    expect(error.error).toBeUndefined()
    expect(error.errorDescription).toBeUndefined()
  })

  it('that breaks off has its status all the same', async () => {
    const body = new ReadableStream({ start: (controller) => controller.error(new TypeError('terminated')) })
    const { provider } = rig([() => new Response(body, { status: 400 })])
    await expect(provider.getToken()).rejects.toMatchObject({ status: 400 })
  })

  it('of many lines is shown on one, and not at full length', async () => {
    const error = await failure(400, { error: 'x', error_description: `a\r\nb\u0007${'c'.repeat(9_999)}` })
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
    const error = await failure(401, {
      error: `bad ${echoed}`,
      error_description: `secret ${echoed} is wrong`,
    })
    expect(error.errorDescription).toMatch(/^(?:secret )?\[hidden\](?: is wrong)?$/)
    for (const print of [inspect(error, { depth: 9 }), JSON.stringify(error), error.stack, error.message])
      expect(print).not.toContain(echoed)
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

// The APIs of the sandbox: how they judge a token, and what they answer.
import { createHash } from 'node:crypto'
import { decodeJwt } from 'jose'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { SandboxSettings } from '../../src/testing/index.ts'
import { call, callPlainly, echoOf, freshToken, sendRaw, turn, until, useSandbox } from './calls.ts'

const use = useSandbox()
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const challengeOf = (response: Response) => `${response.status} ${response.headers.get('www-authenticate')}`
const invalid = (description: string) =>
  `401 Bearer realm="merchant", error="invalid_token", error_description="${description}"`

describe('an API', () => {
  it('answers with what it received', async () => {
    const token = await freshToken(use.env)
    const response = await call(`${use.env.merchantUrl}/orders/7?a=1&a=2`, token, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k-1' },
      body: '{"sum":"12 €"}',
    })
    expect(response.status).toBe(200)
    const { headers, ...echo } = await echoOf(response)
    const jti = decodeJwt(token).jti
    expect(echo).toEqual({
      api: 'merchant',
      method: 'PATCH',
      path: '/merchant/orders/7',
      query: 'a=1&a=2',
      body: '{"sum":"12 €"}',
      bodySha256: createHash('sha256').update('{"sum":"12 €"}').digest('hex'),
      jti,
    })
    expect(headers).toMatchObject({ authorization: `Bearer [token ${jti}]`, 'idempotency-key': 'k-1' })
  })

  it('answers with the base64 of a body that is not UTF-8', async () => {
    const body = new Uint8Array([0xff, 0x00, 0xfe])
    const response = await call(use.env.inStoreUrl, await freshToken(use.env), { method: 'PUT', body })
    const echo = await echoOf(response)
    expect(echo).toMatchObject({ api: 'in-store', path: '/in-store', query: '', bodyBase64: '/wD+' })
    expect(echo).not.toHaveProperty('body')
  })

  it('answers any method, and HEAD without a body', async () => {
    const token = await freshToken(use.env)
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS', 'PURGE']) {
      expect((await echoOf(await call(`${use.env.merchantUrl}/x`, token, { method }))).method).toBe(method)
    }
    const head = await call(use.env.merchantUrl, token, { method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(Number(head.headers.get('content-length'))).toBeGreaterThan(0)
    expect(await head.text()).toBe('')
  })

  it('takes a body of 10 MiB, and answers 413 to a longer one', async () => {
    const token = await freshToken(use.env)
    const body = Buffer.alloc(10 * 1024 * 1024, 'x')
    const whole = await echoOf(await call(use.env.merchantUrl, token, { method: 'POST', body }))
    expect(whole.bodySha256).toBe(createHash('sha256').update(body).digest('hex'))
    const longer = Buffer.concat([body, Buffer.from('x')])
    expect((await call(use.env.merchantUrl, token, { method: 'POST', body: longer })).status).toBe(413)
  })

  it('shows a header that came twice', async () => {
    const token = await freshToken(use.env)
    const lines = ['GET /merchant HTTP/1.1', 'host: x', 'connection: close', `authorization: Bearer ${token}`]
    await sendRaw(use.env.merchantUrl, [...lines, 'x-a: 1', 'x-a: 2', '', ''].join('\r\n'))
    expect(use.env.requests('merchant')[0]).toMatchObject({ status: 200, headers: { 'x-a': '1, 2' } })
    await sendRaw(use.env.merchantUrl, [...lines, `authorization: Bearer ${token}`, '', ''].join('\r\n'))
    expect(use.env.requests('merchant')[1]).toMatchObject({ status: 401 })
  })

  it('is the same where a proxy was asked for', async () => {
    const answer = await sendRaw(
      use.env.merchantUrl,
      `GET ${use.env.merchantUrl}/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
    expect(use.env.requests('merchant')[0]?.path).toBe('/merchant/x')
  })
})

describe('an API answers 401', () => {
  it('without an error code where there is no token (RFC 6750 §3.1)', async () => {
    const { merchantUrl, inStoreUrl } = use.env
    expect(challengeOf(await call(merchantUrl, undefined))).toBe('401 Bearer realm="merchant"')
    expect(challengeOf(await call(inStoreUrl, undefined))).toBe('401 Bearer realm="in-store"')
    const basic = await fetch(merchantUrl, { headers: { authorization: 'Basic eDp5' } })
    expect(challengeOf(basic)).toBe('401 Bearer realm="merchant"')
    expect(use.env.counts).toMatchObject({ merchant: 2, 'in-store': 1, unauthorized: 3 })
  })

  it.each(['x', 'a.b.c', 'undefined', ''])('to a malformed token %j', async (token) => {
    const response = await fetch(use.env.merchantUrl, { headers: { authorization: `Bearer ${token}` } })
    expect(challengeOf(response)).toBe(invalid('The token is malformed'))
  })

  it('to a token with a wrong signature', async () => {
    const [head, claims] = (await freshToken(use.env)).split('.')
    const other = (await freshToken(use.env)).split('.')[2]
    const response = await call(use.env.merchantUrl, `${head}.${claims}.${other}`)
    expect(challengeOf(response)).toBe(invalid('The signature of the token is wrong'))
  })

  it('to a token that names no signature', async () => {
    const claims = (await freshToken(use.env)).split('.')[1]
    const head = Buffer.from('{"alg":"none"}').toString('base64url')
    expect((await call(use.env.merchantUrl, `${head}.${claims}.`)).status).toBe(401)
  })

  it('to a token from its expiry on, to the millisecond', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_123 })
    use.env.configure({ lifetimeSeconds: 2 })
    const token = await freshToken(use.env)
    vi.setSystemTime(1_700_000_002_122)
    expect((await call(use.env.merchantUrl, token)).status).toBe(200)
    vi.setSystemTime(1_700_000_002_123)
    expect(challengeOf(await call(use.env.merchantUrl, token))).toBe(invalid('The token has expired'))
  })

  it('to a revoked token', async () => {
    const token = await freshToken(use.env)
    use.env.revoke(token)
    expect(challengeOf(await call(use.env.merchantUrl, token))).toBe(invalid('The token was revoked'))
  })

  it('to every token where it was told to, on one API or on both', async () => {
    const token = await freshToken(use.env)
    const statuses = async (rejectAllTokens: SandboxSettings['rejectAllTokens']) => {
      use.env.configure({ rejectAllTokens })
      const both = [use.env.merchantUrl, use.env.inStoreUrl].map((url) => call(url, token))
      return (await Promise.all(both)).map(({ status }) => status)
    }
    expect(await statuses(['in-store'])).toEqual([200, 401])
    expect(await statuses(true)).toEqual([401, 401])
    expect(await statuses([])).toEqual([200, 200])
    expect(await statuses(false)).toEqual([200, 200])
  })
})

describe('revoke', () => {
  it('takes a value or a jti, and tells whether it was valid', async () => {
    const [first, second] = [await freshToken(use.env), await freshToken(use.env)]
    expect(use.env.revoke(String(decodeJwt(first).jti))).toBe(1)
    expect(use.env.revoke(first)).toBe(0)
    expect(use.env.revoke('unknown')).toBe(0)
    expect((await call(use.env.merchantUrl, first)).status).toBe(401)
    expect((await call(use.env.merchantUrl, second)).status).toBe(200)
  })

  it('without an argument revokes all that are valid, and none that come later', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_000 })
    use.env.configure({ lifetimeSeconds: 1 })
    await freshToken(use.env)
    vi.setSystemTime(1_700_000_001_000)
    const tokens = [await freshToken(use.env), await freshToken(use.env)]
    expect(use.env.revoke()).toBe(2)
    for (const token of tokens) expect((await call(use.env.merchantUrl, token)).status).toBe(401)
    expect((await call(use.env.merchantUrl, await freshToken(use.env))).status).toBe(200)
  })

  it('refuses an argument that is no string, rather than revoke all', () => {
    expect(() => use.env.revoke(undefined)).toThrow(expect.objectContaining({ code: 'ERR_CONFIGURATION' }))
  })
})

describe('configure', () => {
  it.each([
    [{ header: 'X-Token', scheme: '' }, 'x-token', ''],
    [{ header: 'X-Token', scheme: 'Token' }, 'x-token', 'Token '],
    [{ scheme: 'Bearer' }, 'Authorization', 'bEARER '],
    [{ scheme: '' }, 'Authorization', ''],
  ])('says where the token is: %j', async (settings, header, prefix) => {
    const token = await freshToken(use.env)
    use.env.configure(settings)
    const response = await fetch(use.env.merchantUrl, { headers: { [header]: prefix + token } })
    const { headers, jti } = await echoOf(response)
    expect(response.status).toBe(200)
    expect(headers[header.toLowerCase()]).toBe(`${prefix}[token ${jti}]`)
    const elsewhere = await fetch(use.env.merchantUrl, { headers: { 'x-other': prefix + token } })
    expect(elsewhere.status).toBe(401)
  })

  it('judges a token on arrival, and answers after the latency', async () => {
    const token = await freshToken(use.env)
    use.env.configure({ apiLatencyMs: 1_000 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const answer = callPlainly(use.env.merchantUrl, token)
    await until(() => timers.mock.calls.some(([, ms]) => ms === 1_000))
    use.env.revoke()
    vi.advanceTimersByTime(999)
    await turn()
    expect(use.env.requests('merchant')[0]).not.toHaveProperty('status')
    vi.advanceTimersByTime(1)
    expect((await answer).statusCode).toBe(200)
    expect(use.env.requests('merchant')[0]).toHaveProperty('status', 200)
  })

  it('asks a function for the latency of each request', async () => {
    const apiLatencyMs = vi.fn(() => 0)
    use.env.configure({ apiLatencyMs })
    await call(use.env.merchantUrl, undefined)
    await call(use.env.inStoreUrl, undefined)
    expect(apiLatencyMs).toHaveBeenCalledTimes(2)
    use.env.configure({ apiLatencyMs: () => Number.NaN })
    expect((await call(use.env.merchantUrl, undefined)).status).toBe(500)
  })

  it('leaves alone what it is not given', async () => {
    use.env.configure({ lifetimeSeconds: 5 })
    use.env.configure({ header: 'x-token', lifetimeSeconds: undefined } as never)
    const { exp = 0, iat = 0 } = decodeJwt(await freshToken(use.env))
    expect(Math.round(exp - iat)).toBe(5)
  })

  it.each([
    ['lifetimeSeconds', { lifetimeSeconds: 0 }],
    ['lifetimeSeconds', { lifetimeSeconds: 1.5 }],
    ['tokenLatencyMs', { tokenLatencyMs: -1 }],
    ['apiLatencyMs', { apiLatencyMs: Number.POSITIVE_INFINITY }],
    ['rejectAllTokens', { rejectAllTokens: ['token'] }],
    ['header', { header: 'two words' }],
    ['scheme', { scheme: 'Bearer ' }],
    ['lifetime', { lifetime: 5 }],
    ['settings', 5],
  ])('refuses a wrong setting: %s', async (option, settings) => {
    expect(() => use.env.configure(settings as never)).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining({ option })] }),
    )
  })

  it('changes nothing where one of the settings is wrong', async () => {
    expect(() => use.env.configure({ lifetimeSeconds: 5, header: '' })).toThrow()
    const { exp = 0, iat = 0 } = decodeJwt(await freshToken(use.env))
    expect(Math.round(exp - iat)).toBe(3600)
  })
})

// Every fault of the sandbox as a client meets it, and the order in which they come.
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it, vi } from 'vitest'
import type { Fault } from '../../src/testing/index.ts'
import { call, freshToken, requestToken, until, useSandbox } from './calls.ts'

const use = useSandbox()

/** Orders a fault for the merchant API, and calls it with a good token. */
const meet = async (fault: Fault, init: RequestInit = {}) => {
  const token = await freshToken(use.env)
  const id = use.env.fail('merchant', fault)
  return { id, answer: call(use.env.merchantUrl, token, init) }
}

const lastOf = (target: 'token' | 'merchant') => use.env.requests(target).at(-1)

describe('a status', () => {
  it('comes with Retry-After, headers and a JSON body', async () => {
    const { id, answer } = await meet({
      kind: 'status',
      status: 429,
      retryAfter: 7,
      headers: { 'X-Why': 'quota', 'Content-Type': 'application/problem+json' },
      body: { title: 'Too many' },
    })
    const response = await answer
    expect(response.status).toBe(429)
    expect(response.headers.get('retry-after')).toBe('7')
    expect(response.headers.get('x-why')).toBe('quota')
    expect(response.headers.get('content-type')).toBe('application/problem+json')
    expect(response.headers.get('x-sandbox-fault')).toBe(id)
    expect(await response.json()).toEqual({ title: 'Too many' })
    expect(lastOf('merchant')).toMatchObject({ status: 429, fault: id })
  })

  it('comes without a body where none was given, and with a date in Retry-After', async () => {
    const retryAfter = 'Wed, 21 Oct 2037 07:28:00 GMT'
    const response = await (await meet({ kind: 'status', status: 503, retryAfter })).answer
    expect(response.headers.get('retry-after')).toBe(retryAfter)
    expect(await response.text()).toBe('')
  })

  it.each([204, 304])('%i comes without a body', async (status) => {
    const response = await (await meet({ kind: 'status', status, body: 'x' })).answer
    expect(response.status).toBe(status)
    expect(response.headers.has('content-length')).toBe(false)
    expect(await response.text()).toBe('')
  })

  it('of the token endpoint issues no token', async () => {
    use.env.fail('token', { kind: 'status', status: 500 })
    expect((await requestToken(use.env)).status).toBe(500)
    expect(use.env.counts).toMatchObject({ token: 1, issued: 0 })
  })

  it('401 of an API is counted', async () => {
    expect((await (await meet({ kind: 'status', status: 401 })).answer).status).toBe(401)
    expect(use.env.counts.unauthorized).toBe(1)
  })

  it('meets a request without a good token, too', async () => {
    use.env.fail('in-store', { kind: 'status', status: 503 })
    expect((await call(use.env.inStoreUrl, undefined)).status).toBe(503)
    expect(use.env.counts.unauthorized).toBe(0)
  })
})

describe('a hang', () => {
  it('gives nothing while other requests are answered', async () => {
    const leave = new AbortController()
    const { id, answer } = await meet({ kind: 'hang' }, { signal: leave.signal })
    const settled = vi.fn()
    answer.then(settled, settled)
    await until(() => lastOf('merchant')?.fault === id)
    for (let i = 0; i < 5; i += 1) expect((await call(use.env.merchantUrl, undefined)).status).toBe(401)
    expect(settled).not.toHaveBeenCalled()
    expect(use.env.requests('merchant')[0]).not.toHaveProperty('status')
    leave.abort()
    await expect(answer).rejects.toHaveProperty('name', 'AbortError')
  })

  it('at the body gives the headers and half the body', async () => {
    const { id, answer } = await meet({ kind: 'hang', at: 'body' })
    const response = await answer
    const length = Number(response.headers.get('content-length'))
    const reader = response.body?.getReader()
    const chunk = (await reader?.read())?.value as Uint8Array
    expect(chunk.length).toBe(Math.floor(length / 2))
    const settled = vi.fn()
    const rest = reader?.read()
    rest?.then(settled, settled)
    for (let i = 0; i < 5; i += 1) await call(use.env.merchantUrl, undefined)
    expect(settled).not.toHaveBeenCalled()
    expect(use.env.requests('merchant')[0]).toMatchObject({ status: 200, fault: id })
    await use.sandbox.close()
    await expect(rest).rejects.toThrow()
  })
})

describe('a reset', () => {
  it('ends the connection without an answer', async () => {
    const { id, answer } = await meet({ kind: 'reset' })
    await expect(answer).rejects.toHaveProperty('cause.code', 'ECONNRESET')
    expect(lastOf('merchant')).toMatchObject({ fault: id })
    expect(lastOf('merchant')).not.toHaveProperty('status')
  })
})

describe('a truncated body', () => {
  it.each(['merchant', 'token'] as const)('of %s breaks off before its end', async (target) => {
    const token = await freshToken(use.env)
    use.env.fail(target, { kind: 'truncated-body' })
    const url = target === 'token' ? requestToken(use.env) : call(use.env.merchantUrl, token)
    const response = await url
    expect(response.status).toBe(200)
    await expect(response.text()).rejects.toThrow()
  })

  it('has half of what its Content-Length says', async () => {
    use.env.fail('merchant', { kind: 'truncated-body' })
    const [response] = (await once(get(use.env.merchantUrl), 'response')) as [IncomingMessage]
    let bytes = 0
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    await expect(once(response, 'end')).rejects.toHaveProperty('code', 'ECONNRESET')
    expect(bytes).toBe(Math.floor(Number(response.headers['content-length']) / 2))
  })
})

describe('a huge body', () => {
  it('is good JSON but for its length, which nothing tells beforehand', async () => {
    const response = await (await meet({ kind: 'huge-body' })).answer
    expect(response.status).toBe(200)
    expect(response.headers.has('content-length')).toBe(false)
    const text = await response.text()
    expect(text.length).toBe(10 * 1024 * 1024)
    expect(JSON.parse(text)).toMatchObject({ api: 'merchant' })
  })

  it('of the token endpoint has a good token in it', async () => {
    use.env.fail('token', { kind: 'huge-body', bytes: 100_000 })
    const text = await (await requestToken(use.env)).text()
    expect(text.length).toBe(100_000)
    const { access_token } = JSON.parse(text) as { access_token: string }
    expect((await call(use.env.merchantUrl, access_token)).status).toBe(200)
  })

  it('has status 200 where the usual answer has not', async () => {
    use.env.fail('merchant', { kind: 'huge-body', bytes: 50 })
    const response = await call(use.env.merchantUrl, undefined)
    expect(response.status).toBe(200)
    expect((await response.text()).length).toBe(50)
  })

  it('may be small on the wire, with gzip', async () => {
    use.env.fail('merchant', { kind: 'huge-body', gzip: true })
    const [response] = (await once(get(use.env.merchantUrl), 'response')) as [IncomingMessage]
    expect(response.headers['content-encoding']).toBe('gzip')
    const zipped = await buffer(response)
    expect(zipped.length).toBeLessThan(64 * 1024)
    expect(gunzipSync(zipped).length).toBe(10 * 1024 * 1024)
  })

  it('ends where its client leaves', async () => {
    const response = await (await meet({ kind: 'huge-body', bytes: Number.MAX_SAFE_INTEGER })).answer
    await response.body?.cancel()
    expect((await call(use.env.merchantUrl, undefined)).status).toBe(401)
  })
})

describe('an answer of any kind', () => {
  it.each([[null], [[]], ['x'], [{ access_token: 5 }]])('is the JSON %j', async (body: unknown) => {
    const { id, answer } = await meet({ kind: 'json', body })
    const response = await answer
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(response.headers.get('x-sandbox-fault')).toBe(id)
    expect(await response.json()).toEqual(body)
  })

  it('is the JSON as it was when it was ordered', async () => {
    const body = { a: 1 }
    use.env.fail('merchant', { kind: 'json', body, status: 202 })
    body.a = 2
    const response = await call(use.env.merchantUrl, undefined)
    expect(response.status).toBe(202)
    expect(await response.json()).toEqual({ a: 1 })
  })

  it('is text, as it stands', async () => {
    const response = await (await meet({ kind: 'text', body: '{"expires_in":1e400}' })).answer
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(await response.text()).toBe('{"expires_in":1e400}')
    const page = { kind: 'text', body: '<p>€</p>', status: 502, contentType: 'text/html' } as const
    const html = await (await meet(page)).answer
    expect([html.status, html.headers.get('content-type')]).toEqual([502, 'text/html'])
    expect(await html.text()).toBe('<p>€</p>')
  })

  it('is a redirect', async () => {
    const location = 'https://elsewhere.example/x'
    const response = await (await meet({ kind: 'redirect', location })).answer
    expect([response.status, response.headers.get('location')]).toEqual([307, location])
    use.env.fail('token', { kind: 'redirect', location: '/oauth/token', status: 302 })
    const other = await requestToken(use.env)
    expect([other.status, other.headers.get('location')]).toEqual([302, '/oauth/token'])
    expect(use.env.counts.issued).toBe(1)
  })
})

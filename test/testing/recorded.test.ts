// What the sandbox keeps of the requests, what it hides, and that no request brings it down.
import { connect } from 'node:net'
import { inspect } from 'node:util'
import { decodeJwt } from 'jose'
import { describe, expect, it } from 'vitest'
import { Recorded } from '../../src/testing/recorded.ts'
import { call, freshToken, goodFields, requestToken, sendRaw, until, useSandbox } from './calls.ts'

const use = useSandbox()
const all = () => inspect(use.env.requests(), { depth: null, maxStringLength: null, maxArrayLength: null })

describe('requests', () => {
  it('tells of an API request what came, and what was answered', async () => {
    const token = await freshToken(use.env)
    const before = Date.now()
    const response = await call(`${use.env.merchantUrl}/a?b=c`, token, {
      method: 'POST',
      body: new Uint8Array([0, 255]),
    })
    const [request] = use.env.requests('merchant')
    const jti = decodeJwt(token).jti
    expect(request).toMatchObject({
      id: 2,
      target: 'merchant',
      method: 'POST',
      path: '/merchant/a?b=c',
      headers: { authorization: `Bearer [token ${jti}]`, 'content-length': '2' },
      body: Buffer.from([0, 255]),
      jti,
      status: 200,
    })
    expect(request?.at).toBeGreaterThanOrEqual(before)
    expect(request?.at).toBeLessThanOrEqual(Date.now())
    expect(response.headers.get('x-request-id')).toBe('2')
  })

  it('tells of a token request its fields, without the secret', async () => {
    await requestToken(use.env)
    const [request] = use.env.requests('token')
    expect(request).toMatchObject({ target: 'token', method: 'POST', path: '/oauth/token', status: 200 })
    expect(request?.fields).toEqual({ ...goodFields(use.env), client_secret: '[hidden]' })
    expect(request).not.toHaveProperty('body')
  })

  it('names a token that is not valid any more', async () => {
    const token = await freshToken(use.env)
    use.env.revoke()
    await call(use.env.merchantUrl, token)
    expect(use.env.requests('merchant')[0]).toMatchObject({ jti: decodeJwt(token).jti, status: 401 })
  })

  it('keeps a request to a path where nothing is, without its body', async () => {
    const url = `${use.env.environment.authUrl}/token`
    const response = await fetch(url, { method: 'POST', body: JSON.stringify(goodFields(use.env)) })
    expect(response.headers.get('x-request-id')).toBe('1')
    expect(use.env.requests()).toMatchObject([{ method: 'POST', path: '/token', status: 404 }])
    expect(use.env.requests()[0]).not.toHaveProperty('target')
    expect(all()).not.toContain(use.env.clientSecret)
  })

  it('is in the order of arrival, for one target or for all', async () => {
    await call(use.env.inStoreUrl, undefined)
    await freshToken(use.env)
    await call(use.env.merchantUrl, undefined)
    expect(use.env.requests().map(({ target }) => target)).toEqual(['in-store', 'token', 'merchant'])
    expect(use.env.requests('token').map(({ id }) => id)).toEqual([2])
    expect(() => use.env.requests('refunds' as never)).toThrow(
      expect.objectContaining({ code: 'ERR_CONFIGURATION' }),
    )
  })

  it('is empty after clearRequests, while ids and counts go on', async () => {
    await call(use.env.merchantUrl, undefined)
    use.env.clearRequests()
    expect(use.env.requests()).toEqual([])
    await call(use.env.merchantUrl, undefined)
    expect(use.env.requests().map(({ id }) => id)).toEqual([2])
    expect(use.env.counts.merchant).toBe(2)
  })

  it('are the last 10 000', () => {
    const recorded = new Recorded()
    for (let i = 0; i < 10_001; i += 1) {
      recorded.arrived({ at: 0, target: 'merchant', method: 'GET', path: '/', headers: {} })
    }
    expect(recorded.requests(undefined)).toHaveLength(10_000)
    expect(recorded.requests(undefined)[0]?.id).toBe(2)
    expect(recorded.counts.merchant).toBe(10_001)
  })

  it('are fewer where their bodies pass 256 MiB', () => {
    const recorded = new Recorded()
    const body = Buffer.alloc(10 * 1024 * 1024)
    for (let i = 0; i < 26; i += 1) {
      recorded.received(
        recorded.arrived({ at: 0, target: 'merchant', method: 'GET', path: '/', headers: {} }),
        body,
      )
    }
    expect(recorded.requests(undefined)).toHaveLength(25)
  })
})

describe('no secret is kept or echoed', () => {
  it('in any header, in the path, in any field', async () => {
    const { clientSecret, merchantUrl } = use.env
    const token = await freshToken(use.env)
    use.env.acceptSecrets('another secret/with signs')
    const secrets = [token, clientSecret, 'another secret/with signs']
    for (const secret of secrets) {
      const headers = {
        'x-debug': `seen ${secret} here`,
        cookie: `s=${secret}`,
        authorization: `Bearer ${token}`,
      }
      const response = await fetch(`${merchantUrl}?t=${encodeURIComponent(secret)}`, { headers })
      expect(await response.text()).not.toContain(secret)
      await requestToken(use.env, { fields: { client_id: secret, nested: [{ deep: secret }] } })
    }
    for (const secret of secrets) {
      expect(all()).not.toContain(secret)
      expect(all()).not.toContain(encodeURIComponent(secret))
    }
    expect(use.env.requests('merchant')[0]?.headers['x-debug']).toBe(
      `seen [token ${decodeJwt(token).jti}] here`,
    )
    expect(use.env.requests('merchant')[1]?.headers['x-debug']).toBe('seen [hidden] here')
  })

  it('even where this environment does not know it', async () => {
    const foreign = await freshToken(use.sandbox.production)
    const unknown = 'some-other-credential'
    await call(use.env.merchantUrl, foreign, { headers: { 'x-debug': foreign } })
    await call(use.env.merchantUrl, unknown)
    await fetch(use.env.merchantUrl, { headers: { authorization: `Basic ${btoa('a:b')}`, cookie: 'a=b' } })
    use.env.configure({ header: 'x-token', scheme: '' })
    await fetch(use.env.merchantUrl, { headers: { 'x-token': unknown } })
    await requestToken(use.env, { fields: { ...goodFields(use.env), client_secret: unknown } })
    expect(all()).not.toContain(foreign)
    expect(all()).not.toContain(unknown)
    expect(
      use.env.requests('merchant').map(({ headers }) => headers['authorization'] ?? headers['x-token']),
    ).toEqual(['[hidden]', '[hidden]', '[hidden]', '[hidden]'])
  })
})

describe('the server survives', () => {
  const isAlive = async () => (await call(use.env.merchantUrl, await freshToken(use.env))).status === 200

  it.each([
    'nonsense\r\n\r\n',
    'GET http:// HTTP/1.1\r\nhost: x\r\n\r\n',
    'OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
    'CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET /merchant HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade, close\r\n\r\n',
    'GET /merchant HTTP/1.1\r\nhost: x\r\n__proto__: y\r\nconnection: close\r\n\r\n',
    `GET /merchant HTTP/1.1\r\nhost: x\r\nx-long: ${'eyJ.'.repeat(8_000)}\r\n\r\n`,
    'GET /merchant%zz?%ff HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
    'GET /merchant HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(20),
  ])('%j', async (bytes) => {
    await sendRaw(use.env.merchantUrl, bytes, true)
    expect(await isAlive()).toBe(true)
  })

  it.each(['/oauth/token', '/merchant/x'])(
    'a client that leaves in the middle of its body to %s',
    async (path) => {
      const socket = connect(Number(new URL(use.env.merchantUrl).port), '127.0.0.1')
      socket.write(
        `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"cl`,
      )
      await until(() => use.env.requests().length === 1)
      socket.resetAndDestroy()
      expect(await isAlive()).toBe(true)
      expect(use.env.requests()[0]).not.toHaveProperty('status')
    },
  )

  it('a body that does not end, by ending the connection', async () => {
    const socket = connect(Number(new URL(use.env.merchantUrl).port), '127.0.0.1')
    const closed = new Promise((resolve) => socket.on('close', resolve))
    socket.on('error', () => {}) // EPIPE or ECONNRESET, as it happens
    socket.write(`POST /merchant HTTP/1.1\r\nhost: x\r\ncontent-length: ${Number.MAX_SAFE_INTEGER}\r\n\r\n`)
    const send = (): void => {
      socket.write(Buffer.alloc(1024 * 1024), (error) => {
        if (!error) send()
      })
    }
    send()
    await closed
    expect(await isAlive()).toBe(true)
    expect(use.env.requests('merchant')[0]).not.toHaveProperty('status')
  })

  it('a client that leaves in the middle of a wait, without issuing it a token', async () => {
    use.env.configure({ tokenLatencyMs: 3_600_000 })
    const leave = new AbortController()
    const answer = requestToken(use.env, { signal: leave.signal })
    await until(() => use.env.requests('token')[0]?.fields !== undefined)
    leave.abort()
    await expect(answer).rejects.toHaveProperty('name', 'AbortError')
    use.env.configure({ tokenLatencyMs: 0 })
    expect(await isAlive()).toBe(true)
    expect(use.env.counts.issued).toBe(1)
  })

  it('a latency function that throws', async () => {
    use.env.configure({
      apiLatencyMs: () => {
        throw new Error('mine')
      },
    })
    const response = await call(use.env.merchantUrl, undefined)
    expect(response.status).toBe(500)
    expect(await response.text()).toContain('mine')
  })
})

// How the sandbox records and reports its requests, what it hides in them, and that no request stops its server.
import { connect } from 'node:net'
import { inspect } from 'node:util'
import { decodeJwt } from 'jose'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Sandbox, type SandboxRequest, startSandbox } from '../../src/testing/index.ts'
import { call, freshToken, goodFields, requestToken, turn, until, useSandbox } from './calls.ts'

const complete = { depth: null, maxStringLength: null, maxArrayLength: null }

describe('requests() of the sandbox', () => {
  const use = useSandbox()
  const all = () => inspect(use.env.requests(), complete)

  it('records what an API received and the status of its response', async () => {
    const token = await freshToken(use.env)
    const before = Date.now()
    const body = new Uint8Array([0, 255])
    const response = await call(`${use.env.merchantUrl}/a?b=c`, token, { method: 'POST', body })
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

  it('records the fields of a token request without the secret, and the jti of the issued token', async () => {
    const token = await freshToken(use.env)
    const [request] = use.env.requests('token')
    expect(request).toMatchObject({ target: 'token', method: 'POST', path: '/oauth/token', status: 200 })
    expect(request?.fields).toEqual({ ...goodFields(use.env), client_secret: '[hidden]' })
    expect(request?.jti).toBe(decodeJwt(token).jti)
    for (const name of ['body', 'error', 'errorDescription']) expect(request).not.toHaveProperty(name)
  })

  it('records the error of a rejected request, and the jti of its token even if it is no longer valid', async () => {
    await requestToken(use.env, { fields: { ...goodFields(use.env), client_secret: 'x' } })
    const token = await freshToken(use.env)
    use.env.revoke()
    await call(use.env.merchantUrl, token)
    await call(use.env.inStoreUrl, undefined)
    const [invalid, , revoked, missing] = use.env.requests()
    expect(invalid).toMatchObject({
      status: 401,
      error: 'invalid_client',
      errorDescription: 'The client is unknown, or its secret is wrong',
    })
    expect(invalid).not.toHaveProperty('jti')
    expect(revoked).toMatchObject({
      status: 401,
      jti: decodeJwt(token).jti,
      error: 'invalid_token',
      errorDescription: 'The token was revoked',
    })
    expect(missing).toMatchObject({ status: 401, error: 'unauthorized' })
    expect(missing).not.toHaveProperty('errorDescription')
  })

  it('is empty after clearRequests(), while ids and counts continue', async () => {
    await call(use.env.merchantUrl, undefined)
    use.env.clearRequests()
    expect(use.env.requests()).toEqual([])
    await call(use.env.merchantUrl, undefined)
    expect(use.env.requests().map(({ id }) => id)).toEqual([2])
    expect(use.env.counts.merchant).toBe(2)
  })

  it('hides secrets in headers, paths and fields, and so does every response', async () => {
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
      await requestToken(use.env, { fields: { client_id: secret } })
    }
    for (const secret of secrets) {
      expect(all()).not.toContain(secret)
      expect(all()).not.toContain(encodeURIComponent(secret))
    }
    await call(use.env.inStoreUrl, 'of another service')
    expect(use.env.requests('in-store')[0]?.headers['authorization']).toBe('[hidden]')
    const [first, second] = use.env.requests('merchant').map(({ headers }) => headers['x-debug'])
    expect(first).toBe(`seen [token ${decodeJwt(token).jti}] here`)
    expect(second).toBe('seen [hidden] here')
  })
})

describe('onRequest of the sandbox', () => {
  type Reported = SandboxRequest & { readonly of: 'production' | 'test' }
  let reported: Reported[]
  let sandbox: Sandbox
  beforeEach(async () => {
    reported = []
    sandbox = await startSandbox({ onRequest: (request, of) => void reported.push({ ...request, of }) })
  })
  afterEach(async () => {
    vi.restoreAllMocks()
    vi.useRealTimers()
    await sandbox.close()
  })

  /** The reported requests, as soon as there are at least `count`. */
  const requests = async (count: number): Promise<readonly Reported[]> => {
    await until(() => reported.length >= count)
    return reported
  }

  it('is called with each complete request and the name of its environment', async () => {
    const token = await freshToken(sandbox.production)
    await call(`${sandbox.production.merchantUrl}/a?b`, token, { method: 'PUT', body: 'c' })
    await call(sandbox.test.inStoreUrl, undefined)
    const [issued, put, get] = await requests(3)
    expect(issued).toMatchObject({ of: 'production', id: 1, target: 'token', status: 200 })
    expect(put).toMatchObject({ of: 'production', method: 'PUT', path: '/merchant/a?b', status: 200 })
    expect(get).toMatchObject({ of: 'test', target: 'in-store', status: 401, error: 'unauthorized' })
  })

  it('affects neither the response nor the process if it rejects', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    onTestFinished(() => void process.off('unhandledRejection', unhandled))
    await using sandbox = await startSandbox({ onRequest: () => Promise.reject(new Error('mine')) })
    expect((await call(sandbox.test.merchantUrl, await freshToken(sandbox.test))).status).toBe(200)
    await until(() => sandbox.test.requests('merchant')[0]?.durationMs !== undefined)
    await turn(5)
    expect(unhandled).not.toHaveBeenCalled()
  })
})

describe('the server of the sandbox survives', () => {
  const use = useSandbox()
  const isAlive = async () => (await call(use.env.merchantUrl, await freshToken(use.env))).status === 200
  const port = () => Number(new URL(use.env.merchantUrl).port)

  it.each(['/oauth/token', '/merchant/x'])(
    'a client that disconnects while it sends its body to %s',
    async (path) => {
      const socket = connect(port(), '127.0.0.1')
      const headers = 'host: x\r\ncontent-type: application/json\r\ncontent-length: 99'
      socket.write(`POST ${path} HTTP/1.1\r\n${headers}\r\n\r\n{"cl`)
      await until(() => use.env.requests().length === 1)
      socket.resetAndDestroy()
      await until(() => use.env.requests()[0]?.durationMs !== undefined)
      expect(await isAlive()).toBe(true)
      expect(use.env.requests()[0]).not.toHaveProperty('status')
    },
  )
})

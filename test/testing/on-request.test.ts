// The listener of the sandbox: told of each request once, when it is over, with all that became of it.
import { connect } from 'node:net'
import { inspect } from 'node:util'
import { decodeJwt } from 'jose'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type Sandbox,
  type SandboxOptions,
  type SandboxRequest,
  startSandbox,
} from '../../src/testing/index.ts'
import { call, callPlainly, freshToken, goodFields, requestToken, turn, until } from './calls.ts'

type Told = SandboxRequest & { readonly of: 'production' | 'test' }

let told: Told[]
let sandbox: Sandbox

const start = async (onRequest: SandboxOptions['onRequest']): Promise<void> => {
  sandbox = await startSandbox({ onRequest })
}
const tellAll: SandboxOptions['onRequest'] = (request, of) => told.push({ ...request, of })

/** What the listener has been told, when there are so many. */
const toldOf = async (count: number): Promise<readonly Told[]> => {
  await until(() => told.length >= count)
  return told
}

beforeEach(() => {
  told = []
})
afterEach(async () => {
  vi.restoreAllMocks()
  vi.useRealTimers()
  await sandbox.close()
})

describe('onRequest', () => {
  it('is told of a token request with the token that it was answered with', async () => {
    await start(tellAll)
    const token = await freshToken(sandbox.test)
    const [request] = await toldOf(1)
    expect(request).toMatchObject({ of: 'test', id: 1, target: 'token', status: 200 })
    expect(request?.fields).toEqual({ ...goodFields(sandbox.test), client_secret: '[hidden]' })
    expect(request?.jti).toBe(decodeJwt(token).jti)
    expect(request).not.toHaveProperty('error')
    expect(inspect(told, { depth: null, maxStringLength: null })).not.toContain(sandbox.test.clientSecret)
  })

  it('is told of an API request with the token that it carried, and of its environment', async () => {
    await start(tellAll)
    const token = await freshToken(sandbox.production)
    await call(`${sandbox.production.merchantUrl}/a?b`, token, { method: 'PUT', body: 'c' })
    await call(sandbox.test.inStoreUrl, undefined)
    const [, put, get] = await toldOf(3)
    const jti = decodeJwt(token).jti
    expect(put).toMatchObject({ of: 'production', method: 'PUT', path: '/merchant/a?b', jti, status: 200 })
    expect(put?.body?.toString()).toBe('c')
    expect(get).toMatchObject({ of: 'test', target: 'in-store', status: 401, error: 'unauthorized' })
    expect(get).not.toHaveProperty('errorDescription')
  })

  it('is told what an answer says is wrong', async () => {
    await start(tellAll)
    await requestToken(sandbox.test, { fields: { ...goodFields(sandbox.test), client_secret: 'x' } })
    const token = await freshToken(sandbox.test)
    sandbox.test.revoke()
    await call(sandbox.test.merchantUrl, token)
    await fetch(`${sandbox.test.environment.authUrl}/x`)
    const [refused, , revoked, nowhere] = await toldOf(4)
    expect(refused).toMatchObject({
      status: 401,
      error: 'invalid_client',
      errorDescription: 'The client is unknown, or its secret is wrong',
    })
    expect(refused).not.toHaveProperty('jti')
    expect(revoked).toMatchObject({ error: 'invalid_token', errorDescription: 'The token was revoked' })
    expect(nowhere).toMatchObject({ status: 404, error: 'not_found' })
    expect(nowhere).not.toHaveProperty('target')
  })

  it('is told of a hang when its client gives up, and of a reset', async () => {
    await start(tellAll)
    const { test } = sandbox
    const id = test.fail('merchant', { kind: 'hang' })
    const leave = new AbortController()
    const hanging = call(test.merchantUrl, undefined, { signal: leave.signal })
    await until(() => test.counts.merchant === 1)
    expect((await call(test.inStoreUrl, undefined)).status).toBe(401)
    await toldOf(1)
    expect(told.map(({ target }) => target)).toEqual(['in-store'])
    leave.abort()
    await expect(hanging).rejects.toHaveProperty('name', 'AbortError')
    const [, hung] = await toldOf(2)
    expect(hung).toMatchObject({ target: 'merchant', fault: id })
    expect(hung).not.toHaveProperty('status')

    const reset = test.fail('token', { kind: 'reset' })
    await expect(requestToken(test)).rejects.toThrow()
    expect((await toldOf(3))[2]).toMatchObject({ target: 'token', fault: reset })
    expect(told[2]).not.toHaveProperty('jti')
  })

  it('is told how long it took, which requests() has from then on', async () => {
    await start(tellAll)
    sandbox.test.configure({ apiLatencyMs: 60_000 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const calling = callPlainly(sandbox.test.merchantUrl, undefined)
    await until(() => timers.mock.calls.some(([, ms]) => ms === 60_000))
    expect(sandbox.test.requests()[0]).not.toHaveProperty('durationMs')
    vi.advanceTimersByTime(60_000)
    await calling
    const [request] = await toldOf(1)
    expect(request?.durationMs).toBe(60_000)
    expect(sandbox.test.requests()[0]?.durationMs).toBe(request?.durationMs)
  })

  it('is told of each pipelined request, of those too whose turn never came, without a warning', async () => {
    await start(tellAll)
    const warnings: Error[] = []
    const warned = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', warned)
    sandbox.test.fail('merchant', { kind: 'hang' })
    const socket = connect(Number(new URL(sandbox.test.merchantUrl).port), '127.0.0.1')
    socket.write('GET /merchant HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(20))
    await until(() => sandbox.test.counts.merchant === 20)
    socket.destroy()
    expect((await toldOf(20)).map(({ id }) => id).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 1),
    )
    for (let i = 0; i < 5; i += 1) await turn()
    process.off('warning', warned)
    expect(told).toHaveLength(20)
    expect(warnings).toEqual([])
  })

  it('is told of what close cut off, before close resolves, and of nothing after that', async () => {
    await start(tellAll)
    sandbox.test.configure({ apiLatencyMs: 3_600_000 })
    const calling = Promise.allSettled([
      call(sandbox.test.merchantUrl, undefined),
      call(sandbox.test.inStoreUrl, undefined),
    ])
    await until(() => sandbox.test.counts.merchant + sandbox.test.counts['in-store'] === 2)
    await sandbox.close()
    expect(told.map(({ target }) => target).sort()).toEqual(['in-store', 'merchant'])
    expect((await calling).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(told).toHaveLength(2)
  })

  it('is told of a token that was being judged when close came, with its name', async () => {
    await start(tellAll)
    const tokens = await Promise.all(Array.from({ length: 50 }, () => freshToken(sandbox.test)))
    await toldOf(50)
    told.length = 0
    const calling = Promise.allSettled(tokens.map((token) => call(sandbox.test.merchantUrl, token)))
    await until(() => sandbox.test.counts.merchant > 0)
    await sandbox.close()
    expect(told).toHaveLength(sandbox.test.counts.merchant)
    expect(told.filter(({ jti }) => jti === undefined)).toEqual([])
    await calling
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('mine')
      },
    ],
    ['rejects', () => Promise.reject(new Error('mine'))],
  ])('disturbs nothing where it %s', async (_what, onRequest) => {
    const rejections: unknown[] = []
    const note = (reason: unknown): unknown => rejections.push(reason)
    process.on('unhandledRejection', note)
    await start(onRequest as () => void)
    const token = await freshToken(sandbox.test)
    expect((await call(sandbox.test.merchantUrl, token)).status).toBe(200)
    await until(() => sandbox.test.requests('merchant')[0]?.durationMs !== undefined)
    for (let i = 0; i < 5; i += 1) await turn()
    process.off('unhandledRejection', note)
    expect(rejections).toEqual([])
  })

  it('must be a function', async () => {
    await start(undefined)
    await expect(startSandbox({ onRequest: 5 as never })).rejects.toMatchObject({
      code: 'ERR_CONFIGURATION',
      problems: [{ option: 'onRequest', reason: 'must be a function' }],
    })
  })
})

// The slow body of the sandbox, by fake timers: how it comes, and what is left of it when its client goes.
import { once } from 'node:events'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { call, callPlainly, freshToken, requestToken, turn, until, useSandbox } from './calls.ts'

const use = useSandbox()
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** A twentieth of ten seconds, or a little more: bytes cannot be divided. */
const isDrip = (ms: number | undefined) => ms !== undefined && ms >= 500 && ms < 600

describe('a slow body', () => {
  it('comes piece by piece over its time, the headers at once', async () => {
    const token = await freshToken(use.env)
    use.env.fail('merchant', { kind: 'slow-body', durationMs: 10_000 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const response = await callPlainly(use.env.merchantUrl, token)
    expect(response.statusCode).toBe(200)
    const pieces: Buffer[] = []
    response.on('data', (piece: Buffer) => pieces.push(piece))
    const length = Number(response.headers['content-length'])
    const received = () => Buffer.concat(pieces).length / length
    await vi.advanceTimersByTimeAsync(5_000)
    await until(() => received() >= 0.4)
    expect(received()).toBeLessThanOrEqual(0.5)
    await vi.advanceTimersByTimeAsync(4_999)
    await until(() => received() >= 0.9)
    await callPlainly(use.env.inStoreUrl, undefined)
    expect(received()).toBeLessThan(1)
    const ended = once(response, 'end')
    await vi.advanceTimersByTimeAsync(1)
    await ended
    expect(JSON.parse(Buffer.concat(pieces).toString())).toMatchObject({ api: 'merchant' })
  })

  it('of the token endpoint is a good token in the end', async () => {
    use.env.fail('token', { kind: 'slow-body', durationMs: 1 })
    const { access_token } = (await (await requestToken(use.env)).json()) as { access_token: string }
    expect((await call(use.env.merchantUrl, access_token)).status).toBe(200)
  })

  it('leaves no timer when its client leaves', async () => {
    const token = await freshToken(use.env)
    use.env.fail('merchant', { kind: 'slow-body', durationMs: 10_000 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const cleared = vi.spyOn(globalThis, 'clearTimeout')
    const response = await callPlainly(use.env.merchantUrl, token)
    const drips = () => timers.mock.calls.flatMap(([, ms], index) => (isDrip(ms) ? [index] : []))
    await until(() => drips().length === 1)
    const timer: unknown = timers.mock.results[drips()[0] ?? -1]?.value
    response.destroy()
    await until(() => cleared.mock.calls.some(([given]) => given === timer))
    await turn()
    expect(drips()).toHaveLength(1)
  })
})

import { TokenRequestError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock } from '../support/clock.ts'
import { type Answer, deaf, granted, hang, rejection, rig, status } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

const stalled: Answer = () => new Response(new ReadableStream(), { status: 200 })

describe.each([
  ['that hangs', hang],
  ['that ignores the signal', deaf],
  ['whose body stalls', stalled],
])('an answer %s', (_, answer) => {
  it('ends after half of timeoutMs, and the next attempt begins', async () => {
    const { provider, endpoint, clock } = rig([answer])
    const waiting = provider.getToken()
    await clock.advance(4_999)
    expect(endpoint.count).toBe(1)
    await clock.advance(1)
    expect(endpoint.count).toBe(2)
    await expect(waiting).resolves.toBeDefined()
  })

  it('ends everything after timeoutMs', async () => {
    const { provider, endpoint, clock } = rig([], { timeoutMs: 3_000 })
    endpoint.otherwise = answer
    const waiting = rejection<TokenRequestError>(provider.getToken())
    let over = false
    void waiting.then(() => {
      over = true
    })
    await clock.advance(2_999)
    expect(over).toBe(false)
    await clock.advance(1)
    const error = await waiting
    expect(error).toBeInstanceOf(TokenRequestError)
    expect(error).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', retryable: true, attempts: 2 })
    expect(clock.sleeping).toBe(0)
  })
})

describe('an error answer whose body stalls', () => {
  const stalledWith =
    (status: number): Answer =>
    () =>
      new Response(new ReadableStream(), { status })

  it.each([
    { status: 400, code: 'ERR_TOKEN_STATUS' },
    { status: 307, code: 'ERR_TOKEN_REDIRECT' },
  ])('is what its status says: $status is not retried', async ({ status, code }) => {
    const { provider, endpoint, clock } = rig([stalledWith(status)])
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(5_000)
    expect(await waiting).toMatchObject({ code, status, retryable: false, attempts: 1 })
    expect(endpoint.count).toBe(1)
  })

  it('is what its status says after half of the time that is left, and a redirect is at once', async () => {
    const { provider, clock } = rig([stalledWith(400)])
    let over = false
    const waiting = rejection(provider.getToken()).then((error) => {
      over = true
      return error
    })
    await clock.advance(2_499)
    expect(over).toBe(false)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_STATUS', status: 400 })
    const redirected = rig([stalledWith(307)])
    await expect(redirected.provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_REDIRECT' })
  })

  it('or comes late is read, where that is in the first half of the time', async () => {
    const slow: Answer = () =>
      new Response(
        new ReadableStream({
          async start(controller) {
            await made.clock.sleep(2_000)
            controller.enqueue(new TextEncoder().encode('{"error":"invalid_client"}'))
            controller.close()
          },
        }),
        { status: 400 },
      )
    const made = rig([slow])
    const waiting = rejection(made.provider.getToken())
    await made.clock.advance(2_000)
    expect(await waiting).toMatchObject({ status: 400, error: 'invalid_client' })
  })

  it('is retried within the time where its status is 503', async () => {
    const { provider, endpoint, clock } = rig([stalledWith(503)])
    const waiting = provider.getToken()
    await clock.advance(5_000)
    expect(endpoint.count).toBe(2)
    await expect(waiting).resolves.toBeDefined()
  })
})

describe('the last attempt gets all that is left of timeoutMs', () => {
  it.each([
    ['that hangs', hang],
    ['that ignores the signal', deaf],
    ['whose body stalls', stalled],
  ])('where it is the only one, for an answer %s', async (_, answer) => {
    const { provider, endpoint, clock } = rig([answer], { retries: 0 })
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(9_999)
    expect(endpoint.requests[0]?.init.signal?.aborted).toBe(false)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 1 })
  })

  it('where those before it failed at once', async () => {
    const { provider, clock } = rig([status(503), status(503), hang])
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(9_999)
    expect(clock.sleeping).toBe(1)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 3 })
  })

  it('and so does the one with another secret, after the first was refused', async () => {
    const secrets = ['swordfish-1', 'swordfish-2']
    const clientSecret = () => secrets.shift() ?? ''
    const { provider, endpoint, clock } = rig([status(401), hang], { retries: 0, clientSecret })
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(9_999)
    expect(endpoint.requests[1]?.init.signal?.aborted).toBe(false)
    await clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 2 })
  })

  it.each([false, true])(
    'where the clientSecret function takes most of it (with a store: %s)',
    async (shared) => {
      const clock = new ManualClock()
      const clientSecret = async () => {
        await clock.sleep(9_000)
        return 'swordfish'
      }
      const store = shared ? new MemoryStore(clock) : undefined
      const made = rig([], { retries: 0, clientSecret, clock, store })
      const waiting = made.provider.getToken()
      await clock.advance(9_000)
      await expect(waiting).resolves.toBeDefined()
    },
  )
})

describe('timeoutMs', () => {
  it('covers retries and pauses: the last attempt gets what is left', async () => {
    const slow: Answer = async () => {
      await made.clock.sleep(4_000)
      return new Response('', { status: 503 })
    }
    const made = rig([slow, slow, hang], { retries: 5 })
    const waiting = rejection<TokenRequestError>(made.provider.getToken())
    await made.clock.advance(9_999)
    expect(made.endpoint.count).toBe(3)
    await made.clock.advance(1)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 3 })
  })

  it('aborts the signal that fetch was given', async () => {
    const { provider, endpoint, clock } = rig([hang], { retries: 0, timeoutMs: 1_000 })
    const waiting = rejection(provider.getToken())
    await clock.advance(999)
    const { signal } = endpoint.requests[0]?.init ?? {}
    expect(signal?.aborted).toBe(false)
    await clock.advance(1)
    await waiting
    expect(signal?.aborted).toBe(true)
  })

  it('is 10 000 on the clocks of the machine, of which an answer leaves no timer', async () => {
    vi.useFakeTimers()
    const { provider, endpoint } = rig([hang, hang, granted()], { clock: undefined })
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await vi.advanceTimersByTimeAsync(5_001)
    expect(endpoint.count).toBe(2)
    await vi.advanceTimersByTimeAsync(4_999)
    expect(await waiting).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 2 })
    await vi.advanceTimersByTimeAsync(1_000)
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(vi.getTimerCount()).toBe(0)
  })
})

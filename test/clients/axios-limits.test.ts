// What a call on axios that waits for a token does with its limits, and what it leaves when they end it.
import { getEventListeners } from 'node:events'
import { PassThrough } from 'node:stream'
import axios, { type AxiosRequestConfig, type CancelToken } from 'axios'
import type { AccessToken, TokenProvider } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { rejectionOf } from '../support/ground.ts'
import { OlderSignal, provided, token, untilAborted } from '../support/provided.ts'
import { MERCHANT_URL } from '../token/harness.ts'
import { answering, type FakeAnswer } from './axios-fakes.ts'
import { axiosWith } from './drivers.ts'

/** Makes a call by a provider that does what the test says. */
const call = (
  given: Parameters<typeof provided>[0],
  config: AxiosRequestConfig = {},
  answers: FakeAnswer[] = [],
) => axiosWith(provided(given), { adapter: answering(answers) }).get(MERCHANT_URL, config)
const current = token('current.token')

describe('a call that waits for a token', () => {
  it('has the provider’s wait ended by its cancelToken or its timeout', async () => {
    const signals: (AbortSignal | undefined)[] = []
    const get: TokenProvider['getToken'] = (wait) => {
      signals.push(wait?.signal)
      return untilAborted(wait?.signal)
    }
    const source = axios.CancelToken.source()
    const { signal } = new AbortController()
    const cancelled = rejectionOf(call({ get }, { signal, cancelToken: source.token }))
    const late = rejectionOf(call({ get }, { timeout: '5ms' as never }))
    expect(await late).toMatchObject({ code: 'ECONNABORTED' })
    source.cancel('enough')
    expect(await cancelled).toMatchObject({ code: 'ERR_CANCELED', message: 'enough' })
    expect(signals.map((one) => one?.aborted)).toEqual([true, true])
    expect(signal.aborted).toBe(false)
  })

  it.each(['during', 'not'] as const)(
    'ends by the signal of an older library, aborted %s the wait, and leaves no listener on it',
    async (when) => {
      const signal = new OlderSignal()
      const get: TokenProvider['getToken'] = (wait) =>
        when === 'not' ? Promise.resolve(token('first.token')) : untilAborted(wait?.signal)
      const waiting = call({ get }, { signal: signal as unknown as AbortSignal, timeout: 60_000 })
      await settled()
      if (when === 'during') {
        signal.abort()
        expect(await rejectionOf(waiting)).toMatchObject({ code: 'ERR_CANCELED' })
      } else expect((await waiting).status).toBe(200)
      expect(signal.listeners.size).toBe(0)
    },
  )

  it('puts one listener on its signal, however many wait, beside a timeout, and removes it', async () => {
    const { signal } = new AbortController()
    const held = Promise.withResolvers<AccessToken>()
    const api = axiosWith(provided({ get: () => held.promise }), { adapter: answering() })
    const calls = [1, 2, 3].map(() => api.get(MERCHANT_URL, { signal, timeout: 60_000 }))
    await settled()
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    held.resolve(token('first.token'))
    await Promise.all(calls)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('passes the abort of its signal on where it has a timeout too', async () => {
    const abort = new AbortController()
    const any = vi.spyOn(AbortSignal, 'any') // what it makes stays with a long-lived signal on Node.js 22
    const get: TokenProvider['getToken'] = (wait) => untilAborted(wait?.signal)
    const left = rejectionOf(call({ get }, { signal: abort.signal, timeout: 60_000 }))
    setImmediate(() => abort.abort())
    expect(await left).toMatchObject({ code: 'ERR_CANCELED' })
    expect(any).not.toHaveBeenCalled()
    any.mockRestore()
  })

  it('may have null for its signal, beside a timeout', async () => {
    expect((await call({}, { signal: null as never, timeout: 60_000 })).status).toBe(200)
  })

  it('may have a timeout longer than a timer of Node.js can be', async () => {
    const held = Promise.withResolvers<void>()
    const get = () => held.promise.then(() => token('first.token'))
    setTimeout(held.resolve, 20) // a timer that is too long fires after 1 ms
    expect((await call({ get }, { timeout: 2 ** 31 })).status).toBe(200)
  })

  describe('leaves no timer and no listener', () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
    afterEach(() => void vi.useRealTimers())

    const never = () => new Promise<never>(() => {})
    it.each<[string, TokenProvider['getToken'], string]>([
      ['it has its token', async () => token('first.token'), 'an answer'],
      ['there is none', () => Promise.reject(new Error('none')), 'none'],
      ['it is cancelled', never, 'gone'],
      ['it times out', never, 'timeout of 60000ms exceeded'],
    ])('when %s', async (_, get, expected) => {
      const { token: cancelToken, cancel } = axios.CancelToken.source()
      const { signal } = new AbortController()
      const heard = cancelToken as CancelToken & { _listeners?: readonly unknown[] }
      const left = (): number[] => [
        vi.getTimerCount(),
        heard._listeners?.length ?? 0,
        getEventListeners(signal, 'abort').length,
      ]
      const ended = call({ get }, { timeout: 60_000, cancelToken, signal }).then(
        () => 'an answer',
        ({ message }: Error) => message,
      )
      await new Promise<void>((resolve) => setImmediate(resolve))
      if (get === never) {
        expect(left()).toEqual([1, 1, 1])
        if (expected === 'gone') cancel('gone')
        else vi.advanceTimersByTime(60_000)
      }
      expect(await ended).toBe(expected)
      expect(left()).toEqual([0, 0, 0])
    })
  })
})

describe('a call that its limits end in the wait for a renewal', () => {
  it.each(['signal', 'cancelToken', 'timeout'] as const)(
    'frees the connection of the 401 that nobody gets: %s',
    async (limit) => {
      const data = new PassThrough()
      const waiting = Promise.withResolvers<void>()
      const renew: TokenProvider['renewToken'] = (_, wait) => {
        waiting.resolve()
        return untilAborted(wait?.signal)
      }
      const abort = new AbortController()
      const { token: cancelToken, cancel } = axios.CancelToken.source()
      const limits = {
        signal: { signal: abort.signal },
        cancelToken: { cancelToken },
        timeout: { timeout: 10 },
      }
      const left = rejectionOf(call({ current, renew }, limits[limit], [{ status: 401, data }]))
      await waiting.promise
      abort.abort()
      cancel()
      expect(await left).toMatchObject({ code: limit === 'timeout' ? 'ECONNABORTED' : 'ERR_CANCELED' })
      expect(data.destroyed).toBe(true)
    },
  )

  it('gives the 401, its body untouched, where the renewal failed for another reason', async () => {
    const data = new PassThrough()
    const renew = () => Promise.reject(new Error('no token'))
    const { signal } = new AbortController()
    const { token: cancelToken } = axios.CancelToken.source()
    const limits = { signal, cancelToken, timeout: 60_000, validateStatus: () => true }
    expect((await call({ current, renew }, limits, [{ status: 401, data }])).status).toBe(401)
    expect(data.destroyed).toBe(false)
  })
})

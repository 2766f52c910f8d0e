// How the signal, cancelToken and timeout of an axios call end its wait for a token, and what is cleaned up.
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

/** Makes a call with a provider that behaves as the test specifies. */
const call = (
  given: Parameters<typeof provided>[0],
  config: AxiosRequestConfig = {},
  answers: FakeAnswer[] = [],
) => axiosWith(provided(given), { adapter: answering(answers) }).get(MERCHANT_URL, config)
const current = token('current.token')

describe('a call that waits for a token', () => {
  it('aborts the provider’s wait on its cancelToken or timeout', async () => {
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

  it.each(['aborted', 'not aborted'] as const)(
    'supports a signal of an older library that is %s during the wait, and removes its listener',
    async (when) => {
      const signal = new OlderSignal()
      const get: TokenProvider['getToken'] = (wait) =>
        when === 'not aborted' ? Promise.resolve(token('first.token')) : untilAborted(wait?.signal)
      const waiting = call({ get }, { signal: signal as unknown as AbortSignal, timeout: 60_000 })
      await settled()
      if (when === 'aborted') {
        signal.abort()
        expect(await rejectionOf(waiting)).toMatchObject({ code: 'ERR_CANCELED' })
      } else expect((await waiting).status).toBe(200)
      expect(signal.listeners.size).toBe(0)
    },
  )

  it('shares one listener per signal with other waiting calls, and removes it afterwards', async () => {
    const { signal } = new AbortController()
    const pending = Promise.withResolvers<AccessToken>()
    const api = axiosWith(provided({ get: () => pending.promise }), { adapter: answering() })
    const calls = [1, 2, 3].map(() => api.get(MERCHANT_URL, { signal, timeout: 60_000 }))
    await settled()
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    pending.resolve(token('first.token'))
    await Promise.all(calls)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('is canceled by its signal if it also has a timeout, without AbortSignal.any', async () => {
    const abort = new AbortController()
    const any = vi.spyOn(AbortSignal, 'any') // on Node.js 22 a long-lived signal retains what it returns
    const get: TokenProvider['getToken'] = (wait) => untilAborted(wait?.signal)
    const rejection = rejectionOf(call({ get }, { signal: abort.signal, timeout: 60_000 }))
    setImmediate(() => abort.abort())
    expect(await rejection).toMatchObject({ code: 'ERR_CANCELED' })
    expect(any).not.toHaveBeenCalled()
    any.mockRestore()
  })

  it('accepts a null signal beside a timeout', async () => {
    expect((await call({}, { signal: null as never, timeout: 60_000 })).status).toBe(200)
  })

  it('accepts a timeout longer than the maximum of a Node.js timer', async () => {
    const pending = Promise.withResolvers<void>()
    const get = () => pending.promise.then(() => token('first.token'))
    setTimeout(pending.resolve, 20) // a timer that is too long fires after 1 ms
    expect((await call({ get }, { timeout: 2 ** 31 })).status).toBe(200)
  })

  describe('leaves no timer and no listener', () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
    afterEach(() => void vi.useRealTimers())

    const never = () => new Promise<never>(() => {})
    it.each<[string, TokenProvider['getToken'], string]>([
      ['it gets its token', async () => token('first.token'), 'an answer'],
      ['no token can be acquired', () => Promise.reject(new Error('none')), 'none'],
      ['it is canceled', never, 'gone'],
      ['it times out', never, 'timeout of 60000ms exceeded'],
    ])('when %s', async (_, get, expected) => {
      const { token: cancelToken, cancel } = axios.CancelToken.source()
      const { signal } = new AbortController()
      const tokenInternals = cancelToken as CancelToken & { _listeners?: readonly unknown[] }
      const remaining = (): number[] => [
        vi.getTimerCount(),
        tokenInternals._listeners?.length ?? 0,
        getEventListeners(signal, 'abort').length,
      ]
      const ended = call({ get }, { timeout: 60_000, cancelToken, signal }).then(
        () => 'an answer',
        ({ message }: Error) => message,
      )
      await new Promise<void>((resolve) => setImmediate(resolve))
      if (get === never) {
        expect(remaining()).toEqual([1, 1, 1])
        if (expected === 'gone') cancel('gone')
        else vi.advanceTimersByTime(60_000)
      }
      expect(await ended).toBe(expected)
      expect(remaining()).toEqual([0, 0, 0])
    })
  })
})

describe('a call that waits for a renewal after a 401', () => {
  it.each(['signal', 'cancelToken', 'timeout'] as const)(
    'destroys the body of the 401 if a limit ends the wait: %s',
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
      const rejection = rejectionOf(call({ current, renew }, limits[limit], [{ status: 401, data }]))
      await waiting.promise
      abort.abort()
      cancel()
      expect(await rejection).toMatchObject({ code: limit === 'timeout' ? 'ECONNABORTED' : 'ERR_CANCELED' })
      expect(data.destroyed).toBe(true)
    },
  )

  it('returns the 401 with its body untouched if the renewal fails for another reason', async () => {
    const data = new PassThrough()
    const renew = () => Promise.reject(new Error('no token'))
    const { signal } = new AbortController()
    const { token: cancelToken } = axios.CancelToken.source()
    const limits = { signal, cancelToken, timeout: 60_000, validateStatus: () => true }
    expect((await call({ current, renew }, limits, [{ status: 401, data }])).status).toBe(401)
    expect(data.destroyed).toBe(false)
  })
})

// What a call on axios that waits for a token does with its limits, and what it leaves when they end it (contract 3.7, 5.5).

import { getEventListeners } from 'node:events'
import { PassThrough } from 'node:stream'
import axios, { AxiosHeaders, type CreateAxiosDefaults } from 'axios'
import type { AccessToken, TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { rejectionOf } from '../support/ground.ts'
import { OlderSignal, provided, token, untilAborted } from '../support/provided.ts'

const URL_CALLED = 'https://api.test.example/merchant/x'

type Adapter = Extract<CreateAxiosDefaults['adapter'], (...args: never[]) => unknown>

/** An API on no network: it answers with these statuses in turn. */
function answering(...statuses: number[]): { readonly adapter: Adapter; readonly bodies: PassThrough[] } {
  const bodies: PassThrough[] = []
  return {
    bodies,
    adapter: async (config) => {
      const data = new PassThrough()
      bodies.push(data)
      const status = statuses[bodies.length - 1] ?? 200
      return { status, statusText: '', data, headers: new AxiosHeaders(), config }
    },
  }
}

function client(tokens: TokenProvider, adapter: Adapter = answering().adapter) {
  const api = axios.create({ adapter })
  attachAuth(api, tokens)
  return api
}

describe('a call that waits for a token', () => {
  it.each([undefined, 0, -1, '0', Number.NaN, 'soon'])(
    'waits with its very signal, and with nothing beside it, where its timeout is %o',
    async (timeout) => {
      const get = vi.fn(async (_?: { signal?: AbortSignal | undefined }) => token('first.token'))
      const api = client(provided({ get }))
      const timers = vi.spyOn(globalThis, 'setTimeout')
      try {
        const { signal } = new AbortController()
        await api.get(URL_CALLED, { signal, timeout: timeout as never })
        await api.get(URL_CALLED, { timeout: timeout as never })
        expect(timers).not.toHaveBeenCalled()
        expect(get.mock.calls[0]?.[0]?.signal).toBe(signal)
        expect(get.mock.calls[1]?.[0]?.signal).toBeUndefined()
      } finally {
        timers.mockRestore()
      }
    },
  )

  it('has the provider’s wait ended by its cancelToken or its timeout', async () => {
    const signals: (AbortSignal | undefined)[] = []
    const api = client(
      provided({
        get: (wait) => {
          signals.push(wait?.signal)
          return untilAborted(wait?.signal)
        },
      }),
    )
    const source = axios.CancelToken.source()
    const { signal } = new AbortController()
    const cancelled = rejectionOf(api.get(URL_CALLED, { signal, cancelToken: source.token }))
    const late = rejectionOf(api.get(URL_CALLED, { timeout: '5ms' as never }))
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
      const get = (wait?: { signal?: AbortSignal | undefined }) =>
        when === 'not' ? Promise.resolve(token('first.token')) : untilAborted(wait?.signal)
      const config = { signal: signal as unknown as AbortSignal, timeout: 60_000 }
      const call = client(provided({ get })).get(URL_CALLED, config)
      await settled()
      if (when === 'during') {
        signal.abort()
        expect(await rejectionOf(call)).toMatchObject({ code: 'ERR_CANCELED' })
      } else expect((await call).status).toBe(200)
      expect(signal.listeners.size).toBe(0)
    },
  )

  it('puts one listener on its signal, however many wait, beside a timeout, and removes it', async () => {
    const { signal } = new AbortController()
    const held = Promise.withResolvers<AccessToken>()
    const api = client(provided({ get: () => held.promise }))
    const calls = [1, 2, 3].map(() => api.get(URL_CALLED, { signal, timeout: 60_000 }))
    await settled()
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    held.resolve(token('first.token'))
    await Promise.all(calls)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('passes the abort of its signal on where it has a timeout too', async () => {
    const abort = new AbortController()
    const any = vi.spyOn(AbortSignal, 'any') // what it makes stays with a long-lived signal on Node.js 22
    const api = client(provided({ get: (wait) => untilAborted(wait?.signal) }))
    const call = rejectionOf(api.get(URL_CALLED, { signal: abort.signal, timeout: 60_000 }))
    setImmediate(() => abort.abort())
    expect(await call).toMatchObject({ code: 'ERR_CANCELED' })
    expect(any).not.toHaveBeenCalled()
    any.mockRestore()
  })

  it('may have null for its signal, beside a timeout', async () => {
    const api = client(provided())
    expect((await api.get(URL_CALLED, { signal: null as never, timeout: 60_000 })).status).toBe(200)
  })

  it('may have a timeout longer than a timer of Node.js can be', async () => {
    const held = Promise.withResolvers<void>()
    const get = () => held.promise.then(() => token('first.token'))
    const call = client(provided({ get })).get(URL_CALLED, { timeout: 2 ** 31 })
    setTimeout(held.resolve, 20) // a timer that is too long fires after 1 ms
    expect((await call).status).toBe(200)
  })

  it('clears its timer when it has its token, when there is none, and when it is cancelled', async () => {
    const cleared = vi.spyOn(globalThis, 'clearTimeout')
    const set = vi.spyOn(globalThis, 'setTimeout')
    const own = () => {
      const at = set.mock.calls.findIndex(([, ms]) => ms === 61_234)
      return set.mock.results[at]?.value
    }
    try {
      await client(provided()).get(URL_CALLED, { timeout: 61_234 })
      expect(cleared).toHaveBeenCalledWith(own())
      set.mockClear()
      cleared.mockClear()
      const get = () => Promise.reject(new Error('none'))
      const failed = client(provided({ get })).get(URL_CALLED, { timeout: 61_234 })
      await expect(failed).rejects.toThrow('none')
      expect(own()).toBeDefined()
      expect(cleared).toHaveBeenCalledWith(own())
      set.mockClear()
      cleared.mockClear()
      const source = axios.CancelToken.source()
      const deaf = client(provided({ get: () => new Promise(() => {}) }))
      const left = deaf.get(URL_CALLED, { timeout: 61_234, cancelToken: source.token })
      setImmediate(() => source.cancel())
      await expect(left).rejects.toMatchObject({ code: 'ERR_CANCELED' })
      expect(own()).toBeDefined()
      expect(cleared).toHaveBeenCalledWith(own())
    } finally {
      set.mockRestore()
      cleared.mockRestore()
    }
  })
})

describe('a call that its limits end in the wait for a renewal', () => {
  const LIMITS = ['signal', 'cancelToken', 'timeout'] as const

  it.each(LIMITS)('frees the connection of the 401 that nobody gets: %s', async (limit) => {
    const { adapter, bodies } = answering(401)
    const waiting = Promise.withResolvers<void>()
    const renew: TokenProvider['renewToken'] = (_, wait) => {
      waiting.resolve()
      return untilAborted(wait?.signal)
    }
    const abort = new AbortController()
    const source = axios.CancelToken.source()
    const call = rejectionOf(
      client(provided({ current: token('current.token'), renew }), adapter).get(URL_CALLED, {
        ...(limit === 'signal' && { signal: abort.signal }),
        ...(limit === 'cancelToken' && { cancelToken: source.token }),
        ...(limit === 'timeout' && { timeout: 10 }),
      }),
    )
    await waiting.promise
    abort.abort()
    source.cancel()
    expect(await call).toMatchObject({ code: limit === 'timeout' ? 'ECONNABORTED' : 'ERR_CANCELED' })
    expect(bodies.map(({ destroyed }) => destroyed)).toEqual([true])
  })

  it('gives the 401, its body untouched, where the renewal failed for another reason', async () => {
    const { adapter, bodies } = answering(401)
    const renew = () => Promise.reject(new Error('no token'))
    const api = client(provided({ current: token('current.token'), renew }), adapter)
    const { signal } = new AbortController()
    const { token: cancelToken } = axios.CancelToken.source()
    expect((await api.get(URL_CALLED, { signal, cancelToken, timeout: 60_000 })).status).toBe(401)
    expect(bodies.map(({ destroyed }) => destroyed)).toEqual([false])
  })
})

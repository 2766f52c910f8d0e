// What a call on axios that waits for a token does with its limits, and what it leaves when they end it (contract 3.7, 5.5).
import { PassThrough } from 'node:stream'
import axios, { AxiosHeaders, type CreateAxiosDefaults } from 'axios'
import type { TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it, vi } from 'vitest'
import { waitWithin } from '../../src/attach/axios-config.ts'
import { rejectionOf } from './calls.ts'
import { OlderSignal, provided, token, untilAborted } from './provided.ts'

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

/** Waits for ever, or until the signal is, or already was, aborted. */
async function neverUntil(signal: AbortSignal | undefined): Promise<never> {
  signal?.throwIfAborted()
  return await untilAborted(signal)
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

  it('tells the provider when its cancelToken or its timeout has ended the wait', async () => {
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

  it.each(['before', 'during', 'not'] as const)(
    'ends by the signal of an older library, aborted %s the wait, and leaves no listener on it',
    async (when) => {
      const signal = new OlderSignal()
      const get = vi.fn((wait?: { signal?: AbortSignal | undefined }) =>
        when === 'not' ? Promise.resolve(token('first.token')) : neverUntil(wait?.signal),
      )
      if (when === 'before') signal.abort()
      const wait = waitWithin(
        { headers: {}, timeout: 60_000, signal: signal as unknown as AbortSignal },
        { resolveAdapter: axios.getAdapter as never, rejectTimeout: () => Promise.reject(new Error('late')) },
        (one) => {
          expect(one?.aborted).toBe(when === 'before')
          return get({ signal: one })
        },
      )
      if (when === 'during') signal.abort()
      if (when === 'not') expect((await wait).value).toBe('first.token')
      else await expect(wait).rejects.toMatchObject({ name: 'AbortError' })
      expect(signal.listeners.size).toBe(0)
    },
  )

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

describe('what an adapter fails with', () => {
  it.each([null, undefined, 'a text', 12, new Error('plain'), Object.freeze({ status: 401 })])(
    'reaches the caller as it is, if it is no error of axios: %o',
    async (reason) => {
      const before = Reflect.ownKeys(Object(reason))
      for (const url of [URL_CALLED, 'https://elsewhere.example/x']) {
        const api = client(provided({ current: token('current.token') }), () => Promise.reject(reason))
        expect(await rejectionOf(api.get(url))).toBe(reason)
        expect(Reflect.ownKeys(Object(reason))).toEqual(before)
      }
    },
  )
})

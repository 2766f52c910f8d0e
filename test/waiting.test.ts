import { getEventListeners } from 'node:events'
import { ProviderClosedError } from 'merchant-auth'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { untilAborted, Waiters } from '../src/waiting.ts'
import { settled } from './support/clock.ts'
import { granted, rejection, rig, status } from './token/harness.ts'

/** A provider whose token endpoint answers when it is told to. */
function gated() {
  const gate = Promise.withResolvers<void>()
  const made = rig([() => gate.promise.then(() => granted()({}))])
  return { ...made, answer: () => gate.resolve(), gate }
}

describe('the signal of a call', () => {
  it('aborted before the call ends it with its reason, without a token request', async () => {
    const { provider, endpoint } = rig()
    const reason = new Error('not wanted')
    await expect(provider.getToken({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    await settled()
    expect(endpoint.count).toBe(0)
  })

  it('aborted before a renewal ends it', async () => {
    const { provider, endpoint } = rig()
    const token = await provider.getToken()
    await expect(provider.renewToken(token, { signal: AbortSignal.abort('why') })).rejects.toBe('why')
    expect(endpoint.count).toBe(1)
  })

  it('ends only the wait of its own call, immediately; the shared request continues', async () => {
    const { provider, endpoint, answer } = gated()
    const abort = new AbortController()
    const leaver = rejection(provider.getToken({ signal: abort.signal }))
    const stayer = provider.getToken({ signal: new AbortController().signal })
    const plain = provider.getToken()
    await settled()
    const reason = new Error('gone')
    abort.abort(reason)
    expect(await leaver).toBe(reason)
    expect(endpoint.requests[0]?.init.signal?.aborted).toBe(false)
    answer()
    expect(await stayer).toBe(await plain)
    expect(endpoint.count).toBe(1)
  })

  it('of the only caller does not end the request, which the next caller uses', async () => {
    const { provider, endpoint, answer } = gated()
    const abort = new AbortController()
    const leaver = rejection(provider.getToken({ signal: abort.signal }))
    await settled()
    abort.abort()
    expect(await leaver).toMatchObject({ name: 'AbortError' })
    answer()
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(endpoint.count).toBe(1)
  })

  it('may have any reason, and the call rejects with it', async () => {
    const { provider } = gated()
    const abort = new AbortController()
    const waiting = rejection(provider.getToken({ signal: abort.signal }))
    await settled()
    abort.abort(undefined)
    expect(await waiting).toBe(abort.signal.reason)
  })

  it('ends the wait for a renewal with its reason; the renewal continues', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider } = rig([granted(), () => gate.promise.then(() => granted()({}))])
    const token = await provider.getToken()
    const abort = new AbortController()
    const leaver = rejection(provider.renewToken(token, { signal: abort.signal }))
    const stayer = provider.renewToken(token)
    await settled()
    abort.abort('gone')
    expect(await leaver).toBe('gone')
    gate.resolve()
    expect((await stayer)?.value).not.toBe(token.value)
  })

  it('aborted while a call replaces a token that has expired ends that call with its reason', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider, clock, endpoint } = rig([granted(), () => gate.promise.then(() => granted()({}))])
    const token = await provider.getToken()
    await clock.advance(990_000)
    const abort = new AbortController()
    const leaver = rejection(provider.renewToken(token, { signal: abort.signal }))
    const stayer = provider.renewToken(token)
    await settled()
    abort.abort('gone')
    expect(await leaver).toBe('gone')
    gate.resolve()
    expect((await stayer)?.value).not.toBe(token.value)
    expect(endpoint.count).toBe(2)
  })

  it('aborted before the renewal of an expired token ends it, without a token request', async () => {
    const { provider, clock, endpoint } = rig()
    const token = await provider.getToken()
    await clock.advance(990_000)
    await expect(provider.renewToken(token, { signal: AbortSignal.abort('why') })).rejects.toBe('why')
    expect(endpoint.count).toBe(1)
  })

  it('may have an error of this package as its reason, and the call rejects with that very object', async () => {
    const { provider } = gated()
    const abort = new AbortController()
    const waiting = rejection(provider.getToken({ signal: abort.signal }))
    await settled()
    const reason = new ProviderClosedError()
    abort.abort(reason)
    expect(await waiting).toBe(reason)
  })

  it('shared by 10 000 waiters raises no warning and keeps no listener', async () => {
    const warned = vi.fn()
    process.on('warning', warned)
    const { provider, endpoint, answer } = gated()
    const { signal } = new AbortController()
    const waiting = Array.from({ length: 10_000 }, () => provider.getToken({ signal }))
    await settled()
    expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(10)
    answer()
    await Promise.all(waiting)
    await settled()
    process.off('warning', warned)
    expect(warned).not.toHaveBeenCalled()
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    expect(endpoint.count).toBe(1)
  })

  it('aborted with 10 000 waiters ends them all and keeps no listener', async () => {
    const { provider } = gated()
    const abort = new AbortController()
    const waiting = Array.from({ length: 10_000 }, () =>
      rejection(provider.getToken({ signal: abort.signal })),
    )
    await settled()
    abort.abort('gone')
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['gone']))
    expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0)
  })

  it('is not given to AbortSignal.any, whose signals of Node.js 22 stay with a long-lived one', async () => {
    const any = vi.spyOn(AbortSignal, 'any')
    const { provider } = rig()
    await provider.getToken({ signal: new AbortController().signal })
    expect(any).not.toHaveBeenCalled()
    any.mockRestore()
  })

  it('used for one call after another, with and without failure, keeps no listener', async () => {
    const { provider, endpoint, clock } = rig([], { retries: 0 })
    const { signal } = new AbortController()
    for (let round = 0; round < 20; round += 1) {
      endpoint.otherwise = round % 2 ? granted({ expires_in: 10 }) : () => new Response('', { status: 503 })
      await provider.getToken({ signal }).catch(() => {})
      await clock.advance(31_000)
    }
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})

describe('untilAborted', () => {
  it('returns the same promise if there is no signal', () => {
    const promise = Promise.resolve(1)
    expect(untilAborted(promise, undefined)).toBe(promise)
  })

  it('rejects with the reason of a signal that is already aborted', async () => {
    await expect(untilAborted(Promise.resolve(1), AbortSignal.abort('why'))).rejects.toBe('why')
  })

  it('leaves no unhandled rejection if the promise rejects afterwards', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const failing = Promise.reject(new Error('too late'))
    await expect(untilAborted(failing, AbortSignal.abort('why'))).rejects.toBe('why')
    await settled()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })
})

describe('waiting callers', () => {
  afterEach(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })

  it('keep the process alive with one shared timer, until the last one stops waiting', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { provider, answer } = gated()
    const abort = new AbortController()
    const leaver = rejection(provider.getToken({ signal: abort.signal }))
    const stayers = [provider.getToken(), provider.getToken()]
    await settled()
    expect(vi.getTimerCount()).toBe(1)
    abort.abort('gone')
    await leaver
    expect(vi.getTimerCount()).toBe(1)
    answer()
    await Promise.all(stayers)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('keep it alive again at the next wait, and no longer after a failure', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const gate = Promise.withResolvers<void>()
    const failed = () => gate.promise.then(() => status(400)({}))
    const { provider, clock } = rig([granted(), failed])
    await provider.getToken()
    expect(vi.getTimerCount()).toBe(0)
    await clock.advance(990_000)
    const waiting = rejection(provider.getToken())
    await settled()
    expect(vi.getTimerCount()).toBe(1)
    gate.resolve()
    expect(await waiting).toMatchObject({ status: 400 })
    expect(vi.getTimerCount()).toBe(0)
  })

  it('do not keep the process alive if fake timers are installed while they wait', async () => {
    const set = vi.spyOn(globalThis, 'setTimeout')
    const { provider, answer } = gated()
    const waiting = provider.getToken()
    await settled()
    const timers = set.mock.results.map(({ value }) => value as NodeJS.Timeout & { _destroyed: boolean })
    const keepingAlive = timers.filter((timer) => timer.hasRef())
    expect(keepingAlive).toHaveLength(1)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    answer()
    await waiting
    expect(keepingAlive[0]?._destroyed).toBe(true)
  })

  it('get separate errors, even if their signal is aborted just after the failure', async () => {
    const failure = new ProviderClosedError()
    const shared = Promise.reject(failure)
    const abort = new AbortController()
    const waiting = rejection(new Waiters().wait(shared, abort.signal))
    await shared.catch(() => abort.abort('gone'))
    const error = await waiting
    expect(error).toBeInstanceOf(ProviderClosedError)
    expect(error).not.toBe(failure)
  })
})

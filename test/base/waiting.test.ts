import { getEventListeners } from 'node:events'
import { ProviderClosedError, type TokenProviderOptions } from 'merchant-auth'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { untilAborted, waitFor } from '../../src/base/waiting.ts'
import { settled } from '../support/clock.ts'
import { type Answer, granted, rejection, rig, status, unhandledRejections } from '../token/harness.ts'

/** A provider whose token endpoint answers once `answer()` is called. */
function gated(options?: Partial<TokenProviderOptions>) {
  const gate = Promise.withResolvers<void>()
  const made = rig([() => gate.promise.then(() => granted()({}))], options)
  return { ...made, answer: () => gate.resolve(), gate }
}

it('the signal of a token request is aborted if it fails, and not after a success, which mocks of fetch would count', async () => {
  const signals: (AbortSignal | null | undefined)[] = []
  const noting =
    (answer: Answer): Answer =>
    (init) => {
      signals.push(init.signal)
      return answer(init)
    }
  await rig([noting(granted())]).provider.getToken()
  await rejection(rig([noting(status(503))], { retries: 0 }).provider.getToken())
  expect(signals.map((signal) => signal?.aborted)).toEqual([false, true])
})

describe('the signal of a call', () => {
  it.each([
    ['for a first token', 'getToken', 0],
    ['for a renewal', 'renewToken', 1],
    ['for a renewal after the token expired', 'renewToken expired', 1],
  ])('that is already aborted rejects a call %s without a token request', async (_, call, requests) => {
    const { provider, endpoint, clock } = rig()
    const signal = AbortSignal.abort(new Error('not wanted'))
    const token = call === 'getToken' ? '' : await provider.getToken()
    if (call === 'renewToken expired') await clock.advance(990_000)
    const waiting = token === '' ? provider.getToken({ signal }) : provider.renewToken(token, { signal })
    await expect(waiting).rejects.toBe(signal.reason)
    await settled()
    expect(endpoint.count).toBe(requests)
  })

  it.each([
    ['a first token', undefined, 1],
    ['a renewal', 0, 2],
    ['a renewal after the token expired', 990_000, 2],
  ])(
    'stops only its own call from waiting for %s, immediately; the shared request continues',
    async (_, ageMs, requests) => {
      const gate = Promise.withResolvers<void>()
      const { provider, endpoint, clock } = rig()
      const token = ageMs === undefined ? undefined : await provider.getToken()
      await clock.advance(ageMs ?? 0)
      endpoint.answers.push(() => gate.promise.then(() => granted()({})))
      const wait = (signal?: AbortSignal) =>
        token === undefined ? provider.getToken({ signal }) : provider.renewToken(token, { signal })
      const abort = new AbortController()
      const abortedCall = rejection(wait(abort.signal))
      const otherCalls = [wait(new AbortController().signal), wait()]
      await settled()
      const reason = new Error('gone')
      abort.abort(reason)
      expect(await abortedCall).toBe(reason)
      expect(endpoint.requests.at(-1)?.init.signal?.aborted).toBe(false)
      gate.resolve()
      const [one, other] = await Promise.all(otherCalls)
      expect(one).toBe(other)
      expect(one?.value).not.toBe(token?.value)
      expect(endpoint.count).toBe(requests)
    },
  )

  it.each([
    ['the answer', 'fulfilled'],
    ['the abort', 'rejected'],
  ])('shared by 10 000 callers causes no warning and leaves no listener after %s', async (end, status) => {
    const warned = vi.fn()
    process.on('warning', warned)
    onTestFinished(() => void process.off('warning', warned))
    const { provider, answer } = gated()
    const abort = new AbortController()
    const { signal } = abort
    const waiting = Array.from({ length: 10_000 }, () => provider.getToken({ signal }))
    const outcomes = Promise.allSettled(waiting)
    await settled()
    if (end === 'the answer') answer()
    else abort.abort('gone')
    expect(new Set((await outcomes).map((outcome) => outcome.status))).toEqual(new Set([status]))
    await settled()
    expect(warned).not.toHaveBeenCalledWith(expect.objectContaining({ name: 'MaxListenersExceededWarning' }))
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})

describe('untilAborted', () => {
  it.each([
    ['with another `this`', (listener: () => void) => Reflect.apply(listener, {}, [])],
    ['without `this`', (listener: () => void) => listener()],
  ])('rejects by a signal of another package, which calls its listeners %s', async (_, call) => {
    const listeners = new Set<() => void>()
    const signal = {
      aborted: false,
      reason: new Error('gone'),
      addEventListener: (_: string, listener: () => void) => void listeners.add(listener),
      removeEventListener: (_: string, listener: () => void) => void listeners.delete(listener),
    }
    const waiting = rejection(untilAborted(new Promise(() => {}), signal as object as AbortSignal))
    signal.aborted = true
    for (const listener of listeners) call(listener)
    expect(await waiting).toBe(signal.reason)
    expect(listeners.size).toBe(0)
  })

  it('leaves no unhandled rejection if the promise rejects afterwards', async () => {
    const unhandled = unhandledRejections()
    const failing = Promise.reject(new Error('too late'))
    await expect(untilAborted(failing, AbortSignal.abort('why'))).rejects.toBe('why')
    expect(await unhandled()).toBe(0)
  })
})

describe('waiting callers', () => {
  afterEach(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })

  it('leave no timer among the fake timers of a test, which neither move its clock nor end their wait', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'Date', 'performance'] })
    const { provider, answer } = gated({ clock: undefined })
    const from = Date.now()
    const waiting = provider.getToken()
    await settled()
    expect(vi.getTimerCount()).toBe(0)
    await vi.runAllTimersAsync()
    expect(Date.now()).toBe(from)
    answer()
    expect(await waiting).toMatchObject({ tokenType: 'Bearer' })
  })

  it('get separate errors, even if their signal is aborted just after the failure', async () => {
    const failure = new ProviderClosedError()
    const shared = Promise.reject(failure)
    const abort = new AbortController()
    const waiting = rejection(waitFor(shared, abort.signal))
    await shared.catch(() => abort.abort('gone'))
    const error = await waiting
    expect(error).toBeInstanceOf(ProviderClosedError)
    expect(error).not.toBe(failure)
  })
})

import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { untilAborted } from '../../src/token/waiting.ts'
import { settled } from '../support/clock.ts'
import { granted, rejection, rig } from './harness.ts'

/** A provider whose token endpoint answers when it is told to. */
function gated() {
  const gate = Promise.withResolvers<void>()
  const made = rig([() => gate.promise.then(() => granted()({}))])
  return { ...made, answer: () => gate.resolve(), gate }
}

describe('the signal of a call', () => {
  it('aborted before ends the call with its reason, and asks for nothing', async () => {
    const { provider, endpoint } = rig()
    const reason = new Error('not wanted')
    await expect(provider.getToken({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    await settled()
    expect(endpoint.count).toBe(0)
  })

  it('aborted before ends a renewal too', async () => {
    const { provider, endpoint } = rig()
    const token = await provider.getToken()
    await expect(provider.renewToken(token, { signal: AbortSignal.abort('why') })).rejects.toBe('why')
    expect(endpoint.count).toBe(1)
  })

  it('ends its wait at once and nobody else’s; the shared request runs on', async () => {
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

  it('of the only caller leaves the request running for the next', async () => {
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

  it('may have any reason, and that reason is what the call rejects with', async () => {
    const { provider } = gated()
    const abort = new AbortController()
    const waiting = rejection(provider.getToken({ signal: abort.signal }))
    await settled()
    abort.abort(undefined)
    expect(await waiting).toBe(abort.signal.reason)
  })

  it('ends the wait for a renewal with its reason, and the renewal comes all the same', async () => {
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

  it('aborted under 10 000 waiters ends them all and keeps no listener', async () => {
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
  it('is the promise itself where there is no signal', () => {
    const promise = Promise.resolve(1)
    expect(untilAborted(promise, undefined)).toBe(promise)
  })

  it('rejects with the reason of a signal that is aborted already', async () => {
    await expect(untilAborted(Promise.resolve(1), AbortSignal.abort('why'))).rejects.toBe('why')
  })

  it('is one promise for one promise and one signal', () => {
    const { signal } = new AbortController()
    const promise = new Promise(() => {})
    expect(untilAborted(promise, signal)).toBe(untilAborted(promise, signal))
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    expect(untilAborted(promise, new AbortController().signal)).not.toBe(untilAborted(promise, signal))
  })
})

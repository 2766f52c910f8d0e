/** Errors by which a framework steers itself, such as Next.js while it prerenders a page, pass through unchanged. */
import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { granted, MERCHANT_URL, rejection, rig, SECRET, unhandledRejections } from './harness.ts'

const bailout = Object.assign(new Error('Bail out of prerendering'), { digest: 'NEXT_PRERENDER_INTERRUPTED' })
const bailsOut = () => Promise.reject(bailout)

it('an error of Next.js that has a code and no digest passes as it is', async () => {
  const error = Object.assign(new Error('no-store fetch'), { code: 'NEXT_STATIC_GEN_BAILOUT' })
  const { provider, endpoint } = rig([() => Promise.reject(error)])
  expect(await rejection(provider.getToken())).toBe(error)
  expect(endpoint.count).toBe(1)
  expect(await provider.getToken()).toBeDefined()
})

describe('an error with a digest', () => {
  it('thrown by fetch reaches every waiter as it is, is not retried and begins no cooldown', async () => {
    const { provider, endpoint } = rig([bailsOut])
    const errors = await Promise.all([1, 2, 3].map(() => rejection(provider.getToken())))
    for (const error of errors) expect(error).toBe(bailout)
    expect(endpoint.count).toBe(1)
    expect(await provider.getToken()).toBeDefined()
  })

  it('thrown by a clientSecret function reaches the caller as it is', async () => {
    let times = 0
    const clientSecret = () => (++times === 1 ? bailsOut() : SECRET)
    const { provider } = rig([], { clientSecret })
    expect(await rejection(provider.getToken())).toBe(bailout)
    expect(await provider.getToken()).toBeDefined()
  })

  it('ends a background renewal in silence', async () => {
    const countUnhandled = unhandledRejections()
    const { provider, clock, events } = rig([granted(), bailsOut])
    const token = await provider.getToken()
    await clock.advance(900_000)
    events.length = 0
    expect(await provider.getToken()).toBe(token)
    await settled()
    expect(events.map(({ type }) => type)).toEqual(['token-requested'])
    await clock.advance(90_000)
    expect(await provider.getToken()).not.toBe(token)
    expect(await countUnhandled()).toBe(0)
  })

  it('ends a background renewal, which follows again after the pause of one that failed', async () => {
    const { provider, clock, endpoint } = rig([granted(), bailsOut])
    const token = await provider.getToken()
    const callAfter = async (ms: number): Promise<void> => {
      await clock.advance(ms)
      expect(await provider.getToken()).toBe(token)
      await settled()
    }
    await callAfter(900_000)
    await callAfter(0)
    expect(endpoint.count).toBe(2)
    await callAfter(30_000) // more than a quarter of the 90 s that were left, and a quarter of that
    expect(endpoint.count).toBe(3)
  })

  it('ends a renewal of a rejected token, but delays no background renewal', async () => {
    const { provider, clock, endpoint } = rig([granted(), bailsOut])
    const token = await provider.getToken()
    await clock.advance(900_000)
    expect(await rejection(provider.renewToken(token, { url: MERCHANT_URL }))).toBe(bailout)
    expect(provider.currentToken()).toBe(token)
    await settled()
    expect(endpoint.count).toBe(3)
  })
})

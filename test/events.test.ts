import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { AuthEvent } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { createEmit, outletOf, rememberOutlet } from '../src/events.ts'
import { provided, token } from './support/provided.ts'
import { rig, TOKEN_ENDPOINT, unhandledRejections } from './token/harness.ts'

/** What is published on the diagnostics channel while something is done. */
async function publishedBy(act: () => unknown): Promise<unknown[]> {
  const published: unknown[] = []
  const listener = (event: unknown): void => void published.push(event)
  subscribe('merchant-auth', listener)
  await act()
  unsubscribe('merchant-auth', listener)
  return published
}

describe('the events', () => {
  it('are the same frozen objects in onEvent and on the diagnostics channel', async () => {
    const { provider, events } = rig()
    const published = await publishedBy(async () => provider.renewToken(await provider.getToken()))
    expect(published).toEqual(events)
    expect(events).toHaveLength(6)
    for (const event of events) expect(Object.isFrozen(event)).toBe(true)
  })
})

describe('a listener', () => {
  const throwing = vi.fn(() => {
    throw new Error('a fault of the listener')
  })
  it.each([
    ['that throws affects nothing, and not the channel either', throwing],
    ['may be absent: the channel has the events', undefined],
  ])('%s', async (_, onEvent) => {
    expect(await publishedBy(() => rig([], { onEvent }).provider.getToken())).toHaveLength(2)
    if (onEvent !== undefined) expect(onEvent).toHaveBeenCalledTimes(2)
  })

  it('that rejects affects nothing', async () => {
    const unhandled = unhandledRejections()
    let called = 0
    // No vi.fn: it would handle the rejection itself.
    const onEvent = async (): Promise<void> => {
      called += 1
      throw new Error('a fault of the listener')
    }
    const { provider } = rig([], { onEvent })
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(await unhandled()).toBe(0)
    expect(called).toBe(2)
  })

  it('that calls the provider does not deadlock it', async () => {
    const { provider } = rig([], {
      onEvent: () => {
        provider.currentToken()
        void provider.getToken()
      },
    })
    await expect(provider.getToken()).resolves.toBeDefined()
  })
})

describe('the outlet of a provider', () => {
  const event: AuthEvent = { type: 'token-requested', attempt: 1, url: TOKEN_ENDPOINT }

  const provider = (name?: string) => provided({ current: token('current.token'), name })

  it('is found for its provider', () => {
    const outlet = { emit: vi.fn(), secrets: [] }
    const own = provider()
    rememberOutlet(own, outlet)
    expect(outletOf(own)).toBe(outlet)
  })

  it('is the channel for a provider of the caller, with its current token as a secret', async () => {
    const { emit, secrets } = outletOf(provider('other'))
    expect(await publishedBy(() => emit(event))).toEqual([{ ...event, environment: 'other' }])
    expect([...secrets]).toEqual(['current.token'])
  })

  it('does not change the event of the caller', () => {
    const own = { ...event }
    createEmit(() => {}, 'test')(own)
    expect(own).toEqual(event)
  })
})

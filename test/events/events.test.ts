import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { runInNewContext } from 'node:vm'
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { provided, token } from '../support/provided.ts'
import { rig, unhandledRejections } from '../token/harness.ts'

/** Returns the events that `act` publishes on the diagnostics channel. */
async function publishedBy(act: () => unknown): Promise<unknown[]> {
  const published: unknown[] = []
  const listener = (event: unknown): void => void published.push(event)
  subscribe('merchant-auth', listener)
  await act()
  unsubscribe('merchant-auth', listener)
  return published
}

describe('the events of a provider', () => {
  it('reach both onEvent and the diagnostics channel, as frozen objects', async () => {
    const { provider, events } = rig()
    const published = await publishedBy(async () => provider.renewToken(await provider.getToken()))
    expect(published).toEqual(events)
    expect(events).toHaveLength(6)
    for (const event of events) expect(Object.isFrozen(event)).toBe(true)
  })
})

describe('an onEvent listener', () => {
  it('that throws affects neither the call nor the diagnostics channel', async () => {
    const onEvent = vi.fn(() => {
      throw new Error('a fault of the listener')
    })
    expect(await publishedBy(() => rig([], { onEvent }).provider.getToken())).toHaveLength(2)
    expect(onEvent).toHaveBeenCalledTimes(2)
  })

  it('is optional: the diagnostics channel gets the events without one', async () => {
    expect(await publishedBy(() => rig([], { onEvent: undefined }).provider.getToken())).toHaveLength(2)
  })

  it('that rejects causes no failure and no unhandled rejection', async () => {
    const unhandled = unhandledRejections()
    let called = 0
    // Not vi.fn, which would handle the rejection itself.
    const onEvent = async (): Promise<void> => {
      called += 1
      throw new Error('a fault of the listener')
    }
    const { provider } = rig([], { onEvent })
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(await unhandled()).toBe(0)
    expect(called).toBe(2)
  })

  it('that rejects with a promise of another realm or of a library causes no unhandled rejection', async () => {
    const unhandled = unhandledRejections()
    const inContext = runInNewContext(
      'async () => { throw new Error("a fault of the listener") }',
    ) as () => void
    let handled = 0
    const rejectLater = (_: unknown, reject: (error: Error) => void): void => {
      handled += 1
      reject(new Error('a fault of the listener'))
    }
    // biome-ignore lint/suspicious/noThenProperty: a promise of a library
    const withLibrary = (): unknown => ({ then: rejectLater })
    for (const onEvent of [inContext, withLibrary as () => void])
      await expect(rig([], { onEvent }).provider.getToken()).resolves.toBeDefined()
    expect(await unhandled()).toBe(0)
    expect(handled).toBe(2)
  })

  it('that calls the provider does not deadlock it', async () => {
    const { provider } = rig([], { onEvent: () => void provider.getToken() })
    await expect(provider.getToken()).resolves.toBeDefined()
  })
})

it('the diagnostics channel gets the token-withheld event of a custom provider, with its token hidden', async () => {
  const tokens = provided({ current: token('current.token'), name: 'other' })
  const authFetch = createAuthFetch(tokens, { fetch: async () => new Response() })
  expect(await publishedBy(() => authFetch('https://elsewhere.example/current.token'))).toEqual([
    {
      type: 'token-withheld',
      reason: 'destination',
      url: 'https://elsewhere.example/[hidden]',
      environment: 'other',
    },
  ])
})

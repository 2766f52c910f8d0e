import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type AuthEvent, createTokenProvider } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createEmit, outletOf, rememberOutlet } from '../src/events.ts'
import { settled } from './support/clock.ts'
import { provided, token } from './support/provided.ts'
import {
  ENVIRONMENT,
  granted,
  noConnection,
  rejection,
  rig,
  status,
  TOKEN_ENDPOINT,
} from './token/harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

const environment = 'test'

describe('the events', () => {
  it('are emitted when a token is requested and acquired', async () => {
    const { provider, events } = rig([granted({ expires_in: 36_000 })])
    await provider.getToken()
    expect(events).toEqual([
      { type: 'token-requested', attempt: 1, url: TOKEN_ENDPOINT, environment },
      {
        type: 'token-acquired',
        source: 'endpoint',
        durationMs: 0,
        lifetimeMs: 36_000_000,
        remainsMs: 36_000_000,
        environment,
      },
    ])
  })

  it('name the token endpoint if authUrl has a path', async () => {
    const authUrl = 'https://auth.test.example/tenant'
    const { provider, events } = rig([], { environment: { ...ENVIRONMENT, authUrl } })
    await provider.getToken()
    expect(events[0]).toMatchObject({ url: 'https://auth.test.example/tenant/oauth/token' })
  })

  it('are emitted for each failed attempt, with the delay of the next', async () => {
    const refusal = status(400, { error: 'invalid_request' })
    const { provider, events, clock } = rig([noConnection, status(503, '', { 'retry-after': '2' }), refusal])
    const waiting = rejection(provider.getToken())
    await clock.advance(2_000)
    await waiting
    expect(events).toEqual([
      { type: 'token-requested', attempt: 1, url: TOKEN_ENDPOINT, environment },
      { type: 'token-request-failed', attempt: 1, code: 'ERR_TOKEN_NETWORK', nextTryMs: 0, environment },
      { type: 'token-requested', attempt: 2, url: TOKEN_ENDPOINT, environment },
      {
        type: 'token-request-failed',
        attempt: 2,
        code: 'ERR_TOKEN_STATUS',
        status: 503,
        nextTryMs: 2_000,
        environment,
      },
      { type: 'token-requested', attempt: 3, url: TOKEN_ENDPOINT, environment },
      {
        type: 'token-request-failed',
        attempt: 3,
        code: 'ERR_TOKEN_STATUS',
        status: 400,
        error: 'invalid_request',
        environment,
      },
    ])
  })

  it('have the code of an invalid response', async () => {
    const { provider, events } = rig([granted({ token_type: 'mac' })])
    await rejection(provider.getToken())
    expect(events[1]).toEqual({
      type: 'token-request-failed',
      attempt: 1,
      code: 'ERR_TOKEN_RESPONSE',
      environment,
    })
  })

  it('include the pauses in the duration', async () => {
    const { provider, events, clock } = rig([status(503, '', { 'retry-after': '2' })])
    const waiting = provider.getToken()
    await clock.advance(2_000)
    await waiting
    expect(events.at(-1)).toMatchObject({ type: 'token-acquired', durationMs: 2_000 })
  })

  it('have no environment if it has no name', async () => {
    const { name: _, ...nameless } = ENVIRONMENT
    const { provider, events } = rig([], { environment: nameless })
    await provider.getToken()
    for (const event of events) expect(event).not.toHaveProperty('environment')
  })

  it('are the same frozen objects in onEvent and on the diagnostics channel', async () => {
    const published: unknown[] = []
    const listener = (event: unknown): void => void published.push(event)
    subscribe('merchant-auth', listener)
    const { provider, events } = rig()
    await provider.renewToken(await provider.getToken())
    unsubscribe('merchant-auth', listener)
    expect(published).toEqual(events)
    expect(events.map(({ type }) => type)).toEqual([
      'token-requested',
      'token-acquired',
      'token-rejected',
      'token-requested',
      'token-acquired',
      'token-renewed',
    ])
    for (const event of events) expect(Object.isFrozen(event)).toBe(true)
  })

  it('are published on the channel without onEvent', async () => {
    const published: unknown[] = []
    const listener = (event: unknown): void => void published.push(event)
    subscribe('merchant-auth', listener)
    const fetch = (async () => granted()({})) as typeof globalThis.fetch
    const options = { environment: ENVIRONMENT, clientId: 'c', clientSecret: 'swordfish', fetch }
    await createTokenProvider(options).getToken()
    unsubscribe('merchant-auth', listener)
    expect(published).toHaveLength(2)
  })
})

describe('a listener', () => {
  it('that throws affects nothing', async () => {
    const onEvent = vi.fn(() => {
      throw new Error('a fault of the listener')
    })
    const { provider } = rig([], { onEvent })
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(onEvent).toHaveBeenCalledTimes(2)
  })

  it('that throws does not prevent the event on the channel', async () => {
    const listener = vi.fn()
    subscribe('merchant-auth', listener)
    const { provider } = rig([], {
      onEvent: () => {
        throw new Error('a fault of the listener')
      },
    })
    await provider.getToken()
    unsubscribe('merchant-auth', listener)
    expect(listener).toHaveBeenCalledTimes(2)
  })

  it('that rejects affects nothing', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    let called = 0
    // No vi.fn: it would handle the rejection itself.
    const onEvent = async (): Promise<void> => {
      called += 1
      throw new Error('a fault of the listener')
    }
    const { provider } = rig([], { onEvent })
    await expect(provider.getToken()).resolves.toBeDefined()
    await settled()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
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

  it('is the channel for a provider of the caller, with its current token as a secret', () => {
    const listener = vi.fn()
    const { emit, secrets } = outletOf(provider('other'))
    subscribe('merchant-auth', listener)
    emit(event)
    unsubscribe('merchant-auth', listener)
    expect(listener).toHaveBeenCalledWith({ ...event, environment: 'other' }, 'merchant-auth')
    expect([...secrets]).toEqual(['current.token'])
  })

  it('does not change the event of the caller', () => {
    const own = { ...event }
    createEmit(() => {}, 'test')(own)
    expect(own).toEqual(event)
  })
})

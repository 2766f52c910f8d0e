import { createHook } from 'node:async_hooks'
import { TokenRequestError, TokenResponseError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { settled } from '../support/clock.ts'
import { granted, hang, type Rig, rejection, rig, status } from './harness.ts'

describe('many callers', () => {
  it('make one token request, and all get its token', async () => {
    const { provider, endpoint } = rig()
    const tokens = await Promise.all(Array.from({ length: 1_000 }, () => provider.getToken()))
    expect(endpoint.count).toBe(1)
    expect(new Set(tokens.map(({ value }) => value)).size).toBe(1)
  })

  it('make one token request also when they come while it is under way', async () => {
    const { provider, endpoint, clock } = rig([hang], { retries: 0 })
    const first = rejection(provider.getToken())
    await clock.advance(9_999)
    const second = rejection(provider.getToken())
    await clock.advance(1)
    await Promise.all([first, second])
    expect(endpoint.count).toBe(1)
  })

  it('leave the rejected token in the key of no map while it is renewed', async () => {
    const { provider } = rig()
    const token = await provider.getToken()
    const set = vi.spyOn(Map.prototype, 'set')
    const renewals = await Promise.all([provider.renewToken(token), provider.renewToken(token)])
    const keys = set.mock.calls.map(([key]) => String(key))
    set.mockRestore()
    expect(renewals[0]).toBe(renewals[1])
    expect(keys.filter((key) => key.includes(token.value))).toEqual([])
  })

  it('never see two requests in flight, with renewals and expiry mixed', async () => {
    let inFlight = 0
    let most = 0
    const { provider, clock } = rig([], {
      fetch: async () => {
        inFlight += 1
        most = Math.max(most, inFlight)
        await settled()
        inFlight -= 1
        return granted()({})
      },
    })
    const first = await provider.getToken()
    await clock.advance(800_000)
    provider.currentToken()
    await Promise.all([
      provider.renewToken(first),
      provider.renewToken(first, { url: 'https://api.test.example/in-store/1' }),
      provider.getToken(),
    ])
    await settled()
    expect(most).toBe(1)
  })

  it('with two providers share nothing', async () => {
    const one = rig()
    const other = rig()
    const tokens = await Promise.all([one.provider.getToken(), other.provider.getToken()])
    expect(tokens[0].value).not.toBe(tokens[1].value)
    expect([one.endpoint.count, other.endpoint.count]).toEqual([1, 1])
  })

  it.each([
    ['TokenRequestError', status(403, { error: 'access_denied' }), TokenRequestError],
    ['TokenResponseError', granted({ expires_in: -1 }), TokenResponseError],
  ])('each get a %s of their own from a failure that they share', async (_, answer, type) => {
    const { provider, endpoint } = rig([answer])
    const errors = await Promise.all(Array.from({ length: 5 }, () => rejection(provider.getToken())))
    expect(new Set(errors).size).toBe(5)
    for (const error of errors) expect(error).toBeInstanceOf(type)
    expect(new Set(errors.map(({ message }) => message)).size).toBe(1)
    expect(endpoint.count).toBe(1)
  })
})

describe('the hot path', () => {
  const fresh = async (): Promise<Rig> => {
    const made = rig()
    await made.provider.getToken()
    await settled() // what the call may have begun has ended
    made.events.length = 0
    return made
  }

  it('is synchronous, gives the same token and leaves nothing behind', async () => {
    const { provider, endpoint, clock, events } = await fresh()
    const token = provider.currentToken()
    expect(token).not.toBeInstanceOf(Promise)
    for (let call = 0; call < 1_000; call += 1) expect(provider.currentToken()).toBe(token)
    expect([endpoint.count, clock.sleeping, events.length]).toEqual([1, 0, 0])
  })

  it('makes no promise and no timer', async () => {
    const { provider } = await fresh()
    const made: string[] = []
    const hook = createHook({ init: (_, type) => void made.push(type) }).enable()
    for (let call = 0; call < 100; call += 1) provider.currentToken()
    hook.disable()
    expect(made).toEqual([])
  })

  it('gives nothing where there is no token, and asks for none', async () => {
    const { provider, endpoint } = rig()
    expect(provider.currentToken()).toBeUndefined()
    await settled()
    expect(endpoint.count).toBe(0)
  })

  it('gives to getToken too, without a further request', async () => {
    const { provider, endpoint } = await fresh()
    expect(await provider.getToken()).toBe(provider.currentToken())
    expect(endpoint.count).toBe(1)
  })
})

import { isMerchantAuthError, ProviderClosedError } from 'merchant-auth'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ManualClock, settled } from '../support/clock.ts'
import { type Answer, deaf, granted, hang, MERCHANT_URL, rejection, rig, status } from './harness.ts'

afterEach(() => void vi.restoreAllMocks())

describe('close()', () => {
  it.each([
    ['listens to the signal', hang],
    ['does not', deaf],
  ])('ends every wait with a ProviderClosedError, where fetch %s', async (_, answer) => {
    const { provider, endpoint, clock } = rig([answer])
    const waiting = [provider.getToken(), provider.getToken({ signal: new AbortController().signal })]
    const errors = Promise.all(waiting.map(rejection))
    await settled()
    await provider.close()
    const [one, other] = await errors
    expect(one).toBeInstanceOf(ProviderClosedError)
    expect(one).toMatchObject({ code: 'ERR_PROVIDER_CLOSED' })
    expect(other).toBeInstanceOf(ProviderClosedError)
    expect(one).not.toBe(other)
    expect(isMerchantAuthError(one)).toBe(true)
    expect(endpoint.requests[0]?.init.signal?.aborted).toBe(true)
    expect(clock.sleeping).toBe(0)
  })

  it('ends the wait of a rejected call that is not to have a renewal, too', async () => {
    const { provider, endpoint, clock, events } = rig([
      granted({ expires_in: 100 }),
      granted({ expires_in: 100 }),
    ])
    const url = MERCHANT_URL
    const second = await provider.renewToken(await provider.getToken(), { url })
    endpoint.answers.push(hang)
    await clock.advance(500)
    clock.stepWallClock(85_000)
    expect(provider.currentToken()).toBe(second) // and its renewal ahead has begun
    const waiting = rejection(provider.renewToken(String(second?.value), { url }))
    await settled()
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(events.filter(({ type }) => type === 'renewal-suppressed')).toEqual([])
  })

  it('ends a wait in the pause between two attempts', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.999)
    const { provider, endpoint, clock } = rig([status(503)])
    const waiting = rejection(provider.getToken())
    await settled()
    expect(clock.sleeping).toBe(1)
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect([clock.sleeping, endpoint.count]).toEqual([0, 1])
  })

  it('ends a wait for a client secret that hangs', async () => {
    const { provider, endpoint } = rig([], { clientSecret: () => new Promise(() => {}) })
    const waiting = rejection(provider.getToken())
    await settled()
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(endpoint.count).toBe(0)
  })

  it('ends a renewal and a call that waits behind it', async () => {
    const { provider, clock } = rig([granted(), hang])
    const token = await provider.getToken()
    const renewal = rejection(provider.renewToken(token))
    await clock.advance(1)
    clock.stepWallClock(2_000_000)
    const waiting = rejection(provider.getToken())
    await settled()
    await provider.close()
    expect(await renewal).toBeInstanceOf(ProviderClosedError)
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
  })

  it('aborts a renewal in the background, without an unhandled rejection', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const { provider, endpoint, clock } = rig([granted(), hang])
    await provider.getToken()
    await clock.advance(900_000)
    provider.currentToken()
    await settled()
    await provider.close()
    await settled()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
    expect(endpoint.requests[1]?.init.signal?.aborted).toBe(true)
  })

  it('forgets the token, and later calls reject', async () => {
    const { provider, endpoint } = rig()
    const token = await provider.getToken()
    await provider.close()
    expect(provider.currentToken()).toBeUndefined()
    await expect(provider.getToken()).rejects.toBeInstanceOf(ProviderClosedError)
    await expect(provider.renewToken(token)).rejects.toBeInstanceOf(ProviderClosedError)
    expect(endpoint.count).toBe(1)
  })

  it('takes a token that arrives afterwards for nothing', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider, events } = rig([() => gate.promise.then(() => granted()({}))])
    const waiting = rejection(provider.getToken())
    await settled()
    const closed = provider.close()
    gate.resolve()
    await closed
    await settled()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(provider.currentToken()).toBeUndefined()
    expect(events.map(({ type }) => type)).not.toContain('token-acquired')
  })

  it('may come twice, and before anything else', async () => {
    const { provider } = rig()
    await expect(Promise.all([provider.close(), provider.close()])).resolves.toBeDefined()
    await expect(provider.close()).resolves.toBeUndefined()
  })

  it('is what await using does', async () => {
    const { provider } = rig()
    {
      await using tokens = provider
      await tokens.getToken()
    }
    await expect(provider.getToken()).rejects.toBeInstanceOf(ProviderClosedError)
  })
})

describe('closing with a clock whose sleep takes no signal', () => {
  it.each([
    ['in the pause after a failure', { answer: status(500) }],
    ['while fetch hears nothing', { answer: deaf }],
    ['while the client secret is waited for', { clientSecret: () => new Promise<string>(() => {}) }],
  ])(
    'ends every wait at once: %s',
    async (_, { answer, clientSecret }: { answer?: Answer; clientSecret?: () => Promise<string> }) => {
      const manual = new ManualClock()
      const clock = {
        monotonicMs: () => manual.monotonicMs(),
        epochMs: () => manual.epochMs(),
        sleep: (ms: number) => manual.sleep(ms),
      }
      const { provider } = rig(answer ? [answer] : [], { clock, ...(clientSecret && { clientSecret }) })
      const waiting = rejection(provider.getToken())
      await settled()
      await provider.close()
      expect(await waiting).toBeInstanceOf(ProviderClosedError)
    },
  )
})

import { isMerchantAuthError, ProviderClosedError, type TokenProviderOptions } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import {
  type Answer,
  deaf,
  failed,
  granted,
  hang,
  rejection,
  rig,
  status,
  unhandledRejections,
  withoutJitter,
} from './harness.ts'

const random = withoutJitter()

describe('close()', () => {
  const secretThatHangs = { clientSecret: () => new Promise<string>(() => {}) }
  it.each<[string, Answer[], requests: number, isAborted: boolean, Partial<TokenProviderOptions>?]>([
    ['during a request, with a fetch that honors the signal', [hang], 1, true],
    ['during a request, with a fetch that ignores the signal', [deaf], 1, true],
    ['in the pause between two attempts', [status(503)], 1, false],
    ['while the clientSecret function is pending', [], 0, false, secretThatHangs],
  ])(
    'rejects each waiting call with its own ProviderClosedError: %s',
    async (_, answers, requests, isAborted, options) => {
      random.mockReturnValue(0.999)
      for (const takesSignal of [true, false]) {
        const { provider, endpoint, clock } = rig([...answers], options)
        const sleep = clock.sleep.bind(clock)
        if (!takesSignal) clock.sleep = (ms) => sleep(ms)
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
        expect(endpoint.count).toBe(requests)
        if (isAborted) expect(endpoint.requests[0]?.init.signal?.aborted).toBe(true)
        if (takesSignal) expect(clock.sleeping).toBe(0)
      }
    },
  )

  it('aborts a background renewal without an unhandled rejection', async () => {
    const unhandled = unhandledRejections()
    const { provider, endpoint, clock } = rig([granted(), hang])
    await provider.getToken()
    await clock.advance(900_000)
    provider.currentToken()
    await settled()
    await provider.close()
    expect(await unhandled()).toBe(0)
    expect(endpoint.requests[1]?.init.signal?.aborted).toBe(true)
  })

  it.each(['idle', 'in a cooldown'])(
    'discards the token and makes later calls reject: provider %s',
    async (state) => {
      const made = rig([granted(), status(503)], { retries: 0 })
      const { provider, endpoint, clock } = made
      const token = await provider.getToken()
      if (state === 'in a cooldown') {
        await rejection(provider.renewToken(token))
        clock.stepWallClock(990_000)
        expect(await failed(made)).toMatchObject({ status: 503 })
      }
      const { count } = endpoint
      await provider.close()
      expect(provider.currentToken()).toBeUndefined()
      await expect(provider.getToken()).rejects.toBeInstanceOf(ProviderClosedError)
      await expect(provider.renewToken(token)).rejects.toBeInstanceOf(ProviderClosedError)
      expect(endpoint.count).toBe(count)
    },
  )

  it('discards a token that arrives afterwards', async () => {
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

  it('can be called twice and before any other call, and is called by await using', async () => {
    const { provider } = rig()
    {
      await using tokens = provider
      await expect(Promise.all([tokens.close(), tokens.close()])).resolves.toBeDefined()
    }
    const other = rig().provider
    {
      await using tokens = other
      await tokens.getToken()
    }
    await expect(other.getToken()).rejects.toBeInstanceOf(ProviderClosedError)
  })
})

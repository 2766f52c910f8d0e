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
  /** `aborted`: whether the signal of each token request is aborted afterwards. */
  it.each<[string, Answer[], aborted: boolean[], Partial<TokenProviderOptions>?]>([
    ['during a request, with a fetch that honors the signal', [hang], [true]],
    ['during a request, with a fetch that ignores the signal', [deaf], [true]],
    ['in the pause between two attempts', [status(503)], [expect.any(Boolean)]],
    ['while the clientSecret function is pending', [], [], secretThatHangs],
  ])(
    'rejects each waiting call with its own ProviderClosedError: %s',
    async (_, answers, aborted, options) => {
      random.mockReturnValue(0.999)
      const { provider, endpoint, clock } = rig(answers, options)
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
      expect(endpoint.requests.map(({ init }) => init.signal?.aborted)).toEqual(aborted)
      expect(clock.sleeping).toBe(0)
    },
  )

  it('rejects a waiting call in the pause between two attempts if the clock ignores the signal of a sleep', async () => {
    random.mockReturnValue(0.999)
    const { provider, clock } = rig([status(503)])
    const sleep = clock.sleep.bind(clock)
    clock.sleep = (ms) => sleep(ms)
    const error = rejection(provider.getToken())
    await settled()
    await provider.close()
    expect(await error).toBeInstanceOf(ProviderClosedError)
  })

  it('aborts a background renewal without an unhandled rejection and an event of failure', async () => {
    const unhandled = unhandledRejections()
    const { provider, endpoint, clock, events } = rig([granted(), hang])
    await provider.getToken()
    await clock.advance(900_000)
    provider.currentToken()
    await settled()
    await provider.close()
    expect(await unhandled()).toBe(0)
    expect(endpoint.requests[1]?.init.signal?.aborted).toBe(true)
    expect(events.map(({ type }) => type)).not.toContain('token-request-failed')
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
      await expect(provider.getToken({ forceRefresh: true })).rejects.toBeInstanceOf(ProviderClosedError)
      await expect(provider.renewToken(token)).rejects.toBeInstanceOf(ProviderClosedError)
      await expect(provider.renewToken(token, { url: 'https://elsewhere.example/' })).rejects.toBeInstanceOf(
        ProviderClosedError,
      )
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

// The provider for unit tests: a fixed token, until the provider is closed.
import { describe, expect, it, vi } from 'vitest'
import { createAuthFetch } from '../../src/attach/fetch.ts'
import { ProviderClosedError } from '../../src/base/errors.ts'
import { createStaticTokenProvider, type StaticTokenProviderOptions } from '../../src/testing/index.ts'
import { configurationError } from './calls.ts'

const environment = {
  name: 'mine',
  authUrl: 'https://auth.example.com',
  audience: 'https://api.example.com',
  apiUrls: ['https://api.example.com/merchant'],
}

describe('createStaticTokenProvider', () => {
  it('has a token that never expires, for localhost, by default', async () => {
    const tokens = createStaticTokenProvider()
    const token = tokens.currentToken()
    expect(token).toMatchObject({ value: 'static-test-token', tokenType: 'Bearer' })
    expect(token?.scope).toBeUndefined()
    expect(new Date(token?.expiresAt ?? 0).getUTCFullYear()).toBe(275_760)
    expect(await tokens.getToken({ signal: new AbortController().signal })).toBe(token)
    expect(tokens.environment.apiUrls).toEqual(['http://localhost'])
  })

  it('has the value, the scope and a frozen copy of the environment that it was given', () => {
    const tokens = createStaticTokenProvider({ environment, value: 'abc.def', scope: 'merchant refunds' })
    expect(tokens.currentToken()).toMatchObject({ value: 'abc.def', scope: 'merchant refunds' })
    expect(tokens.environment).toEqual(environment)
    expect(tokens.environment).not.toBe(environment)
    expect(Object.isFrozen(tokens.environment)).toBe(true)
  })

  it('renews nothing, and rejects with the reason of an aborted signal', async () => {
    const tokens = createStaticTokenProvider()
    expect(await tokens.renewToken('static-test-token')).toBeUndefined()
    expect(tokens.currentToken()?.value).toBe('static-test-token')
    const reason = new Error('enough')
    const signal = AbortSignal.abort(reason)
    await expect(tokens.getToken({ signal })).rejects.toBe(reason)
    await expect(tokens.renewToken('x', { signal })).rejects.toBe(reason)
  })

  it('has no token after close, even if the signal is aborted', async () => {
    const tokens = createStaticTokenProvider()
    await tokens[Symbol.asyncDispose]()
    expect(tokens.currentToken()).toBeUndefined()
    await expect(tokens.getToken()).rejects.toBeInstanceOf(ProviderClosedError)
    await expect(tokens.getToken({ signal: AbortSignal.abort() })).rejects.toBeInstanceOf(ProviderClosedError)
    await expect(tokens.renewToken('x')).rejects.toBeInstanceOf(ProviderClosedError)
    await expect(tokens.close()).resolves.toBeUndefined()
  })

  it('without an environment, warns of the first call that gets no token', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const call = async (options?: StaticTokenProviderOptions) => {
      const send = createAuthFetch(createStaticTokenProvider(options), { fetch: async () => new Response() })
      await send('http://localhost/orders')
      await send('https://api.example.org/orders')
      await send('https://api.example.org/refunds')
    }
    await call({ environment })
    expect(warn).not.toHaveBeenCalled()
    await call()
    expect(warn.mock.calls).toEqual([
      [
        expect.stringMatching('api.example.org/orders was sent without the token: .* Pass the environment'),
        { code: 'MERCHANT_AUTH_WITHHELD' },
      ],
    ])
    warn.mockRestore()
  })

  it('rejects an invalid environment', () => {
    const options = { environment: { ...environment, authUrl: 'http://auth.example.com' } }
    expect(() => createStaticTokenProvider(options)).toThrow(configurationError('environment.authUrl'))
  })
})

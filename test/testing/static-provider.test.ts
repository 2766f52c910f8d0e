// The provider for unit tests: always the same token, until it is closed.
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { createAuthFetch } from '../../src/attach/fetch.ts'
import { ConfigurationError, ProviderClosedError } from '../../src/errors.ts'
import { createStaticTokenProvider } from '../../src/testing/index.ts'

const environment = {
  name: 'mine',
  authUrl: 'https://auth.example.com',
  audience: 'https://api.example.com',
  apiUrls: ['https://api.example.com/merchant'],
}

describe('createStaticTokenProvider', () => {
  it('has a token at once', async () => {
    const tokens = createStaticTokenProvider()
    expect(tokens.currentToken()?.value).toBe('static-test-token')
    expect(tokens.currentToken()?.tokenType).toBe('Bearer')
    expect(await tokens.getToken()).toBe(tokens.currentToken())
  })

  it('has the value and the scope that it was given', () => {
    const token = createStaticTokenProvider({ value: 'abc.def', scope: 'merchant refunds' }).currentToken()
    expect(token?.value).toBe('abc.def')
    expect(token?.scope).toBe('merchant refunds')
  })

  it('has a token without a scope where none was given', () => {
    expect(createStaticTokenProvider().currentToken()?.scope).toBeUndefined()
  })

  it('has a token that never expires', () => {
    const expiresAt = createStaticTokenProvider().currentToken()?.expiresAt ?? 0
    expect(new Date(expiresAt).getUTCFullYear()).toBe(275_760)
  })

  it('stands on loopback where no environment was given', () => {
    const { authUrl, apiUrls } = createStaticTokenProvider().environment
    expect([authUrl, ...apiUrls].map((url) => new URL(url).hostname)).toEqual(['localhost', 'localhost'])
  })

  it('has a frozen copy of the environment that it was given', () => {
    const tokens = createStaticTokenProvider({ environment })
    expect(tokens.environment).toEqual(environment)
    expect(tokens.environment).not.toBe(environment)
    expect(Object.isFrozen(tokens.environment)).toBe(true)
  })

  it('renews nothing', async () => {
    const tokens = createStaticTokenProvider()
    expect(await tokens.renewToken('static-test-token')).toBeUndefined()
    expect(tokens.currentToken()?.value).toBe('static-test-token')
  })

  it('rejects with the reason of a signal that is aborted already', async () => {
    const tokens = createStaticTokenProvider()
    const reason = new Error('enough')
    const signal = AbortSignal.abort(reason)
    await expect(tokens.getToken({ signal })).rejects.toBe(reason)
    await expect(tokens.renewToken('x', { signal })).rejects.toBe(reason)
  })

  it('gives the token where the signal is not aborted', async () => {
    const { signal } = new AbortController()
    expect((await createStaticTokenProvider().getToken({ signal })).value).toBe('static-test-token')
  })

  it('has no token after close', async () => {
    const tokens = createStaticTokenProvider()
    await tokens.close()
    expect(tokens.currentToken()).toBeUndefined()
    await expect(tokens.getToken()).rejects.toBeInstanceOf(ProviderClosedError)
    await expect(tokens.renewToken('x')).rejects.toBeInstanceOf(ProviderClosedError)
    await expect(tokens.close()).resolves.toBeUndefined()
  })

  it('says that it is closed before it looks at a signal', async () => {
    const tokens = createStaticTokenProvider()
    await tokens.close()
    await expect(tokens.getToken({ signal: AbortSignal.abort() })).rejects.toBeInstanceOf(ProviderClosedError)
  })

  it('is closed by await using', async () => {
    const outlived = []
    {
      await using tokens = createStaticTokenProvider()
      outlived.push(tokens)
    }
    expect(outlived[0]?.currentToken()).toBeUndefined()
  })

  it('keeps the value out of prints and JSON', async () => {
    const tokens = createStaticTokenProvider({ value: 'do-not-print-me' })
    const printed = [tokens, tokens.currentToken()].flatMap((value) => [
      inspect(value, { depth: null, showHidden: true }),
      JSON.stringify(value),
    ])
    expect(printed.join()).not.toContain('do-not-print-me')
  })

  it('serves createAuthFetch like any other provider', async () => {
    const sent: (string | null)[] = []
    const authFetch = createAuthFetch(createStaticTokenProvider({ environment, value: 'abc' }), {
      fetch: async (input, init) => {
        sent.push(new Request(input, init).headers.get('authorization'))
        return new Response(null, { status: 401 })
      },
    })
    const response = await authFetch('https://api.example.com/merchant/orders')
    expect(response.status).toBe(401)
    expect(sent).toEqual(['Bearer abc'])
  })

  it.each([
    ['value', { value: '' }],
    ['value', { value: 'two words' }],
    ['scope', { scope: 5 }],
    ['environment', { environment: null }],
    ['environment.authUrl', { environment: { ...environment, authUrl: 'http://auth.example.com' } }],
    ['token', { token: 'x' }],
    ['options', 'x'],
  ])('refuses a wrong option: %s', (option, options) => {
    const create = () => createStaticTokenProvider(options as object)
    expect(create).toThrow(ConfigurationError)
    expect(create).toThrow(expect.objectContaining({ problems: [expect.objectContaining({ option })] }))
  })
})

import { ConfigurationError, createTokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { resolveAttach, resolveOptions } from '../src/options.ts'
import { provided } from './support/provided.ts'
import { ENVIRONMENT, rig } from './token/harness.ts'

afterEach(() => void vi.unstubAllGlobals())

const GOOD = { environment: ENVIRONMENT, clientId: 'client-1', clientSecret: 'swordfish' }

function problemsOf(make: () => unknown): string[] {
  try {
    make()
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    const { problems, message, code } = error as ConfigurationError
    expect(code).toBe('ERR_CONFIGURATION')
    for (const { option, reason } of problems) expect(message).toContain(`${option}: ${reason}`)
    return problems.map(({ option }) => option)
  }
  throw new Error('was accepted')
}
const problemsWith = (options: object): string[] =>
  problemsOf(() => createTokenProvider({ ...GOOD, ...options } as TokenProviderOptions))

describe('the options of a provider', () => {
  it('are checked when they are given, all at once, each by its name', () => {
    const all = {
      environment: {
        authUrl: 'http://auth.example',
        audience: '',
        apiUrls: ['https://a.example', 'ftp://b'],
      },
      clientId: '',
      clientSecret: 5,
      timeoutMs: 0,
      retries: 1.5,
      refreshAheadMs: -1,
      expiryMarginMs: Number.NaN,
      bodyFormat: 'xml',
      store: { get: () => {} },
      encryptionKeys: [],
      fetch: 'fetch',
      onEvent: {},
      clock: { epochMs: Date.now },
      timeout: 5,
    }
    expect(problemsWith(all).sort()).toEqual(
      [
        ...Object.keys(all).filter((name) => name !== 'environment'),
        'environment.apiUrls[1]',
        'environment.audience',
        'environment.authUrl',
      ].sort(),
    )
  })

  it.each([
    ['clientId', undefined],
    ['clientId', 5],
    ['clientSecret', undefined],
    ['clientSecret', ''],
    ['clientSecret', null],
    ['timeoutMs', '10'],
    ['timeoutMs', Number.POSITIVE_INFINITY],
    ['timeoutMs', 2 ** 31],
    ['retries', -1],
    ['retries', Number.POSITIVE_INFINITY],
    ['refreshAheadMs', '5 min'],
    ['expiryMarginMs', 2 ** 31],
    ['bodyFormat', 'JSON'],
    ['store', null],
    ['store', 'redis://localhost'],
    ['store', () => {}],
    ['store', {}],
    ['encryptionKeys', 'key'],
    ['encryptionKeys', []],
    ['encryptionKeys', null],
    ['clock', null],
    ['clock', {}],
    ['environment', undefined],
    ['environment', 'test'],
  ])('%s may not be %j', (option, value) => {
    expect(problemsWith({ [option]: value })).toEqual([option])
  })

  it.each(['get', 'set', 'delete'])('name a store without the function %s', (missing) => {
    const store = { get: () => {}, set: () => {}, delete: () => {}, [missing]: undefined }
    expect(problemsWith({ store })).toEqual(['store'])
  })

  it.each([null, 5, true])('name a store whose lease is not a function: %j', (lease) => {
    const store = { get: () => {}, set: () => {}, delete: () => {}, lease }
    expect(problemsWith({ store })).toEqual(['store'])
  })

  it('name each invalid entry of encryptionKeys', () => {
    const options = { encryptionKeys: ['a key of at least thirty-two bytes', '', 5, null] }
    expect(problemsWith(options)).toEqual(['encryptionKeys[1]', 'encryptionKeys[2]', 'encryptionKeys[3]'])
  })

  it('may have a store that is an instance of a class, and keys without a store', () => {
    class Store {
      async get() {
        return undefined
      }
      async set() {}
      async delete() {}
    }
    expect(() => createTokenProvider({ ...GOOD, store: new Store() })).not.toThrow()
    expect(() =>
      createTokenProvider({ ...GOOD, encryptionKeys: ['a key of at least thirty-two bytes'] }),
    ).not.toThrow()
    const unset = { store: undefined, encryptionKeys: undefined }
    expect(() => createTokenProvider({ ...GOOD, ...unset })).not.toThrow()
  })

  it.each([undefined, null, 'text', 5])('may not be %j', (options) => {
    expect(problemsOf(() => resolveOptions(options))).not.toEqual([])
  })

  it('may be omitted or undefined', () => {
    const unset = { timeoutMs: undefined, retries: undefined, fetch: undefined, onEvent: undefined }
    expect(() => createTokenProvider({ ...GOOD, ...unset, clock: undefined })).not.toThrow()
  })

  it('may be at their limits', () => {
    const limits = { timeoutMs: 2 ** 31 - 1, retries: 0, refreshAheadMs: 0, expiryMarginMs: 0 }
    expect(() => createTokenProvider({ ...GOOD, ...limits })).not.toThrow()
  })

  it('do not appear in errors, whatever their values', () => {
    const options = {
      clientSecret: ['hunter2-hunter2'],
      clientId: { secret: 'hunter2-hunter2' },
      encryptionKeys: 'hunter2-hunter2',
      store: 'redis://app:hunter2-hunter2@localhost',
    }
    expect(() => createTokenProvider({ ...GOOD, ...options } as unknown as TokenProviderOptions)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    )
  })

  it('are not changed, and not read again', async () => {
    const environment = { ...ENVIRONMENT, apiUrls: [...ENVIRONMENT.apiUrls] }
    const { provider, endpoint } = rig([], { environment })
    environment.authUrl = 'https://evil.example'
    environment.apiUrls.push('https://evil.example')
    await provider.getToken()
    expect(endpoint.requests[0]?.url).toBe('https://auth.test.example/oauth/token')
    expect(provider.environment).toEqual(ENVIRONMENT)
    expect(Object.isFrozen(provider.environment)).toBe(true)
    expect(Object.isFrozen(environment)).toBe(false)
  })
})

describe('https', () => {
  it.each([
    'https://auth.example',
    'https://auth.example:8443/base',
    'http://localhost',
    'http://localhost:3000',
    'http://auth.localhost',
    'http://127.0.0.1:3000',
    'http://127.1.2.3',
    'http://[::1]:3000',
  ])('allows %s', (url) => {
    const environment = { ...ENVIRONMENT, authUrl: url, apiUrls: [url] }
    expect(() => createTokenProvider({ ...GOOD, environment })).not.toThrow()
  })

  it.each([
    'http://auth.example',
    'http://127.0.0.1.example',
    'http://localhost.example',
    'http://notlocalhost',
    'http://10.0.0.1',
    'http://0.0.0.0',
    'http://[::2]',
  ])('rejects %s without allowInsecureRequests', (url) => {
    const environment = { ...ENVIRONMENT, authUrl: url, apiUrls: ['https://a.example', url] }
    expect(problemsWith({ environment })).toEqual(['environment.authUrl', 'environment.apiUrls[1]'])
    const insecure = { ...environment, allowInsecureRequests: true }
    expect(() => createTokenProvider({ ...GOOD, environment: insecure })).not.toThrow()
  })

  it.each(['ftp://a.example', 'auth.example', '//a.example', '', 'https://u:p@a.example', 'file:///etc'])(
    'forbids %j also with allowInsecureRequests',
    (url) => {
      const environment = { ...ENVIRONMENT, authUrl: url, allowInsecureRequests: true }
      expect(problemsWith({ environment })).toEqual(['environment.authUrl'])
    },
  )
})

describe('a browser', () => {
  it('is rejected with an error that says why', () => {
    vi.stubGlobal('document', {})
    vi.stubGlobal('process', { versions: {} })
    let thrown: unknown
    try {
      createTokenProvider(GOOD)
    } catch (error) {
      thrown = error
    }
    vi.unstubAllGlobals()
    expect(thrown).toBeInstanceOf(ConfigurationError)
    expect(thrown).toMatchObject({
      code: 'ERR_BROWSER',
      message: expect.stringMatching(/browser[\s\S]*server/),
    })
  })

  it('is not what a document on Node.js is (jsdom)', () => {
    vi.stubGlobal('document', {})
    expect(() => createTokenProvider(GOOD)).not.toThrow()
  })
})

describe('attach options', () => {
  it.each([
    ['header', ''],
    ['header', 'X Token'],
    ['header', 'X-Token\r\nX'],
    ['header', 5],
    ['scheme', 'Bearer '],
    ['scheme', 5],
    ['renewOnStatus', 401],
    ['renewOnStatus[0]', [200]],
    ['renewOnStatus[1]', [401, 600]],
    ['renewOnStatus[0]', ['401']],
    ['headers', {}],
  ])('%s is named if it is %j', (option, value) => {
    expect(problemsOf(() => resolveAttach(provided(), { [option.replace(/\[.*/, '')]: value }))).toEqual([
      option,
    ])
  })

  it.each([
    '__proto__',
    'prototype',
    'Connection',
    'Content-Length',
    'Content-Type',
    'Expect',
    'HOST',
    'Keep-Alive',
    'Sec-Fetch-Mode',
    'Trailer',
    'Transfer-Encoding',
    'upgrade',
  ])('reject the header %s, which not every client sends with the token', (header) => {
    expect(problemsOf(() => resolveAttach(provided(), { header }))).toEqual(['header'])
  })

  it('may be omitted: the defaults are Authorization, Bearer and 401', () => {
    expect(resolveAttach(provided())).toEqual(
      resolveAttach(provided(), { header: 'Authorization', scheme: 'Bearer', renewOnStatus: [401] }),
    )
    expect(problemsOf(() => resolveAttach(provided(), 'Authorization'))).toHaveLength(1)
  })
})

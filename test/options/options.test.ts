import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import { type ConfigurationError, createTokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { resolveAttach, resolveOptions } from '../../src/options/options.ts'
import { kindsOf, problemsOf, thrownBy } from '../support/problems.ts'
import { provided } from '../support/provided.ts'
import { ENVIRONMENT, rig } from '../token/harness.ts'

const GOOD = { environment: ENVIRONMENT, clientId: 'client-1', clientSecret: 'swordfish' }

const problemsWith = (options: object): string[] =>
  problemsOf(() => createTokenProvider({ ...GOOD, ...options } as TokenProviderOptions))

describe('the options of a provider', () => {
  it('are checked when they are given; every invalid one is reported by name', () => {
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

  it('say where the options of an environment belong', () => {
    const misplaced = {
      authUrl: 'https://auth.example',
      audience: 'x',
      apiUrls: [],
      allowInsecureRequests: true,
    }
    const options = { ...GOOD, environment: undefined, ...misplaced } as unknown as TokenProviderOptions
    const { problems } = thrownBy(() => createTokenProvider(options)) as ConfigurationError
    for (const option of Object.keys(misplaced))
      expect(problems).toContainEqual({ option, kind: 'unknown', reason: 'belongs in environment' })
  })

  it.each<[kind: string, option: string, values: unknown[]]>([
    ['missing', 'clientId', [undefined, '']],
    ['missing', 'clientSecret', [undefined, '']],
    ['missing', 'environment', [undefined]],
    ['missing', 'environment.authUrl', [undefined, '']],
    ['missing', 'environment.audience', [undefined, '']],
    ['missing', 'environment.apiUrls', [undefined, [], {}]],
    ['missing', 'environment.apiUrls[0]', [['']]],
    ['invalid', 'clientId', [5, null]],
    ['invalid', 'environment.authUrl', [5, 'auth.example', 'ftp://auth.example']],
    ['invalid', 'environment.apiUrls', [5, 'https://api.example']],
    ['invalid', 'tokenParameters', [new URLSearchParams({ organization: 'org_1' }), [], 5]],
    ['invalid', 'tokenParameters.organization', [{ organization: 5 }]],
    ['insecure', 'environment.authUrl', ['http://auth.example']],
    ['insecure', 'environment.apiUrls[0]', [['http://api.example']]],
    ['unknown', 'timeout', [5, undefined]],
    ['unknown', 'audience', ['https://api.example']],
    ['conflict', 'clientAssertion', [() => 'head.body.signature']],
    ['conflict', 'tokenParameters.audience', [{ audience: 'https://api.example' }]],
  ])('that are %s have this kind of problem: %s', (kind, option, values) => {
    const [, environment, name = ''] = /^(environment\.)?(\w+)/.exec(option) ?? []
    for (const value of values) {
      const changed = { [name]: value }
      const options = environment ? { environment: { ...ENVIRONMENT, ...changed } } : changed
      const make = () => createTokenProvider({ ...GOOD, ...options } as TokenProviderOptions)
      expect(kindsOf(make), String(value)).toEqual([[option, kind]])
    }
  })

  const STORE = { get: () => {}, set: () => {} }
  it.each<[string, unknown[]]>([
    ['clientId', [undefined, 5]],
    ['clientSecret', [undefined, '', null]],
    ['timeoutMs', ['10', Number.POSITIVE_INFINITY, 2 ** 31]],
    ['retries', [-1, 101, 2 ** 60, Number.POSITIVE_INFINITY]],
    ['refreshAheadMs', ['5 min']],
    ['expiryMarginMs', [2 ** 31]],
    ['bodyFormat', ['JSON']],
    ['store', [null, 'redis://localhost', () => {}, {}]],
    ['store', ['get', 'set'].map((missing) => ({ ...STORE, [missing]: undefined }))],
    ['store', [null, 5, true].map((lease) => ({ ...STORE, lease }))],
    ['encryptionKeys', ['key', [], null]],
    ['clock', [null, {}]],
    ['environment', [undefined, 'test']],
    ['encryptionKeys[1]', [['a key of at least thirty-two bytes', '']]],
  ])('reject %s if it is any of %j', (option, values) => {
    const [name = ''] = option.split('[')
    for (const value of values) expect(problemsWith({ [name]: value }), String(value)).toEqual([option])
  })

  class Store {
    async get() {
      return undefined
    }
    async set() {}
  }
  it.each<[string, object]>([
    ['undefined values', { timeoutMs: undefined, fetch: undefined, clock: undefined, store: undefined }],
    ['values at their limits', { timeoutMs: 2 ** 31 - 1, retries: 0, refreshAheadMs: 0, expiryMarginMs: 0 }],
    ['a store that is a class instance', { store: new Store() }],
  ])('accept %s', (_, options) => {
    expect(problemsWith(options)).toEqual([])
  })

  it('do not expose their values in errors', () => {
    const value = 'hunter2-hunter2'
    const options = {
      clientSecret: [value],
      clientId: { secret: value },
      encryptionKeys: value,
      store: `redis://app:${value}@localhost`,
      nonsense: value,
    }
    const error = thrownBy(() =>
      createTokenProvider({ ...GOOD, ...options } as unknown as TokenProviderOptions),
    )
    expect(error).toBeInstanceOf(Error)
    const shown = inspect(error, { depth: Infinity }) + JSON.stringify(error) + String(error)
    expect(shown).not.toContain('hunter2')
  })

  it('are copied, so that later changes by the caller have no effect', async () => {
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

  it.each<[kind: string, given: () => object]>([
    [
      'an instance of a class with getters',
      () =>
        new (class {
          get environment() {
            return ENVIRONMENT
          }
          get clientId() {
            return 'client-1'
          }
          get clientSecret() {
            return 'swordfish'
          }
          get timeoutMs() {
            return 5_000
          }
          get tokenParameters() {
            return new (class {
              label = 'x'
              get organization() {
                return 'org_1'
              }
            })()
          }
        })(),
    ],
    [
      'an object that inherits',
      () =>
        Object.assign(Object.create({ ...GOOD, timeoutMs: 1 }), {
          timeoutMs: 5_000,
          tokenParameters: Object.assign(Object.create({ label: 'x' }), { organization: 'org_1' }),
        }),
    ],
    [
      'an object of another realm',
      () => {
        const more = { timeoutMs: 5_000, tokenParameters: { label: 'x', organization: 'org_1' } }
        return runInNewContext(`(${JSON.stringify({ ...GOOD, ...more })})`) as object
      },
    ],
  ])('are used as they were checked: %s', async (_, given) => {
    const { timeoutMs, credential, clientId } = resolveOptions(given())
    expect({ timeoutMs, credential, clientId }).toEqual({
      timeoutMs: 5_000,
      credential: { option: 'clientSecret', value: 'swordfish' },
      clientId: 'client-1',
    })
    const { tokenParameters } = resolveOptions(given())
    expect(tokenParameters).toEqual({ label: 'x', organization: 'org_1' })
  })

  it('have defaults: a token request may take 10 s, and two further attempts', () => {
    expect(resolveOptions(GOOD)).toMatchObject({ timeoutMs: 10_000, retries: 2 })
  })

  it.each([new Map([['organization', 'x']]), new URLSearchParams('organization=x'), ['x'], null])(
    'are not used if the parameters are none: %o',
    (tokenParameters) => {
      expect(problemsWith({ tokenParameters })).toEqual(['tokenParameters'])
    },
  )

  it('compile with either clientSecret or clientAssertion', () => {
    const { environment, clientId } = GOOD
    const clientAssertion = () => 'head.body.signature'
    const secret: string | undefined = process.env['NO_SUCH_VARIABLE']
    const compiled: TokenProviderOptions[] = [
      { environment, clientId, clientSecret: () => 'swordfish' },
      { environment, clientId, clientAssertion },
      // @ts-expect-error neither
      { environment, clientId },
      // @ts-expect-error both
      { environment, clientId, clientSecret: 'swordfish', clientAssertion },
      // @ts-expect-error a variable that may be unset
      { environment, clientId, clientSecret: secret },
    ]
    expect(compiled.map((options) => problemsOf(() => resolveOptions(options)))).toEqual([
      [],
      [],
      ['clientSecret'],
      ['clientAssertion'],
      ['clientSecret'],
    ])
  })
})

describe('the https requirement', () => {
  it.each([
    ...['https://auth.example', 'https://auth.example:8443/base', 'http://2130706433'],
    ...['http://localhost:3000', 'http://auth.localhost', 'http://127.1.2.3', 'http://[::1]:3000'],
  ])('allows %s', (url) => {
    expect(problemsWith({ environment: { ...ENVIRONMENT, authUrl: url, apiUrls: [url] } })).toEqual([])
  })

  it.each([
    ...['auth.example', '127.0.0.1.example', 'localhost.example', 'notlocalhost', '10.0.0.1'],
    ...['0.0.0.0', '[::2]', '128.0.0.1'],
  ])('rejects http://%s without allowInsecureRequests', (host) => {
    const url = `http://${host}`
    const environment = { ...ENVIRONMENT, authUrl: url, apiUrls: ['https://a.example', url] }
    expect(problemsWith({ environment })).toEqual(['environment.authUrl', 'environment.apiUrls[1]'])
    expect(problemsWith({ environment: { ...environment, allowInsecureRequests: true } })).toEqual([])
  })

  it.each(['ftp://a.example', 'auth.example', '//a.example', '', 'https://u:p@a.example', 'file:///etc'])(
    'rejects %j even with allowInsecureRequests',
    (url) => {
      const environment = { ...ENVIRONMENT, authUrl: url, allowInsecureRequests: true }
      expect(problemsWith({ environment })).toEqual(['environment.authUrl'])
    },
  )
})

describe('attach options', () => {
  const problemsOfAttach = (options: object) => problemsOf(() => resolveAttach(provided(), options))
  it.each([
    ['header', ''],
    ['header', 'X Token'],
    ['scheme', 'Bearer '],
    ['renewOnStatus', 401],
    ['renewOnStatus[1]', [401, 600]],
    ['headers', {}],
  ])('reject %s with the value %j', (option, value) => {
    expect(problemsOfAttach({ [option.replace(/\[.*/, '')]: value })).toEqual([option])
  })

  it.each([
    ...['Connection', 'Content-Length', 'Content-Type', 'Expect', 'HOST'],
    ...['Keep-Alive', 'Sec-Fetch-Mode', 'Trailer', 'Transfer-Encoding', 'upgrade'],
  ])('reject the header %s, because not every client can send the token in it', (header) => {
    expect(problemsOfAttach({ header })).toEqual(['header'])
  })

  it('may be omitted: the defaults are Authorization, Bearer and 401', () => {
    class Getters {
      get header(): string {
        return 'X-Access-Token'
      }
      get renewOnStatus(): number[] {
        return runInNewContext('[401, 403]') as number[]
      }
    }
    expect(resolveAttach(provided(), new Getters())).toMatchObject({
      header: 'X-Access-Token',
      renewOnStatus: [401, 403],
    })
    expect(resolveAttach(provided())).toEqual(
      resolveAttach(provided(), { header: 'Authorization', scheme: 'Bearer', renewOnStatus: [401] }),
    )
  })
})

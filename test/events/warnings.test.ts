// Process warnings about mistakes that are hard to find otherwise: each has a code and is emitted once.
import { setImmediate } from 'node:timers/promises'
import type { AxiosAdapter } from 'axios'
import {
  type AttachOptions,
  createAuthFetch,
  createTokenProvider,
  type TokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { storeFailureOf } from '../../src/advice/store.ts'
import { warnStoreFailed } from '../../src/events/store-warning.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock } from '../support/clock.ts'
import { collectGarbage } from '../support/garbage.ts'
import { useGround } from '../support/ground.ts'
import { runProgram } from '../support/program.ts'
import { forget } from '../support/recorded.ts'

let warnings: [message: string, code: string | undefined][]
beforeEach(() => {
  warnings = []
  const note = (message: string, { code }: { code?: string } = {}): void =>
    void warnings.push([message, code])
  vi.spyOn(process, 'emitWarning').mockImplementation(note as typeof process.emitWarning)
})
afterEach(() => void vi.restoreAllMocks())

describe('every warning', () => {
  it('names the place in the manual that explains it, beside its message', () => {
    warnStoreFailed({}, { operation: 'get', code: undefined })
    expect(vi.mocked(process.emitWarning)).toHaveBeenCalledWith(expect.not.stringContaining('docs/'), {
      code: 'MERCHANT_AUTH_STORE_FAILED',
      detail: 'See merchant-auth/docs/troubleshooting.md#merchant_auth_store_failed',
    })
  })
})

describe('the warning MERCHANT_AUTH_WITHHELD', () => {
  const ground = useGround()
  const CODE = 'MERCHANT_AUTH_WITHHELD'
  const own = { headers: { authorization: 'Bearer old' } }
  const basesOf = (): string => `${ground.env.merchantUrl}, ${ground.env.inStoreUrl}`
  /** A fetch whose network answers with this status. */
  const fetchThatGets = (status: number, attach: AttachOptions = {}) =>
    createAuthFetch(createStaticTokenProvider({ environment: ground.env.environment }), {
      ...attach,
      fetch: async () => new Response(null, { status }),
    })
  const call = async (send: typeof fetch, count: number, init?: RequestInit): Promise<void> => {
    for (let made = 0; made < count; made += 1) await send(`${ground.env.merchantUrl}/orders`, init)
  }

  it('is emitted for the first call on the origin of an API, but below none', async () => {
    const { origin } = new URL(ground.env.merchantUrl)
    const send = createAuthFetch(ground.tokens)
    await send(`${ground.env.merchantUrl}/orders`)
    expect(warnings).toEqual([])
    await send(`${origin}/merchant2/a%2Fb?token=swordfish`)
    await send(`${origin}/other`)
    expect(warnings).toEqual([
      [
        `A call to ${origin}/merchant2/a%2Fb was sent without the token: its URL is not below a base URL in apiUrls ` +
          `(${basesOf()}).\n` +
          'If it needs the token, add its base URL to apiUrls (MERCHANT_AUTH_API_URLS), or call one that is there: ' +
          'localhost and 127.0.0.1, and the hosts of two environments, are different.',
        CODE,
      ],
    ])
  })

  it('is emitted for the first call without the token that gets a 401, by fetch', async () => {
    const url = ground.env.merchantUrl.replace('127.0.0.1', 'localhost')
    const send = fetchThatGets(401)
    for (let made = 0; made < 12; made += 1) expect((await send(`${url}/orders`)).status).toBe(401)
    expect(warnings).toEqual([
      [
        expect.stringMatching(
          `^A call to ${url}/orders was sent without the token and returned 401: its URL is not below .*\\n.*localhost`,
        ),
        CODE,
      ],
    ])
  })

  it.each(['/oauth/token', '/oauth/tokens', '/orders?next=/oauth/token'])(
    'is emitted for a call that only resembles a token request: %s',
    async (path) => {
      await fetchThatGets(401)(`https://elsewhere.example${path}`)
      expect(warnings).toHaveLength(1)
    },
  )

  it.each([
    [
      "axios' auth",
      { auth: { username: 'a', password: 'b' } },
      /^.* and returned 401: axios' auth option.*\nRemove it/,
    ],
    [
      'a header of the caller',
      own,
      /^.* and returned 401: the caller set the header Authorization\.\nRemove the code/,
    ],
  ])('is emitted for the first call that gets a 401, by axios: %s', async (_, config, message) => {
    const adapter: AxiosAdapter = async (sent) => {
      return { config: sent, status: 401, statusText: '', headers: {}, data: '' }
    }
    const api = ground.api({ adapter, validateStatus: () => true })
    for (let made = 0; made < 3; made += 1) await api.get('/orders', config)
    expect(warnings).toEqual([[expect.stringMatching(message), CODE]])
  })

  it('says that an encoded slash is why, where the URL is below a base URL', async () => {
    await fetchThatGets(401)(`${ground.env.merchantUrl}/orders/2026%2F17`)
    expect(warnings).toEqual([
      [
        expect.stringMatching(
          /\/merchant\/orders\/2026%2F17 was sent without the token and returned 401: its path contains an encoded slash .*\nSend that value in the query/,
        ),
        CODE,
      ],
    ])
  })

  it('is emitted for the tenth call with a header of its own, if no call needed the token', async () => {
    const send = fetchThatGets(200)
    await call(send, 9, own)
    expect(warnings).toEqual([])
    await call(send, 20, own)
    expect(warnings).toEqual([
      [
        expect.stringMatching(
          /^10 calls, the last one to .*, were sent without the token, and no call needed it: the caller set the header/,
        ),
        CODE,
      ],
    ])
  })

  it('is emitted once for each attachment', async () => {
    for (const send of [fetchThatGets(401), fetchThatGets(401)]) await call(send, 12, own)
    expect(warnings).toHaveLength(2)
  })

  it.each<[string, () => Promise<void>]>([
    [
      'calls of another origin',
      async () => {
        const send = fetchThatGets(200)
        for (let made = 0; made < 12; made += 1) await send('https://elsewhere.example/orders')
      },
    ],
    [
      'calls with their own header, where others need the token',
      async () => {
        const send = fetchThatGets(200)
        await call(send, 1)
        await call(send, 20, own)
      },
    ],
    [
      'a status that does not renew',
      async () => {
        await call(fetchThatGets(403), 1, own)
        await call(fetchThatGets(401, { renewOnStatus: [] }), 1, own)
      },
    ],
    [
      'the token endpoint',
      async () => {
        const { authUrl } = ground.env.environment
        await fetchThatGets(401)(`${authUrl}/oauth/token`, { method: 'POST' })
      },
    ],
    [
      'the token endpoint of another environment',
      async () => {
        const environment = {
          authUrl: 'https://auth.example',
          tokenPath: '/login',
          apiUrls: ['https://x.example'],
        }
        createAuthFetch(createStaticTokenProvider({ environment }))
        for (const query of ['', '?tenant=1'])
          await fetchThatGets(401)(`https://auth.example/login${query}`, { method: 'POST' })
      },
    ],
    [
      'calls of another service with credentials of their own, on the origin of an API or elsewhere',
      async () => {
        const { origin } = new URL(ground.env.merchantUrl)
        for (const url of ['https://elsewhere.example/orders', `${origin}/in-store-of-others/orders`])
          await fetchThatGets(401)(url, own)
      },
    ],
    [
      'calls of another service with credentials of their own, by axios',
      async () => {
        const adapter: AxiosAdapter = async (config) => {
          return { config, status: 401, statusText: '', headers: {}, data: '' }
        }
        const api = ground.api({ adapter, validateStatus: () => true })
        for (const config of [own, { auth: { username: 'a', password: 'b' } }])
          expect((await api.get('https://elsewhere.example/orders', config)).status).toBe(401)
      },
    ],
    [
      'an ambiguous path',
      async () => void (await fetchThatGets(200)(`${ground.env.merchantUrl}/orders/a%2Fb`)),
    ],
  ])('is not emitted for %s', async (_, make) => {
    await make()
    expect(warnings).toEqual([])
  })
})

// In a program, because these tests themselves subscribe to the channel.
describe.concurrent('the warning MERCHANT_AUTH_STORE_FAILED', () => {
  const warningsOf = async (listening: string, stores = 1): Promise<string> => {
    const { said } = await runProgram(`
      const { subscribe } = await import('node:diagnostics_channel')
      let onEvent
      ${listening}
      process.on('warning', ({ code, message }) => console.log(code + ': ' + message))
      const fail = () => Promise.reject(Object.assign(new Error(), { code: 'ENOTDIR' }))
      const stores = Array.from({ length: ${stores} }, () => ({ get: fail, set: fail }))
      for (const store of [...stores, ...stores]) {
        const tokens = createTokenProvider({
          environment: { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] },
          clientId: 'c', clientSecret: 'swordfish', onEvent, clock, store,
          fetch: async () => Response.json({ access_token: 'a', expires_in: 600, token_type: 'bearer' }),
        })
        await tokens.getToken()
        later(600_000)
        await tokens.getToken()
        await tokens.close()
      }`)
    return said
  }

  const WARNING =
    'MERCHANT_AUTH_STORE_FAILED: The token store failed (get, ENOTDIR), so this process may request tokens of its own.\n' +
    `${storeFailureOf('ENOTDIR').advice} Further failures are store-failed events only: listen to them with onEvent.`

  it.each([
    [1, WARNING],
    [2, `${WARNING}\n${WARNING}`],
  ])(
    'is emitted once for a store that fails while nobody listens, whatever providers share it: %i',
    async (stores, said) => {
      expect(await warningsOf('', stores)).toBe(said)
    },
  )

  it.each([
    ['listener', 'onEvent = () => {}'],
    ['subscriber of the channel', "subscribe('merchant-auth', () => {})"],
  ])('is not emitted if there is a %s', async (_, listening) => {
    expect(await warningsOf(listening)).toBe('')
  })
})

describe('the warning MERCHANT_AUTH_PROVIDERS', () => {
  const providers: TokenProvider[] = []
  let client = 0
  const create = (count: number, more: Partial<TokenProviderOptions> = {}): void => {
    for (let made = 0; made < count; made += 1)
      providers.push(
        createTokenProvider({
          environment: { authUrl: 'https://auth.example', audience: 'a', apiUrls: ['https://api.example'] },
          clientId: `client-${client}`,
          clientSecret: 'swordfish-of-the-test',
          ...more,
        } as TokenProviderOptions),
      )
  }
  beforeEach(() => {
    client += 1
  })
  afterEach(() => Promise.all(providers.splice(0).map((provider) => provider.close())))

  it('is not emitted for a chain that has a client, and so a provider, for each of 3 000 stores', () => {
    for (let store = 1; store <= 3_000; store += 1) create(1, { clientId: `store-${store}` })
    expect(warnings).toEqual([])
  })

  it('is emitted once if more than 8 providers share a client, an audience and a token endpoint', () => {
    create(8)
    expect(warnings).toEqual([])
    create(3)
    expect(warnings).toEqual([
      [
        expect.stringMatching(/^9 token providers .*https:\/\/auth\.example\/oauth\/token.*share it/),
        'MERCHANT_AUTH_PROVIDERS',
      ],
    ])
    expect(warnings[0]?.[0]).not.toContain(`client-${client}`)
  })

  it('counts providers per client and token endpoint, and ignores those with a store', () => {
    create(8)
    create(8, { clientId: `other-${client}` })
    create(8, {
      environment: { authUrl: 'https://auth.example/2', audience: 'a', apiUrls: ['https://api.example'] },
    })
    create(9, { store: new MemoryStore(new ManualClock()) })
    expect(warnings).toEqual([])
  })

  it('stops counting a provider after close(), even if close() is called twice', async () => {
    create(8)
    const [first] = providers
    await first?.close()
    await first?.close()
    create(1)
    expect(warnings).toEqual([])
    create(1)
    expect(warnings).toHaveLength(1)
  })

  it('does not count garbage-collected providers, and does not keep providers from being collected', async () => {
    create(8)
    const collected = vi.fn()
    const registry = new FinalizationRegistry(collected)
    providers.splice(0).forEach((provider) => void registry.register(provider, undefined))
    forget() // the recorded outcomes, which refer to the providers
    await vi.waitUntil(() => {
      collectGarbage()
      return collected.mock.calls.length === 8
    })
    await setImmediate() // the callbacks of the package's own registry
    create(8)
    expect(warnings).toEqual([])
  })
})

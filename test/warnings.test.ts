// Process warnings about mistakes that are hard to find otherwise: each has a code and is emitted once.
import { setImmediate } from 'node:timers/promises'
import {
  createAuthFetch,
  createTokenProvider,
  type TokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { MemoryStore } from './store/memory-store.ts'
import { ManualClock } from './support/clock.ts'
import { collectGarbage } from './support/garbage.ts'
import { useGround } from './support/ground.ts'
import { forget } from './support/recorded.ts'

let warnings: [message: string, code: string | undefined][]
beforeEach(() => {
  warnings = []
  const note = (message: string, { code }: { code?: string } = {}): void =>
    void warnings.push([message, code])
  vi.spyOn(process, 'emitWarning').mockImplementation(note as typeof process.emitWarning)
})
afterEach(() => void vi.restoreAllMocks())

describe('the warning MERCHANT_AUTH_WITHHELD', () => {
  const ground = useGround()

  it('is emitted once per provider for calls to the origin of an API but outside apiUrls', async () => {
    const { origin } = new URL(ground.env.merchantUrl)
    const send = createAuthFetch(ground.tokens)
    await send(`${ground.env.merchantUrl}/orders`)
    expect(warnings).toEqual([])
    await send(`${origin}/merchant2/orders?token=swordfish`)
    await send(`${origin}/other`)
    expect(warnings).toEqual([
      [
        expect.stringMatching(`${origin}/merchant2/orders was sent without the token: .*apiUrls`),
        'MERCHANT_AUTH_WITHHELD',
      ],
    ])
  })

  it('is not emitted for another origin, a call with its own header, the token endpoint or an ambiguous path', async () => {
    const answer = async (): Promise<Response> => new Response()
    const tokens = createStaticTokenProvider({ environment: ground.env.environment })
    const send = createAuthFetch(tokens, { fetch: answer })
    await send('https://elsewhere.example/orders')
    await send(`${ground.env.merchantUrl}/orders`, { headers: { authorization: 'Basic abc' } })
    await send(`${ground.env.environment.authUrl}/oauth/token`, { method: 'POST' })
    await send(`${ground.env.merchantUrl}/orders/a%2Fb`) // below an entry, but ambiguous
    expect(warnings).toEqual([])
  })
})

describe('the warning MERCHANT_AUTH_OWN_HEADER', () => {
  const ground = useGround()
  const call = async (send: typeof fetch, count: number, init?: RequestInit): Promise<void> => {
    for (let made = 0; made < count; made += 1) await send(`${ground.env.merchantUrl}/orders`, init)
  }
  const own = { headers: { authorization: 'Bearer old' } }
  const client = () => createAuthFetch(ground.tokens, { fetch: async () => new Response() })

  it('is emitted once if the first ten calls all have a header of their own', async () => {
    const send = client()
    await call(send, 9, own)
    expect(warnings).toEqual([])
    await call(send, 20, own)
    expect(warnings).toEqual([
      [
        expect.stringMatching(/^10 calls had their own Authorization header, .* Remove the code/),
        'MERCHANT_AUTH_OWN_HEADER',
      ],
    ])
  })

  it('is not emitted if calls need the token, too', async () => {
    const send = client()
    await call(send, 1)
    await call(send, 20, own)
    expect(warnings).toEqual([])
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

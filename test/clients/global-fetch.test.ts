// A createAuthFetch that replaces the global fetch it wraps, and token requests that pass through their own provider.
import { Agent as HttpAgent } from 'node:http'
import axios, { type AxiosRequestConfig } from 'axios'
import { type AuthEvent, createTokenProvider, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, fetch as undiciFetch } from 'undici'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createAuthFetch } from '../../src/index.ts' // unlike the wrapper of the tests, it recognizes itself as the global fetch
import { useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { outcomes } from '../support/recorded.ts'

const native = globalThis.fetch
afterEach(() => {
  globalThis.fetch = native
})

const API = 'https://api.test.example/merchant/x'
const TOKENS = provided({ current: token('current.token') })
const isWithheld = (outcome: unknown) => (outcome as Partial<AuthEvent>).type === 'token-withheld'
const authorizationOf = (init?: RequestInit) => new Headers(init?.headers).get('authorization')

describe('createAuthFetch as the global fetch', () => {
  const network = vi.fn<typeof fetch>(async () => new Response('answer'))
  beforeEach(() => {
    network.mockClear()
    globalThis.fetch = network
  })

  const replacements: Record<string, (authFetch: typeof fetch) => typeof fetch> = {
    'is the global fetch': (authFetch) => authFetch,
    'is called by a wrapper': (authFetch) => (input, init) => authFetch(input, init),
    'is called later, with a Request': (authFetch) => async (input, init) => {
      await new Promise((resolve) => setImmediate(resolve))
      return await authFetch(new Request(input, init))
    },
    'is called by another createAuthFetch': (authFetch) => {
      globalThis.fetch = authFetch
      return createAuthFetch(provided({ apiUrls: ['https://other.example'] }))
    },
  }

  it.each(Object.entries(replacements))(
    'sends a call once, with the token, if it %s',
    async (how, replace) => {
      const authFetch = createAuthFetch(TOKENS)
      globalThis.fetch = replace(authFetch)
      for (const call of [globalThis.fetch, authFetch]) {
        network.mockClear()
        expect(await (await call(API)).text()).toBe('answer')
        expect(network).toHaveBeenCalledTimes(1)
        const [input, init] = network.mock.calls[0] ?? []
        expect(authorizationOf(input instanceof Request ? input : init)).toBe('Bearer current.token')
      }
      // It does not treat its own token as a header of the caller.
      if (how === 'is the global fetch') expect(outcomes.filter(isWithheld)).toEqual([])
    },
  )

  it.each(Object.entries(replacements))('sends a call to another URL once if it %s', async (_, replace) => {
    globalThis.fetch = replace(createAuthFetch(TOKENS))
    expect(await (await fetch('https://elsewhere.example/x')).text()).toBe('answer')
    expect(network).toHaveBeenCalledTimes(1)
  })

  it('sends each of 50 concurrent calls once', async () => {
    globalThis.fetch = replacements['is called later, with a Request']?.(createAuthFetch(TOKENS)) ?? native
    await Promise.all(Array.from({ length: 50 }, (_, nth) => fetch(`${API}/${nth % 2}`)))
    expect(network).toHaveBeenCalledTimes(50)
  })

  it.each<[string, (authFetch: typeof fetch) => typeof fetch]>([
    ['changes their URLs', (authFetch) => (path, init) => authFetch(`${API}${path}`, init)],
    [
      'changes their URLs later',
      (authFetch) => async (path, init) => {
        await new Promise((resolve) => setImmediate(resolve))
        return await authFetch(`${API}${path}`, init)
      },
    ],
  ])('sends the calls of a wrapper that %s once, with the token', async (_, replace) => {
    globalThis.fetch = replace(createAuthFetch(TOKENS))
    expect(await (await fetch('/1')).text()).toBe('answer')
    expect(network).toHaveBeenCalledTimes(1)
    expect(authorizationOf(network.mock.calls[0]?.[1])).toBe('Bearer current.token')
  })

  it('calls a wrapper around it once per call', async () => {
    const authFetch = createAuthFetch(TOKENS)
    const wrapped = vi.fn<typeof fetch>((input, init) => authFetch(input, init))
    globalThis.fetch = wrapped
    await fetch(API)
    wrapped.mockClear()
    for (let call = 0; call < 3; call += 1) await fetch(API)
    expect(wrapped).toHaveBeenCalledTimes(3)
  })

  it('attaches the token to the calls that a wrapper makes itself, during a call and after it', async () => {
    const authFetch = createAuthFetch(TOKENS)
    const others: Promise<Response>[] = []
    const { promise, resolve } = Promise.withResolvers<void>()
    let calls = 0
    globalThis.fetch = async (input, init) => {
      calls += 1
      if (calls > 1) return await authFetch(input, init)
      queueMicrotask(() => void others.push(authFetch(API)))
      const answer = await authFetch(input, init)
      setImmediate(() => {
        others.push(authFetch(API))
        resolve()
      })
      return answer
    }
    await fetch(API)
    await promise
    await Promise.all(others)
    expect(others).toHaveLength(2)
    expect(new Set(network.mock.calls.map(([, init]) => authorizationOf(init)))).toEqual(
      new Set(['Bearer current.token']),
    )
  })

  it('passes calls that a mocked global fetch makes through another createAuthFetch to that mock', async () => {
    const authFetch = createAuthFetch(TOKENS)
    const other = createAuthFetch(provided({ apiUrls: ['https://other.example'] }))
    const mock = vi.fn<typeof fetch>(async (input) => {
      if (input === API) await other('https://other.example/inner')
      return new Response('mocked')
    })
    globalThis.fetch = mock
    await authFetch(API)
    await other('https://other.example/later')
    expect(mock.mock.calls.map(([input]) => input)).toEqual([
      API,
      'https://other.example/inner',
      'https://other.example/later',
    ])
    expect(network).not.toHaveBeenCalled()
  })

  it('sends a call that a wrapper makes after its response through the current global fetch', async () => {
    const authFetch = createAuthFetch(TOKENS)
    const later = vi.fn<typeof fetch>(async () => new Response('later'))
    const { promise: after, resolve } = Promise.withResolvers<Response>()
    globalThis.fetch = async (input, init) => {
      const answer = await authFetch(input, init)
      setImmediate(() => {
        globalThis.fetch = later
        resolve(authFetch(API))
      })
      return answer
    }
    await authFetch(API)
    expect(await (await after).text()).toBe('later')
    expect(later).toHaveBeenCalledTimes(1)
  })
})

describe('a token request through a client that attaches the token of its own provider', () => {
  const ground = useGround()

  /** A provider whose token endpoint is below an apiUrl, and which sends its token requests with the given fetch. */
  const made = (own: { fetch?: typeof fetch }): TokenProvider => {
    const { environment, clientId, clientSecret } = ground.env
    const { fetch: send } = own
    return createTokenProvider({
      environment: { ...environment, apiUrls: [environment.authUrl, ...Object.values(environment.apiUrls)] },
      clientId,
      clientSecret,
      timeoutMs: 5_000,
      onEvent: (event) => ground.events.push(event),
      ...(send === undefined ? {} : { fetch: (input, init) => send(input, init) }),
    })
  }

  const byAxios = (configOf: (url: string) => AxiosRequestConfig) => (): TokenProvider => {
    const api = axios.create({ httpAgent: new HttpAgent({ keepAlive: false }) })
    const tokens = made({
      fetch: async (input, init) => {
        const config = { data: init?.body, headers: init?.headers, ...configOf(String(input)) }
        const { data, status } = await api.request({ method: 'POST', ...config } as AxiosRequestConfig)
        return Response.json(data, { status })
      },
    })
    attachAuth(api, tokens)
    return tokens
  }

  const ways: Record<string, () => TokenProvider> = {
    'the global fetch': () => {
      const tokens = made({})
      globalThis.fetch = createAuthFetch(tokens)
      return tokens
    },
    createAuthFetch: () => {
      const own = { fetch: native }
      const tokens = made({ fetch: (input, init) => own.fetch(input, init) })
      own.fetch = createAuthFetch(tokens, { fetch: native })
      return tokens
    },
    'an axios instance with the token': byAxios((url) => ({ url })),
    'an axios instance with the token, by its baseURL alone': byAxios((baseURL) => ({ baseURL })),
    'a dispatcher with the token': () => {
      const own = { dispatcher: new Agent() as unknown }
      const tokens = made({
        fetch: ((input: string, init: object) =>
          undiciFetch(input, { ...init, dispatcher: own.dispatcher as Agent })) as unknown as typeof fetch,
      })
      own.dispatcher = new Agent().compose(createAuthDispatch(tokens))
      return tokens
    },
  }

  it.each(Object.entries(ways))(
    'is sent without a token and without waiting for one: %s',
    async (_, provide) => {
      await using tokens = provide()
      expect((await tokens.getToken()).tokenType).toBe('Bearer')
      const [request] = ground.env.requests('token')
      expect(request?.headers).not.toHaveProperty('authorization')
      expect(ground.events.filter(isWithheld)).toEqual([])
      outcomes.length = 0 // an axios instance that sends token requests gets their responses
    },
  )
})

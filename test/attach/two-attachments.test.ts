// Calls that pass two attachments of one provider, such as one on fetch, and one on the dispatcher below it.
import axios from 'axios'
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, request, fetch as undiciFetch } from 'undici'
import { expect, it, onTestFinished, vi } from 'vitest'
import { until, useGround } from '../support/ground.ts'

const ground = useGround()

type Call = (url: string) => Promise<{ readonly status: number }>

const PAIRS: Record<string, (tokens: TokenProvider) => Call> = {
  'createAuthFetch, and createAuthDispatch': (tokens) => {
    const agent = new Agent()
    onTestFinished(() => agent.destroy())
    const dispatcher = agent.compose(createAuthDispatch(tokens))
    const fetch = ((input: string, init: object) => undiciFetch(input, { ...init, dispatcher })) as never
    return createAuthFetch(tokens, { fetch })
  },
  'attachAuth with the fetch adapter, and createAuthFetch': (tokens) => {
    const api = axios.create({ adapter: 'fetch', env: { fetch: createAuthFetch(tokens, { fetch }) } })
    attachAuth(api, tokens)
    return (url) => api.get(url)
  },
  'attachAuth with the fetch adapter, createAuthFetch, and createAuthFetch': (tokens) => {
    const twice = createAuthFetch(tokens, { fetch: createAuthFetch(tokens, { fetch }) })
    const api = axios.create({ adapter: 'fetch', env: { fetch: twice } })
    attachAuth(api, tokens)
    return (url) => api.get(url)
  },
  'createAuthDispatch, and createAuthDispatch': (tokens) => {
    const agent = new Agent()
    onTestFinished(() => agent.destroy())
    const below = agent.compose(createAuthDispatch(tokens))
    const dispatcher = below.compose(createAuthDispatch(tokens))
    return async (url) => {
      const { statusCode, body } = await request(url, { dispatcher })
      await body.dump()
      return { status: statusCode }
    }
  },
  'createAuthInterceptor, and createAuthFetch': (tokens) => {
    const api = axios.create({ adapter: 'fetch', env: { fetch: createAuthFetch(tokens, { fetch }) } })
    api.interceptors.request.use(createAuthInterceptor(tokens))
    return (url) => api.get(url)
  },
}

const isWithheld = ({ type }: { readonly type: string }) => type === 'token-withheld'

it.each(Object.entries(PAIRS))('%s: no call counts as one without the token', async (name, create) => {
  const warned = vi.fn()
  process.on('warning', warned)
  onTestFinished(() => void process.off('warning', warned))
  const call = create(ground.tokens)
  for (let calls = 0; calls < 12; calls += 1) {
    if (calls === 6 && !name.includes('Interceptor')) ground.env.revoke()
    expect((await call(ground.env.merchantUrl)).status).toBe(200)
  }
  await until(() => ground.sent().length >= 12)
  expect(ground.events.filter(isWithheld)).toEqual([])
  expect(warned).not.toHaveBeenCalled()
})

it('holds however many other attachments the provider has', async () => {
  const below = createAuthFetch(ground.tokens, { fetch })
  const many = Array.from({ length: 20 }, () => createAuthFetch(ground.tokens, { fetch: below }))
  for (const call of [...many, ...many.toReversed()]) await call(ground.env.merchantUrl)
  await Promise.all(many.map((call) => call(ground.env.merchantUrl)))
  expect(ground.events.filter(isWithheld)).toEqual([])
})

it('holds for calls that others overtake', async () => {
  const below = createAuthFetch(ground.tokens, { fetch })
  await below(ground.env.merchantUrl)
  const gate = Promise.withResolvers<void>()
  const later: typeof fetch = async (...args) => {
    await gate.promise
    return below(...args)
  }
  const slow = Array.from({ length: 7 }, () => createAuthFetch(ground.tokens, { fetch: later }))
  const calls = slow.map((call) => call(ground.env.merchantUrl))
  await createAuthFetch(ground.tokens)(ground.env.merchantUrl)
  gate.resolve()
  await Promise.all(calls)
  expect(ground.events.filter(isWithheld)).toEqual([])
})

it('a call that is still under way after a renewal, and others, has its token', async () => {
  const below = createAuthFetch(ground.tokens, { fetch })
  const gate = Promise.withResolvers<void>()
  let calls = 0
  const delayed: typeof fetch = async (...args) => {
    calls += 1
    if (calls === 2) await gate.promise
    return below(...args)
  }
  const call = createAuthFetch(ground.tokens, { fetch: delayed })
  await call(ground.env.merchantUrl)
  const late = call(ground.env.merchantUrl)
  await ground.tokens.getToken({ forceRefresh: true })
  for (let count = 0; count < 3; count += 1) await call(ground.env.merchantUrl)
  gate.resolve()
  await late
  expect(ground.events.filter(isWithheld)).toEqual([])
})

it('a header of the caller with another value is still the caller’s own', async () => {
  const call = createAuthFetch(ground.tokens)
  await call(ground.env.merchantUrl)
  await call(ground.env.merchantUrl, { headers: { authorization: 'Bearer own' } })
  expect(ground.events.filter(isWithheld)).toMatchObject([{ reason: 'own-header' }])
})

it('the header of another provider is one of the caller’s own', async () => {
  const other = ground.provider({ tokenParameters: { tenant: 'a' } as never })
  const call = createAuthFetch(ground.tokens, { fetch: createAuthFetch(other, { fetch }) })
  await call(ground.env.merchantUrl)
  expect(ground.events.filter(isWithheld)).toMatchObject([{ reason: 'own-header' }])
})

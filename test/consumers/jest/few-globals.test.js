/**
 * Where web streams, text coders and Web Crypto are not global, as in Jest's jsdom environment.
 *
 * @jest-environment ./few-globals.js
 */
const axios = require('axios')
const { createAuthFetch, createTokenProvider } = require('merchant-auth')
const { attachAuth } = require('merchant-auth/axios')
const { startSandbox } = require('merchant-auth/testing')

test.each(['fetch', 'axios'])('%s renews a rejected token', async (client) => {
  expect(typeof ReadableStream).toBe('undefined')
  const sandbox = await startSandbox()
  const { merchantUrl, options } = sandbox.test
  const tokens = createTokenProvider(options)
  const api = axios.create()
  attachAuth(api, tokens)
  const call =
    client === 'fetch' ? createAuthFetch(tokens) : (url) => api.get(url, { responseType: 'stream' })
  sandbox.test.fail('merchant', { kind: 'status', status: 401 })
  await expect(call(merchantUrl)).resolves.toMatchObject({ status: 200 })
  await tokens.close()
  await sandbox.close()
})

/** Options of a client whose tokens `answer` returns. */
const optionsWith = (answer) => ({
  environment: { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] },
  clientId: 'id',
  clientSecret: 'a-client-secret',
  fetch: answer,
})
const granted = () => Response.json({ access_token: 'a.b.c', expires_in: 3600, token_type: 'Bearer' })

test('the token in a store is shared, encrypted', async () => {
  jest.replaceProperty(globalThis, 'crypto', {})
  const entries = new Map()
  const store = {
    get: async (key) => entries.get(key),
    set: async (key, value, ttlMs) => void entries.set(key, { value, ttlMs }),
  }
  const answer = jest.fn(async () => granted())
  for (let time = 0; time < 2; time += 1) {
    const tokens = createTokenProvider({ ...optionsWith(answer), store })
    await expect(tokens.getToken()).resolves.toMatchObject({ value: 'a.b.c' })
    await tokens.close()
  }
  expect(answer).toHaveBeenCalledTimes(1)
  expect(JSON.stringify([...entries])).not.toContain('a.b.c')
  jest.restoreAllMocks()
})

test('fake timers end no wait for a token', async () => {
  jest.useFakeTimers()
  const { promise, resolve } = Promise.withResolvers()
  const tokens = createTokenProvider(optionsWith(() => promise))
  const waiting = tokens.getToken()
  expect(jest.getTimerCount()).toBe(0)
  jest.advanceTimersByTime(60_000)
  resolve(granted())
  await expect(waiting).resolves.toMatchObject({ value: 'a.b.c' })
  await tokens.close()
  jest.useRealTimers()
})

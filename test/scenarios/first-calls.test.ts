import axios from 'axios'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'

describe('a service that starts', () => {
  it('makes one token request for 1 000 first calls at once, on axios and fetch', async () => {
    await using sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox.test
    await using tokens = createTokenProvider({
      environment,
      clientId,
      clientSecret,
      timeoutMs: PATIENCE_MS, // the calls are in its way
    })
    const api = axios.create({ baseURL: merchantUrl })
    attachAuth(api, tokens)
    const authFetch = createAuthFetch(tokens)
    const calls = Array.from({ length: 500 }, (_, n) => [
      api.get(`/orders/${n}`),
      authFetch(`${inStoreUrl}/sales/${n}`),
    ])
    const answers = await Promise.all(calls.flat())
    expect(answers.map(({ status }) => status)).toEqual(Array(1_000).fill(200))
    expect(sandbox.test.counts.token).toBe(1)
  })
})

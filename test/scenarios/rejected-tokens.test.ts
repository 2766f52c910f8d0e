import axios from 'axios'
import { type AuthEvent, createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { StandingClock } from '../support/clock.ts'

function clients({ environment, clientId, clientSecret, merchantUrl, inStoreUrl }: SandboxEnvironment) {
  const events: AuthEvent[] = []
  const tokens = createTokenProvider({
    environment,
    clientId,
    clientSecret,
    clock: new StandingClock(),
    onEvent: (event) => events.push(event),
  })
  const validateStatus = () => true
  const merchant = axios.create({ baseURL: merchantUrl, validateStatus })
  const inStore = axios.create({ baseURL: inStoreUrl, validateStatus, adapter: 'fetch' })
  attachAuth(merchant, tokens)
  attachAuth(inStore, tokens)
  return { tokens, events, merchant, inStore, authFetch: createAuthFetch(tokens) }
}

describe('a revoked token', () => {
  it('under 200 parallel calls whose answers are staggered costs one renewal, and no call', async () => {
    await using sandbox = await startSandbox()
    const { tokens, merchant, authFetch } = clients(sandbox.test)
    await tokens.getToken()
    sandbox.test.revoke()
    let asked = 0
    sandbox.test.configure({ apiLatencyMs: () => (asked++ * 1.5) % 300 })
    const statuses = await Promise.all(
      Array.from({ length: 200 }, async (_, n) =>
        n % 2
          ? (await merchant.post('/orders', { n }, { headers: { 'idempotency-key': `k-${n}` } })).status
          : (await authFetch(`${sandbox.test.inStoreUrl}/sales/${n}`)).status,
      ),
    )
    expect(statuses).toEqual(Array(200).fill(200))
    expect(sandbox.test.counts).toMatchObject({ token: 2, unauthorized: 200 })
    const keys = sandbox.test.requests('merchant').map(({ headers }) => headers['idempotency-key'])
    expect(keys.length).toBe(200)
    expect(new Set(keys).size).toBe(100)
    await tokens.close()
  })
})

describe('an API that rejects every token', () => {
  it('costs one token more, gives callers their 401s, and does the other API no harm', async () => {
    await using sandbox = await startSandbox()
    const { tokens, events, merchant, inStore } = clients(sandbox.test)
    await tokens.getToken()
    sandbox.test.configure({ rejectAllTokens: ['merchant'] })
    const calls = Array.from({ length: 50 }, () => [merchant.get('/orders'), inStore.get('/sales')] as const)
    const answers = await Promise.all(calls.flat())
    expect(answers.map(({ status }) => status)).toEqual(
      Array.from({ length: 100 }, (_, n) => (n % 2 ? 200 : 401)),
    )
    expect((await merchant.get('/orders')).status).toBe(401)
    expect(sandbox.test.counts.token).toBe(2)
    expect(sandbox.test.counts.merchant).toBeLessThanOrEqual(102)
    expect(events).toContainEqual(expect.objectContaining({ type: 'renewal-suppressed', api: 'merchant' }))
    sandbox.test.revoke()
    expect((await inStore.get('/sales')).status).toBe(200) // its own rate limit is unused
    expect(sandbox.test.counts.token).toBe(3)
    await tokens.close()
  })
})

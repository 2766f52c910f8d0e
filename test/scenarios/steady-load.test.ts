import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'

describe('a service under steady load', () => {
  // Where the machine stands still for a fifth of a second, a token of 2 s expires before anybody can renew it.
  it('renews short-lived tokens in the background: no call waits, and no API says 401', {
    retry: 3,
  }, async () => {
    await using sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox.test
    sandbox.test.configure({ lifetimeSeconds: 2, tokenLatencyMs: 150 })
    await using tokens = createTokenProvider({ environment, clientId, clientSecret })
    const authFetch = createAuthFetch(tokens)
    await authFetch(merchantUrl)
    const until = performance.now() + 8_000
    let calls = 0
    let waiting = 0
    const statuses = new Set<number>()
    const loop = async (url: string): Promise<void> => {
      while (performance.now() < until) {
        if (tokens.currentToken() === undefined) waiting += 1
        const { status, body } = await authFetch(url)
        await body?.cancel()
        statuses.add(status)
        calls += 1
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
    await Promise.all(Array.from({ length: 50 }, (_, n) => loop(n % 2 ? merchantUrl : inStoreUrl)))
    expect([...statuses]).toEqual([200])
    expect(waiting).toBe(0)
    expect(sandbox.test.counts.unauthorized).toBe(0)
    expect(sandbox.test.counts.token).toBeGreaterThanOrEqual(4)
    expect(sandbox.test.counts.token).toBeLessThanOrEqual(6)
    expect(calls).toBeGreaterThan(1_000)
  })
})

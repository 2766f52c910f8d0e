// Background renewals under steady load: no call waits for a token.
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { describe, expect, inject, it } from 'vitest'
import { startRig } from './rotating-service.ts'

describe('a service under steady load', () => {
  it('renews tokens in the background: no call waits, and no API responds with 401', async () => {
    const { service, rig } = await startRig(() => ({}))
    rig.waits = 0 // the first calls had to wait
    for (let renewals = 1; renewals <= 5; renewals += 1) {
      await rig.renewal()
      expect(rig.requests).toEqual({ sent: 1 + renewals, rejected: 0 })
    }
    expect(rig.waits).toBe(0)
    expect(service.counts.unauthorized).toBe(0)
  })

  // On a machine that stalls for 0.2 s, a token of 2 s expires before it can be renewed.
  if (inject('quiet'))
    it('renews tokens of 2 s in the background', async () => {
      await using sandbox = await startSandbox()
      const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox.test
      sandbox.test.configure({ lifetimeSeconds: 2, tokenLatencyMs: 150 })
      await using tokens = createTokenProvider({ environment, clientId, clientSecret })
      const authFetch = createAuthFetch(tokens)
      await authFetch(merchantUrl)
      const until = performance.now() + 8_000
      let waits = 0
      const statuses = new Set<number>()
      const loop = async (url: string): Promise<void> => {
        while (performance.now() < until) {
          if (tokens.currentToken() === undefined) waits += 1
          const { status, body } = await authFetch(url)
          await body?.cancel()
          statuses.add(status)
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
      }
      await Promise.all(Array.from({ length: 50 }, (_, n) => loop(n % 2 ? merchantUrl : inStoreUrl)))
      expect([[...statuses], waits, sandbox.test.counts.unauthorized]).toEqual([[200], 0, 0])
      expect(sandbox.test.counts.token).toBeGreaterThanOrEqual(4)
      expect(sandbox.test.counts.token).toBeLessThanOrEqual(6)
    })
})

/** Redis is killed, hangs and comes back in the middle of load: no call fails, none waits long, and the token is shared again. */
import { setTimeout as sleep } from 'node:timers/promises'
import { startSandbox } from 'merchant-auth/testing'
import { expect, it } from 'vitest'
// Not the watched copy: to search thousands of answers for secrets would hold up the tests that run at the same time.
import { createAuthFetch } from '../../src/index.ts'
import { eventually, failuresOf, onEachRedis } from './rig.ts'

const MEMBERS = 3
const LONGEST_MS = 1_000

onEachRedis((rig) => {
  it('goes on', { retry: 2 }, async () => {
    await using sandbox = await startSandbox()
    sandbox.test.configure({ lifetimeSeconds: 2, tokenLatencyMs: 50 })
    const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
    const { fetch } = globalThis
    const stores = await Promise.all(Array.from({ length: MEMBERS }, () => rig.store()))
    const members = stores.map((store) => rig.start(store, { environment, clientId, clientSecret, fetch }))
    let over = false
    let calls = 0
    let longestMs = 0
    const failed: unknown[] = []
    const load = members.map(async ({ provider }) => {
      const authFetch = createAuthFetch(provider)
      while (!over) {
        const from = performance.now()
        const status = await authFetch(merchantUrl).then(
          async (answer) => {
            await answer.body?.cancel()
            return answer.status
          },
          (error: unknown) => error,
        )
        longestMs = Math.max(longestMs, performance.now() - from)
        calls += 1
        if (status !== 200) failed.push(status)
        await sleep(20)
      }
    })
    const shared = () =>
      eventually('a token that all have', async () => {
        const tokens = members.map(({ provider }) => provider.currentToken()?.value)
        return !tokens.includes(undefined) && new Set(tokens).size === 1
      })
    const noticed = () => {
      const told = () => members.map(({ events }) => failuresOf(events).length)
      const before = told()
      return eventually('all to notice', async () => told().every((count, n) => count > (before[n] ?? 0)))
    }

    try {
      await shared()
      await rig.every((server) => server.kill())
      await noticed()
      await rig.every((server) => server.restart())
      await rig.redis.whole()
      await shared()
      await rig.every((server) => server.freeze())
      await noticed()
      await rig.every((server) => server.thaw())
      await shared()
    } finally {
      over = true
      await Promise.all(load)
    }
    expect(failed).toEqual([])
    expect(calls).toBeGreaterThan(100)
    expect(longestMs).toBeLessThan(LONGEST_MS)
    await Promise.all(members.map(({ provider }) => provider.close()))
    expect((await rig.entries()).filter(({ key }) => key.endsWith(':lease'))).toEqual([])
  })
})

/** Redis is killed, hangs and comes back in the middle of load: no call fails, and the token is shared again; on a quiet machine none waits long. */
import { setTimeout as sleep } from 'node:timers/promises'
import { startSandbox } from 'merchant-auth/testing'
import { expect, inject, it } from 'vitest'
// Not the watched copy: to search thousands of answers for secrets would hold up the tests that run at the same time.
import { createAuthFetch } from '../../src/index.ts'
import { DEFAULTS, eventually, failuresOf, onEachRedis } from './rig.ts'

const MEMBERS = 3
const LONGEST_MS = 1_000
const LIFETIME_MS = 2_000
/** A token is handed out with more than this left of its life. */
const MARGIN_MS = 0.05 * LIFETIME_MS

onEachRedis((rig) => {
  it('goes on', async () => {
    await using sandbox = await startSandbox()
    sandbox.test.configure({ lifetimeSeconds: LIFETIME_MS / 1_000, tokenLatencyMs: 50 })
    const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
    const { fetch } = globalThis
    const stores = await Promise.all(Array.from({ length: MEMBERS }, () => rig.store(DEFAULTS)))
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
        const tookMs = performance.now() - from
        longestMs = Math.max(longestMs, tookMs)
        calls += 1
        const mayHaveExpired = status === 401 && tookMs >= MARGIN_MS // on its way
        if (status !== 200 && !mayHaveExpired) failed.push(status)
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
    if (inject('quiet')) expect(longestMs).toBeLessThan(LONGEST_MS)
    await Promise.all(members.map(({ provider }) => provider.close()))
    expect((await rig.entries()).filter(({ key }) => key.endsWith(':lease'))).toEqual([])
  })
})

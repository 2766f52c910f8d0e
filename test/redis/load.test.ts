/**
 * Redis is killed, hangs and comes back under load: no call fails, and the token is shared again. On a quiet machine no
 * call waits long.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { startSandbox } from 'merchant-auth/testing'
import { expect, inject, it } from 'vitest'
// Not the copy that notes outcomes: searching thousands of responses for secrets would delay the concurrent tests.
import { createAuthFetch } from '../../src/index.ts'
import { withRoom } from '../support/patience.ts'
import { eventually, failuresOf, onEachRedis, type Rig } from './rig.ts'

const MEMBERS = 3
const LONGEST_MS = 1_500

onEachRedis((rig) => {
  it('no call fails under load while Redis is killed, restarted and frozen', async () => {
    const { failed, longestMs } = await withRoom(
      2_000,
      (lifetimeMs) => load(rig, lifetimeMs),
      ({ failed, wasLate }) => failed.length === 0 || !wasLate,
    )
    expect(failed).toEqual([])
    if (inject('quiet')) expect(longestMs).toBeLessThan(LONGEST_MS)
    await eventually('the end of the leases', async () =>
      (await rig.entries()).every(({ key }) => !key.endsWith(':lease')),
    )
  })
})

async function load(rig: Rig, lifetimeMs: number) {
  await using sandbox = await startSandbox()
  sandbox.test.configure({ lifetimeSeconds: lifetimeMs / 1_000, tokenLatencyMs: 50 })
  const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
  const { fetch } = globalThis
  const stores = await Promise.all(Array.from({ length: MEMBERS }, () => rig.store()))
  const members = stores.map((store) => rig.start(store, { environment, clientId, clientSecret, fetch }))
  using lateness = monitorEventLoopDelay()
  lateness.enable()
  let over = false
  let calls = 0
  let longestMs = 0
  const failed: unknown[] = []
  const loops = members.map(async ({ provider }) => {
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
    const emitted = () => members.map(({ events }) => failuresOf(events).length)
    const before = emitted()
    return eventually('all to notice', async () => emitted().every((count, n) => count > (before[n] ?? 0)))
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
    await eventually('enough calls', async () => calls > 100)
  } finally {
    over = true
    await Promise.all(loops)
  }
  await Promise.all(members.map(({ provider }) => provider.close()))
  // A cached token has at least 5 % of its lifetime left: if the machine was blocked for longer, it may have expired
  // before it arrived.
  return { failed, longestMs, wasLate: lateness.max / 1e6 > 0.05 * lifetimeMs }
}

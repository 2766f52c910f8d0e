import { createTokenProvider, type TokenProvider } from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { expect, it, vi } from 'vitest'
import { LEASE, READ, type RunScript, WRITE } from '../../src/store/redis-scripts.ts'
import { ManualClock } from '../support/clock.ts'
import { redisClient, SimulatedRedis } from '../support/simulated-redis.ts'
import { ENVIRONMENT, MERCHANT_URL, ScriptedEndpoint } from '../token/harness.ts'

const POLL_EVERY_MS = 50

it('a token that is rejected before the rate limit of its renewal is written is not renewed at once', async () => {
  const clock = new ManualClock()
  const endpoint = new ScriptedEndpoint([])
  const redis = new SimulatedRedis(() => clock.monotonicMs())
  let waiting = false
  const run: RunScript = async (script, keys, args) => {
    const result = redis.execute(script, keys, args)
    waiting ||= script === LEASE && result === 0
    return result
  }
  let allowWrites = (): void => {}
  const writesAllowed = new Promise<void>((resolve) => {
    allowWrites = resolve
  })
  const runWithGatedWrites: RunScript = async (script, keys, args) => {
    if (script === WRITE) await writesAllowed // only the rate limit is written without the lease
    return await run(script, keys, args)
  }
  const provider = (with_: RunScript): TokenProvider =>
    createTokenProvider({
      environment: ENVIRONMENT,
      clientId: 'client-1',
      clientSecret: 'swordfish',
      store: createRedisTokenStore(redisClient(with_), { keyPrefix: '' }),
      fetch: endpoint.fetch,
      clock,
    })
  const [one, other] = [provider(runWithGatedWrites), provider(run)]
  const first = await one.getToken()
  await vi.waitFor(() => expect(redis.keys()).toEqual([expect.not.stringContaining(':lease')]))
  const [key = ''] = redis.keys()
  const entry = (): unknown => (redis.execute(READ, [key], []) as unknown[])[0]
  const before = entry()
  await other.getToken()
  const second = await one.renewToken(first, { url: MERCHANT_URL })
  await vi.waitFor(() => expect([before, null]).not.toContain(entry()))
  expect((await other.renewToken(first, { url: MERCHANT_URL }))?.value).toBe(second?.value)

  const third = other.renewToken(String(second?.value), { url: MERCHANT_URL })
  await vi.waitFor(() => expect(waiting).toBe(true))
  allowWrites()
  await vi.waitFor(async () => {
    await clock.advance(POLL_EVERY_MS)
    expect(await Promise.race([third, 'waits'])).not.toBe('waits')
  })
  expect(endpoint.count).toBe(2)
})

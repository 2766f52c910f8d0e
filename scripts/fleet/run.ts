/** One run: a cold start of the whole fleet, and calls for two lifetimes of a token. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { type RedisServer, startRedis } from '../../test/support/redis-server.ts'
import { Fleet } from './fleet.ts'
import { COLD_START_LIFETIMES, type FleetOptions, LIFETIMES } from './options.ts'
import type { Incident, RunPlan } from './plans.ts'
import { Progress } from './progress.ts'
import { type Figures, failedCalls, type Task } from './protocol.ts'

/** About what a token request takes over the internet (ms). */
const TOKEN_LATENCY_MS = 100

export interface RunResult {
  readonly plan: RunPlan
  readonly processes: readonly Figures[]
  readonly tokenRequests: number
  readonly atColdStart: number
  readonly lifetimeMs: number
  /** For how long, at the most, this machine had no time for the token endpoint and the API (ms). */
  readonly lateMs: number
}

/** Runs one plan, and shows how it goes. */
export async function run(plan: RunPlan, options: FleetOptions): Promise<RunResult> {
  await using sandbox = await startSandbox()
  await using redis = plan.store ? await startRedis() : undefined
  const service = sandbox.test
  service.configure({ lifetimeSeconds: options.lifetimeS, tokenLatencyMs: TOKEN_LATENCY_MS })
  using fleet = new Fleet(tasksOf(service, redis, { ...options, storeFails: plan.mark === 'c' }))
  const { processes, lifetimeS } = options
  {
    using _ = new Progress(() => `${fleet.readyCount} of ${processes} processes are ready`)
    await fleet.start()
  }
  const durationS = LIFETIMES * lifetimeS
  const startedAt = performance.now()
  let state = ''
  using _ = new Progress(() => {
    const passedS = Math.min(Math.round((performance.now() - startedAt) / 1_000), durationS)
    return `${passedS} of ${durationS} s: ${shortly(fleet.figures, service.counts.token)}${state}`
  })
  let atColdStart = 0
  const coldStart: Incident = {
    atLifetimes: COLD_START_LIFETIMES,
    happen: () => {
      atColdStart = service.counts.token
    },
  }
  const over = new AbortController()
  const incidents = [coldStart, ...plan.incidents].map(async ({ atLifetimes, says, happen }) => {
    await sleep(atLifetimes * lifetimeS * 1_000, undefined, { signal: over.signal })
    if (says !== undefined) state = `, ${says}`
    await happen(redis)
  })
  using lateness = monitorEventLoopDelay()
  lateness.enable()
  try {
    await Promise.all([fleet.run(), ...incidents])
  } finally {
    over.abort()
  }
  return {
    plan,
    processes: fleet.figures,
    tokenRequests: service.counts.token,
    atColdStart,
    lifetimeMs: lifetimeS * 1_000,
    lateMs: lateness.max / 1e6,
  }
}

/** The figures of a run in a few words. */
export function shortly(figures: readonly Figures[], tokenRequests: number): string {
  const calls = figures.reduce((sum, { calls }) => sum + calls, 0)
  const failed = figures.reduce((sum, each) => sum + failedCalls(each), 0)
  const requests = tokenRequests === 1 ? '1 token request' : `${tokenRequests} token requests`
  return `${calls} calls, ${failed} failed, ${requests}`
}

/** Half of the processes call with fetch, half with axios; with each, half use node-redis, half ioredis. */
function tasksOf(
  { environment, clientId, clientSecret, merchantUrl }: SandboxEnvironment,
  redis: RedisServer | undefined,
  { processes, lifetimeS, everyMs, storeFails }: FleetOptions & Pick<Task, 'storeFails'>,
): Task[] {
  return Array.from({ length: processes }, (_, nth) => ({
    environment,
    clientId,
    clientSecret,
    url: `${merchantUrl}/orders/${nth + 1}`,
    caller: nth % 4 < 2 ? 'fetch' : 'axios',
    store: redis && { url: redis.url, client: nth % 2 === 0 ? 'node-redis' : 'ioredis' },
    everyMs,
    settledAfterMs: COLD_START_LIFETIMES * lifetimeS * 1_000,
    durationMs: lifetimeS * LIFETIMES * 1_000,
    storeFails,
    marginMs: 0.05 * lifetimeS * 1_000,
  }))
}

/** Simulates processes for hours whose token endpoint counts every request, refused ones included. */
import { Fleet, type Process } from '../store/fleet.ts'
import { thinOut } from '../support/recorded.ts'
import { granted, IN_STORE_URL, status } from './harness.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

export interface Service {
  /** How many requests in which time (ms). */
  readonly quotas: readonly (readonly [limit: number, windowMs: number])[]
  /** Whether each request counts for this time, and not until the time that began with the first request is over. */
  readonly sliding?: boolean
  /** Whether a 429 says when the next request will be accepted. */
  readonly saysWhen?: boolean
  readonly lifetimeS: number
}

export interface SetUp {
  readonly processes: number
  readonly service: Service
  /** How many requests a deployment has just made. */
  readonly spent: number
  readonly shared?: boolean
  /** Whether the in-store API rejects every token. */
  readonly rejects?: boolean
  readonly hours?: number
  readonly callEveryMs?: number
}

export interface Outcome {
  readonly requests: number
  readonly tokens: number
  readonly failedCalls: number
  /** The longest time (min) in which a process could make no call. */
  readonly downMin: number
  /** When (min) the last call failed, and the next one succeeded; undefined if the last call of all failed. */
  readonly recoveredMin: number | undefined
}

/** Lets the fleet's token endpoint count its requests. */
function countRequests({ endpoint, clock }: Fleet, service: Service, spent: number): { tokens: number } {
  const { quotas, sliding = false, saysWhen = false, lifetimeS } = service
  const counted = { tokens: 0 }
  const spentAt = Array.from({ length: spent }, () => clock.monotonicMs())
  const buckets = quotas.map(([limit, windowMs]) => ({ limit, windowMs, askedAt: [...spentAt] }))
  endpoint.otherwise = (init) => {
    const now = clock.monotonicMs()
    const waitsMs = buckets.map((bucket) => {
      const { askedAt, limit, windowMs } = bucket
      if (!sliding && now >= Number(askedAt[0]) + windowMs) bucket.askedAt = []
      const last = sliding ? askedAt.at(-limit) : bucket.askedAt[limit - 1] && askedAt[0]
      bucket.askedAt.push(now)
      return last === undefined ? 0 : Math.max(0, last + windowMs - now)
    })
    const waitMs = Math.max(...waitsMs)
    if (waitMs > 0)
      return status(429, '', saysWhen ? { 'retry-after': String(Math.ceil(waitMs / 1_000)) } : {})(init)
    counted.tokens += 1
    return granted({ expires_in: lifetimeS })(init)
  }
  return counted
}

/** Each process makes its calls, from the moment at which the requests were spent. */
export async function simulate(setUp: SetUp): Promise<Outcome> {
  const { processes: count, service, spent, shared = false, rejects = false } = setUp
  const { hours = 24, callEveryMs = 10_000 } = setUp
  const fleet = new Fleet()
  const { clock, store } = fleet
  const counted = countRequests(fleet, service, spent)
  const processes = Array.from({ length: count }, () => fleet.start(shared ? {} : { store: undefined }))
  const downSince: (number | undefined)[] = processes.map(() => undefined)
  const startedAt = clock.monotonicMs()
  let failedCalls = 0
  let downMs = 0
  let recoveredAt = startedAt
  const call = async ({ provider }: Process, n: number): Promise<void> => {
    const from = clock.monotonicMs()
    try {
      const token = provider.currentToken() ?? (await provider.getToken())
      if (downSince[n] !== undefined) recoveredAt = clock.monotonicMs()
      downSince[n] = undefined
      if (rejects) await provider.renewToken(token, { url: IN_STORE_URL }).catch(() => {})
    } catch {
      failedCalls += 1
      downSince[n] ??= from
      downMs = Math.max(downMs, from + callEveryMs - downSince[n])
    }
  }
  for (let at = 0; at < hours * HOUR_MS; at += callEveryMs) {
    if (rejects || processes.some(({ provider }) => provider.currentToken() === undefined))
      await fleet.tookMs(Promise.all(processes.map(call)))
    await fleet.skip(callEveryMs)
    for (const { events } of processes) events.length = 0
    store.asked.length = 0
    thinOut()
  }
  await Promise.all(processes.map(({ provider }) => provider.close()))
  const isDown = downSince.some((since) => since !== undefined)
  return {
    requests: fleet.endpoint.count,
    ...counted,
    failedCalls,
    downMin: downMs / MINUTE_MS,
    recoveredMin: isDown ? undefined : (recoveredAt - startedAt) / MINUTE_MS,
  }
}

/** A token endpoint that counts refused requests, too, and says nothing but 429: it recovers, and so do all processes. */
import { describe, expect, it } from 'vitest'
import { Fleet, type Process } from '../store/fleet.ts'
import { thinOut } from '../support/recorded.ts'
import { granted, IN_STORE_URL, status, withoutJitter } from './harness.ts'

withoutJitter()

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

interface Service {
  /** How many requests in which time (ms), refused ones included. */
  readonly quotas: readonly (readonly [limit: number, windowMs: number])[]
  /** Whether each request counts for this time, and not until the time that began with the first request is over. */
  readonly sliding?: boolean
  /** Whether a 429 says when the next request will be accepted. */
  readonly saysWhen?: boolean
  readonly lifetimeS: number
}

/** Lets the fleet's token endpoint count its requests; a deployment has just spent the first quota. */
function countRequests({ endpoint, clock }: Fleet, service: Service): { tokens: number } {
  const { quotas, sliding = false, saysWhen = false, lifetimeS } = service
  const counted = { tokens: 0 }
  const spentAt = Array.from({ length: quotas[0]?.[0] ?? 0 }, () => clock.monotonicMs())
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

interface Day {
  readonly requests: number
  readonly tokens: number
  readonly failedCalls: number
  /** The longest time (min) in which a process could make no call. */
  readonly downMin: number
}

interface SetUp {
  readonly processes: number
  readonly service: Service
  readonly shared?: boolean
  /** Whether the in-store API rejects every token. */
  readonly rejects?: boolean
  readonly callEveryMs?: number
}

/** 24 hours in which each process makes its calls. */
async function aDay(setUp: SetUp): Promise<Day> {
  const { processes: count, service, shared = false, rejects = false, callEveryMs = 10_000 } = setUp
  const fleet = new Fleet()
  const counted = countRequests(fleet, service)
  const processes = Array.from({ length: count }, () => fleet.start(shared ? {} : { store: undefined }))
  const downSince: (number | undefined)[] = processes.map(() => undefined)
  let failedCalls = 0
  let downMs = 0
  const call = async ({ provider }: Process, n: number): Promise<void> => {
    const from = fleet.clock.monotonicMs()
    try {
      const token = provider.currentToken() ?? (await provider.getToken())
      downSince[n] = undefined
      if (rejects) await provider.renewToken(token, { url: IN_STORE_URL }).catch(() => {})
    } catch {
      failedCalls += 1
      downSince[n] ??= from
      downMs = Math.max(downMs, from + callEveryMs - downSince[n])
    }
  }
  for (let at = 0; at < DAY_MS; at += callEveryMs) {
    if (rejects || processes.some(({ provider }) => provider.currentToken() === undefined))
      await fleet.tookMs(Promise.all(processes.map(call)))
    await fleet.skip(callEveryMs)
    for (const { events } of processes) events.length = 0
    thinOut()
  }
  await Promise.all(processes.map(({ provider }) => provider.close()))
  return { requests: fleet.endpoint.count, ...counted, failedCalls, downMin: downMs / MINUTE_MS }
}

const HOURLY = [10, HOUR_MS] as const
const DAILY: Service = { quotas: [HOURLY, [50, DAY_MS]], lifetimeS: 86_400 }
const SLIDING: Service = { quotas: [HOURLY], sliding: true, lifetimeS: 3_600 }

/** The window of the service, and 30 minutes; 90 for processes that know nothing of each other and hear nothing. */
const SOON_MIN = 90
const LATER_MIN = 150

describe('a token endpoint whose quota of 10 an hour was spent at a deployment', () => {
  it.each<[name: string, setUp: SetUp, mostMin: number, mostRequests: number]>([
    ['1 process', { processes: 1, service: DAILY }, SOON_MIN, 12],
    ['4 processes', { processes: 4, service: DAILY }, LATER_MIN, 48],
    ['4, an exact Retry-After', { processes: 4, service: { ...DAILY, saysWhen: true } }, SOON_MIN, 12],
    ['1, an API rejects every token', { processes: 1, service: SLIDING, rejects: true }, SOON_MIN, 200],
    ['1 with a store', { processes: 1, service: DAILY, shared: true }, SOON_MIN, 12],
    ['4 with a store', { processes: 4, service: DAILY, shared: true }, SOON_MIN, 12],
    ['100 with a store', { processes: 100, service: DAILY, shared: true, callEveryMs: 60_000 }, SOON_MIN, 12],
    ['4 with a store, sliding', { processes: 4, service: SLIDING, shared: true }, SOON_MIN, 60],
  ])('serves all processes again: %s', async (_, setUp, mostMin, mostRequests) => {
    const day = await aDay(setUp)
    expect(day.downMin).toBeLessThanOrEqual(mostMin)
    expect(day.requests).toBeLessThanOrEqual(mostRequests)
  })
})

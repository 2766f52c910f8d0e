/** Simulates processes for hours whose token endpoint counts every request, refused ones included. */
import { Fleet, type Process } from '../store/fleet.ts'
import { thinOut } from '../support/recorded.ts'
import { grantedWith, IN_STORE_URL, status } from './harness.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

export interface Service {
  /** How many requests in which time (ms). */
  readonly quotas: readonly (readonly [limit: number, windowMs: number])[]
  /** Whether each request counts for this time, and not until the time that began with the first request is over. */
  readonly sliding?: boolean
  /** What says when requests will be accepted: a 429 by Retry-After, or each response by its quotas; default: nothing. */
  readonly saysWhen?: 'retry-after' | 'quotas'
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
  /** The smallest part of a quota that a token request left while there was a token. */
  readonly leastLeft: number
  readonly failedCalls: number
  /** The longest time (min) in which a process could make no call. */
  readonly downMin: number
  /** When (min) the last call failed, and the next one succeeded; undefined if the last call of all failed. */
  readonly recoveredMin: number | undefined
}

const MARGIN_MS = 10_000

/** Lets the fleet's token endpoint count its requests. */
function countRequests(
  { endpoint, clock }: Fleet,
  { quotas, sliding = false, saysWhen, lifetimeS }: Service,
  spent: number,
): Pick<Outcome, 'tokens' | 'leastLeft'> {
  const counted = { tokens: 0, leastLeft: 1 }
  const spentAt = Array.from({ length: spent }, () => clock.monotonicMs())
  const buckets = quotas.map(([limit, windowMs]) => ({ limit, windowMs, askedAt: [...spentAt] }))
  let validUntil = Number.NEGATIVE_INFINITY
  endpoint.otherwise = (init) => {
    const now = clock.monotonicMs()
    const isRenewal = now < validUntil
    const waitsMs = buckets.map((bucket) => {
      const { askedAt, limit, windowMs } = bucket
      if (!sliding && now >= Number(askedAt[0]) + windowMs) bucket.askedAt = []
      const last = sliding ? askedAt.at(-limit) : bucket.askedAt[limit - 1] && askedAt[0]
      bucket.askedAt.push(now)
      return last === undefined ? 0 : Math.max(0, last + windowMs - now)
    })
    const reports = buckets.map(({ limit, windowMs, askedAt }, n) => {
      const left = Math.max(0, limit - askedAt.length)
      if (isRenewal) counted.leastLeft = Math.min(counted.leastLeft, left / limit)
      return `b=bucket-${n};q=${limit};r=${left};t=${Math.ceil((Number(askedAt[0]) + windowMs - now) / 1_000)}`
    })
    const waitMs = Math.max(...waitsMs)
    const headers = {
      ...(saysWhen === 'retry-after' && { 'retry-after': String(Math.ceil(waitMs / 1_000)) }),
      ...(saysWhen === 'quotas' && { 'Auth0-Client-Quota-Limit': reports.join() }),
    }
    if (waitMs > 0) return status(429, '', headers)(init)
    counted.tokens += 1
    validUntil = now + lifetimeS * 1_000 - MARGIN_MS
    return grantedWith(saysWhen === 'quotas' ? headers : {}, { expires_in: lifetimeS })(init)
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
  const refreshAheadMs = Math.min(HOUR_MS, (service.lifetimeS * 1_000) / 5)
  const options = { refreshAheadMs, expiryMarginMs: MARGIN_MS, ...(shared ? {} : { store: undefined }) }
  const processes = Array.from({ length: count }, () => fleet.start(options))
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

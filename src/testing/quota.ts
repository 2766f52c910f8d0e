/** Quotas for token requests, as services of this kind have them. */
import type { Answer } from './exchange.ts'
import type { SandboxSettings } from './types.ts'

const UNITS = { m: ['per_minute', 60], h: ['per_hour', 3_600], d: ['per_day', 86_400] } as const

/** One item of a quota: how many requests in which unit of time. */
const ITEM = /^([1-9]\d{0,5})\/([mhd])$/

/** Whether a text such as `10/h,50/d` is a quota; '' is none. */
export function isQuota(text: string): boolean {
  return text === '' || text.split(',').every((item) => ITEM.test(item))
}

interface Bucket {
  readonly name: string
  readonly limit: number
  readonly windowMs: number
  /** When (epoch ms) the requests arrived that count at the moment. */
  times: number[]
}

/** Counts the token requests of one client. */
export class RequestQuota {
  readonly #buckets: readonly Bucket[]

  constructor(quota: string) {
    this.#buckets = (quota === '' ? [] : quota.split(',')).map((item) => {
      const [, limit, unit] = ITEM.exec(item) ?? []
      const [name, seconds] = UNITS[unit as keyof typeof UNITS]
      return { name, limit: Number(limit), windowMs: seconds * 1_000, times: [] }
    })
  }

  /**
   * Counts a request. Returns whether the quota was spent before. A bucket is full again when its unit of time has passed
   * since its first request, or, where refused requests count, since the last ones (a sliding window).
   */
  charge(now: number, { quotaCountsRefused }: SandboxSettings): boolean {
    for (const bucket of this.#buckets) {
      const { times, windowMs, limit } = bucket
      if (quotaCountsRefused) bucket.times = times.slice(-limit).filter((time) => now - time < windowMs)
      else if (now - (times[0] ?? now) >= windowMs) bucket.times = []
    }
    const isSpent = this.#buckets.some(({ times, limit }) => times.length >= limit)
    if (!isSpent || quotaCountsRefused) for (const { times } of this.#buckets) times.push(now)
    return isSpent
  }

  /** The header that says what is left. */
  headers(now: number, { quotaHeaders, quotaCountsRefused }: SandboxSettings): Answer['headers'] {
    if (this.#buckets.length === 0 || !quotaHeaders) return {}
    const parts = this.#buckets.map(({ name, limit, windowMs, times }) => {
      const fullAt = (times.at(quotaCountsRefused ? -1 : 0) ?? now) + windowMs
      const left = Math.max(0, limit - times.length)
      return `b=${name};q=${limit};r=${left};t=${Math.max(0, Math.ceil((fullAt - now) / 1_000))}`
    })
    return { 'auth0-client-quota-limit': parts.join(',') }
  }
}

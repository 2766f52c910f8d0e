/** Quotas for token requests, as services of this kind have them. */
import type { Answer } from './exchange.ts'

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
  used: number
  /** When (epoch ms) it is full again. */
  resetsAt: number
}

/** Counts token requests. Each bucket is full again when its unit of time has passed since its first request. */
export class RequestQuota {
  /** The text that it was made of. */
  readonly text: string
  readonly #buckets: readonly Bucket[]

  constructor(text: string) {
    this.text = text
    this.#buckets = (text === '' ? [] : text.split(',')).flatMap((item) => {
      const [, limit, unit] = ITEM.exec(item) ?? []
      const [name, seconds] = UNITS[unit as keyof typeof UNITS]
      return { name, limit: Number(limit), windowMs: seconds * 1_000, used: 0, resetsAt: 0 }
    })
  }

  /** Counts a request. Returns whether the quota was spent before, and then is not charged. */
  charge(now: number): boolean {
    for (const bucket of this.#buckets) {
      if (now < bucket.resetsAt) continue
      bucket.used = 0
      bucket.resetsAt = now + bucket.windowMs
    }
    const isSpent = this.#buckets.some(({ used, limit }) => used >= limit)
    if (!isSpent) for (const bucket of this.#buckets) bucket.used += 1
    return isSpent
  }

  /** The header that says what is left. */
  headers(now: number): Answer['headers'] {
    if (this.#buckets.length === 0) return {}
    const parts = this.#buckets.map(
      ({ name, limit, used, resetsAt }) =>
        `b=${name};q=${limit};r=${limit - used};t=${Math.max(0, Math.ceil((resetsAt - now) / 1_000))}`,
    )
    return { 'auth0-client-quota-limit': parts.join(',') }
  }
}

/** Quotas for token requests: as the headers of a response report them, and what they mean for the next requests. */
import { redact } from './redact.ts'

/** A quota for token requests, as a response of the token endpoint reports it. */
export interface Quota {
  /** Whether it applies to this client, or to all clients of its organization. */
  readonly scope: 'client' | 'organization'
  /** The service's name for it, for example `per_hour`. */
  readonly name: string
  /** How many token requests it has when it is full; undefined if the response does not say. */
  readonly limit?: number | undefined
  /** How many token requests are left. */
  readonly remaining: number
  /** Delay (ms) until it is full again; undefined if the response does not say. */
  readonly resetsInMs?: number | undefined
}

/** What is left of a quota is reserved from this part of its limit on. */
const RESERVED_SHARE = 0.2

const SCOPES = {
  'auth0-client-quota-limit': 'client',
  'auth0-organization-quota-limit': 'organization',
} as const

/**
 * The redacted quotas in the headers of a response. An invalid header counts for nothing. Of a quota that is there twice,
 * the stricter counts.
 */
export function quotasIn({ headers }: Response, secrets: Iterable<string>): readonly Quota[] {
  const quotas = Object.entries(SCOPES).flatMap(([header, scope]) => bucketsOf(headers.get(header), scope))
  const stricter = (one: Quota, other: Quota): number =>
    Number(isReserved(other)) - Number(isReserved(one)) ||
    one.remaining - other.remaining ||
    (other.resetsInMs ?? 0) - (one.resetsInMs ?? 0)
  const strictest = [...Map.groupBy(quotas, keyOf).values()].flatMap((same) =>
    same.sort(stricter).slice(0, 1),
  )
  return redactQuotas(strictest, secrets)
}

const NAME = /^[a-z_][\w.-]{0,99}$/i
const COUNT = /^\d{1,15}$/

/** The buckets of a header such as `b=per_hour;q=10;r=7;t=3540,b=per_day;…`; none if one of them is invalid. */
function bucketsOf(header: string | null, scope: Quota['scope']): Quota[] {
  const quotas = (header ?? '').split(',').map((bucket): Quota | undefined => {
    const fields = new URLSearchParams(bucket.replace(/\s/g, '').replaceAll(';', '&'))
    const [limit, remaining, seconds] = ['q', 'r', 't'].map((name) => fields.get(name) ?? undefined)
    const name = fields.get('b') ?? ''
    const areCounts = [limit, remaining, seconds].every((text) => text === undefined || COUNT.test(text))
    if (!areCounts || remaining === undefined || !NAME.test(name)) return undefined
    return {
      scope,
      name,
      ...(limit !== undefined && { limit: Number(limit) }),
      remaining: Number(remaining),
      ...(seconds !== undefined && { resetsInMs: Number(seconds) * 1_000 }),
    }
  })
  return quotas.every((quota) => quota !== undefined) ? quotas : []
}

/** Identifies a quota among those of one token endpoint. */
export function keyOf({ scope, name }: Quota): string {
  return `${scope} ${name}`
}

/** Whether what is left of a quota is reserved for callers without a token. */
export function isReserved({ limit = 0, remaining }: Quota): boolean {
  return remaining <= limit * RESERVED_SHARE
}

/** Whether nothing is left of a quota. */
export function isSpent({ remaining }: Quota): boolean {
  return remaining === 0
}

/** Delay (ms) until all spent quotas are full again; 0 if there are none. */
export function spentForMs(quotas: readonly Quota[] = []): number {
  return Math.max(0, ...quotas.filter(isSpent).map(({ resetsInMs = 0 }) => resetsInMs))
}

/** Quotas without secrets in their names. */
export function redactQuotas(quotas: readonly Quota[], secrets: Iterable<string>): readonly Quota[] {
  return quotas.map((quota) => ({ ...quota, name: redact(quota.name, secrets) }))
}

/** What is left of a quota, for messages: `2 of 10 token requests left`. */
export function leftInText({ limit, remaining }: Quota): string {
  return `${remaining}${limit === undefined ? '' : ` of ${limit}`} token requests left`
}

/** A quota as a sentence of a message. */
export function quotaInText(quota: Quota): string {
  const { name, resetsInMs } = quota
  const full = resetsInMs === undefined ? '' : `; it is full again in ${Math.ceil(resetsInMs / 1_000)} s`
  return `The quota ${name} has ${leftInText(quota)}${full}.`
}

/** Quotas for token requests: as a response reports them, and what they mean for the next requests. */
import { redact } from './redact.ts'

/** A quota for token requests, as a response of the token endpoint reports it. */
export interface Quota {
  /** Whether it applies to this client, or to all clients of its organization; `other`: the response does not say. */
  readonly scope: 'client' | 'organization' | 'other'
  /** The service's name for it, for example `per_hour`. */
  readonly name: string
  /** How many token requests it has when it is full; undefined if the response does not say. */
  readonly limit?: number | undefined
  /** How many token requests are left. */
  readonly remaining: number
  /** Delay (ms) until it is full again; undefined if the response does not say. */
  readonly resetsInMs?: number | undefined
}

/** Identifies a quota among those of one token endpoint. */
export function keyOf({ scope, name }: Quota): string {
  return `${scope} ${name}`
}

/** Whether what is left of a quota is reserved for callers without a token. */
export function isReserved({ limit = 0, remaining }: Quota): boolean {
  return remaining <= limit / 5
}

/** Delay (ms) until all of these spent quotas are full again; 0 if there are none. */
export function spentForMs(quotas: readonly Quota[] = []): number {
  return Math.max(0, ...quotas.map(({ resetsInMs = 0 }) => resetsInMs))
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

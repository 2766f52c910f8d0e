/** Quotas for token requests: what is left for renewals, and the headers that say so. */
import type { Quota } from '../quota.ts'
import { redact } from '../redact.ts'

/** The headers about quotas: those of Auth0, and `RateLimit` (draft-ietf-httpapi-ratelimit-headers). */
const HEADERS = ['auth0-client-quota-limit', 'auth0-organization-quota-limit', 'ratelimit']

/** The quotas in the headers of a response. */
export async function quotasIn(headers: Headers, secrets: Iterable<string>): Promise<readonly Quota[]> {
  if (!HEADERS.some((name) => headers.has(name))) return []
  try {
    const { readQuotas } = await import('./quota-headers.ts') // with a parser that most services do not need
    return redactQuotas(readQuotas(headers), secrets)
  } catch {
    return [] // the file is gone, as in a deployment over a running process: the token counts more
  }
}

/** Quotas without secrets in their names. */
export function redactQuotas(quotas: readonly Quota[], secrets: Iterable<string>): readonly Quota[] {
  return quotas.map((quota) => ({ ...quota, name: redact(quota.name, secrets) }))
}

/** What tells quotas apart. */
export function keyOf({ scope, name }: Quota): string {
  return `${scope} ${name}`
}

/** Whether what is left of a quota is reserved for callers without a token. */
export function isReserved({ limit = 0, remaining }: Quota): boolean {
  return remaining <= limit / 5
}

/** Delay (ms) until all spent quotas are full again; 0 if none is spent. */
export function spentForMs(quotas: readonly Quota[]): number {
  return Math.max(0, ...quotas.map(({ remaining, resetsInMs = 0 }) => (remaining === 0 ? resetsInMs : 0)))
}

/** A quota for messages. */
export function quotaInText({ name, limit, remaining, resetsInMs }: Quota): string {
  const full = resetsInMs === undefined ? '' : `; it is full again in ${Math.ceil(resetsInMs / 1_000)} s`
  return `The quota ${name} has ${remaining}${limit === undefined ? '' : ` of ${limit}`} token requests left${full}.`
}

/** The quotas of the most recent responses. */
export class Quotas {
  /** When (monotonic ms) each quota that is reserved for callers without a token is full again. */
  readonly #reserved = new Map<string, number>()

  /** Records the quotas of a response that arrived now. */
  note(quotas: readonly Quota[], now: number): void {
    for (const [key, fullAt] of this.#reserved)
      if (fullAt === Infinity || fullAt <= now) this.#reserved.delete(key)
    for (const quota of quotas) {
      if (isReserved(quota)) this.#reserved.set(keyOf(quota), now + (quota.resetsInMs ?? Infinity))
      else this.#reserved.delete(keyOf(quota))
    }
  }

  /** When (monotonic ms) a token that is still valid may be renewed. */
  get renewalsAt(): number {
    return Math.max(Number.NEGATIVE_INFINITY, ...this.#reserved.values())
  }
}

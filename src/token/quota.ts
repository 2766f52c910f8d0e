/** Quotas for token requests: what the responses of the token endpoint say about them, and whether one is left for renewals. */
import { parseDictionary, parseList, Token } from 'structured-headers'
import type { Quota } from '../events.ts'
import { MAX_SEARCHED, redact } from '../redact.ts'

/**
 * The quotas in the headers of a response: those of Auth0, and `RateLimit` with `RateLimit-Policy`
 * (draft-ietf-httpapi-ratelimit-headers). An invalid header is ignored. Of a quota that is there twice, the stricter counts.
 */
export function readQuotas(headers: Headers): readonly Quota[] {
  const read = <T>(header: string, parse: (value: string) => T[]): T[] => {
    const value = headers.get(header) ?? ''
    if (value === '' || value.length > MAX_SEARCHED) return []
    try {
      return parse(value)
    } catch {
      return []
    }
  }
  const policies = new Map(read('ratelimit-policy', (value) => parseList(value).map(policyOf)))
  const found = [
    ...read('auth0-client-quota-limit', (value) => auth0Quotas(value, 'client')),
    ...read('auth0-organization-quota-limit', (value) => auth0Quotas(value, 'organization')),
    ...read('ratelimit', (value) => parseList(value).map((item) => rateLimitOf(item, policies))),
  ]
  const strictest = new Map<string, Quota>()
  for (const quota of found) {
    const key = keyOf(quota)
    const other = strictest.get(key)
    if (other === undefined || isStricter(quota, other)) strictest.set(key, quota)
  }
  return [...strictest.values()]
}

/** Quotas for events and messages: their names are foreign text. */
export function redactQuotas(quotas: readonly Quota[], secrets: Iterable<string>): readonly Quota[] {
  return quotas.map((quota) => ({ ...quota, name: redact(quota.name, secrets) }))
}

type Item = readonly [unknown, ReadonlyMap<string, unknown>]

/** `b=per_hour;q=10;r=7;t=3540, b=…`: each part is a dictionary (RFC 9651 §3.2) with one member. */
function auth0Quotas(value: string, scope: Quota['scope']): Quota[] {
  return value.split(',').map((part) => {
    const [name, parameters] = (parseDictionary(part).get('b') ?? []) as Partial<Item>
    return quotaOf(scope, name, { q: parameters?.get('q'), r: parameters?.get('r'), t: parameters?.get('t') })
  })
}

/** An item of `RateLimit`: `"name";r=7;t=3540`. */
function rateLimitOf(item: unknown, policies: ReadonlyMap<string, number>): Quota {
  const [name, parameters] = item as Item
  const q = policies.get(nameIn(name))
  return quotaOf('other', name, { q, r: parameters.get('r'), t: parameters.get('t') })
}

/** An item of `RateLimit-Policy`, `"name";q=10;w=3600`: its name and its limit. */
function policyOf(item: unknown): [string, number] {
  const [name, parameters] = item as Item
  return [nameIn(name), countIn(parameters.get('q'))]
}

function quotaOf(
  scope: Quota['scope'],
  name: unknown,
  { q, r, t }: { readonly q: unknown; readonly r: unknown; readonly t: unknown },
): Quota {
  const seconds = t === undefined ? undefined : countIn(t)
  return {
    scope,
    name: nameIn(name),
    ...(q === undefined ? undefined : { limit: countIn(q) }),
    remaining: countIn(r),
    ...(seconds === undefined ? undefined : { resetsInMs: seconds * 1_000 }),
  }
}

function nameIn(name: unknown): string {
  const text = name instanceof Token ? name.toString() : name
  if (typeof text === 'string' && text !== '' && text.length <= MAX_NAME) return text
  throw new TypeError('The name of a quota is invalid')
}

const MAX_NAME = 100

function countIn(value: unknown): number {
  if (Number.isSafeInteger(value) && Number(value) >= 0) return Number(value)
  throw new TypeError('A parameter of a quota is invalid')
}

function keyOf({ scope, name }: Quota): string {
  return `${scope} ${name}`
}

function isStricter(quota: Quota, other: Quota): boolean {
  if (isReserved(quota) !== isReserved(other)) return isReserved(quota)
  if (quota.remaining !== other.remaining) return quota.remaining < other.remaining
  return (quota.resetsInMs ?? 0) > (other.resetsInMs ?? 0)
}

/** Whether what is left of a quota is reserved for callers without a token. */
function isReserved({ limit, remaining }: Quota): boolean {
  return remaining <= (limit ?? 0) / 5
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

/** The headers in which a token endpoint says what is left of its quotas. */
import { parseDictionary, parseList, Token } from 'structured-headers'
import type { Quota } from '../quota.ts'
import { MAX_SEARCHED } from '../redact.ts'
import { isReserved, keyOf } from './quota.ts'

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
  const policies = new Map<string, number>()
  for (const [name, limit] of read('ratelimit-policy', (value) => parseList(value).map(policyOf)))
    policies.set(name, Math.max(limit, policies.get(name) ?? 0))
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

function isStricter(quota: Quota, other: Quota): boolean {
  if (isReserved(quota) !== isReserved(other)) return isReserved(quota)
  if (quota.remaining !== other.remaining) return quota.remaining < other.remaining
  return (quota.resetsInMs ?? 0) > (other.resetsInMs ?? 0)
}

/** The headers in which a token endpoint says what is left of its quotas. */
import { parseDictionary, parseList, Token } from 'structured-headers'
import { isReserved, keyOf, type Quota } from '../quota.ts'

/**
 * The quotas in the headers of a response: those of Auth0, and `RateLimit` with `RateLimit-Policy`
 * (draft-ietf-httpapi-ratelimit-headers). An absent or invalid header counts for nothing. Of a quota that is
 * there twice, the stricter counts.
 */
export function readQuotas(headers: Headers): readonly Quota[] {
  const read = <T>(header: string, parse: (value: string) => T[]): T[] => {
    const value = String(headers.get(header)) // 'null' is not a quota
    try {
      return parse(value)
    } catch {
      return []
    }
  }
  const policies = new Map<string, number>()
  for (const [name, limit] of read('ratelimit-policy', (value) => parseList(value).map(policyOf)))
    policies.set(name, Math.max(limit, policies.get(name) ?? 0))
  const quotas = [
    ...read('auth0-client-quota-limit', (value) => auth0Quotas(value, 'client')),
    ...read('auth0-organization-quota-limit', (value) => auth0Quotas(value, 'organization')),
    ...read('ratelimit', (value) => parseList(value).map((item) => rateLimitOf(item, policies))),
  ]
  return [...Map.groupBy(quotas, keyOf).values()].flatMap((same) => same.sort(byStrictness).slice(0, 1))
}

function byStrictness(one: Quota, other: Quota): number {
  return (
    Number(isReserved(other)) - Number(isReserved(one)) ||
    one.remaining - other.remaining ||
    (other.resetsInMs ?? 0) - (one.resetsInMs ?? 0)
  )
}

type Item = readonly [unknown, ReadonlyMap<string, unknown>]

/** `b=per_hour;q=10;r=7;t=3540, b=…`: each part is a dictionary (RFC 9651 §3.2) with one member. */
function auth0Quotas(value: string, scope: Quota['scope']): Quota[] {
  return value.split(',').map((part) => {
    const [name, parameters] = parseDictionary(part).get('b') as Item
    return quotaOf(scope, nameIn(name), parameters, parameters.get('q'))
  })
}

/** An item of `RateLimit`: `"name";r=7;t=3540`. */
function rateLimitOf(item: unknown, policies: ReadonlyMap<string, number>): Quota {
  const [name, parameters] = item as Item
  return quotaOf('other', nameIn(name), parameters, policies.get(nameIn(name)))
}

/** An item of `RateLimit-Policy`, `"name";q=10;w=3600`: its name and its limit. */
function policyOf(item: unknown): [string, number] {
  const [name, parameters] = item as Item
  return [nameIn(name), countIn(parameters.get('q'))]
}

function quotaOf(scope: Quota['scope'], name: string, parameters: Item[1], limit: unknown): Quota {
  const t = parameters.get('t')
  return {
    scope,
    name,
    ...(limit !== undefined && { limit: countIn(limit) }),
    remaining: countIn(parameters.get('r')),
    ...(t !== undefined && { resetsInMs: countIn(t) * 1_000 }),
  }
}

function nameIn(name: unknown): string {
  const text = name instanceof Token ? name.toString() : name
  if (typeof text === 'string' && text !== '' && text.length <= 100) return text
  throw new TypeError()
}

function countIn(value: unknown): number {
  if (Number.isSafeInteger(value) && Number(value) >= 0) return Number(value)
  throw new TypeError()
}

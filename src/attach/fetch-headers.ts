/** Request headers in the forms that fetch takes: a record, `Headers` of any class, or name-value pairs. */

/** A copy of the caller's headers, in the form in which they were given. */
export type FetchHeaders = Record<string, unknown> | Headers | readonly unknown[]

/** The headers as they are now; undefined where fetch would reject what was given. */
export function copyOfHeaders(given: unknown): FetchHeaders | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  if (!(Symbol.iterator in given)) return { ...given }
  if (typeof given[Symbol.iterator] !== 'function') return undefined
  // Of their own class, because another one would write the names in lower case.
  const proto = classWith(given, 'append')
  if (proto !== undefined) return Reflect.construct(proto.constructor, [given]) as Headers
  return Array.from(given as Iterable<unknown>, (pair) =>
    typeof pair === 'object' && pair !== null && Symbol.iterator in pair ? [...(pair as unknown[])] : pair,
  )
}

/** Whether a header of this name (in lower case) is among them. */
export function hasHeader(headers: FetchHeaders, key: string): boolean {
  if (isPairs(headers)) return headers.some((pair) => Array.isArray(pair) && isNamed(pair[0], key))
  if (isRecord(headers)) return Object.keys(headers).some((name) => isNamed(name, key))
  return headers.has(key)
}

/** A copy with one more header. */
export function withHeader(
  headers: FetchHeaders | undefined,
  name: string,
  value: string,
): NonNullable<RequestInit['headers']> {
  if (headers === undefined) return { [name]: value }
  if (isPairs(headers)) return [...headers, [name, value]] as [string, string][]
  if (isRecord(headers)) return { ...headers, [name]: value } as Record<string, string>
  const copy = copyOfHeaders(headers) as Headers
  copy.set(name, value)
  return copy
}

/** The prototype of the class that first defined a member, whatever classes derived from it say. */
export function classWith(object: object, member: string): object | undefined {
  let found: object | undefined
  for (let proto = Object.getPrototypeOf(object); proto !== null; proto = Object.getPrototypeOf(proto)) {
    if (Object.hasOwn(proto, member)) found = proto
  }
  return found
}

function isPairs(headers: FetchHeaders): headers is readonly unknown[] {
  return Array.isArray(headers)
}

function isRecord(headers: Exclude<FetchHeaders, readonly unknown[]>): headers is Record<string, unknown> {
  return !(Symbol.iterator in headers)
}

function isNamed(name: unknown, key: string): boolean {
  return typeof name === 'string' && name.length === key.length && name.toLowerCase() === key
}

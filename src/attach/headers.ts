/** Request and response headers, by case-insensitive name, in every form that clients take. */

/** Header values by name (axios, undici). */
export type HeaderRecord = Record<string, unknown>
/** Headers for fetch: a record, `Headers` of any class, or a list of pairs. */
export type FetchHeaders = HeaderRecord | Headers | readonly unknown[]
/** Headers for undici: a record, or a flat list of names and values. */
export type UndiciHeaders = Readonly<HeaderRecord> | readonly unknown[]

/** Whether a name is that of the header with this lower-case name. */
function isNamed(name: unknown, key: string): boolean {
  if (typeof name === 'string') return name.length === key.length && name.toLowerCase() === key
  try {
    return String(name).toLowerCase() === key // clients also accept String objects and lists as names
  } catch {} // and reject what cannot be converted
  return false
}

/** The value in a record, or undefined. */
export function getHeader(headers: unknown, key: string): unknown {
  const record = headers as HeaderRecord
  for (const name in record) {
    if (!isNamed(name, key) || !Object.hasOwn(record, name)) continue
    const value = record[name]
    if (value !== undefined) return value
  }
  return undefined
}

/** Deletes a header from a record, under any spelling of its name. Returns what it was. */
export function deleteHeader(headers: unknown, key: string): unknown {
  const record = headers as HeaderRecord
  let value: unknown
  for (const name in record) {
    if (!isNamed(name, key) || !Object.hasOwn(record, name)) continue
    value = record[name]
    delete record[name]
  }
  return value
}

/**
 * Sets a header in a record to undefined, under any spelling of its name: records that a header was deleted from are slower.
 * Returns false if it cannot be changed.
 */
export function clearHeader(headers: unknown, key: string): boolean {
  const record = headers as HeaderRecord
  let isClear = true
  for (const name in record) if (isNamed(name, key)) isClear = Reflect.set(record, name, undefined) && isClear
  return isClear
}

/** Whether it is a `Headers`: that of the platform, or of a package such as undici or node-fetch. */
export function isHeaders(headers: unknown): headers is Headers {
  return Object.prototype.toString.call(headers) === '[object Headers]'
}

/** A copy of the headers given to fetch, in the same form; undefined where fetch would reject them. */
export function copyFetchHeaders(given: unknown): FetchHeaders | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  if (!(Symbol.iterator in given)) return { ...given }
  if (typeof given[Symbol.iterator] !== 'function') return undefined
  // Of its own class, because another class would change the names to lower case.
  const proto = classWith(given, 'append')
  if (proto !== undefined) return Reflect.construct(proto.constructor, [given]) as Headers
  return Array.from(given as Iterable<unknown>, (pair) =>
    typeof pair === 'object' && pair !== null && Symbol.iterator in pair ? [...(pair as unknown[])] : pair,
  )
}

export function hasFetchHeader(headers: FetchHeaders, key: string): boolean {
  if (isList(headers)) return headers.some((pair) => Array.isArray(pair) && isNamed(pair[0], key))
  if (Symbol.iterator in headers) return (headers as Headers).has(key)
  return Object.keys(headers).some((name) => isNamed(name, key))
}

/** A copy with this header added. */
export function withFetchHeader(
  headers: FetchHeaders | undefined,
  name: string,
  value: string,
): NonNullable<RequestInit['headers']> {
  if (headers === undefined) return { [name]: value }
  if (isList(headers)) return [...headers, [name, value]] as [string, string][]
  if (!(Symbol.iterator in headers)) return { ...headers, [name]: value } as Record<string, string>
  const copy = copyFetchHeaders(headers) as Headers
  copy.set(name, value)
  return copy
}

/** The prototype of the class that first defined a member, even if derived classes override it. */
export function classWith(object: object, member: string): object | undefined {
  let found: object | undefined
  for (let proto = Object.getPrototypeOf(object); proto !== null; proto = Object.getPrototypeOf(proto)) {
    if (Object.hasOwn(proto, member)) found = proto
  }
  return found
}

/**
 * A copy of the headers given to undici that can be read any number of times; an iterable becomes a flat list. What undici
 * would reject stays invalid.
 */
export function copyUndiciHeaders(given: unknown): unknown {
  if (given === undefined || given === null) return {}
  if (typeof given !== 'object') return given
  if (isList(given)) return given.slice()
  if (!(Symbol.iterator in given) || typeof given[Symbol.iterator] !== 'function') return { ...given }
  const pairs: unknown[] = []
  for (const pair of given as Iterable<unknown>) {
    const isPair = Array.isArray(pair) && pair.length === 2
    pairs.push(isPair ? pair.slice() : pair) // an iterator may use one array for all pairs
    if (!isPair) return new Set(pairs)
  }
  return pairs.flat()
}

/** Whether a copy is valid. */
export function areUndiciHeaders(copy: unknown): copy is UndiciHeaders {
  return typeof copy === 'object' && !(copy instanceof Set)
}

/** Whether there is a header of this name. undici ignores undefined values. */
export function hasUndiciHeader(headers: UndiciHeaders, key: string): boolean {
  return isList(headers) ? findInList(headers, key) >= 0 : getHeader(headers, key) !== undefined
}

/** A copy with this header set. */
export function withUndiciHeader(headers: UndiciHeaders, name: string, value: string): UndiciHeaders {
  if (!isList(headers)) return { ...headers, [name]: value }
  const at = findInList(headers, name.toLowerCase())
  const copy = headers.slice()
  copy.splice(at < 0 ? copy.length : at, 2, name, value)
  return copy
}

function findInList(list: readonly unknown[], key: string): number {
  for (let at = 0; at < list.length; at += 2)
    if (list[at + 1] !== undefined && isNamed(list[at], key)) return at
  return -1
}

function isList(headers: unknown): headers is readonly unknown[] {
  return Array.isArray(headers)
}

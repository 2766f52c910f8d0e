/** Request headers in the forms that undici takes: an object, a flat list of names and values, or an iterable of pairs. */

/** Headers that can be read any number of times. */
export type RequestHeaders = Readonly<Record<string, unknown>> | readonly unknown[]

/**
 * A copy of headers that can be read any number of times: of an iterable, a flat list. Anything that undici does not take for
 * headers stays that, so that undici rejects it.
 */
export function copyOfHeaders(headers: unknown): unknown {
  if (headers === undefined || headers === null) return {}
  if (typeof headers !== 'object') return headers
  if (Array.isArray(headers)) return headers.slice()
  if (!isIterable(headers)) return { ...headers }
  const pairs: unknown[] = []
  for (const pair of headers) {
    const isPair = Array.isArray(pair) && pair.length === 2
    pairs.push(isPair ? pair.slice() : pair) // an iterator may use one pair for all
    if (!isPair) return new Set(pairs)
  }
  return pairs.flat()
}

/** Whether a copy is one of headers, and not of what undici rejects. */
export function areHeaders(copy: unknown): copy is RequestHeaders {
  return typeof copy === 'object' && !(copy instanceof Set)
}

/** Whether there is a header of this name (in lower case). undici leaves out what is undefined. */
export function hasHeader(headers: RequestHeaders, key: string): boolean {
  if (isList(headers)) return findInList(headers, key) >= 0
  for (const name in headers) {
    if (isNamed(name, key) && Object.hasOwn(headers, name) && headers[name] !== undefined) return true
  }
  return false
}

/** A copy, in the same form, with this header in place of one that may be there. */
export function withHeader(headers: RequestHeaders, name: string, value: string): RequestHeaders {
  if (!isList(headers)) return { ...headers, [name]: value }
  const at = findInList(headers, name.toLowerCase())
  const copy = headers.slice()
  copy.splice(at < 0 ? copy.length : at, 2, name, value)
  return copy
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value && typeof value[Symbol.iterator] === 'function'
}

function isList(headers: RequestHeaders): headers is readonly unknown[] {
  return Array.isArray(headers)
}

function findInList(list: readonly unknown[], key: string): number {
  for (let at = 0; at < list.length; at += 2)
    if (list[at + 1] !== undefined && isNamed(list[at], key)) return at
  return -1
}

function isNamed(name: unknown, key: string): boolean {
  if (typeof name === 'string') return name.length === key.length && name.toLowerCase() === key
  try {
    return String(name).toLowerCase() === key // undici takes lists and String objects for names, too
  } catch {
    return false // and rejects what has no text
  }
}

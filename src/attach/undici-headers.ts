/** Request headers in the forms that undici takes: an object, a flat list of names and values, or pairs. */

/** Headers that can be read any number of times. */
export type RequestHeaders = Readonly<Record<string, unknown>> | readonly unknown[]

/** The headers themselves, or a flat list of those that may be read only once. */
export function readableHeaders(headers: unknown): RequestHeaders {
  if (typeof headers !== 'object' || headers === null) return {}
  if (Array.isArray(headers) || !(Symbol.iterator in headers)) return headers as RequestHeaders
  const list: unknown[] = []
  const pairs = [...(headers as Iterable<unknown>)]
  for (const pair of pairs) {
    if (!Array.isArray(pair) || pair.length !== 2) return pairs // undici refuses it
    list.push(pair[0], pair[1])
  }
  return list
}

export function copyOfHeaders(headers: RequestHeaders): RequestHeaders {
  return isList(headers) ? headers.slice() : { ...headers }
}

/** Whether there is a header of this name (in lower case). undici leaves out what is undefined. */
export function hasHeader(headers: RequestHeaders, key: string): boolean {
  if (isList(headers)) return isPairs(headers) ? findPair(headers, key) >= 0 : findInList(headers, key) >= 0
  for (const name in headers) {
    if (isNamed(name, key) && Object.hasOwn(headers, name) && headers[name] !== undefined) return true
  }
  return false
}

/** A copy, in the same form, with this header in place of one that may be there. */
export function withHeader(headers: RequestHeaders, name: string, value: string): RequestHeaders {
  if (!isList(headers)) return { ...headers, [name]: value }
  const key = name.toLowerCase()
  const copy = headers.slice()
  if (isPairs(headers)) {
    const at = findPair(headers, key)
    copy.splice(at < 0 ? copy.length : at, 1, [name, value])
  } else {
    const at = findInList(headers, key)
    copy.splice(at < 0 ? copy.length : at, 2, name, value)
  }
  return copy
}

function isList(headers: RequestHeaders): headers is readonly unknown[] {
  return Array.isArray(headers)
}

function isPairs(headers: readonly unknown[]): boolean {
  return Array.isArray(headers[0])
}

function findPair(pairs: readonly unknown[], key: string): number {
  return pairs.findIndex((pair) => Array.isArray(pair) && isNamed(pair[0], key) && pair[1] !== undefined)
}

function findInList(list: readonly unknown[], key: string): number {
  for (let at = 0; at < list.length; at += 2)
    if (isNamed(list[at], key) && list[at + 1] !== undefined) return at
  return -1
}

function isNamed(name: unknown, key: string): boolean {
  return typeof name === 'string' && name.length === key.length && name.toLowerCase() === key
}

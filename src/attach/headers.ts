/** Headers in the forms that callers of the clients use: find, set and clear one, whatever the case of its name. */

/** Names and values. An undefined value is not a header: axios and undici do not send it. */
export type HeaderRecord = Readonly<Record<string, unknown>>

/** Names and values in turn, as undici takes them. */
export type HeaderList = readonly unknown[]

/** A header that a client sends. */
export interface Header {
  readonly name: string
  /** Its name in lower case. */
  readonly key: string
  readonly value: string
}

/** The name under which a record has a header; `key` is its name in lower case. */
export function headerName(headers: object | undefined, key: string): string | undefined {
  const record = headers as HeaderRecord
  for (const name in record) if (isNamed(name, key) && record[name] !== undefined) return name
  return undefined
}

/** The value of a header in a record. */
export function getHeader(headers: object | undefined, key: string): unknown {
  const name = headerName(headers, key)
  return name && (headers as HeaderRecord)[name]
}

/** The value of a header in any form; undefined if there is none. */
export function findHeader(headers: HeaderRecord | HeaderList | Headers, key: string): unknown {
  if (isHeaders(headers)) return headers.get(key) ?? undefined
  if (!isHeaderList(headers)) return getHeader(headers, key)
  const value = headers.findIndex(
    (given, at) => at % 2 === 1 && isNamed(headers[at - 1] as string, key) && given !== undefined,
  )
  return headers[value]
}

/** A copy of the headers with this one, in place of any other of its name. */
export function withHeader<Form extends HeaderRecord | HeaderList | Headers>(
  headers: Form,
  { name, key, value }: Header,
): Form {
  if (isHeaders(headers)) {
    const copy = copyOfHeaders(headers)
    copy.set(name, value)
    return copy as Form
  }
  if (!isHeaderList(headers)) {
    const copy: Record<string, unknown> = { ...headers, [name]: value }
    // An undefined header of the caller's, which fetch would send as text.
    for (const other in copy) if (other !== name && isNamed(other, key)) delete copy[other]
    return copy as Form
  }
  const others = headers.filter((_, at) => !isNamed(headers[at - (at % 2)] as string, key))
  return [...others, name, value] as HeaderList as Form
}

/**
 * Sets the header that this package set to undefined, whatever a client made of the case of its name: axios is slower if a property
 * of its headers was deleted.
 */
export function clearHeader(headers: object | undefined, { name, key, value }: Header): void {
  const record = (headers ?? {}) as Record<string, unknown>
  const given = record[name] === value ? name : headerName(headers, key)
  if (given !== undefined && record[given] === value) record[given] = undefined
}

export function isHeaderList(headers: unknown): headers is HeaderList {
  return Array.isArray(headers)
}

/** A copy in its class: that of node-fetch 2 keeps the case of the names. */
export function copyOfHeaders(headers: Headers): Headers {
  const isGlobal: boolean = headers instanceof Headers
  const OwnHeaders = isGlobal ? Headers : (headers.constructor as typeof Headers)
  return new OwnHeaders(headers)
}

/** Not by its class, which each call would look up, and which may be that of a package. */
function isHeaders(headers: HeaderRecord | HeaderList | Headers): headers is Headers {
  return typeof (headers as Headers).append === 'function'
}

function isNamed(name: string, key: string): boolean {
  return name.length === key.length && name.toLowerCase() === key
}

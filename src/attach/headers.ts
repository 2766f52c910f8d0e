/** Headers in a record, by their name in lower case. */

/** Whether there is a header, whatever its value: fetch sends `undefined` as a text. */
export function hasHeader(headers: object, key: string): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === key)
}

/** The value of a header that is set; undefined if there is none. */
export function getHeader(headers: object | undefined, key: string): unknown {
  const name = nameOf(headers, key)
  return name === undefined ? undefined : (headers as Record<string, unknown>)[name]
}

/** Sets a header to undefined, which clients do not send: records that a property was deleted from are slower. */
export function clearHeader(headers: object | undefined, key: string): void {
  const name = nameOf(headers, key)
  if (name !== undefined) (headers as Record<string, unknown>)[name] = undefined
}

export function deleteHeader(headers: object | undefined, key: string): void {
  const name = nameOf(headers, key)
  if (name !== undefined) delete (headers as Record<string, unknown>)[name]
}

function nameOf(headers: object | undefined, key: string): string | undefined {
  const record = headers as Record<string, unknown>
  for (const name in record)
    if (name.length === key.length && record[name] !== undefined && name.toLowerCase() === key) return name
  return undefined
}

/** Searches any value for secrets, in every form in which it could be logged. */
import { inspect } from 'node:util'

const EVERYTHING = { depth: Infinity, showHidden: true, getters: true, showProxy: true } as const
const MOST_NODES = 100_000

/** Where the secrets were found; empty if they were not. */
export function findLeaks(value: unknown, secrets: Iterable<string>): string[] {
  const forms = [...secrets].flatMap(spellings)
  const leaks: string[] = []
  const check = (where: string, text: unknown): void => {
    if (typeof text === 'string' && forms.some((form) => text.includes(form))) leaks.push(where)
  }
  check(
    'inspect',
    attempt(() => inspect(value, { depth: Infinity, maxArrayLength: null, maxStringLength: null })),
  )
  check(
    'inspect, with hidden properties',
    attempt(() => inspect(value, EVERYTHING)),
  )
  check(
    'inspect, without custom inspect functions',
    attempt(() => inspect(value, { ...EVERYTHING, customInspect: false })),
  )
  check(
    'JSON',
    attempt(() => JSON.stringify(value)),
  )
  check(
    'String',
    attempt(() => String(value)),
  )
  walk(value, check)
  return leaks
}

function spellings(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [
    secret,
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    encodeURIComponent(secret),
    new URLSearchParams({ s: secret }).toString().slice(2),
  ]
}

function walk(root: unknown, check: (where: string, text: unknown) => void): void {
  const seen = new Set<unknown>()
  const queue: [string, unknown][] = [['value', root]]
  for (let next = queue.pop(); next !== undefined && seen.size < MOST_NODES; next = queue.pop()) {
    const [where, value] = next
    if (typeof value === 'string') check(where, value)
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value))
      continue
    seen.add(value)
    if (ArrayBuffer.isView(value)) {
      check(where, Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('latin1'))
      continue
    }
    for (const key of keysOf(value))
      queue.push([`${where}.${String(key)}`, attempt(() => Reflect.get(value, key))])
    if ('toJSON' in value && typeof value.toJSON === 'function') {
      const { toJSON } = value as { toJSON(): unknown }
      queue.push([`${where}.toJSON()`, attempt(() => toJSON.call(value))])
    }
  }
}

function keysOf(value: object): PropertyKey[] {
  const keys: PropertyKey[] = Object.getOwnPropertySymbols(value).filter((key) =>
    Object.prototype.propertyIsEnumerable.call(value, key),
  )
  for (const key in value) keys.push(key) // own and inherited
  if (value instanceof Error) keys.push('name', 'message', 'stack', 'cause')
  return keys
}

function attempt<T>(get: () => T): T | undefined {
  try {
    return get()
  } catch {
    return undefined
  }
}

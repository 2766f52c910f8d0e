/** Searches what could be logged for secrets. */
import { inspect } from 'node:util'

/** Default options, but for the limits: nothing may be cut off before it is searched. */
const WHOLE = { depth: Infinity, maxArrayLength: null, maxStringLength: null } as const

/** In which output the secrets were found; empty if in none. */
export function findLeaks(value: unknown, secrets: Iterable<string>): string[] {
  const forms = [...secrets].flatMap(spellings)
  const outputs = {
    inspect: attempt(() => inspect(value, WHOLE)),
    JSON: attempt(() => JSON.stringify(value)),
    structuredClone: attempt(() => inspect(structuredClone(value), WHOLE)),
  }
  return Object.entries(outputs).flatMap(([name, text = '']) =>
    forms.some((form) => text.includes(form)) ? [name] : [],
  )
}

/** A secret as it is, and as JSON, URLs and base64 write it. */
function spellings(secret: string): string[] {
  const base64 = Buffer.from(secret).toString('base64').replace(/=+$/, '')
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), base64]
}

/** Not everything can be shown, written as JSON, or cloned. */
function attempt<T>(make: () => T): T | undefined {
  try {
    return make()
  } catch {
    return undefined
  }
}

/** The parts of schemas that several kinds of options have, and what a schema found wrong, by option. */
import * as z from 'zod/mini'
import { MAX_TIMER_MS } from './clock.ts'
import type { Problem } from './errors.ts'

/** A text that is not empty. */
export const text = (error: string): z.ZodMiniType<string> =>
  z.string(error).check(z.refine((value) => value !== '', error))

/** A duration that a timer can have (ms). */
export const ms = (least: number, error: string): z.ZodMiniType<number> =>
  z.number(error).check(z.gte(least, error), z.lte(MAX_TIMER_MS, error))

/** A function. */
export const fn = <F>(error: string): z.ZodMiniType<F> =>
  z.custom<F>((value) => typeof value === 'function', error)

/** An object with functions of these names. */
export const having = <T>(names: readonly string[], error: string): z.ZodMiniType<T> =>
  z.custom<T>((value) => names.every((name) => typeof partOf(value, name) === 'function'), error)

/** Stands for what throws when it is read: no schema accepts it. */
const UNREADABLE: unique symbol = Symbol('cannot be read')

/** What an object, or its class, has by this name; not what an extension of Object.prototype gives to every object. */
export function partOf(value: unknown, name: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  try {
    const part: unknown = Reflect.get(value, name)
    return part !== Reflect.get(Object.prototype, name) || Object.hasOwn(value, name) ? part : undefined
  } catch {
    return UNREADABLE
  }
}

/** The names of an object's own parts; undefined where it is not an object, or is an array. */
export function namesOf(value: unknown): string[] | undefined {
  try {
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.keys(value)
      : undefined
  } catch {
    return undefined
  }
}

/** More items than any option has; a longer array is not worth the memory. */
const MOST_ITEMS = 10_000

/** The items of an array as they are now, holes included; anything else as it is. */
export function itemsOf(value: unknown): unknown {
  try {
    if (Array.isArray(value) && value.length > MOST_ITEMS) return UNREADABLE
    return Array.isArray(value) ? Array.from({ length: value.length }, (_, n) => partOf(value, n)) : value
  } catch {
    return UNREADABLE
  }
}

/**
 * A copy of options: these, and whatever else was given. A schema judges the copy, which has no prototype, and each
 * option is read once, so that what was judged is what is used. Undefined where the value is not an object.
 */
export function copyOf(value: unknown, names: readonly string[]): object | undefined {
  const given = namesOf(value)
  if (given === undefined) return undefined
  const copy: Record<string, unknown> = Object.create(null)
  for (const name of new Set([...names, ...given])) copy[name] = itemsOf(partOf(value, name))
  return copy
}

/** The schema, for a copy of what is given. */
export const copied = <S extends z.ZodMiniObject>(schema: S): z.ZodMiniType<z.output<S>> =>
  z.pipe(
    z.transform((value: unknown) => copyOf(value, Object.keys(schema.shape))),
    schema,
  )

const HEADER = 'must be the name of a header (RFC 9110 §5.1)'
const TAKEN = 'must be a header that can carry a token: HTTP clients set this one themselves, or drop it'
const SCHEME = "must be an authentication scheme (RFC 9110 §11.1), or '' for the bare token"

/** Under these names fetch, axios or undici loses the token, fails, or describes the body or the connection wrongly. */
const TAKEN_HEADERS: ReadonlySet<string> = new Set([
  '__proto__',
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'prototype',
  'sec-fetch-mode',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** The name of a header that can carry the token. */
export const headerName: z.ZodMiniType<string> = z.string(HEADER).check(
  z.regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, HEADER),
  z.refine((name) => !TAKEN_HEADERS.has(name.toLowerCase()), TAKEN),
)

/** What stands before the token in it. */
export const schemeName: z.ZodMiniType<string> = z
  .string(SCHEME)
  .check(z.regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]*$/, SCHEME))

/** What a schema found wrong, by option. */
export function problemsOf(error: z.core.$ZodError): Problem[] {
  return error.issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((option) => ({ option, reason: 'is not an option' }))
    }
    const option = issue.path.map((part) => (typeof part === 'number' ? `[${part}]` : String(part))).join('')
    return [
      {
        option: option === '' ? 'options' : option,
        reason: issue.path.length === 0 ? 'must be an object' : issue.message,
      },
    ]
  })
}

/** Schema parts that several kinds of options share, and a schema's issues as problems, each with its option's name. */
import * as z from 'zod/mini'
import { MAX_TIMER_MS } from './clock.ts'
import type { Problem } from './errors.ts'
import { unknownOption } from './names.ts'

/** A non-empty string. */
export const text = (error: string): z.ZodMiniType<string> =>
  z.string(error).check(z.refine((value) => value !== '', error))

/** A duration (ms) that a timer supports. */
export const ms = (least: number, error: string): z.ZodMiniType<number> =>
  z.number(error).check(z.gte(least, error), z.lte(MAX_TIMER_MS, error))

/** A function. */
export const fn = <F>(error: string): z.ZodMiniType<F> =>
  z.custom<F>((value) => typeof value === 'function', error)

/** An object that has functions with these names. */
export const objectWith = <T>(names: readonly string[], error: string): z.ZodMiniType<T> =>
  z.custom<T>((value) => names.every((name) => typeof propertyOf(value, name) === 'function'), error)

/** Replaces a value that throws when it is read. No schema accepts it. */
const UNREADABLE: unique symbol = Symbol('cannot be read')

/** A property of an object or of its class. Ignores properties that somebody added to Object.prototype. */
export function propertyOf(value: unknown, name: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  try {
    const property: unknown = Reflect.get(value, name)
    return property !== Reflect.get(Object.prototype, name) || Object.hasOwn(value, name)
      ? property
      : undefined
  } catch {
    return UNREADABLE
  }
}

/** The names of an object's own properties; undefined if the value is not an object, or is an array. */
export function keysOf(value: unknown): string[] | undefined {
  try {
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.keys(value)
      : undefined
  } catch {
    return undefined
  }
}

/** A copy of a record, each property read once. No schema accepts what it returns for other values. */
export function recordOf(value: unknown): unknown {
  const names = isRecord(value) ? keysOf(value) : undefined
  return names === undefined
    ? UNREADABLE
    : Object.fromEntries(names.map((name) => [name, propertyOf(value, name)]))
}

/** Whether a value is a plain object, of any realm. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  try {
    if (typeof value !== 'object' || value === null) return false
    const proto: unknown = Object.getPrototypeOf(value)
    return proto === null || Object.getPrototypeOf(proto) === null
  } catch {
    return false
  }
}

/** No option needs more items. Longer arrays are not copied. */
const MAX_ITEMS = 10_000

/** A copy of an array, holes included. Any other value is returned unchanged. */
export function itemsOf(value: unknown): unknown {
  try {
    if (Array.isArray(value) && value.length > MAX_ITEMS) return UNREADABLE
    return Array.isArray(value) ? Array.from({ length: value.length }, (_, n) => propertyOf(value, n)) : value
  } catch {
    return UNREADABLE
  }
}

/**
 * A copy of options, with the expected names and all other names that were given. The copy has no prototype. Each option
 * is read once, so that the value that was checked is the value that is used. Undefined if the value is not an object.
 */
export function copyOf(value: unknown, names: readonly string[]): object | undefined {
  const given = keysOf(value)
  if (given === undefined) return undefined
  const copy: Record<string, unknown> = Object.create(null)
  for (const name of new Set([...names, ...given])) copy[name] = itemsOf(propertyOf(value, name))
  return copy
}

/** An object with these options, and no others. An unknown option's message is the list of the names that exist. */
export const strict = <S extends z.core.$ZodLooseShape>(shape: S): z.ZodMiniObject<S, z.core.$strict> =>
  z.strictObject(shape, {
    error: ({ code }) => (code === 'unrecognized_keys' ? Object.keys(shape).join(' ') : 'must be an object'),
  })

/** Applies the schema to a copy of the given value. */
export const copied = <S extends z.ZodMiniObject>(schema: S): z.ZodMiniType<z.output<S>> =>
  z.pipe(
    z.transform((value: unknown) => copyOf(value, Object.keys(schema.shape))),
    schema,
  )

const HEADER = 'must be the name of a header (RFC 9110 §5.1)'
const RESERVED = 'must not be a header that HTTP clients set or drop themselves'
const SCHEME = "must be an authentication scheme (RFC 9110 §11.1), or '' for the bare token"

/** With these names fetch, axios or undici drops the token, fails, or describes the body or the connection incorrectly. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
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
  z.refine((name) => !RESERVED_HEADERS.has(name.toLowerCase()), RESERVED),
)

/** The authentication scheme: the word before the token. */
export const schemeName: z.ZodMiniType<string> = z
  .string(SCHEME)
  .check(z.regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]*$/, SCHEME))

/**
 * A schema's issues, each with the name of its option.
 *
 * @param name the name for a problem with the value as a whole
 */
export function problemsOf(error: z.core.$ZodError, name = 'options'): Problem[] {
  return error.issues.flatMap(({ path, message, ...issue }) => {
    const nameOf = (parts: readonly PropertyKey[]): string =>
      parts
        .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
        .join('')
        .replace(/^\./, '')
    if (issue.code !== 'unrecognized_keys') return [{ option: nameOf(path) || name, reason: message }]
    return issue.keys.map((key) => ({
      ...unknownOption(key, message.split(' ')),
      option: nameOf([...path, key]),
    }))
  })
}

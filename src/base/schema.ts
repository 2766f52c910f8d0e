/** Schema parts that several kinds of options share, and a schema's issues as problems, each with its option's name. */
import * as z from 'zod/mini'
import { MAX_TIMER_MS } from './clock.ts'
import type { Problem } from './errors.ts'
import { unknownOption } from './similar-name.ts'

/** Whether a required value is not given. An empty string, as `process.env.NAME ?? ''` yields, counts as none. */
export function isMissing(value: unknown): boolean {
  return value === undefined || value === ''
}

/** A non-empty string. */
export const text = (error: string): z.ZodMiniString => z.string(error).check(z.minLength(1, error))

/** A duration (ms) that a timer supports. */
export function ms(
  least: number,
  error = `must be a number of milliseconds from ${least} to ${MAX_TIMER_MS}`,
): z.ZodMiniNumber {
  return z.number(error).check(z.gte(least, error), z.lte(MAX_TIMER_MS, error))
}

/** A whole number. */
export const whole = (least: number, most: number, error: string): z.ZodMiniNumber =>
  z.int({ error, abort: true }).check(z.gte(least, error), z.lte(most, error))

/** A function. */
export const fn = <F>(error: string): z.ZodMiniType<F> =>
  z.custom<F>((value) => typeof value === 'function', error)

/** An object that has functions with these names. */
export const objectWith = <T>(names: readonly string[], error: string): z.ZodMiniType<T> =>
  z.custom<T>((value) => names.every((name) => hasFunction(value, name)), error)

/** Whether a value is an object that has such a function. */
export function hasFunction(value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function'
}

/**
 * The members of an object that gives values by name: its own, and those that a class's getters or inherited defaults give.
 * A check and a copy that use it read the same.
 */
export function membersOf<T>(value: Readonly<Record<string, T>> | readonly T[]): (readonly [string, T])[] {
  const names = new Set<string>()
  for (let part: object = value; ; part = Object.getPrototypeOf(part)) {
    for (const [name, { enumerable, get }] of Object.entries(Object.getOwnPropertyDescriptors(part)))
      if (enumerable || get !== undefined) names.add(name)
    const next: object | null = Object.getPrototypeOf(part)
    // The last prototype is Object.prototype, of whichever realm.
    if (next === null || Object.getPrototypeOf(next) === null) break
  }
  return [...names].map((name) => [name, Reflect.get(value, name) as T])
}

/** An object with these options, and no others. */
export function strict<S extends z.core.$ZodLooseShape>(
  shape: S,
): z.ZodMiniObject<S, z.core.$catchall<z.ZodMiniType>> {
  const names = Object.keys(shape)
  const unknown = z.custom(() => false, {
    error: ({ path = [] }) => unknownOption(String(path.at(-1)), names).reason,
    params: { kind: 'unknown' },
  })
  return z.catchall(z.object(shape, 'must be an object'), unknown)
}

/** Parameters of a check whose problems are of this kind. Without them they are `invalid`. */
export function ofKind(kind: Problem['kind'], error: string): z.core.$ZodCustomParams {
  return { error, params: { kind } }
}

const HEADER = 'must be the name of a header (RFC 9110 §5.1)'
const RESERVED = 'must not be a header that HTTP clients set or drop themselves'
const SCHEME = "must be an authentication scheme (RFC 9110 §11.1), or '' for the bare token"

/** With these names fetch, axios or undici drops the token, fails, or describes the body or the connection incorrectly. */
const RESERVED_HEADER =
  /^(?:connection|content-length|content-type|expect|host|keep-alive|sec-fetch-mode|trailer|transfer-encoding|upgrade)$/i

/** The name of a header that can carry the token. */
export const headerName: z.ZodMiniString = z.string(HEADER).check(
  z.regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, HEADER),
  z.refine((name) => !RESERVED_HEADER.test(name), RESERVED),
)

/** The authentication scheme: the word before the token. */
export const schemeName: z.ZodMiniString = z
  .string(SCHEME)
  .check(z.regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]*$/, SCHEME))

/** What a schema makes of a value, or every problem with it. */
export type Parsed<T> =
  | { readonly data: T; readonly problems: readonly Problem[] }
  | { readonly data?: undefined; readonly problems: readonly Problem[] }

/**
 * Parses a value by a schema.
 *
 * @param name the name for a problem with the value as a whole
 */
export function parse<T>(schema: z.ZodMiniType<T>, value: unknown, name = 'options'): Parsed<T> {
  const { data, error } = z.safeParse(schema, value, { reportInput: true })
  if (error === undefined) return { data, problems: [] }
  const problems = error.issues.map((issue) => ({
    option: nameOf(issue.path) || name,
    kind: kindOf(issue),
    reason: issue.message,
  }))
  return { problems }
}

function kindOf(issue: z.core.$ZodIssue): Problem['kind'] {
  if (issue.code === 'custom') return (issue.params as Partial<Problem> | undefined)?.kind ?? 'invalid'
  const mayBeMissing = ['invalid_type', 'too_small', 'invalid_union'].includes(issue.code)
  return mayBeMissing && isMissing(issue.input) ? 'missing' : 'invalid'
}

/** An option's name with its place in other options: `apiUrls[0]`, `store.lease`. */
function nameOf(path: readonly PropertyKey[]): string {
  const parts = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
  return parts.join('').replace(/^\./, '')
}

/** The schema of `tokenEndpointAuthMethod`, for the sandbox, too. */
export const authMethod: z.ZodMiniType<'client_secret_post' | 'client_secret_basic'> = z.enum(
  ['client_secret_post', 'client_secret_basic'],
  "must be 'client_secret_post' or 'client_secret_basic'",
)

/** The parts of schemas that several kinds of options have, and what a schema found wrong, by option. */
import * as z from 'zod/mini'
import { MAX_TIMER_MS } from './clock.ts'
import type { Problem } from './errors.ts'

/** A text that is not empty. */
export const text = (error: string): z.ZodMiniType<string> => z.string(error).check(z.minLength(1, error))

/** A duration that a timer can have (ms). */
export const ms = (least: number, error: string): z.ZodMiniType<number> =>
  z.number(error).check(z.gte(least, error), z.lte(MAX_TIMER_MS, error))

/** A function. */
export const fn = <F>(error: string): z.ZodMiniType<F> =>
  z.custom<F>((value) => typeof value === 'function', error)

/** An object with functions of these names. */
export const having = <T>(names: readonly string[], error: string): z.ZodMiniType<T> =>
  z.custom<T>((value) => names.every((name) => typeof partOf(value, name) === 'function'), error)

/** What an object has by this name; undefined where it will not say. */
export function partOf(value: unknown, name: string): unknown {
  try {
    return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
  } catch {
    return undefined
  }
}

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

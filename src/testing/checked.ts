/** Checks what a test hands over: a value of the right shape, or every problem at once. */
import * as z from 'zod/mini'
import { ConfigurationError } from '../errors.ts'

/**
 * The value, copied, if it has the shape.
 *
 * @param what what cannot be used otherwise, for the message: `The settings of the sandbox`
 * @param name the option's name, for problems with the value as a whole
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every problem
 */
export function checked<T>(what: string, name: string, shape: z.ZodMiniType<T>, value: unknown): T {
  const parsed = z.safeParse(shape, value)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.flatMap((issue) => {
    const path = issue.path.map(String)
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({ option: [...path, key].join('.'), reason: 'is not an option' }))
    }
    return [{ option: path.length === 0 ? name : path.join('.'), reason: issue.message }]
  })
  throw new ConfigurationError(`${what} cannot be used`, problems)
}

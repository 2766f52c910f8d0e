/** What is wrong with options, as the errors of the functions that take them say. */
import { ConfigurationError } from 'merchant-auth'
import { expect } from 'vitest'

/** What a function throws; undefined where it throws nothing. */
export function thrownBy(make: () => unknown): unknown {
  try {
    make()
  } catch (error) {
    return error
  }
  return undefined
}

/** The problems that the ConfigurationError of a function has; none where it accepts its options. */
export function problemsIn(make: () => unknown): ConfigurationError['problems'] {
  const error = thrownBy(make)
  if (error === undefined) return []
  expect(error).toBeInstanceOf(ConfigurationError)
  const { code, message, problems } = error as ConfigurationError
  expect(code).toBe('ERR_CONFIGURATION')
  for (const { option, reason } of problems) expect(message).toContain(`${option}: ${reason}`)
  return problems
}

/** The names of the options that are wrong. */
export function problemsOf(make: () => unknown): string[] {
  return problemsIn(make).map(({ option }) => option)
}

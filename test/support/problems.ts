/** The problems of invalid options, as reported by the errors of the functions that accept them. */
import { ConfigurationError } from 'merchant-auth'
import { expect } from 'vitest'

/** What a function throws; undefined if it throws nothing. */
export function thrownBy(make: () => unknown): unknown {
  try {
    make()
  } catch (error) {
    return error
  }
  return undefined
}

/** The problems in the ConfigurationError that a function throws; none if it accepts its options. */
export function problemsIn(make: () => unknown): ConfigurationError['problems'] {
  const error = thrownBy(make)
  if (error === undefined) return []
  expect(error).toBeInstanceOf(ConfigurationError)
  const { code, message, problems } = error as ConfigurationError
  expect(code).toBe('ERR_CONFIGURATION')
  for (const { option, reason } of problems) expect(message).toContain(`${option}: ${reason}`)
  return problems
}

/** The names of the invalid options, each with the kind of its problem. */
export function kindsOf(make: () => unknown): [option: string, kind: string][] {
  return problemsIn(make).map(({ option, kind }) => [option, kind])
}

/** The names of the invalid options. */
export function problemsOf(make: () => unknown): string[] {
  return problemsIn(make).map(({ option }) => option)
}

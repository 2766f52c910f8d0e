/** Which row of the table of failures a message or an advice comes from: tests name the kind, not the words. */
import { CALLS, VERDICTS } from '../../src/advice/calls.ts'
import { adviceOf, type FailedStep, type Failure, type Words } from '../../src/advice/failure.ts'
import { NETWORK_FAILURES, UNKNOWN_FAILURE } from '../../src/advice/network.ts'
import { REFUSALS } from '../../src/advice/refusals.ts'
import { RESPONSES } from '../../src/advice/responses.ts'
import { STORE_FAILURES, UNKNOWN_STORE_FAILURE } from '../../src/advice/store.ts'

/** All rows. */
export const FAILURES: readonly Pick<Failure, 'kind' | 'advice' | 'inCheck'>[] = [
  ...NETWORK_FAILURES,
  UNKNOWN_FAILURE,
  ...REFUSALS,
  ...Object.values(RESPONSES),
  ...STORE_FAILURES,
  UNKNOWN_STORE_FAILURE,
  ...Object.values(CALLS),
  ...Object.values(VERDICTS),
]

/** The kinds whose text for errors, or for `check`, is in a text. */
export function kindsIn(text: string): string[] {
  return FAILURES.filter((row) =>
    [row.advice, row.inCheck].some((words) => words !== undefined && asPattern(words).test(text)),
  ).map(({ kind }) => kind)
}

const STEPS: readonly FailedStep[] = ['program', 'name', 'connection', 'tls', 'response']
/** Leaves the words in braces as they are. */
export const IN_BRACES: Words = new Proxy({}, { get: (_, name) => `{${String(name)}}` })

/** The step whose own words a text has: those of the kinds that have none. */
export function stepIn(text: string): FailedStep | undefined {
  return STEPS.find((step) => asPattern(adviceOf({ step }, IN_BRACES)).test(text))
}

/** Whether a text is of a kind, and of no other one. */
export function isOfKind(kind: string): (text: string) => boolean {
  return (text) => kindsIn(text).join() === kind
}

/** A text of the table, with anything in the place of a word in braces. */
function asPattern(text: string): RegExp {
  const parts = text.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(parts.join('.*'), 's')
}

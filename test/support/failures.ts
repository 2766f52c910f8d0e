/** Which row of the table of failures a message or an advice comes from: tests name the kind, not the words. */
import type { Failure } from '../../src/advice/failure.ts'
import { NETWORK_FAILURES } from '../../src/advice/network.ts'
import { REFUSALS } from '../../src/advice/refusals.ts'
import { RESPONSES } from '../../src/advice/responses.ts'

/** All rows. */
export const FAILURES: readonly Failure[] = [...NETWORK_FAILURES, ...REFUSALS, ...Object.values(RESPONSES)]

/** The kinds whose text for errors, or for `check`, is in a text. */
export function kindsIn(text: string): string[] {
  return FAILURES.filter((row) =>
    [row.advice, row.inCheck].some((words) => words !== undefined && asPattern(words).test(text)),
  ).map(({ kind }) => kind)
}

/** A text of the table, with anything in the place of a word in braces. */
function asPattern(text: string): RegExp {
  const parts = text.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(parts.join('.*'), 's')
}

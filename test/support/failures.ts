/** Which row of the table of failures a message or an advice comes from: tests name the kind, not the words. */
import { CALLS } from '../../src/advice/calls.ts'
import { type Advice, adviceOf, type Words } from '../../src/advice/failure.ts'
import { FINDINGS } from '../../src/advice/findings.ts'
import { BY_STEP, type FailedStep, NETWORK_FAILURES, UNKNOWN_FAILURE } from '../../src/advice/network.ts'
import { REFUSAL_KINDS } from '../../src/advice/refusals.ts'
import { RESPONSES } from '../../src/advice/responses.ts'
import { STORE_FAILURES, UNKNOWN_STORE_FAILURE } from '../../src/advice/store.ts'

/** A row of the table; without an advice, it has that of its step. */
export interface Row extends Partial<Advice> {
  readonly kind: string
}

/** Rows with their kinds. */
function named(rows: Readonly<Record<string, object>>): Row[] {
  return Object.entries(rows).map(([kind, row]) => ({ kind, ...row }))
}

/** All rows. */
export const FAILURES: readonly Row[] = [
  ...named({ ...NETWORK_FAILURES, unknown: UNKNOWN_FAILURE }),
  ...named(REFUSAL_KINDS),
  ...named(RESPONSES),
  ...named({ ...STORE_FAILURES, 'unknown-store-failure': UNKNOWN_STORE_FAILURE }),
  ...named(CALLS),
  ...named(FINDINGS),
]

/** The kinds whose text for errors, or for `check`, is in a text. */
export function kindsIn(text: string): string[] {
  return FAILURES.filter((row) =>
    [row.advice, row.inCheck].some((words) => words !== undefined && asPattern(words).test(text)),
  ).map(({ kind }) => kind)
}

const STEPS = Object.keys(BY_STEP) as FailedStep[]
/** Leaves the words in braces as they are. */
const IN_BRACES: Words = new Proxy({}, { get: (_, name) => `{${String(name)}}` })

/** The step whose own words a text has: those of the kinds that have none. */
export function stepIn(text: string): FailedStep | undefined {
  return STEPS.find((step) => asPattern(adviceOf({ advice: BY_STEP[step] }, IN_BRACES)).test(text))
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

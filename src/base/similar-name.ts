/** Names that are not known, and the known ones that were probably meant. */
import type { Problem } from './errors.ts'

/**
 * The known name that a mistyped one probably stands for: one edit away, or two if it has six letters or more. Case does
 * not matter.
 */
export function similarName(typed: string, names: readonly string[]): string | undefined {
  const within = (edits: number): string | undefined =>
    names.find((name) => name.length >= 3 * edits && isWithin(edits, typed.toLowerCase(), name.toLowerCase()))
  return within(1) ?? within(2)
}

/** The problem of an option that does not exist. */
export function unknownOption(option: string, names: readonly string[]): Problem {
  const meant = similarName(option, names)
  const reason = `is not an option${meant === undefined ? '' : `; did you mean ${meant}?`}`
  return { option, kind: 'unknown', reason }
}

/** Whether so many edits make the texts equal: a letter is added, removed or replaced, or two neighbors are swapped. */
function isWithin(edits: number, one: string, other: string): boolean {
  const rest = (most: number, skipped: number, otherSkipped: number): boolean =>
    isWithin(most, one.slice(skipped), other.slice(otherSkipped))
  if (one === other || edits === 0) return one === other
  if (one[0] === other[0]) return rest(edits, 1, 1)
  const left = edits - 1
  const isSwapped = one[0] === other[1] && one[1] === other[0]
  return rest(left, 1, 0) || rest(left, 0, 1) || rest(left, 1, 1) || (isSwapped && rest(left, 2, 2))
}

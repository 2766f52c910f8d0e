/** What becomes of a promise about a figure. */
import type { Mark } from './section.ts'

export type Verdict = 'met' | 'within the room for noise' | 'missed' | 'missed, which is no failure'

export function verdictOf({ value, limit, room, mayMiss }: Mark): Verdict {
  if (value <= limit) return 'met'
  if (value <= limit * room) return 'within the room for noise'
  return mayMiss === undefined ? 'missed' : 'missed, which is no failure'
}

/** @returns one line for the terminal. */
export function markInText(mark: Mark): string {
  const { name, value, limit, room, mayMiss } = mark
  const verdict = verdictOf(mark)
  const reason = mayMiss !== undefined && value > limit ? ` (${mayMiss})` : ''
  return `${verdict}: ${name}: ${figure(value)}, at most ${figure(limit)}, room × ${room}${reason}`
}

export function figure(value: number): string {
  return Number.isInteger(value)
    ? String(value)
    : value.toPrecision(value >= 1000 ? 6 : 4).replace(/\.?0+$/, '')
}

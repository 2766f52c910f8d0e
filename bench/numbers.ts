/** Medians, and how figures are written. */

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) + (sorted[Math.floor(middle)] ?? Number.NaN)) / 2
}

/** A count, or a figure with about three significant digits; thousands are separated. */
export function shown(value: number): string {
  if (!Number.isFinite(value)) return '-'
  const size = Math.abs(value)
  const decimals = Number.isInteger(value) || size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3
  const [whole = '', rest] = value.toFixed(decimals).split('.')
  const grouped = whole.replace(/(?<=\d)(?=(?:\d{3})+$)/g, ' ')
  return rest === undefined ? grouped : `${grouped}.${rest}`
}

/** A size in bytes. */
export function shownBytes(bytes: number): string {
  if (Math.abs(bytes) < 10_000) return `${shown(Math.round(bytes))} B`
  if (Math.abs(bytes) < 1_000_000) return `${shown(bytes / 1_000)} kB`
  return `${shown(bytes / 1_000_000)} MB`
}

/** The figures of the soak: counted by name, shown as text, and recorded in docs/faults.md. */
import { readFileSync, writeFileSync } from 'node:fs'

export type Row = readonly [what: string, value: string | number, note?: string]

/** How often something happened, by its name. */
export class Counts extends Map<string, number> {
  add(name: string): void {
    this.set(name, (this.get(name) ?? 0) + 1)
  }

  get total(): number {
    return [...this.values()].reduce((sum, count) => sum + count, 0)
  }

  sorted(): [string, number][] {
    return [...this].sort(([a], [b]) => a.localeCompare(b))
  }

  override toString(): string {
    return this.sorted()
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')
  }
}

export function inText(rows: readonly Row[]): string {
  const widths = [0, 1].map((at) => Math.max(...rows.map((row) => String(row[at]).length)))
  return rows
    .map(([what, value, note = '']) =>
      `${what.padEnd(widths[0] ?? 0)}  ${String(value).padStart(widths[1] ?? 0)}   ${note}`.trimEnd(),
    )
    .join('\n')
}

/** Writes the table to its place in docs/faults.md. */
export function record(rows: readonly Row[]): void {
  const page = new URL('../../docs/faults.md', import.meta.url)
  const text = readFileSync(page, 'utf8')
  const place = /(<!-- begin: soak -->\n)[\s\S]*?(<!-- end -->)/
  if (!place.test(text)) throw new Error('docs/faults.md has no place for the table of the soak')
  const lines = rows.map(
    ([what, value, note = '']) => `| ${what.replace(/^ +/, '– ')} | ${value} | ${note} |`,
  )
  const table = ['|  |  |  |', '| --- | --- | --- |', ...lines].join('\n')
  writeFileSync(
    page,
    text.replace(place, (_, begin: string, end: string) => `${begin}\n${table}\n\n${end}`),
  )
}

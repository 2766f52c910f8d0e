/** The final table, on the screen and in docs/faults.md. */
import { readFileSync, writeFileSync } from 'node:fs'

export type Row = readonly [what: string, value: string, note?: string]

export function inText(rows: readonly Row[]): string {
  const widths = [0, 1].map((at) => Math.max(...rows.map((row) => (row[at] ?? '').length)))
  return rows
    .map(([what, value, note = '']) =>
      `${what.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)}   ${note}`.trimEnd(),
    )
    .join('\n')
}

function inMarkdown(rows: readonly Row[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.trim()).join(' | ')} |`
  return [
    line(['', '', '']),
    '| --- | --- | --- |',
    ...rows.map(([what, value, note = '']) => line([what.replace(/^ +/, '– '), value, note])),
  ].join('\n')
}

/** Writes the table into its place on a page, and nothing else. */
export function record(page: URL, rows: readonly Row[]): void {
  const text = readFileSync(page, 'utf8')
  const place = /(<!-- begin: soak -->\n)[\s\S]*?(<!-- end -->)/
  if (!place.test(text)) throw new Error(`${page.pathname} has no place for the soak's table`)
  writeFileSync(
    page,
    text.replace(place, (_, begin: string, end: string) => `${begin}\n${inMarkdown(rows)}\n\n${end}`),
  )
}

export function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}

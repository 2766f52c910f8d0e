/** Judges the checks, and writes what was measured as Markdown: bench/RESULTS.md. */
import { readFileSync } from 'node:fs'
import { cpus, release, totalmem, type } from 'node:os'
import { contenders } from './contenders/index.ts'
import { shown } from './numbers.ts'
import type { Check, Section } from './part.ts'

/** A figure is compared as it is shown: the digits after that are noise. */
export function isMissed({ value, limit, tolerance }: Check): boolean {
  return !(rounded(value) <= limit * tolerance)
}

function rounded(value: number): number {
  return Number(value.toPrecision(3))
}

function verdictOf(check: Check): string {
  const { value, limit } = check
  if (isMissed(check)) return 'missed'
  return rounded(value) <= limit ? 'met' : 'met within the tolerance'
}

/** One line for the terminal. */
export function checkInText(check: Check): string {
  const { name, value, limit, tolerance } = check
  return `${verdictOf(check)}: ${name}: ${figure(value)}, at most ${limit} × ${tolerance}`
}

function figure(value: number): string {
  return Number.isInteger(value) ? shown(value) : value.toPrecision(3)
}

/** A section's table for the terminal: it can be pasted into a pull request. */
export function figuresOf({ title, columns, rows }: Section): string {
  return `${title}\n\n${table(columns, rows)}`
}

export function resultsPage(sections: readonly Section[], minutes: number): string {
  const names = new Set(contenders.flatMap(({ packages }) => packages))
  return [
    '# Results',
    '`npm run bench` writes this page. [README.md](README.md) says what is measured, and how.',
    table(['', ''], [...machine(), ['Duration', `${minutes} minutes`]]),
    ...sections.flatMap(sectionInMarkdown),
    '## Versions',
    table(
      ['Package', 'Version'],
      [...names].sort().map((name) => [name, versionOf(name)]),
    ),
  ]
    .join('\n\n')
    .concat('\n')
}

function sectionInMarkdown({ title, intro, columns, rows, notes = [], checks }: Section): string[] {
  const checkRows = checks.map((check) => [
    check.name,
    figure(check.value),
    String(check.limit),
    `× ${check.tolerance}`,
    verdictOf(check),
  ])
  return [
    `## ${title}`,
    intro,
    table(columns, rows),
    ...(notes.length > 0 ? [notes.map((note) => `- ${note}`).join('\n')] : []),
    ...(checks.length > 0 ? [table(['Check', 'Measured', 'At most', 'Tolerance', ''], checkRows)] : []),
  ]
}

function machine(): [string, string][] {
  return [
    ['Date', new Date().toISOString().slice(0, 10)],
    ['Processor', `${cpus()[0]?.model.trim() || 'unknown'}, ${cpus().length} cores`],
    ['Memory', `${Math.round(totalmem() / 2 ** 30)} GiB`],
    ['System', `${type()} ${release()}, ${process.arch}`],
    ['Node.js', process.versions.node],
  ]
}

export function versionOf(name: string): string {
  const file = new URL(`node_modules/${name}/package.json`, import.meta.url)
  return String(JSON.parse(readFileSync(file, 'utf8')).version)
}

/** Columns in which each cell begins with a digit are aligned to the right. */
function table(columns: readonly string[], rows: Section['rows']): string {
  const isNumeric = columns.map(
    (_, nth) =>
      rows.length > 0 && rows.every((row) => /^[-+]?\d/.test(String(row[nth] ?? '')) || row[nth] === ''),
  )
  const line = (cells: Section['rows'][number]) =>
    `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
  const rule = `|${isNumeric.map((numeric) => (numeric ? '---:' : '---')).join('|')}|`
  return [line(columns), rule, ...rows.map(line)].join('\n')
}

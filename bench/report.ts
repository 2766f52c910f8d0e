/** Writes what was measured as Markdown: bench/RESULTS.md, and the few lines for the README of the package. */
import { machine, versions } from './report-machine.ts'
import { figure, verdictOf } from './report-marks.ts'
import type { Section } from './section.ts'

type Cell = string | number

export function resultsPage(sections: readonly Section[]): string {
  return [
    '# Results',
    '`npm run bench` writes this page. [README.md](README.md) says what is measured, and how.',
    table(['', ''], machine()),
    ...sections.flatMap(sectionInMarkdown),
    '## Versions',
    table(['Package', 'Version'], versions()),
    '',
  ]
    .join('\n\n')
    .trimEnd()
    .concat('\n')
}

function sectionInMarkdown({
  title,
  intro,
  columns,
  rows,
  notes = [],
  marks,
  charts = [],
}: Section): string[] {
  return [
    `## ${title}`,
    intro,
    ...charts.map((chart) => `![${chart.title}](charts/${chart.file})`),
    table(columns, rows),
    ...(notes.length > 0 ? [notes.map((note) => `- ${note}`).join('\n')] : []),
    ...(marks.length > 0 ? [marksTable(marks)] : []),
  ]
}

function marksTable(marks: Section['marks']): string {
  const rows = marks.map((mark) => [
    mark.name,
    figure(mark.value),
    figure(mark.limit),
    `× ${mark.room}`,
    verdictOf(mark) + (mark.mayMiss !== undefined && mark.value > mark.limit ? `: ${mark.mayMiss}` : ''),
  ])
  return table(['Mark', 'Measured', 'At most', 'Room for noise', ''], rows)
}

const START = '<!-- bench -->'
const END = '<!-- /bench -->'

/** @returns the README with the summaries between its two marks, or undefined if it has no such marks. */
export function readmeWith(readme: string, sections: readonly Section[]): string | undefined {
  const [start, end] = [readme.indexOf(START), readme.indexOf(END)]
  if (start < 0 || end < start) return undefined
  const tables = sections.flatMap(({ summary }) => (summary ? [table(summary.columns, summary.rows)] : []))
  const facts = new Map(machine())
  const source = `Measured on ${facts.get('Date')} with Node.js ${facts.get('Node.js')} on ${facts.get('Processor')}; all figures are in [bench/RESULTS.md](bench/RESULTS.md).`
  return `${readme.slice(0, start + START.length)}\n${[...tables, source].join('\n\n')}\n${readme.slice(end)}`
}

/** Columns in which each cell begins with a digit stand on the right. */
export function table(columns: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const isNumeric = columns.map(
    (_, nth) =>
      rows.length > 0 && rows.every((row) => /^[-+]?\d/.test(String(row[nth] ?? '')) || row[nth] === ''),
  )
  const line = (cells: readonly Cell[]) => `| ${cells.map((cell) => inCell(cell)).join(' | ')} |`
  const rule = `|${isNumeric.map((numeric) => (numeric ? '---:' : '---')).join('|')}|`
  return [line(columns), rule, ...rows.map(line)].join('\n')
}

function inCell(cell: Cell): string {
  return (typeof cell === 'number' ? figure(cell) : cell).replaceAll('|', '\\|')
}

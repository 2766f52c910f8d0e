/** The compatibility table in Markdown, and its place in a document. */
import type { Result } from './run.ts'

const OPENING = '<!-- runtimes -->'
const CLOSING = '<!-- /runtimes -->'
const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹'

/** One row for each group of checks, one column for each runtime; below it, the differences of the runtimes as notes. */
export function tableOf(results: readonly Result[]): string {
  const notes: string[] = []
  const numberOf = (note: string): number => {
    if (!notes.includes(note)) notes.push(note)
    return notes.indexOf(note) + 1
  }
  const groups = [...new Set(results.flatMap(({ reports }) => reports.map(({ group }) => group)))]
  const rows = groups.map((group) => {
    const cells = results.map(({ reports }) => {
      const ours = reports.filter((report) => report.group === group)
      if (ours.length === 0) return ''
      if (ours.some(({ problem }) => problem !== undefined)) return '✗'
      const numbers = new Set(ours.flatMap(({ differences }) => differences).map(numberOf))
      const mark = ours.some(({ absent }) => absent) ? '–' : '✓'
      return `${mark}${[...numbers].map(superscript).join(' ')}`
    })
    return `| ${[group, ...cells].join(' | ')} |`
  })
  const titles = results.map(({ title }) => title)
  const lines = [`| ${['', ...titles].join(' | ')} |`, `|---|${':---:|'.repeat(titles.length)}`, ...rows]
  const below = notes.map((note, index) => `${superscript(index + 1)} ${note}`)
  return [lines.join('\n'), ...below].join('\n\n')
}

function superscript(number: number): string {
  return [...String(number)].map((digit) => SUPERSCRIPTS[Number(digit)]).join('')
}

/** The table in a document; undefined if the document has no place for one. */
export function tableIn(document: string): string | undefined {
  const place = placeIn(document)
  return place && document.slice(place.from, place.to).trim()
}

/** The document with its table replaced by this one. */
export function withTable(document: string, table: string): string {
  const place = placeIn(document)
  if (place === undefined) return document
  return `${document.slice(0, place.from)}\n\n${table}\n\n${document.slice(place.to)}`
}

function placeIn(document: string): { from: number; to: number } | undefined {
  const opening = document.indexOf(OPENING)
  const to = document.indexOf(CLOSING, opening)
  return opening === -1 || to === -1 ? undefined : { from: opening + OPENING.length, to }
}

/** Whether two tables are equal apart from patch versions. */
export function saysTheSame(one: string, other: string): boolean {
  return withoutPatches(one) === withoutPatches(other)
}

function withoutPatches(table: string): string {
  return table.replace(/\b(\d+\.\d+)\.\d+\b/g, '$1')
}

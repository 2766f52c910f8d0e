/**
 * Makes the tables of docs/faults.md of what the tests told, prints them, and fails the run where the page says
 * something else. `npm run faults` writes it anew.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Reporter, TestModule, Vitest } from 'vitest/node'
import type { ToldCell } from './told.ts'

/** Where the tests are that tell. */
const FOLDERS = ['../faults', '../races', '../fleet'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
)
const FILES = FOLDERS.flatMap((folder) => readdirSync(folder)).filter((name) =>
  name.endsWith('.test.ts'),
).length
const PAGE = fileURLToPath(new URL('../../docs/faults.md', import.meta.url))
const PLACE = /(<!-- begin: ([\w-]+) -->\n)([\s\S]*?)(<!-- end -->)/g
/** These are written by other programs. */
const NOT_OURS = new Set(['soak'])

interface Table {
  readonly columns: string[]
  /** By group, then by row, then by column. */
  readonly groups: Map<string, Map<string, Map<string, string>>>
}

export default class FaultReporter implements Reporter {
  #vitest: Vitest | undefined

  onInit(vitest: Vitest): void {
    this.#vitest = vitest
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const ours = modules
      .filter(({ moduleId }) => FOLDERS.includes(dirname(moduleId)))
      .sort((a, b) => a.moduleId.localeCompare(b.moduleId))
    const tests = ours.flatMap((module) => [...module.children.allTests()])
    const tables = tabulate(tests.flatMap((test) => test.meta().told ?? []))
    for (const [name, table] of tables) console.log(inText(name, table))
    // A part of the tests, or tests that fail, say nothing of the page.
    if (ours.length < FILES || tests.some((test) => test.result().state !== 'passed')) return
    this.#judge(tables)
  }

  #judge(tables: ReadonlyMap<string, Table>): void {
    const page = readFileSync(PAGE, 'utf8')
    const missing = new Set(tables.keys())
    const anew = page.replace(PLACE, (all, begin: string, name: string, _, end: string) => {
      const table = tables.get(name)
      missing.delete(name)
      if (table !== undefined) return `${begin}\n${inMarkdown(table)}\n${end}`
      return NOT_OURS.has(name) ? all : `${begin}${end}`
    })
    if (missing.size > 0) this.#fail(`docs/faults.md has no place for ${[...missing].join(', ')}`)
    else if (anew === page) console.log('docs/faults.md says what these tests found.\n')
    else if (this.#vitest?.config.snapshotOptions.updateSnapshot !== 'all')
      this.#fail('docs/faults.md does not say what these tests found: run `npm run faults`')
    else {
      writeFileSync(PAGE, anew)
      console.log('docs/faults.md is written.\n')
    }
  }

  #fail(why: string): void {
    console.error(`${why}\n`)
    process.exitCode = 1
  }
}

function tabulate(cells: readonly ToldCell[]): Map<string, Table> {
  const tables = new Map<string, Table>()
  for (const { table: name, group = '', row, column, cell } of cells) {
    const table = entry(tables, name, () => ({ columns: [], groups: new Map() }))
    if (!table.columns.includes(column)) table.columns.push(column)
    const rows = entry(table.groups, group, () => new Map<string, Map<string, string>>())
    entry(rows, row, () => new Map<string, string>()).set(column, cell)
  }
  return tables
}

function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

function inMarkdown({ columns, groups }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(escaped).join(' | ')} |`
  const lines = [line(['', ...columns]), `|${' --- |'.repeat(columns.length + 1)}`]
  for (const [group, rows] of groups) {
    if (group !== '') lines.push(line([`**${group}**`, ...columns.map(() => '')]))
    for (const [row, cells] of rows)
      lines.push(line([row, ...columns.map((column) => cells.get(column) ?? '')]))
  }
  return `${lines.join('\n')}\n`
}

function escaped(cell: string): string {
  return cell.replaceAll('|', '\\|')
}

function inText(name: string, { columns, groups }: Table): string {
  const rows = [...groups].flatMap(([group, inGroup]) => [
    ...(group === '' ? [] : [[group]]),
    ...[...inGroup].map(([row, cells]) => [`  ${row}`, ...columns.map((column) => cells.get(column) ?? '')]),
  ])
  const all = [['', ...columns], ...rows]
  const widths = columns.map((_, at) => Math.max(...all.map((cells) => (cells[at] ?? '').length)))
  const lines = all.map((cells) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return `\n${name}\n${lines.join('\n')}\n`
}

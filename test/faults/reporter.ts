/**
 * Builds the tables of docs/faults.md from the cells that tests recorded, and fails the run if the page differs.
 * `npm run faults` writes the page.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Reporter, TestModule, Vitest } from 'vitest/node'
import type { Cell } from './cells.ts'

/** The folders whose tests record cells. */
const FOLDERS = ['../faults', '../clients', '../races', '../fleet'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
)
const FILES = FOLDERS.flatMap((folder) => readdirSync(folder)).filter((name) =>
  name.endsWith('.test.ts'),
).length
const PAGE = fileURLToPath(new URL('../../docs/faults.md', import.meta.url))
const PLACE = /(<!-- begin: ([\w-]+) -->\n)([\s\S]*?)(<!-- end -->)/g
/** Tables that other programs write. */
const OTHERS = new Set(['soak'])

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
    // A partial or failed run proves nothing about the page.
    if (ours.length < FILES || tests.some((test) => test.result().state !== 'passed')) return
    this.#compare(tabulate(tests.flatMap((test) => test.meta().cells ?? [])))
  }

  #compare(tables: ReadonlyMap<string, Table>): void {
    const page = readFileSync(PAGE, 'utf8')
    const missing = new Set(tables.keys())
    const updated = page.replace(PLACE, (all, begin: string, name: string, _, end: string) => {
      const table = tables.get(name)
      missing.delete(name)
      if (table !== undefined) return `${begin}\n${inMarkdown(table)}\n${end}`
      return OTHERS.has(name) ? all : `${begin}${end}`
    })
    if (missing.size > 0) this.#fail(`docs/faults.md has no place for ${[...missing].join(', ')}`)
    else if (updated === page) return
    else if (this.#vitest?.config.snapshotOptions.updateSnapshot === 'all') writeFileSync(PAGE, updated)
    else this.#fail('docs/faults.md differs from what these tests measured: run `npm run faults`')
  }

  #fail(why: string): void {
    console.error(`${why}\n`)
    process.exitCode = 1
  }
}

function tabulate(cells: readonly Cell[]): Map<string, Table> {
  const tables = new Map<string, Table>()
  for (const { table: name, group = '', row, column, cell } of cells) {
    const table = getOrCreate(tables, name, () => ({ columns: [], groups: new Map() }))
    if (!table.columns.includes(column)) table.columns.push(column)
    const rows = getOrCreate(table.groups, group, () => new Map<string, Map<string, string>>())
    getOrCreate(rows, row, () => new Map<string, string>()).set(column, cell)
  }
  return tables
}

function getOrCreate<K, V>(map: Map<K, V>, key: K, make: () => V): V {
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
    const labels = new Map<string, string[]>()
    for (const [row, cells] of rows) {
      const shown = line(columns.map((column) => cells.get(column) ?? ''))
      getOrCreate(labels, shown, () => []).push(escaped(row))
    }
    for (const [shown, alike] of labels) lines.push(`| ${alike.join('; ')} ${shown}`)
  }
  return `${lines.join('\n')}\n`
}

function escaped(cell: string): string {
  return cell.replaceAll('|', '\\|')
}

/**
 * Runs the parts, each in a process of its own, judges the marks, and writes the report.
 *
 * node bench/run.ts [--check] [--only cost,flat]
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { draw } from './chart.ts'
import { readmeWith, resultsPage } from './report.ts'
import { markInText, verdictOf } from './report-marks.ts'
import type { Section } from './section.ts'

/** The order of the report. Parts that are not named here come last. */
const ORDER = ['cost', 'flat', 'steady', 'cold', 'rejected', 'memory', 'start', 'size']

const here = (path: string) => new URL(path, import.meta.url)
const { values } = parseArgs({ options: { check: { type: 'boolean' }, only: { type: 'string' } } })
const only = values.only?.split(',')
const parts = readdirSync(here('parts/'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -'.ts'.length))
  .sort((a, b) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1))
const chosen = parts.filter((name) => !only || only.includes(name))
if (chosen.length === 0) throw new Error(`--only takes names out of ${parts.join(', ')}`)

const startedAt = performance.now()
const sections: Section[] = []
const failed: string[] = []
for (const name of chosen) {
  console.log(`\n${name} (${seconds()} s)`)
  try {
    const yielded = await runPart(name)
    sections.push(...yielded)
    for (const mark of yielded.flatMap(({ marks }) => marks)) console.log(`  ${markInText(mark)}`)
  } catch (error) {
    failed.push(name)
    console.error(`The part ${name} failed: ${error instanceof Error ? error.message : error}`)
  }
}

const marks = sections.flatMap((section) => section.marks)
const missed = marks.filter((mark) => verdictOf(mark) === 'missed')
if (!values.check && !only && failed.length === 0) writeReport()
for (const mark of missed) console.error(`Missed: ${mark.name}`)
if (failed.length > 0) console.error(`Failed: ${failed.join(', ')}`)
console.log(`\n${marks.length} marks, ${missed.length} missed, after ${seconds()} s`)
process.exitCode = missed.length + failed.length > 0 ? 1 : 0

async function runPart(name: string): Promise<readonly Section[]> {
  const child = spawn(process.execPath, ['--expose-gc', fileURLToPath(here(`parts/${name}.ts`))], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, BENCH_CHECK: values.check ? '1' : '' },
  })
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const [output, code] = await Promise.all([text(child.stdout), exited])
  if (code !== 0) throw new Error(`its process ended with ${code}`)
  const result = JSON.parse(output) as Section | readonly Section[]
  return Array.isArray(result) ? (result as readonly Section[]) : [result as Section]
}

function writeReport(): void {
  mkdirSync(here('charts/'), { recursive: true })
  for (const chart of sections.flatMap(({ charts = [] }) => charts)) {
    writeFileSync(here(`charts/${chart.file}`), draw(chart))
  }
  writeFileSync(here('RESULTS.md'), resultsPage(sections))
  console.log('\nbench/RESULTS.md and bench/charts/ are written.')
  const readme = here('../README.md')
  const changed = existsSync(readme) ? readmeWith(readFileSync(readme, 'utf8'), sections) : undefined
  if (changed === undefined) return
  writeFileSync(readme, changed)
  console.log('README.md has the summary.')
}

function placeOf(name: string): number {
  const place = ORDER.indexOf(name)
  return place < 0 ? ORDER.length : place
}

function seconds(): number {
  return Math.round((performance.now() - startedAt) / 1_000)
}

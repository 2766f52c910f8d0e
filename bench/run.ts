/** Runs the parts, each in a process of its own, judges the checks, and writes the report. `--help` lists the options. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Section } from './part.ts'
import { checkInText, figuresOf, isMissed, resultsPage } from './report.ts'

const PARTS = ['price', 'cost', 'matrix', 'size']
/** The one that is precise beside other programs. Tests count requests and failures; `npm run check:package` limits sizes. */
const PARTS_IN_CHECK = ['cost']
/** Those that measure the earlier build, too. */
const PARTS_AGAINST = ['price', 'cost']
const HELP = `npm run bench [-- OPTIONS]

Measures this package and its peers, on two cores that do nothing else.
Writes bench/RESULTS.md.

  --check           ${PARTS_IN_CHECK.join(', ')}, in short, for CI; writes nothing
  --against FOLDER  this build beside an earlier one, a folder with package.json and dist; writes nothing
  --only A,B        some of the parts; prints their figures, writes nothing:
                    ${PARTS.join(', ')}
  --help            this text
`
/** How often a part is measured, at most, until none of its ratios misses. The report shows a single run. */
const ATTEMPTS = { check: 3, against: 3, full: 1 }

const here = (path: string) => new URL(path, import.meta.url)
const { values } = parseArgs({
  options: {
    check: { type: 'boolean' },
    against: { type: 'string' },
    only: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (values.help) {
  process.stdout.write(HELP)
  process.exit()
}
const mode = values.against !== undefined ? 'against' : values.check ? 'check' : 'full'
const known = { full: PARTS, check: PARTS_IN_CHECK, against: PARTS_AGAINST }[mode]
const only = values.only?.split(',') ?? known
const unknown = only.filter((name) => !known.includes(name))
if (unknown.length > 0) throw new Error(`--only takes ${known.join(', ')}, not ${unknown.join(', ')}`)

const sections: Section[] = []
const failed: string[] = []
for (const name of known.filter((one) => only.includes(one))) {
  console.log(`\n${name} (${seconds()} s)`)
  try {
    const yielded = await measure(name)
    sections.push(...yielded)
    if (values.only !== undefined) for (const section of yielded) console.log(`\n${figuresOf(section)}\n`)
    for (const check of yielded.flatMap(({ checks }) => checks)) console.log(`  ${checkInText(check)}`)
  } catch (error) {
    failed.push(name)
    console.error(`The part ${name} failed: ${error instanceof Error ? error.message : error}`)
  }
}

const checks = sections.flatMap((section) => section.checks)
const missed = checks.filter(isMissed)
if (mode === 'full' && values.only === undefined && failed.length === 0) await writeReport()
for (const { name } of missed) console.error(`Missed: ${name}`)
if (failed.length > 0) console.error(`Failed: ${failed.join(', ')}`)
console.log(`\n${checks.length} checks, ${missed.length} missed, after ${seconds()} s`)
process.exitCode = missed.length + failed.length > 0 ? 1 : 0

/** A check misses where it misses in every attempt: only ratios are measured again. */
async function measure(name: string): Promise<Section[]> {
  let measured = await runPart(name)
  for (let attempt = 1; attempt < ATTEMPTS[mode]; attempt += 1) {
    const noisy = measured.flatMap((section) => section.checks).filter(isMissed)
    if (noisy.length === 0) break
    for (const check of noisy) console.log(`  measured once more: ${checkInText(check)}`)
    const again = await runPart(name)
    const checksAgain = new Map(
      again.flatMap((section) => section.checks).map((check) => [check.name, check.value]),
    )
    measured = measured.map((section) => ({
      ...section,
      checks: section.checks.map((check) => ({
        ...check,
        value: Math.min(check.value, checksAgain.get(check.name) ?? Number.NaN),
      })),
    }))
  }
  return measured
}

async function runPart(name: string): Promise<Section[]> {
  const child = spawn(process.execPath, ['--no-warnings', fileURLToPath(here(`parts/${name}.ts`))], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, BENCH_MODE: mode },
  })
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const [output, code] = await Promise.all([text(child.stdout), exited])
  if (code !== 0) throw new Error(`its process ended with code ${code}`)
  return JSON.parse(output) as Section[]
}

async function writeReport(): Promise<void> {
  writeFileSync(here('RESULTS.md'), resultsPage(sections, Math.ceil(seconds() / 60)))
  console.log('\nbench/RESULTS.md is written.')
}

function seconds(): number {
  return Math.round(performance.now() / 1_000)
}

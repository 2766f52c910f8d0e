/**
 * Tests the packed package in every supported runtime: Node.js (the oldest and the newest 22, 24, 26), Bun and
 * Deno. Prints a table, and compares it with the one in docs/compatibility.md.
 *
 * npm run test:runtimes [-- --update]     --update: writes the table there
 */
import { rmSync } from 'node:fs'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import { installPackage, installRuntimes } from '../test/runtimes/install.ts'
import { type Result, runSuite } from '../test/runtimes/run.ts'
import { installedRuntimes, type Runtime } from '../test/runtimes/runtimes.ts'
import { saysTheSame, tableIn, tableOf, withTable } from '../test/runtimes/table.ts'

const PAGE = 'docs/compatibility.md'
const page = new URL(`../${PAGE}`, import.meta.url)
const AT_ONCE = 2

const { update } = parseArgs({ options: { update: { type: 'boolean', default: false } } }).values

// The child processes end with this one.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1))

const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-runtimes-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
process.exitCode = (await testRuntimes()) ? 0 : 1

async function testRuntimes(): Promise<boolean> {
  console.log('Installing the runtimes (about 850 MB on the disk, the first time) and the packed package …')
  const [suite] = await Promise.all([installPackage(folder), installRuntimes()])
  const { runtimes, missing } = installedRuntimes(folder)
  const results = await runAll(runtimes, suite)
  const table = tableOf(results)
  console.log(`\n${table}\n`)
  for (const name of missing) console.log(`Not run: the registry has no ${name}.`)
  const problems = results.flatMap(problemsOf)
  for (const problem of problems) console.error(`${problem}\n`)
  if (problems.length > 0) return false
  return await compare(table, missing.length === 0)
}

async function runAll(runtimes: readonly Runtime[], suite: string): Promise<Result[]> {
  const runOne = async (runtime: Runtime): Promise<Result> => {
    const home = await mkdtemp(join(folder, 'home-'))
    const result = await runSuite(runtime, { suite, home })
    const failed = problemsOf(result).length
    const verdict = failed === 0 ? 'all good' : `${failed} failed`
    console.log(`${result.title}: ${result.reports.length} checks in ${result.ms} ms, ${verdict}`)
    return result
  }
  return await Readable.from(runtimes).map(runOne, { concurrency: AT_ONCE }).toArray()
}

function problemsOf({ title, reports }: Result): string[] {
  return reports.flatMap(({ group, name, problem }) =>
    problem === undefined ? [] : [`✗ ${title} · ${group} · ${name}\n${problem}`],
  )
}

/** Whether the page has this table. With --update it is written there. */
async function compare(table: string, complete: boolean): Promise<boolean> {
  const text = await readFile(page, 'utf8')
  const known = tableIn(text)
  if (known === undefined) {
    console.log(`${PAGE} has no place for this table.`)
    return true
  }
  if (!complete || process.platform !== 'linux' || process.arch !== 'x64') {
    console.log(`Not compared with ${PAGE}, whose versions are those of Linux on x64.`)
    return !update
  }
  if (update) {
    await writeFile(page, withTable(text, table))
    console.log(`Written to ${PAGE}.`)
    return true
  }
  if (saysTheSame(known, table)) return true
  console.error(`${PAGE} has another table. Write this one there: npm run test:runtimes -- --update`)
  return false
}

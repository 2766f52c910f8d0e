/**
 * Halves the limits of test/limits.ts in a copy of the tree, and prints which tests notice it: the one that proves the limit, and
 * test/limits.test.ts where docs/behavior.md states it. No other test may know a limit's value.
 *
 * npm run test:limits: all limits at once for the tests that prove none, then one after the other for those that prove some
 * npm run test:limits -- MAX_GAP_MS: this one, for all tests
 */
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { constantsIn, LIMITS, type Limit } from '../test/limits.ts'
import { root } from './check-package/packed.ts'

/** Seconds each, without servers and processes of their own. The races state promises, and no limit. */
const FOLDERS = '{attach,base,events,exploration,opentelemetry,options,scenarios,store,testing,token}'
const COPIED = ['{src,test,scripts,docs,examples}', '*.{json,jsonc,ts,md}']
const PAGE = 'test/limits.test.ts'

interface Report {
  readonly testResults: readonly { readonly name: string; readonly status: string }[]
}

const copy = mkdtempSync(join(tmpdir(), 'halved-limits-'))
const proving = [...new Set([PAGE, ...LIMITS.map(({ test }) => `test/${test}`)])]
const others = globSync(`test/${FOLDERS}/**/*.test.ts`, { cwd: root }).filter(
  (file) => !proving.includes(file),
)

/** Halves these limits; resolves with the test files that fail. */
function failing(limits: readonly Limit[], files: readonly string[]): string[] {
  const report = join(copy, 'report.json')
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const options = ['--project', 'tests', '--bail', '0', '--reporter', 'json', '--outputFile', report]
  rmSync(report, { force: true })
  for (const limit of limits) halve(limit)
  try {
    spawnSync(process.execPath, [vitest, 'run', ...options, ...files], { cwd: copy })
  } finally {
    for (const { file } of limits) cpSync(join(root, 'src', file), join(copy, 'src', file))
  }
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report
  return testResults.filter(({ status }) => status !== 'passed').map(({ name }) => relative(copy, name))
}

function halve({ name, file }: Limit): void {
  const path = join(copy, 'src', file)
  const value = Number(constantsIn(file).get(name))
  const half = value === 2 ? 4 : Number.isInteger(value) ? Math.ceil(value / 2) : value / 2 // once is no count
  const definition = new RegExp(`^((?:export )?const ${name}(?:: number)? =)\\s.+$`, 'm')
  writeFileSync(path, readFileSync(path, 'utf8').replace(definition, `$1 ${half}`))
}

function print(what: string, failed: readonly string[], expected: readonly string[]): void {
  const isExpected = failed.length === expected.length && expected.every((file) => failed.includes(file))
  console.log(`${isExpected ? '✓' : '✗'} ${what}: ${failed.join(', ') || 'no test fails'}`)
  if (!isExpected) process.exitCode = 1
}

try {
  for (const path of COPIED.flatMap((pattern) => globSync(pattern, { cwd: root })))
    cpSync(join(root, path), join(copy, path), {
      recursive: true,
      filter: (from) => !from.endsWith('node_modules'),
    })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const names = process.argv.slice(2)
  if (names.length === 0) print('all limits, tests that prove none', failing(LIMITS, others), [])
  for (const limit of LIMITS.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const { name, file, test, phrases } = limit
    const failed = failing([limit], names.length === 0 ? proving : [...proving, ...others])
    print(`${name} (${file})`, failed, phrases.length > 0 ? [`test/${test}`, PAGE] : [`test/${test}`])
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}

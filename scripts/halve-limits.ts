/**
 * `npm run test:limits`: halves the limits of test/limits.ts in a copy of the tree, and checks that only the test that proves a
 * limit notices, and test/limits.test.ts where docs/behavior.md states it.
 *
 * To take minutes, it halves all limits at once for the tests that prove none, and all but its own for each test that proves some.
 * Then it halves each limit by itself, for the test that proves it. With the names of limits as arguments, it halves only
 * these, one after the other, for all tests.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { constantsIn, LIMITS, type Limit } from '../test/limits.ts'
import { root } from './packed.ts'

/** Seconds each. The races state promises, and no limit. */
const FOLDERS = '{attach,base,events,exploration,opentelemetry,options,scenarios,store,testing,token}'
const COPIED = ['{src,test,scripts,docs,examples}', '*.{json,jsonc,ts,md}']
const PAGE = 'test/limits.test.ts'

interface Report {
  readonly testResults: readonly { readonly name: string; readonly status: string }[]
}

const copy = mkdtempSync(join(tmpdir(), 'halved-limits-'))
const proving = [...new Set(LIMITS.map(({ test }) => `test/${test}`))]
/** A service whose published quotas a shorter pause would spend, and real time that a busy machine takes. */
const EXCLUDED = [
  'test/token/refused-requests.test.ts',
  'test/store/file-lease.test.ts',
  'test/base/node-version.test.ts',
]
const others = globSync(`test/${FOLDERS}/**/*.test.ts`, { cwd: root }).filter(
  (file) => ![...proving, ...EXCLUDED].includes(file),
)

/** Halves these limits; returns the test files that fail. */
function failing(limits: readonly Limit[], files: readonly string[]): string[] {
  const report = join(copy, 'report.json')
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const output = ['--bail', '0', '--reporter', 'json', '--outputFile', report]
  const options = ['--project', '!installed', '--testTimeout', '180000', ...output]
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
  const expectedFor = ({ test, phrases }: Limit): string[] => [
    `test/${test}`,
    ...(phrases.length > 0 ? [PAGE] : []),
  ]
  for (const limit of LIMITS.filter(({ name }) => names.includes(name)))
    print(limit.name, failing([limit], [...proving, ...others, PAGE]), expectedFor(limit))
  if (names.length === 0) {
    print('all limits, the tests that prove none', failing(LIMITS, others), [])
    for (const file of proving) {
      const notItsOwn = LIMITS.filter(({ test }) => `test/${test}` !== file)
      print(`all other limits, ${file}`, failing(notItsOwn, [file]), [])
    }
    for (const limit of LIMITS)
      print(limit.name, failing([limit], [...expectedFor(limit), PAGE]), expectedFor(limit))
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}

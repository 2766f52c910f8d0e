/**
 * `npm run test:limits`: halves each limit of test/limits.ts in a copy of the tree, one at a time, and prints which tests fail.
 * That is the test that proves it, and test/limits.test.ts where docs/behavior.md states it, and no other one. Arguments are the
 * names of limits, to try only those.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { constantsIn, LIMITS, type Limit } from '../test/limits.ts'
import { root } from './check-package/packed.ts'

/** What runs in a few seconds and asks for tokens. The races state promises, and no limit. */
const TESTS = [
  'attach',
  'base',
  'events',
  'exploration',
  'options',
  'scenarios',
  'store',
  'token',
  'limits.test.ts',
]
const COPIED = ['src', 'test', 'scripts', 'docs', 'examples', '*.json', '*.ts', '*.md']

interface Report {
  readonly testResults: readonly { readonly name: string; readonly status: string }[]
}

const copy = mkdtempSync(join(tmpdir(), 'halved-limits-'))

/** The files with a test that fails. */
function failing(): string[] {
  const output = join(copy, 'report.json')
  const folders = TESTS.map((name) => `test/${name}`)
  const options = ['--reporter', 'json', '--outputFile', output, '--testTimeout', '30000']
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  rmSync(output, { force: true })
  spawnSync(process.execPath, [vitest, 'run', '--bail', '0', ...options, ...folders], { cwd: copy })
  const { testResults } = JSON.parse(readFileSync(output, 'utf8')) as Report
  return testResults.filter(({ status }) => status !== 'passed').map(({ name }) => relative(copy, name))
}

function halve({ name, file }: Limit): string[] {
  const path = join(copy, 'src', file)
  const source = readFileSync(path, 'utf8')
  const value = constantsIn(file).get(name) as number
  const half = Number.isInteger(value) ? Math.floor(value / 2) : value / 2
  const definition = new RegExp(`^((?:export )?const ${name}(?:: number)? = ).+$`, 'm')
  writeFileSync(path, source.replace(definition, `$1${half}`))
  try {
    return failing()
  } finally {
    writeFileSync(path, source)
  }
}

try {
  for (const pattern of COPIED)
    for (const name of globSync(pattern, { cwd: root }))
      cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const given = process.argv.slice(2)
  for (const limit of LIMITS.filter(({ name }) => given.length === 0 || given.includes(name))) {
    const failed = halve(limit)
    const proving = `test/${limit.test}`
    const expected = limit.phrases.length > 0 ? [proving, 'test/limits.test.ts'] : [proving]
    const isAsExpected = failed.length === expected.length && expected.every((name) => failed.includes(name))
    console.log(
      `${isAsExpected ? '✓' : '✗'} ${limit.name} (${limit.file}): ${failed.join(', ') || 'nothing fails'}`,
    )
    if (!isAsExpected) process.exitCode = 1
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}

/**
 * Builds dist: declarations by tsc, code by scripts/bundle.ts. A dist that is up to date stays as it is, so that scripts
 * that build first lose no time and do not remove it while other programs use it.
 *
 * npm run build [-- --force]
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const stamp = join(root, 'node_modules/.cache/merchant-auth-build.json')
const MADE_OF = [
  'src/**/*.ts',
  'scripts/{build,bundle}.ts',
  'scripts/check-package/*.ts',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
]
const MADE = ['dist/**/*.*', 'THIRD-PARTY-LICENSES.md']

const { values } = parseArgs({ options: { force: { type: 'boolean' } } })
if (values.force !== true && existsSync(stamp) && readFileSync(stamp, 'utf8') === state()) {
  console.log('dist is up to date.')
} else {
  rmSync(stamp, { force: true })
  rmSync(join(root, 'dist'), { recursive: true, force: true }) // no file may stay whose source was deleted
  run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json')
  run('scripts/bundle.ts')
  mkdirSync(dirname(stamp), { recursive: true })
  writeFileSync(stamp, state())
}

/** The hashes of the sources and of dist. */
function state(): string {
  return JSON.stringify({ of: hashOf(MADE_OF), is: hashOf(MADE) })
}

function hashOf(patterns: readonly string[]): string {
  const hash = createHash('sha256')
  for (const path of globSync([...patterns], { cwd: root }).sort()) {
    hash.update(`${path}\0`).update(readFileSync(join(root, path)))
  }
  return hash.digest('hex')
}

function run(...args: readonly string[]): void {
  const { status, error } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' })
  if (error) throw error
  if (status !== 0) process.exit(1)
}

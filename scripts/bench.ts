/**
 * Installs what is measured, this package as it would be published too, and runs the benchmark. `npm ci` alone does not
 * install a packed build, nor an earlier one beside it.
 *
 * npm run bench [-- --check] [-- --against FOLDER] [-- --only price,cost] [-- --help]
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { isInstalled, output, pack, root } from './packed.ts'

const { values } = parseArgs({
  options: {
    check: { type: 'boolean' },
    against: { type: 'string' },
    only: { type: 'string' },
    help: { type: 'boolean' },
  },
})
const bench = join(root, 'bench')
if (values.help !== true) await install()
const run = [join(bench, 'run.ts'), ...process.argv.slice(2)]
process.exitCode = spawnSync(process.execPath, run, { stdio: 'inherit' }).status ?? 1

async function install(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'merchant-auth-bench-'))
  try {
    const tarballs = [(await pack(join(folder, 'now'))).tarball]
    if (values.against !== undefined)
      tarballs.push(
        `merchant-auth-before@file:${(await pack(join(folder, 'before'), resolve(values.against))).tarball}`,
      )
    if (!isInstalled(bench)) await npm('ci')
    await npm('install', '--no-save', '--no-package-lock', ...tarballs)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Runs npm in `bench`. An installation that hangs, as npm's sometimes do, is ended and tried once more. */
async function npm(...args: readonly string[]): Promise<void> {
  const options = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
  const run = (): Promise<string> => output(bench, ['npm', ...args, ...options])
  await run().catch(run)
}

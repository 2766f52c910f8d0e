/**
 * Installs what is measured, this package as it would be published too, and runs the benchmark.
 *
 * npm run bench [-- --check] [-- --only cost,flat]
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const bench = join(root, 'bench')
const packed = mkdtempSync(join(tmpdir(), 'merchant-auth-bench-'))
const quiet = ['--no-audit', '--no-fund', '--loglevel', 'error']

try {
  // Built already. Its dist is not removed and built anew under whoever reads it.
  npm(['pack', '--ignore-scripts', '--pack-destination', packed, '--silent'], root)
  const tarball = readdirSync(packed).find((name) => name.endsWith('.tgz'))
  if (!tarball) throw new Error('npm pack wrote no tarball')
  npm(['ci', ...quiet], bench)
  npm(['install', '--no-save', '--no-package-lock', ...quiet, join(packed, tarball)], bench)
} finally {
  rmSync(packed, { recursive: true, force: true })
}
const { status } = spawnSync(process.execPath, [join(bench, 'run.ts'), ...process.argv.slice(2)], {
  stdio: 'inherit',
})
process.exitCode = status ?? 1

function npm(args: readonly string[], cwd: string): void {
  const { status, error } = spawnSync('npm', args, {
    cwd,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  if (error) throw error
  if (status !== 0) throw new Error(`npm ${args[0]} in ${cwd} ended with ${status}`)
}

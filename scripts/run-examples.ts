// Runs every example but the demo, one after the other. Fails if one fails, or takes longer than 20 s.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const LIMIT_MS = 20_000

const root = fileURLToPath(new URL('../', import.meta.url))
const names = readdirSync(new URL('../examples/', import.meta.url))
  .filter((name) => name.endsWith('.ts') && name !== 'demo.ts')
  .sort()
const failed: string[] = []

for (const name of names) {
  console.log(`\n--- examples/${name}`)
  const { status, signal, error } = spawnSync(process.execPath, [`examples/${name}`], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
  })
  if (status === 0) continue
  const timedOut = (error as NodeJS.ErrnoException | undefined)?.code === 'ETIMEDOUT'
  failed.push(
    `${name} (${timedOut ? `longer than ${LIMIT_MS / 1000} s` : (signal ?? `exit code ${status}`)})`,
  )
}

console.log(
  failed.length === 0 ? `\nAll ${names.length} examples ran well.` : `\nFailed: ${failed.join(', ')}`,
)
process.exitCode = failed.length === 0 && names.length > 0 ? 0 : 1

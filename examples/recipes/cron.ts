/** A cron job by the command: each run is a process of its own, and the second one finds the token in the directory. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startSandbox } from 'merchant-auth/testing'

/** What `npx merchant-auth` starts. */
const COMMAND = fileURLToPath(new URL('dist/cli/main.js', import.meta.resolve('merchant-auth/package.json')))

await using sandbox = await startSandbox()
const folder = mkdtempSync(join(tmpdir(), 'cron-'))
try {
  const headers: string[] = []
  for (const run of [1, 2]) {
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [COMMAND, 'token', '--header', '--store', join(folder, 'tokens')],
      { env: { ...process.env, ...sandbox.test.variables } },
    )
    assert.equal(stderr, '')
    const [name = '', value = ''] = stdout.trim().split(': ')
    const { status } = await fetch(`${sandbox.test.merchantUrl}/orders`, { headers: { [name]: value } })
    assert.equal(status, 200)
    console.log(`Run ${run}: ${status}, ${sandbox.test.counts.token} token request`)
    headers.push(stdout)
  }
  assert.equal(headers[0], headers[1])
  assert.equal(sandbox.test.counts.token, 1)
} finally {
  rmSync(folder, { recursive: true })
}

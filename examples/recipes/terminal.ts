/** A terminal that restarts: its token is in a file, so that a restart costs no token request. It starts five times. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startSandbox } from 'merchant-auth/testing'

/** One sale. Then it waits for its end. */
async function runTerminal(): Promise<void> {
  const { sell, tokens } = await import('./parts/terminal.ts')
  const { status } = await sell(1_200)
  process.once('message', () => tokens.close().then(() => process.disconnect())) // the token is in the file
  process.send?.(status)
}

async function run(): Promise<void> {
  await using sandbox = await startSandbox()
  const folder = mkdtempSync(join(tmpdir(), 'terminal-'))
  const env = { ...process.env, ...sandbox.test.variables, STATE_DIRECTORY: folder }
  const start = async (end: 'shutdown' | 'power failure'): Promise<void> => {
    const terminal = fork(new URL(import.meta.url), { env })
    const [status] = await once(terminal, 'message')
    assert.equal(status, 200)
    if (end === 'shutdown') terminal.send(end)
    else terminal.kill('SIGKILL')
    await once(terminal, 'exit')
    const { token, 'in-store': sales } = sandbox.test.counts
    console.log(`${sales} start(s), the last one ended by ${end}: ${token} token request(s)`)
  }

  try {
    await start('shutdown')
    await start('power failure')
    await start('shutdown')
    assert.equal(sandbox.test.counts.token, 1)

    const [name = '', ...others] = readdirSync(folder)
    assert.deepEqual(others, [])
    const file = join(folder, name)
    assert.match(readFileSync(file, 'utf8'), /^{"value":"ey[\w-]+\.\.[\w-]+\.[\w-]+\.[\w-]+","endsAt":\d+}$/)
    if (process.platform !== 'win32') assert.equal(statSync(file).mode & 0o777, 0o600)

    truncateSync(file, 40)
    await start('shutdown')
    assert.equal(sandbox.test.counts.token, 2, 'a damaged file costs one token request')
    await start('shutdown')
    assert.equal(sandbox.test.counts.token, 2, 'and is replaced')
  } finally {
    rmSync(folder, { recursive: true })
  }
}

await (process.send === undefined ? run() : runTerminal())

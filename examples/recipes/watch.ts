/**
 * Development with `node --watch-path`: a service that is changed five times, or as often as the first argument says, restarts as
 * often, and makes one token request.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createAuthFetch } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'

const RESTARTS = Number(process.argv[2] ?? 5)

/** The service. It makes a call when it starts. */
async function serve(version: string): Promise<void> {
  const { environment, tokens } = await import('./parts/file-tokens.ts')
  const server = createServer().listen(0, '127.0.0.1')
  process.once('SIGTERM', () => server.close(() => tokens.close())) // the token is in the file
  const { status } = await createAuthFetch(tokens)(`${environment.apiUrls.merchant}/orders`)
  console.log(`version ${version}: ${status}`)
}

/** The developer, who saves a new version when the last one has made its call. */
async function run(): Promise<void> {
  await using sandbox = await startSandbox()
  const folder = mkdtempSync(join(tmpdir(), 'watch-'))
  const home = mkdtempSync(join(tmpdir(), 'watch-home-'))
  const save = (version: number): void => {
    const program = `process.env.SAVED_VERSION = '${version}'\nawait import('${import.meta.url}')\n`
    writeFileSync(join(folder, 'service.mjs'), program)
  }
  save(0)
  const watcher = spawn(process.execPath, ['--watch-path=.', '--watch-preserve-output', 'service.mjs'], {
    cwd: folder,
    env: { ...process.env, ...sandbox.test.variables, HOME: home, USERPROFILE: home },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(watcher, 'exit')
  try {
    let version = 0
    for await (const line of createInterface(watcher.stdout)) {
      if (line !== `version ${version}: 200`) continue
      if (version === RESTARTS) break
      version += 1
      save(version)
    }
    const { token, merchant } = sandbox.test.counts
    console.log(`${version} restarts, ${merchant} calls, ${token} token request`)
    assert.deepEqual({ version, token, merchant }, { version: RESTARTS, token: 1, merchant: RESTARTS + 1 })
  } finally {
    watcher.kill()
    await ended
    for (const path of [folder, home]) rmSync(path, { recursive: true })
  }
}

const { SAVED_VERSION: version } = process.env
await (version === undefined ? run() : serve(version))

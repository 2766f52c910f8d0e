/** The file store with real processes, which are killed, and with file systems that are full or read-only. */
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createFileTokenStore } from 'merchant-auth/file'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { eventually } from '../store/contract.ts'
import { failuresOf } from '../store/fleet.ts'
import { expectShared, startWorker } from '../store/processes.ts'
import type { Message } from '../store/worker.ts'
import { isWindows } from '../support/platform.ts'
import { type Rig, rig } from '../token/harness.ts'

const AT_ONCE = 4
const KILLS = inject('deep') ? 200 : 12
const TIMEOUT_MS = 2_000

const folders: string[] = []
const mounts: string[] = []
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'file-processes-'))
  folders.push(folder)
  return folder
}
afterEach(() => {
  for (const folder of mounts.splice(0)) spawnSync('umount', [folder])
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** The names of all files in a directory. */
function filesIn(directory: string): string[] {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  )
  return files.map(({ name }) => name)
}

it('real processes share one token request through a directory', async () => {
  await expectShared({ directory: newFolder() })
})

it('processes that are killed at any moment leave no damaged entry, no lease for longer than its time, and no files', async () => {
  await using sandbox = await startSandbox({ lifetimeSeconds: 1, tokenLatencyMs: 20 })
  const directory = newFolder()
  const { environment, clientId, clientSecret } = sandbox.test
  const work = {
    store: { directory },
    options: { environment, clientId, clientSecret, timeoutMs: TIMEOUT_MS },
  }
  const messages: Message[] = []
  let kills = 0
  const killAgainAndAgain = async (): Promise<void> => {
    while (kills < KILLS) {
      kills += 1
      const child = startWorker(work, (message) => messages.push(message))
      await once(child, 'message')
      await sleep(Math.random() * 800)
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, killAgainAndAgain))

  // On a busy machine a token request may take longer than its token lives.
  const failures = messages.flatMap((message) => ('failure' in message ? [message.failure] : []))
  expect(failures.filter((failure) => inject('quiet') || failure.includes('UNREADABLE'))).toEqual([])
  const waits = messages.map((message) => ('tookMs' in message ? message.tookMs : 0))
  // A lease lives for `timeoutMs`, a quarter more is for the request of the next holder, and then everybody makes its own.
  if (inject('quiet')) expect(Math.max(...waits)).toBeLessThan(2 * TIMEOUT_MS)
  const left = filesIn(directory)
  // The token and its lease, the last holder's and the next one's, and what the last processes were writing.
  expect(left.length).toBeLessThanOrEqual(4 + AT_ONCE)
  console.log(
    `${kills} kills: ${messages.length} tokens seen, ${sandbox.test.counts.token} token requests, longest wait ` +
      `${Math.round(Math.max(...waits))} ms, files: ${left.length}`,
  )
})

describe('a script that exits as soon as it has its token, or an error,', () => {
  const SCRIPT = `
    import { createTokenProvider, optionsFromEnv } from '${new URL('../../src/index.ts', import.meta.url)}'
    await createTokenProvider({ ...optionsFromEnv(), retries: 0 }).getToken().catch(() => {})
    process.exit()`

  async function run(sandbox: Sandbox, directory: string): Promise<void> {
    const env = { ...process.env, ...sandbox.test.variables, MERCHANT_AUTH_STORE: directory }
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', SCRIPT], { env })
  }

  it('leaves its token to the next one', async () => {
    await using sandbox = await startSandbox({ tokenLatencyMs: 20 })
    const directory = newFolder()
    for (let starts = 0; starts < 3; starts += 1) await run(sandbox, directory)
    expect(sandbox.test.counts.token).toBe(1)
  })

  it('leaves the pause after a 429 to the next one', async () => {
    await using sandbox = await startSandbox()
    sandbox.test.fail('token', { kind: 'status', status: 429, retryAfter: 3_600 })
    const directory = newFolder()
    for (let starts = 0; starts < 3; starts += 1) await run(sandbox, directory)
    expect(sandbox.test.counts.token).toBe(1)
  })

  it('ends that pause for the next one with its token', async () => {
    await using sandbox = await startSandbox({ lifetimeSeconds: 1 })
    const directory = newFolder()
    for (let pauses = 1; pauses <= 2; pauses += 1) {
      sandbox.test.fail('token', { kind: 'status', status: 429, retryAfter: 1 })
      await run(sandbox, directory)
      await sleep(1_000) // as named: the second 429 is not a further one in a row
      await run(sandbox, directory)
      expect(sandbox.test.counts.token).toBe(2 * pauses)
      await sleep(1_000) // the token expires
    }
  })

  it('leaves no lease to wait for, and removes the one before', async () => {
    await using sandbox = await startSandbox()
    sandbox.test.fail('token', { kind: 'status', status: 400 }, { times: 3 })
    const directory = newFolder()
    for (let starts = 0; starts < 3; starts += 1) await run(sandbox, directory)
    expect(sandbox.test.counts.token).toBe(3)
    const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    const leases = names.filter((name) => name.endsWith('.lease'))
    expect(leases.map((name) => readFileSync(join(directory, name), 'utf8'))).toEqual([
      expect.stringMatching(/^released/),
    ])
  })
})

describe('a directory that cannot be used fails no call, and each failure is an event:', () => {
  /** A small file system in memory, if this user may mount one. */
  function mounted(options: string): string | undefined {
    const folder = newFolder()
    const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `${options},mode=0700`, 'tmpfs', folder])
    if (status !== 0) return undefined
    mounts.push(folder)
    return folder
  }

  /** Expects these failures of a process's first acquisition. Nobody waits for a write while the store fails. */
  const expectFailures = async (directory: string, failures: readonly string[]): Promise<void> => {
    const { provider, events }: Rig = rig([], { clock: undefined, store: createFileTokenStore(directory) })
    expect((await provider.getToken()).value).toMatch(/^head\.body/)
    const found = (): string[] => failuresOf(events).map(({ operation, code }) => `${operation} ${code}`)
    await eventually('the failures', async () => found().length >= failures.length)
    await provider.close()
    expect(found()).toEqual(failures)
  }

  it('a full disk', async ({ skip }) => {
    const folder = mounted('size=32k')
    if (folder === undefined) return skip('only root can mount a file system')
    expect(() => writeFileSync(join(folder, 'full'), Buffer.alloc(64 * 1_024))).toThrow('ENOSPC')
    await expectFailures(folder, ['lease ENOSPC', 'set ENOSPC'])
    expect(filesIn(folder)).toEqual(['full'])
    rmSync(join(folder, 'full'))
    await expectFailures(folder, [])
  })

  it('a read-only file system', async ({ skip }) => {
    const folder = mounted('size=1m')
    if (folder === undefined) return skip('only root can mount a file system')
    spawnSync('mount', ['-o', 'remount,ro', folder])
    await expectFailures(folder, ['lease EROFS', 'set EROFS'])
  })

  it('a file in its place', async () => {
    const path = join(newFolder(), 'file')
    writeFileSync(path, '')
    // On Windows, what is not there can be read, but not written.
    await expectFailures(path, [isWindows ? 'lease ENOTDIR' : 'get ENOTDIR', 'set ENOTDIR'])
  })

  it.skipIf(isWindows || process.getuid?.() === 0)('no permission (Windows has no modes)', async () => {
    const folder = newFolder()
    chmodSync(folder, 0o500)
    await expectFailures(folder, ['lease EACCES', 'set EACCES'])
    chmodSync(folder, 0o700)
  })

  it('a damaged entry, which is replaced', async () => {
    const folder = newFolder()
    await expectFailures(folder, [])
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
      if (/\.(?:entry|lease)$/.test(name)) writeFileSync(join(folder, name), 'foreign')
    await expectFailures(folder, ['get UNREADABLE', 'get UNREADABLE'])
    await expectFailures(folder, [])
  })
})

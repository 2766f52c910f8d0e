// The program: exit codes, signals, files that are pipes, and output that cannot be written.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'
import { isWindows } from '../support/platform.ts'
import { listening } from '../testing/calls.ts'
import { eachWithSandbox, folder, MAIN, program } from './rig.ts'

const at = eachWithSandbox()
/** Starts the program as a shell does, and prints its process id first. */
const SHELL = `
  const { spawn } = require('node:child_process')
  // Detached: otherwise Windows ends it with its parent.
  const options = { stdio: ['ignore', 'inherit', 'ignore'], detached: true }
  console.log(spawn(process.execPath, [process.argv[1], 'sandbox'], options).pid)`
const SILENT = { stdout: '', stderr: '' }
const tokenRequests = (count: number) =>
  expect.poll(() => at.test.counts.token, { timeout: PATIENCE_MS }).toBe(count)

describe('the program merchant-auth', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('ends on %s while it waits, without output', async (signal) => {
    at.test.fail('token', { kind: 'hang' })
    const { child, ended } = program(['token'], at.variables)
    await tokenRequests(1)
    child.kill(signal)
    expect(await ended).toEqual({ ...SILENT, code: null, signal })
  })

  it('does not wait for a pending connection after a failure or a signal', async () => {
    const mute = createServer((socket) => socket.on('error', () => {}))
    const url = `https://127.0.0.1:${await listening(mute)}`
    // Otherwise fetch itself gives up after 10 s.
    const patient = join(folder(), 'patient.mjs')
    writeFileSync(
      patient,
      `import { Agent, setGlobalDispatcher } from ${JSON.stringify(import.meta.resolve('undici'))}
       setGlobalDispatcher(new Agent({ connect: { timeout: 0 } }))`,
    )
    const start = (timeoutMs: string) => {
      const variables = { ...at.variables, MERCHANT_AUTH_URL: url }
      return program(['token', '--timeout-ms', timeoutMs], variables, [
        '--import',
        pathToFileURL(patient).href,
      ])
    }
    expect(await start('400').ended).toMatchObject({ code: 4 })

    const connected = once(mute, 'connection')
    const { child, ended } = start('3600000')
    await connected
    child.kill('SIGINT')
    expect(await ended).toMatchObject({ signal: 'SIGINT' })
  })

  it.skipIf(isWindows)('has exit code 143 in a shell after SIGTERM (Windows has no sh)', async () => {
    at.test.fail('token', { kind: 'hang' })
    const env = { PATH: process.env['PATH'], ...at.variables }
    const args = ['-c', '"$0" "$1" token & echo $!; wait $!; echo $?', process.execPath, MAIN]
    const lines = createInterface(spawn('sh', args, { env }).stdout)[Symbol.asyncIterator]()
    const pid = Number((await lines.next()).value)
    await tokenRequests(1)
    process.kill(pid)
    expect((await lines.next()).value).toBe('143')
  })

  it.each([
    ['ends', 'npx', true],
    ['goes on', '', false],
  ])('%s when its parent does, if that is "%s"', async (_, parent, ends) => {
    // npx starts a shell that runs the program, and passes SIGTERM on to the shell only.
    const env = { PATH: process.env['PATH'], npm_lifecycle_event: parent }
    const shell = spawn(process.execPath, ['-e', SHELL, MAIN], { env, stdio: ['ignore', 'pipe', 'ignore'] })
    const lines = createInterface(shell.stdout)[Symbol.asyncIterator]()
    const pid = Number((await lines.next()).value)
    const [, url = ''] = /URL=(.*)/.exec(String((await lines.next()).value)) ?? []
    const status = async () => (await fetch(url).catch(() => undefined))?.status
    expect(await status()).toBe(404)
    const exited = once(shell, 'exit')
    shell.kill()
    await exited
    if (ends) await expect.poll(status, { timeout: PATIENCE_MS }).toBe(undefined)
    else {
      await setTimeout(1_000) // four times the interval in which it looks
      expect(await status()).toBe(404)
      process.kill(pid)
    }
  })

  it.skipIf(isWindows)('reads the secret from a pipe (Windows has no /dev/stdin)', async () => {
    const env = { PATH: process.env['PATH'], ...at.variables, SECRET: at.test.clientSecret }
    const command = 'printf %s "$SECRET" | "$0" "$1" token --client-secret-file /dev/stdin'
    const { stdout } = await promisify(execFile)('sh', ['-c', command, process.execPath, MAIN], { env })
    expect(stdout).toMatch(/^[\w.-]+\n$/)
  })

  it.skipIf(isWindows)('ends on a signal while it waits for the secret (Windows has no FIFO)', async () => {
    const pipe = join(folder(), 'pipe')
    execFileSync('mkfifo', [pipe])
    const { child, ended } = program(['token', '--client-secret-file', pipe], at.variables)
    await setTimeout(1_500) // nothing shows when it starts to wait
    child.kill('SIGTERM')
    expect(await ended).toEqual({ ...SILENT, code: null, signal: 'SIGTERM' })
  })

  it.runIf(existsSync('/dev/full'))(
    'reports that output could not be written (needs /dev/full)',
    async () => {
      const args = ['-c', '"$0" "$1" --help > /dev/full', process.execPath, MAIN]
      await expect(promisify(execFile)('sh', args)).rejects.toMatchObject({
        code: 1,
        stderr: 'merchant-auth: the output could not be written (ENOSPC)\n',
      })
    },
  )

  it('has exit code 141 if the reader closes the output', async () => {
    const { child, ended } = program(['check'], at.variables)
    child.stdout.destroy()
    expect(await ended).toEqual({ ...SILENT, code: 141, signal: null })
  })
})

// The program: exit codes, signals, files that are pipes, and output that cannot be written.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'
import { eachWithSandbox } from './rig.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const execute = promisify(execFile)

const at = eachWithSandbox()
let env: NodeJS.ProcessEnv
let folder: string
beforeEach(() => {
  env = { PATH: process.env['PATH'], NO_COLOR: '1', ...at.variables }
  folder = mkdtempSync(join(tmpdir(), 'merchant-auth-main-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** A server that accepts connections, and never responds. */
async function startMute(): Promise<{ server: Server; port: number; connected: Promise<unknown> }> {
  const server = createServer((socket) => socket.on('error', () => {}))
  const connected = once(server, 'connection')
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, port: (server.address() as AddressInfo).port, connected }
}

describe('the program', () => {
  it('prints a token, and exits by itself', async () => {
    const { stdout, stderr } = await execute(process.execPath, [main, 'token'], { env, timeout: PATIENCE_MS })
    expect(stderr).toBe('')
    const headers = { authorization: `Bearer ${stdout.trim()}` }
    expect((await fetch(`${at.test.merchantUrl}/x`, { headers })).status).toBe(200)
  })

  it('exits with the exit code', async () => {
    const failing = execute(process.execPath, [main, 'check'], {
      env: { ...env, MERCHANT_AUTH_AUDIENCE: 'https://other.example' },
    })
    await expect(failing).rejects.toMatchObject({ code: 5, stderr: '' })
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('is ended by %s while it waits, without output', async (signal) => {
    at.test.fail('token', { kind: 'hang' })
    const child = spawn(process.execPath, [main, 'token'], { env })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += String(text)))
    await expect.poll(() => at.test.counts.token, { timeout: PATIENCE_MS }).toBe(1)
    child.kill(signal)
    expect(await once(child, 'close')).toEqual([null, signal])
    expect(said).toBe('')
  })

  it('does not wait for a pending connection after a failure or a signal', async () => {
    const { server, port, connected } = await startMute()
    // Otherwise fetch gives up after 10 s by itself.
    const undici = fileURLToPath(import.meta.resolve('undici'))
    const patient = join(folder, 'patient.mjs')
    writeFileSync(
      patient,
      `import { Agent, setGlobalDispatcher } from ${JSON.stringify(undici)}
       setGlobalDispatcher(new Agent({ connect: { timeout: 0 } }))`,
    )
    try {
      const variables = { ...env, MERCHANT_AUTH_URL: `https://127.0.0.1:${port}` }
      const args = ['--import', patient, main, 'token', '--timeout-ms']
      const failing = execute(process.execPath, [...args, '400'], { env: variables, timeout: PATIENCE_MS })
      await expect(failing).rejects.toMatchObject({ code: 4 })

      await connected
      const again = once(server, 'connection')
      const child = spawn(process.execPath, [...args, '3600000'], { env: variables, stdio: 'ignore' })
      await again
      child.kill('SIGINT')
      expect(await once(child, 'exit')).toEqual([null, 'SIGINT'])
    } finally {
      server.close()
    }
  })

  it('reads the secret from a pipe, and has the exit code 143 in a shell after SIGTERM', async () => {
    const command = `printf %s "$MERCHANT_AUTH_CLIENT_SECRET" | "$0" "$1" token --client-secret-file /dev/stdin`
    const { stdout } = await execute('sh', ['-c', command, process.execPath, main], { env })
    expect(stdout).toMatch(/^[\w.-]+\n$/)

    at.test.fail('token', { kind: 'hang' })
    const shell = spawn('sh', ['-c', '"$0" "$1" token & echo $!; wait $!; echo $?', process.execPath, main], {
      env,
    })
    const lines = createInterface(shell.stdout)[Symbol.asyncIterator]()
    const pid = Number((await lines.next()).value)
    await expect.poll(() => at.test.counts.token, { timeout: PATIENCE_MS }).toBe(2)
    process.kill(pid)
    expect((await lines.next()).value).toBe('143')
  })

  it('is ended by a signal while it waits for a pipe', async () => {
    const pipe = join(folder, 'pipe')
    execFileSync('mkfifo', [pipe])
    const child = spawn(process.execPath, [main, 'token', '--client-secret-file', pipe], { env })
    let said = ''
    child.stderr.on('data', (text) => (said += String(text)))
    await new Promise((resolve) => setTimeout(resolve, 1_500)) // how far it is cannot be seen
    child.kill('SIGTERM')
    expect(await once(child, 'close')).toEqual([null, 'SIGTERM'])
    expect(said).toBe('')
  })

  it('reads variables from a file, with a byte order mark, too, and says what is wrong with the file', async () => {
    const file = join(folder, 'settings.env')
    const lines = Object.entries(at.variables).map(([name, value]) => `export ${name}=${value}\r\n`)
    writeFileSync(file, `\ufeff${lines.join('')}`)
    const bare = { PATH: process.env['PATH'] }
    await execute(process.execPath, [main, 'token', '--dotenv', file], { env: bare })
    expect(at.test.counts.issued).toBe(1)

    writeFileSync(file, Buffer.from(`\ufeff${lines.join('')}`, 'utf16le'))
    const failing = (name: string) =>
      execute(process.execPath, [main, 'token', '--dotenv', name], { env: bare })
    await expect(failing(file)).rejects.toMatchObject({
      code: 3,
      stderr: expect.stringContaining('is not UTF-8'),
    })
    await expect(failing(folder)).rejects.toMatchObject({
      code: 3,
      stderr: expect.stringContaining('(EISDIR)'),
    })
    await expect(failing('/dev/zero')).rejects.toMatchObject({
      code: 3,
      stderr: expect.stringContaining('more than 65536 bytes'),
    })
  })

  it('reports that the output could not be written', async () => {
    const full = openSync('/dev/full', 'w')
    try {
      const child = spawn(process.execPath, [main, '--help'], { env, stdio: ['ignore', full, 'pipe'] })
      let said = ''
      child.stderr?.on('data', (text) => (said += String(text)))
      expect(await once(child, 'close')).toEqual([1, null])
      expect(said).toBe('merchant-auth: the output could not be written (ENOSPC)\n')
    } finally {
      closeSync(full)
    }
  })

  it('has the exit code 141 where the reader closes the output', async () => {
    const child = spawn(process.execPath, [main, 'check'], { env })
    let said = ''
    child.stderr.on('data', (text) => (said += String(text)))
    child.stdout.destroy()
    expect(await once(child, 'close')).toEqual([141, null])
    expect(said).toBe('')
  })
})

// The program: exit codes, signals, and pipes that end early.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { type Variables, variablesFor } from './rig.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const execute = promisify(execFile)

let sandbox: Sandbox
let env: NodeJS.ProcessEnv
beforeEach(async () => {
  sandbox = await startSandbox()
  noteSecret(sandbox.test.clientSecret)
  const variables: Variables = variablesFor(sandbox.test)
  env = { PATH: process.env['PATH'], NO_COLOR: '1', ...variables }
})
afterEach(() => sandbox.close())

describe('the program', () => {
  it('prints a token, and ends by itself', async () => {
    const { stdout, stderr } = await execute(process.execPath, [main, 'token'], { env, timeout: 20_000 })
    expect(stderr).toBe('')
    const headers = { authorization: `Bearer ${stdout.trim()}` }
    expect((await fetch(`${sandbox.test.merchantUrl}/x`, { headers })).status).toBe(200)
  })

  it('ends with the exit code', async () => {
    const failing = execute(process.execPath, [main, 'check'], {
      env: { ...env, MERCHANT_AUTH_AUDIENCE: 'https://other.example' },
    })
    await expect(failing).rejects.toMatchObject({ code: 5, stderr: '' })
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('ends by %s while it waits, and says nothing', async (signal, code) => {
    sandbox.test.fail('token', { kind: 'hang' })
    const child = spawn(process.execPath, [main, 'token'], { env })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += String(text)))
    await expect.poll(() => sandbox.test.counts.token, { timeout: 20_000 }).toBe(1)
    child.kill(signal)
    expect(await once(child, 'close')).toEqual([code, null])
    expect(said).toBe('')
  })

  it('survives a reader that leaves', async () => {
    const child = spawn(process.execPath, [main, 'check'], { env })
    let said = ''
    child.stderr.on('data', (text) => (said += String(text)))
    child.stdout.destroy()
    const [code, signal] = await once(child, 'close')
    expect({ signal, said }).toEqual({ signal: null, said: '' })
    expect(code).not.toBeNull()
  })
})

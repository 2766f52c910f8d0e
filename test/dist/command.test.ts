/** The command as installed by `npm install`: run by its name, against the sandbox that it starts. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, inject, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }

const execute = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'merchant-auth-command-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

// The command runs on the Node.js that is first in the path.
const env = { PATH: `${join(process.execPath, '..')}:${process.env['PATH']}`, NO_COLOR: '1' }

const pathIn = (place: 'alone' | 'withPeers'): string =>
  join(inject('installed')[place], 'node_modules/.bin/merchant-auth')

describe('the installed command', () => {
  const path = pathIn('alone')

  it('prints its version', async () => {
    const { stdout } = await execute(path, ['--version'], { env })
    expect(stdout).toBe(`${packageJson.version}\n`)
  })

  it('checks a sandbox that it started, and prints a token for it', async () => {
    const sandbox = spawn(path, ['sandbox'], { env, stdio: ['ignore', 'pipe', 'ignore'] })
    const ended = once(sandbox, 'exit')
    try {
      let variables = ''
      for await (const text of sandbox.stdout) {
        variables += String(text)
        if (/CLIENT_SECRET=.+\n/.test(variables)) break
      }
      const file = join(folder, 'sandbox.env')
      writeFileSync(file, variables)
      const check = await execute(path, ['check', '--json', '--dotenv', file], { env })
      expect(JSON.parse(check.stdout)).toMatchObject({ ok: true, exitCode: 0 })
      const token = await execute(path, ['token', '--dotenv', file], { env })
      expect(token.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)
    } finally {
      sandbox.kill('SIGINT')
    }
    expect(await ended).toEqual([0, null])
  })

  it.each([
    ['alone', { code: 3, stderr: expect.stringContaining('npm install redis') }],
    ['withPeers', { code: 4, stderr: expect.stringContaining('the store failed (ECONNREFUSED)') }],
  ] as const)(
    'names the missing Redis client, or reports that Redis cannot be reached: %s',
    async (place, failure) => {
      const variables = {
        MERCHANT_AUTH_URL: 'http://127.0.0.1:1',
        MERCHANT_AUTH_AUDIENCE: 'https://api.example',
        MERCHANT_AUTH_API_URLS: 'https://api.example',
        MERCHANT_AUTH_CLIENT_ID: 'id',
        MERCHANT_AUTH_CLIENT_SECRET: 'not a secret',
      }
      const failing = execute(pathIn(place), ['token', '--store', 'redis://127.0.0.1:1'], {
        env: { ...env, ...variables },
      })
      await expect(failing).rejects.toMatchObject(failure)
    },
  )
})

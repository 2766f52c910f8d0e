// What is said where the permission model of Node.js lets the program read nothing but itself.
import { execFile } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const isStable = process.allowedNodeEnvironmentFlags.has('--permission')
const GRANTED = [root, realpathSync(join(root, 'node_modules'))].map((path) => `--allow-fs-read=${path}`)

/** Runs Node.js in a folder that it may not read. */
async function run(args: readonly string[], variables: Readonly<Record<string, string>>) {
  const flags = [isStable ? '--permission' : '--experimental-permission', '--no-warnings', ...GRANTED]
  const { PATH = '' } = process.env
  const options = { cwd: tmpdir(), env: { PATH, NO_COLOR: '1', ...variables }, timeout: PATIENCE_MS }
  return await promisify(execFile)(process.execPath, [...flags, ...args], options).then(
    ({ stdout }) => ({ said: stdout, code: 0 }),
    ({ stdout, stderr, code }: { stdout: string; stderr: string; code: unknown }) => ({
      said: stdout + stderr,
      code,
    }),
  )
}

it('a secret in a file that may not be read is named by its variable', async () => {
  const { href } = new URL('../../src/index.ts', import.meta.url)
  const program = `import(${JSON.stringify(href)}).then(({ optionsFromEnv }) => optionsFromEnv(process.env))`
  const { said } = await run(['-e', program], { MERCHANT_AUTH_CLIENT_SECRET_FILE: '/wJalrXUtnFEMI/K7MDENG' })
  expect(said).toContain(
    'MERCHANT_AUTH_CLIENT_SECRET_FILE: names a file that cannot be read (ERR_ACCESS_DENIED)',
  )
  expect(said).toContain('MERCHANT_AUTH_URL: is not set')
  expect(said).not.toContain('wJalrXUtnFEMI')
})

it('check says which variables are missing', async () => {
  const { said, code } = await run([join(root, 'src/cli/main.ts'), 'check'], {})
  expect(said).toContain('MERCHANT_AUTH_CLIENT_ID')
  expect(code).toBe(3)
})

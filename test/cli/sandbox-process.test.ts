// The sandbox as a process: signals end it at once, whatever is under way.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { afterEach, expect, it } from 'vitest'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

let child: ChildProcess | undefined
afterEach(() => child?.kill('SIGKILL'))

it.each(['SIGINT', 'SIGTERM'] as const)('%s ends it with exit code 0, while a body hangs', async (signal) => {
  const args = ['--no-warnings', MAIN, 'sandbox', '--fault', 'merchant:hang,at=body']
  const started = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  child = started
  let printed = ''
  for await (const chunk of started.stdout.iterator({ destroyOnReturn: false })) {
    printed += String(chunk)
    if (printed.includes('CLIENT_SECRET=')) break
  }
  const url = parseEnv(printed)['MERCHANT_AUTH_API_URLS']?.split(',')[0]
  const hanging = (await fetch(`${url}`)).text()
  const broken = expect(hanging).rejects.toThrow()
  const exited = once(started, 'exit')
  started.kill(signal)
  expect(await exited).toEqual([0, null])
  await broken
  await expect(fetch(`${url}`)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
})

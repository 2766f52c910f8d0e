/** Runs a program in a separate process, to test when it exits. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { PATIENCE_MS } from './patience.ts'

/** Imports the sources of this package, and defines a clock that the program sets forward with `later(ms)`. */
const BEGIN = `
  const { createTokenProvider } = await import(${JSON.stringify(new URL('../../src/index.ts', import.meta.url).href)})
  const { systemClock } = await import(${JSON.stringify(new URL('../../src/base/clock.ts', import.meta.url).href)})
  let ahead = 0
  const later = (ms) => { ahead += ms }
  const clock = {
    monotonicMs: () => systemClock.monotonicMs() + ahead,
    epochMs: () => systemClock.epochMs() + ahead,
    sleep: systemClock.sleep,
  }
`

/** Runs a program; resolves with its output and exit code, which is null if it did not exit by itself. */
export async function runProgram(code: string): Promise<{ said: string; code: unknown }> {
  const args = ['--input-type=module', '-e', BEGIN + code]
  return await promisify(execFile)(process.execPath, args, { timeout: PATIENCE_MS }).then(
    ({ stdout }) => ({ said: stdout.trim(), code: 0 }),
    (error: { stdout: string; code: unknown }) => ({ said: error.stdout.trim(), code: error.code }),
  )
}

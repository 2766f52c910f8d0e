/** A program in a process of its own: does it end by itself, and only then? */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { PATIENCE_MS } from './patience.ts'

/** Code that imports this package's sources, and a clock that the program itself sets forward, by `later(ms)`. */
const BEGIN = `
  const { createTokenProvider } = await import(${JSON.stringify(new URL('../../src/index.ts', import.meta.url).href)})
  const { systemClock } = await import(${JSON.stringify(new URL('../../src/clock.ts', import.meta.url).href)})
  let ahead = 0
  const later = (ms) => { ahead += ms }
  const clock = {
    monotonicMs: () => systemClock.monotonicMs() + ahead,
    epochMs: () => systemClock.epochMs() + ahead,
    sleep: systemClock.sleep,
  }
`

/** Runs a program. What it said, and its exit code: null where it did not end by itself, and had to be killed. */
export async function runProgram(code: string): Promise<{ said: string; code: unknown }> {
  const args = ['--input-type=module', '-e', BEGIN + code]
  return await promisify(execFile)(process.execPath, args, { timeout: PATIENCE_MS }).then(
    ({ stdout }) => ({ said: stdout.trim(), code: 0 }),
    (error: { stdout: string; code: unknown }) => ({ said: error.stdout.trim(), code: error.code }),
  )
}

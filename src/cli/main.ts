#!/usr/bin/env node
/** The program `merchant-auth`: the process around a command. */
import { runCommandLine } from './command-line.ts'

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  // Once: whoever asks a second time does not want to wait.
  process.once(signal, () => stop.abort(signal))
}
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE')
      stop.abort('EPIPE') // as with `merchant-auth sandbox | head`
    else throw new Error(`Output failed (${code})`)
  })
}

process.exitCode = await runCommandLine(process.argv.slice(2), {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
})

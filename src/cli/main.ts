#!/usr/bin/env node
/** The program `merchant-auth`: the process around a command. */
import type { Writable } from 'node:stream'
import { runCommandLine } from './command-line.ts'
import { EXIT, SIGNAL_CODES } from './terminal.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 12)) {
  console.error(`merchant-auth: needs Node.js 22.12 or newer; this is ${process.versions.node}`)
  process.exit(EXIT.unexpected)
}

const stop = new AbortController()
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
for (const signal of SIGNALS) {
  process.on(signal, () => {
    if (stop.signal.aborted) die(signal) // whoever asks a second time does not want to wait
    stop.abort(signal)
  })
}

/** Ends the process by the signal itself: loops of a shell end with it then, and what blocks a thread does not matter. */
function die(signal: (typeof SIGNALS)[number]): void {
  process.removeAllListeners(signal)
  if (process.platform !== 'win32') process.kill(process.pid, signal)
}

let unwritten: string | undefined
process.stdout.on('error', ({ code = 'no reason known' }: NodeJS.ErrnoException) => {
  unwritten ??= code
  stop.abort(code)
})
process.stderr.on('error', () => {}) // there is nowhere to say it

const code = await runCommandLine(process.argv.slice(2), {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
})
await Promise.all([written(process.stdout), written(process.stderr)])
if (unwritten !== undefined && unwritten !== 'EPIPE') {
  process.stderr.write(`merchant-auth: the output could not be written (${unwritten})\n`)
}
for (const signal of SIGNALS) {
  if (stop.signal.reason === signal && code === SIGNAL_CODES[signal]) die(signal)
}
// Connections that are still being made, and libraries' timers, would keep the process for seconds.
process.exit(unwritten === undefined ? code : unwritten === 'EPIPE' ? EXIT.pipe : EXIT.unexpected)

/** Resolves when all is written, or cannot be. A reader that left after the last word is no failure. */
async function written(stream: Writable): Promise<void> {
  await new Promise<void>((resolve) => {
    if (stream.writableLength > 0) stream.write('', () => resolve())
    else setImmediate(resolve) // what failed is told by then
  })
}

#!/usr/bin/env node
/** The program `merchant-auth`: the process around a command. */
import type { Writable } from 'node:stream'
import { requiresNode } from '../base/node-version.ts'
import { EXIT, SIGNAL_CODES } from './command.ts'
import { runCommandLine } from './command-line.ts'
import { isInForeground } from './sandbox-keys.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 12)) {
  console.error(`merchant-auth: ${requiresNode(process.versions.node)}`)
  process.exit(EXIT.unexpected)
}

/** How often it is checked whether npx has ended. */
const PARENT_CHECK_MS = 250

const stop = new AbortController()
/** SIGBREAK is Ctrl-Break on Windows, and unknown elsewhere. */
const SIGNALS = [
  'SIGINT',
  'SIGTERM',
  'SIGHUP',
  ...(process.platform === 'win32' ? (['SIGBREAK'] as const) : []),
] as const
for (const signal of SIGNALS) {
  process.on(signal, () => {
    if (stop.signal.aborted) die(signal) // a second signal does not wait
    stop.abort(signal)
  })
}

/** Ends the process by the signal itself, so that the loop of a shell ends, too, and blocked threads do not matter. */
function die(signal: (typeof SIGNALS)[number]): void {
  process.removeAllListeners(signal)
  if (process.platform === 'win32') process.exit(SIGNAL_CODES[signal]) // has no signals that end a process like that
  process.kill(process.pid, signal)
}

// npx forwards a signal to the shell that it started in between, which ends without this process.
if (process.env['npm_lifecycle_event'] === 'npx') {
  const parent = process.ppid
  const check = (): void => {
    if (process.ppid !== parent || !isAlive(parent)) stop.abort('SIGTERM')
  }
  setInterval(check, PARENT_CHECK_MS).unref()
}

/** On Windows, `process.ppid` stays the same when the parent has ended. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

let unwritten: string | undefined
process.stdout.on('error', ({ code = 'unknown reason' }: NodeJS.ErrnoException) => {
  unwritten ??= code
  stop.abort(code)
})
process.stderr.on('error', () => {}) // nowhere to report it

const code = await runCommandLine(process.argv.slice(2), {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
  get stdin() {
    return isInForeground() ? process.stdin : undefined
  },
})
await Promise.all([written(process.stdout), written(process.stderr)])
if (unwritten !== undefined && unwritten !== 'EPIPE') {
  process.stderr.write(`merchant-auth: the output could not be written (${unwritten})\n`)
}
for (const signal of SIGNALS) {
  if (stop.signal.reason === signal && code === SIGNAL_CODES[signal]) die(signal)
}
// Pending connections, and timers of libraries, would keep the process alive for seconds.
process.exit(unwritten === undefined ? code : unwritten === 'EPIPE' ? EXIT.pipe : EXIT.unexpected)

/** Resolves when everything is written, or failed. A reader that closes the stream after the last line is not a failure. */
async function written(stream: Writable): Promise<void> {
  await new Promise<void>((resolve) => {
    if (stream.writableLength > 0) stream.write('', () => resolve())
    else setImmediate(resolve) // by then a failure has been emitted
  })
}

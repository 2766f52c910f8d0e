/** Runs the suite and the two programs in one runtime, and reports the result of each check. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { type SandboxEnvironment, startSandbox } from '../../src/testing/index.ts'
import type { Runtime } from './runtimes.ts'
import type { Report, Summary } from './suite/report.ts'

const SUITE_LIMIT_MS = 600_000
/** Only a program that never ends takes longer: one that a pause keeps alive requests another token and ends. */
const PROGRAM_LIMIT_MS = 120_000

/** The result of the suite in one runtime. */
export interface Result {
  /** Its name and exact version. */
  readonly title: string
  readonly reports: readonly Report[]
  readonly ms: number
}

interface Ended {
  readonly stdout: string
  readonly stderr: string
  /** The exit code, the signal that ended it, or why it could not start. */
  readonly how: number | string
  readonly ms: number
}

const running = new Set<number>()
process.on('exit', () => {
  for (const id of running) process.kill(id, 'SIGKILL')
})

/** Runs the suite in a runtime, which may write to the folder `home`. */
export async function runSuite(
  runtime: Runtime,
  { suite, home }: { suite: string; home: string },
): Promise<Result> {
  const start = (limitMs: number, file: string, ...args: string[]): Promise<Ended> =>
    runProgram(runtime, { command: [join(suite, file), ...args], home, limitMs })
  const startedAt = performance.now()
  const [main, ends, waits] = await Promise.all([
    start(SUITE_LIMIT_MS, 'main.ts'),
    onService(async (service, description) => {
      // After the first token, the next token request gets a Retry-After.
      const apiLatencyMs = (): number => {
        service.clearFaults()
        service.fail('token', { kind: 'status', status: 503, retryAfter: 8 })
        return 0
      }
      service.configure({ apiLatencyMs })
      const ended = await start(PROGRAM_LIMIT_MS, 'process/ends.ts', description)
      return { ...ended, stdout: `${ended.stdout} ${service.counts.token}` }
    }),
    onService((service, description) => {
      service.fail('token', { kind: 'status', status: 503, retryAfter: 1 })
      return start(PROGRAM_LIMIT_MS, 'process/waits.ts', description)
    }),
  ])
  const summary = summaryOf(main)
  const reports = [
    ...(summary?.reports ?? []),
    suiteReport(main, summary),
    processReport('it ends while a background renewal pauses', ends, '200 200 200 done 2'),
    processReport('it stays alive while a call waits for a token', waits, 'Bearer'),
  ]
  return {
    title: `${runtime.name} ${summary?.version ?? '?'}`,
    reports,
    ms: Math.round(performance.now() - startedAt),
  }
}

/** Runs a function with its own service, and the JSON from which a program creates its provider. */
async function onService(
  run: (service: SandboxEnvironment, description: string) => Promise<Ended>,
): Promise<Ended> {
  const sandbox = await startSandbox()
  try {
    const { environment, clientId, clientSecret } = sandbox.test
    return await run(sandbox.test, JSON.stringify({ environment, clientId, clientSecret }))
  } finally {
    await sandbox.close()
  }
}

function runProgram(
  { binary, args }: Runtime,
  { command, home, limitMs }: { command: readonly string[]; home: string; limitMs: number },
): Promise<Ended> {
  const startedAt = performance.now()
  // None of the settings of this process: no NODE_OPTIONS, no proxy, no caches of the user.
  const env = {
    PATH: process.env['PATH'],
    HOME: home,
    TMPDIR: home,
    NO_COLOR: '1',
    DENO_DIR: join(home, 'deno'),
    DENO_NO_UPDATE_CHECK: '1',
    DO_NOT_TRACK: '1',
  }
  const child = spawn(binary, [...args, ...command], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  if (child.pid !== undefined) running.add(child.pid)
  const output = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].setEncoding('utf8').on('data', (text: string) => {
      output[stream] += text
    })
  }
  let late = false
  const timer = setTimeout(() => {
    late = true
    child.kill('SIGKILL')
  }, limitMs)
  return new Promise((resolve) => {
    const ended = (how: number | string): void => {
      clearTimeout(timer)
      if (child.pid !== undefined) running.delete(child.pid)
      resolve({
        stdout: output.stdout.trim(),
        stderr: output.stderr.trim(),
        how: late ? `killed after ${limitMs} ms` : how,
        ms: Math.round(performance.now() - startedAt),
      })
    }
    child.on('error', (error) => ended(error.message))
    child.on('close', (code, signal) => ended(code ?? signal ?? 'ended'))
  })
}

const REPORT = /^REPORT (.+)$/m

function summaryOf({ stdout }: Ended): Summary | undefined {
  const text = REPORT.exec(stdout)?.[1]
  return text === undefined ? undefined : (JSON.parse(text) as Summary)
}

const PROCESS = 'The process'

/** A check of its own: the suite reported everything, without a warning, and then ended by itself. */
function suiteReport({ stdout, stderr, how, ms }: Ended, summary: Summary | undefined): Report {
  const failed = summary?.reports.some(({ problem }) => problem !== undefined)
  const good = summary !== undefined && stderr === '' && how === (failed ? 1 : 0)
  const problem = `ended with ${how}\n${stderr}\n${summary === undefined ? stdout : ''}`.trim()
  return {
    group: PROCESS,
    name: 'the suite ends by itself, without a warning',
    ms,
    differences: [],
    ...(good ? undefined : { problem }),
  }
}

function processReport(name: string, { stdout, stderr, how, ms }: Ended, expected: string): Report {
  const good = how === 0 && stdout === expected && stderr === ''
  const problem = `expected ${expected}, got ${stdout || 'nothing'}; ended with ${how}\n${stderr}`.trim()
  return { group: PROCESS, name, ms, differences: [], ...(good ? undefined : { problem }) }
}

/** Plays the orchestrator for a service in a child process: starts it, probes it, uses it, and ends it by SIGTERM. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

/** How long (ms) the end of a service may take here. */
const END_LIMIT_MS = 30_000

/** How long (ms) anything else is waited for. */
const PATIENCE_MS = 60_000

/** How long (ms) a call to the API takes that is in flight at SIGTERM: longer than the service goes on as before. */
const SLOW_MS = 2_500
/** How long (ms) the service may take to end by itself then, and not 5 s longer, for a connection that is kept. */
const SLOW_END_MS = SLOW_MS + 4_000

/** Runs the program as a service and checks what it does; throws where that is wrong. */
export async function checkService(program: URL): Promise<void> {
  await using sandbox = await startSandbox()
  const { test, production } = sandbox
  const services = [startService(program, test), startWorker(program, production)] as const
  try {
    await Promise.all([checkLife(services[0], test), checkEndDuringStart(services[1], production)])
  } finally {
    for (const service of services) service.kill('SIGKILL')
  }
  console.log('SIGTERM while a worker of node:cluster waits for its first token: it ended by itself, too.')
}

async function checkLife(service: ChildProcess, sandbox: SandboxEnvironment): Promise<void> {
  beginOutage(sandbox)
  const url = `http://127.0.0.1:${await portOf(service)}`
  const statusOf = async (path: string): Promise<number> => (await fetch(url + path)).status

  assert.deepEqual([await statusOf('/health/live'), await statusOf('/health/ready')], [200, 503])
  const early = await fetch(`${url}/orders/0`)
  assert.deepEqual([early.status, early.headers.has('retry-after')], [503, true])
  console.log(
    'The token endpoint is down: the service lives (200) and is not ready (503). Callers get a 503, too.',
  )
  sandbox.clearFaults('token')
  await until(async () => (await statusOf('/health/ready')) === 200)
  const { token, issued } = sandbox.counts
  assert.equal(issued, 1)
  console.log(`It is up: ready, after ${token} token requests, of which ${token - issued} failed.`)

  assert.equal(await statusOf('/orders/1'), 200)
  await Promise.all(Array.from({ length: 100 }, () => statusOf('/health/ready')))
  assert.equal(sandbox.counts.token, token)
  console.log('A call to the merchant API, and 100 more probes: no further token request.')

  assert.equal(await statusOf('/orders/a%2Fb'), 404)
  sandbox.fail('merchant', { kind: 'hang' })
  assert.equal(await statusOf('/orders/2'), 502)
  console.log('An order whose id is a path: 404. A call to the merchant API that hangs: 502, after 15 s.')

  sandbox.configure({ apiLatencyMs: SLOW_MS })
  const { merchant } = sandbox.counts
  const inFlight = statusOf('/orders/3')
  await until(() => sandbox.counts.merchant > merchant)
  const tookMs = await end(service, async () => assert.equal(await inFlight, 200))
  assert.ok(tookMs < SLOW_END_MS, `It ended after ${tookMs} ms`)
  await assert.rejects(statusOf('/health/live'))
  console.log(
    `SIGTERM during a call: it was answered with 200, and the process ended by itself after ${tookMs} ms.`,
  )
}

function beginOutage(sandbox: SandboxEnvironment): void {
  sandbox.fail('token', { kind: 'status', status: 503 }, { times: Number.POSITIVE_INFINITY })
}

/** The end may come while the token endpoint is down and there has been no token. */
async function checkEndDuringStart(service: ChildProcess, sandbox: SandboxEnvironment): Promise<void> {
  beginOutage(sandbox)
  await until(() => sandbox.counts.token >= 3)
  await end(service)
}

/** Sends SIGTERM, and how long (ms) the process then took to end by itself. */
async function end(service: ChildProcess, meanwhile = async () => {}): Promise<number> {
  const signalledAt = performance.now()
  const ended = once(service, 'exit', { signal: AbortSignal.timeout(END_LIMIT_MS) })
  service.kill('SIGTERM')
  const [exit] = await Promise.all([ended, meanwhile()])
  assert.deepEqual(exit, [0, null])
  return Math.round(performance.now() - signalledAt)
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const endsAt = performance.now() + PATIENCE_MS
  while (!(await condition())) {
    assert.ok(performance.now() < endsAt, `Waited for ${condition}`)
    await sleep(10)
  }
}

function startService(program: URL, sandbox: SandboxEnvironment): ChildProcess {
  const env = { ...process.env, ...variablesOf(sandbox) }
  return spawn(process.execPath, [fileURLToPath(program)], { stdio: ['ignore', 'pipe', 'inherit'], env })
}

/** Starts it as a worker of node:cluster, as PM2 does, too: such a process has a channel to its primary, which keeps it alive. */
function startWorker(program: URL, sandbox: SandboxEnvironment): ChildProcess {
  cluster.setupPrimary({ exec: fileURLToPath(program), silent: true })
  return cluster.fork(variablesOf(sandbox)).process
}

function variablesOf({ variables }: SandboxEnvironment): Record<string, string> {
  return { HOST: '127.0.0.1', PORT: '0', ...variables }
}

/** Resolves when the service says where it listens. */
async function portOf({ stdout }: ChildProcess): Promise<number> {
  assert.ok(stdout)
  for await (const line of createInterface(stdout)) {
    const [, port] = /listens on port (\d+)/.exec(line) ?? []
    if (port !== undefined) return Number(port)
  }
  throw new Error('The service ended before it listened')
}

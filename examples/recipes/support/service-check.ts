/** Plays the orchestrator for a service in a child process: starts it, probes it, uses it, and ends it by SIGTERM. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

/** How long (ms) the end of a service may take here. */
const END_LIMIT_MS = 30_000

/** How long (ms) anything else is waited for. */
const PATIENCE_MS = 60_000

/** What a service does while it has no token yet. */
export interface ServiceTraits {
  /** Whether it listens while it waits for its first token, and says that it is not ready. */
  readonly listensBeforeToken: boolean
}

/** Runs the program as a service and checks what it does; throws where that is wrong. */
export async function checkService(program: URL, traits: ServiceTraits): Promise<void> {
  await using sandbox = await startSandbox()
  const { test, production } = sandbox
  const services = [startService(program, test), startService(program, production)] as const
  try {
    await Promise.all([checkLife(services[0], test, traits), checkEndDuringStart(services[1], production)])
  } finally {
    for (const service of services) service.kill('SIGKILL')
  }
  console.log('SIGTERM while another one waits for its first token: it ended by itself, too.')
}

async function checkLife(
  service: ChildProcess,
  sandbox: SandboxEnvironment,
  { listensBeforeToken }: ServiceTraits,
): Promise<void> {
  beginOutage(sandbox)
  sandbox.configure({ apiLatencyMs: 300 })
  if (!listensBeforeToken) {
    await until(() => sandbox.counts.token >= 3)
    sandbox.clearFaults('token')
  }
  const url = `http://127.0.0.1:${await portOf(service)}`
  const statusOf = async (path: string): Promise<number> => (await fetch(url + path)).status

  if (listensBeforeToken) {
    assert.deepEqual([await statusOf('/health/live'), await statusOf('/health/ready')], [200, 503])
    const early = await fetch(`${url}/orders/0`)
    assert.deepEqual([early.status, early.headers.has('retry-after')], [503, true])
    console.log(
      'The token endpoint is down: the service lives (200) and is not ready (503). Callers get a 503, too.',
    )
    sandbox.clearFaults('token')
  } else {
    assert.equal(sandbox.counts.issued, 1)
    console.log('The token endpoint was down: the service did not listen before it was up again.')
  }
  await until(async () => (await statusOf('/health/ready')) === 200)
  const { token, issued } = sandbox.counts
  assert.equal(issued, 1)
  console.log(`It is up: ready, after ${token} token requests, of which ${token - issued} failed.`)

  assert.equal(await statusOf('/orders/1'), 200)
  await Promise.all(Array.from({ length: 100 }, () => statusOf('/health/ready')))
  assert.equal(sandbox.counts.token, token)
  console.log('A call to the merchant API, and 100 more probes: no further token request.')

  const inFlight = statusOf('/orders/2')
  await until(() => sandbox.counts.merchant === 2)
  const tookMs = await end(service, async () => assert.equal(await inFlight, 200))
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
  return spawn(process.execPath, [fileURLToPath(program)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      HOST: '127.0.0.1',
      PORT: '0',
      ...sandbox.variables,
    },
  })
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

/**
 * A terminal that restarts, and whose power fails at random moments: its token is in a file, so that a restart costs no token
 * request, and a damaged file costs one.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startSandbox } from 'merchant-auth/testing'

const POWER_FAILURES = 3
/** A terminal that lost power while it requested a token blocks the next one for no longer. */
const TIMEOUT_MS = 4_000

/** One sale. Then it waits for its end. */
async function runTerminal(): Promise<void> {
  await import('./parts/log-events.ts')
  const { sell, tokens } = await import('./parts/terminal.ts')
  const { status } = await sell(1_200)
  process.once('message', () => tokens.close().then(() => process.disconnect())) // the token is in the file
  process.send?.(status)
}

async function run(): Promise<void> {
  await using sandbox = await startSandbox()
  sandbox.test.configure({ tokenLatencyMs: 200 })
  const parent = mkdtempSync(join(tmpdir(), 'terminal-'))

  const start = (folder: string): ChildProcess => {
    const settings = { STATE_DIRECTORY: join(parent, folder), MERCHANT_AUTH_TIMEOUT_MS: String(TIMEOUT_MS) }
    return fork(new URL(import.meta.url), { env: { ...process.env, ...sandbox.test.variables, ...settings } })
  }
  /** A start, a sale and a shutdown. Resolves with the time (ms) from the start to the sale's response. */
  const sellOnce = async (folder: string): Promise<number> => {
    const startedAt = performance.now()
    const terminal = start(folder)
    const [status] = await once(terminal, 'message')
    const tookMs = performance.now() - startedAt
    assert.equal(status, 200)
    terminal.send('shutdown')
    await once(terminal, 'exit')
    return tookMs
  }
  /** Starts that are killed before, during and shortly after their sale: Node.js itself takes the first half of the time. */
  const failPower = async (folder: string, saleMs: number): Promise<void> => {
    for (let failure = 1; failure <= POWER_FAILURES; failure += 1) {
      const terminal = start(folder)
      const ended = once(terminal, 'exit')
      await sleep((0.5 + 0.8 * Math.random()) * saleMs)
      terminal.kill('SIGKILL')
      await ended
    }
  }
  /** The token requests of what `act` does. */
  const requestsOf = async (act: () => Promise<unknown>): Promise<number> => {
    const before = sandbox.test.counts.token
    await act()
    return sandbox.test.counts.token - before
  }

  try {
    const saleMs = await sellOnce('first')
    const restarts = await requestsOf(() => sellOnce('first'))
    console.log(`A restart: ${restarts} token requests`)
    assert.equal(restarts, 0)

    const failures = await requestsOf(() => failPower('first', saleMs))
    console.log(
      `${POWER_FAILURES} power failures at random moments, with a token: ${failures} token requests`,
    )
    assert.equal(failures, 0)
    assert.equal(await requestsOf(() => sellOnce('first')), 0)

    // Each may end a token request whose token is lost.
    const cold = await requestsOf(() => failPower('second', saleMs))
    const after = await requestsOf(() => sellOnce('second'))
    console.log(
      `${POWER_FAILURES} power failures, before there is a token: ${cold} token requests, then ${after}`,
    )
    assert.ok(cold <= POWER_FAILURES && after <= 1)
    assert.equal(await requestsOf(() => sellOnce('second')), 0)

    const entries = readdirSync(join(parent, 'first')).filter((name) => name.endsWith('.entry'))
    assert.equal(entries.length, 1)
    truncateSync(join(parent, 'first', String(entries[0])), 40)
    const damaged = await requestsOf(() => sellOnce('first'))
    console.log(`A damaged file: ${damaged} token request`)
    assert.equal(damaged, 1)
    assert.equal(await requestsOf(() => sellOnce('first')), 0, 'it was replaced')
  } finally {
    rmSync(parent, { recursive: true })
  }
}

await (process.send === undefined ? run() : runTerminal())

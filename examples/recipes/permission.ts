/**
 * A permission was granted: four workers that share a token in files replace it on SIGHUP with one token request, or two, and a
 * worker that starts later has the new one. A longer lifetime stands in for the permission.
 */
import assert from 'node:assert/strict'
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startSandbox } from 'merchant-auth/testing'

const WORKERS = 4
const BEFORE_MS = 3_600_000
const GRANTED_MS = 7_200_000

async function runPrimary(): Promise<void> {
  await using sandbox = await startSandbox()
  const { test } = sandbox
  const folder = mkdtempSync(join(tmpdir(), 'permission-'))
  const fork = (): Worker => cluster.fork({ ...test.variables, HOME: folder, USERPROFILE: folder })
  try {
    const workers = Array.from({ length: WORKERS }, fork)
    await Promise.all(workers.map((worker) => hasToken(worker, BEFORE_MS)))
    assert.equal(test.counts.token, 1)

    test.configure({ lifetimeSeconds: GRANTED_MS / 1_000 })
    const replaced = Promise.all(workers.map((worker) => hasToken(worker, GRANTED_MS)))
    for (const worker of workers) worker.process.kill('SIGHUP')
    await replaced
    const requests = test.counts.token - 1
    assert.ok(requests === 1 || requests === 2, `${requests} token requests`)
    console.log(`${WORKERS} workers have the permission; token requests for it: ${requests}`)

    const later = fork()
    await hasToken(later, GRANTED_MS)
    assert.equal(test.counts.token, 1 + requests)
    console.log('A new worker has it, too, without a token request')
    const ends = [...workers, later].map(async (worker) => {
      worker.send('end')
      assert.deepEqual(await once(worker, 'exit'), [0, null])
    })
    await Promise.all(ends)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Resolves when a worker has a token with this lifetime, more or less. */
function hasToken(worker: Worker, lifetimeMs: number): Promise<void> {
  return new Promise((resolve) => {
    worker.on('message', (remainsMs: number) => {
      if (Math.abs(remainsMs - lifetimeMs) < BEFORE_MS / 2) resolve()
    })
  })
}

async function runWorker(): Promise<void> {
  const { tokens } = await import('./parts/file-tokens.ts')
  const { refreshOnSignal } = await import('./parts/refresh-on-signal.ts')
  refreshOnSignal(tokens)
  let isEnding = false
  process.once('message', () => {
    isEnding = true
  })
  while (!isEnding) {
    process.send?.((await tokens.getToken()).expiresAt - Date.now())
    await sleep(20)
  }
  await tokens.close()
  cluster.worker?.disconnect()
}

await (cluster.worker === undefined ? runPrimary() : runWorker())

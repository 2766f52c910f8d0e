/**
 * node:cluster with eight workers that share one token through files: 200 calls, one token request. A worker that replaces a
 * killed one finds the token, too.
 */
import assert from 'node:assert/strict'
import cluster, { type Worker } from 'node:cluster'
import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import axios from 'axios'
import type { AuthEvent } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

const WORKERS = 8
const CALLS = 25

async function runPrimary(): Promise<void> {
  await using sandbox = await startSandbox()
  const folder = mkdtempSync(join(tmpdir(), 'cluster-'))
  const fork = (): Worker => cluster.fork({ ...sandbox.test.variables, HOME: folder, USERPROFILE: folder })
  try {
    const workers = Array.from({ length: WORKERS }, fork)
    await Promise.all(workers.map((worker) => once(worker, 'message')))
    assert.deepEqual(countsOf(sandbox.test), { token: 1, merchant: WORKERS * CALLS, unauthorized: 0 })
    console.log(`${WORKERS} workers, ${WORKERS * CALLS} calls, ${sandbox.test.counts.token} token request`)

    const [killed, ...others] = workers
    killed?.process.kill('SIGKILL')
    const replacement = fork()
    await once(replacement, 'message')
    assert.deepEqual(countsOf(sandbox.test), { token: 1, merchant: (WORKERS + 1) * CALLS, unauthorized: 0 })
    console.log(`One was killed and replaced: ${sandbox.test.counts.token} token request`)

    const ends = [...others, replacement].map(async (worker) => {
      worker.send('end')
      assert.deepEqual(await once(worker, 'exit'), [0, null])
    })
    await Promise.all(ends)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function countsOf({ counts: { token, merchant, unauthorized } }: Pick<SandboxEnvironment, 'counts'>): object {
  return { token, merchant, unauthorized }
}

async function runWorker(id: number): Promise<void> {
  const sources: string[] = []
  subscribe('merchant-auth', (message) => {
    const event = message as AuthEvent
    if (event.type === 'token-acquired') sources.push(event.source)
  })
  const { environment, tokens } = await import('./parts/file-tokens.ts')
  const api = axios.create({ baseURL: environment.apiUrls.merchant })
  attachAuth(api, tokens)
  const answers = await Promise.all(Array.from({ length: CALLS }, (_, n) => api.get(`/orders/${n}`)))
  assert.ok(answers.every(({ status }) => status === 200))
  console.log(`  worker ${id}: ${answers.length} calls, token from: ${sources.join(', ')}`)
  process.once('message', async () => {
    await tokens.close()
    cluster.worker?.disconnect()
  })
  process.send?.('done')
}

await (cluster.worker === undefined ? runPrimary() : runWorker(cluster.worker.id))

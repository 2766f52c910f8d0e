/** Processes that share one token through a database: a Keyv store, here on SQLite. It starts itself four times. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KeyvSqlite } from '@keyv/sqlite'
import { Keyv } from 'keyv'
import { createAuthFetch, createTokenProvider, type Environment } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { keyvTokenStore } from './recipes/parts/keyv-token-store.ts'

interface Job {
  readonly file: string
  readonly environment: Environment
  readonly clientId: string
  readonly clientSecret: string
  readonly merchantUrl: string
}

/** What each process does: one call, and the end. */
async function runJob({ file, environment, clientId, clientSecret, merchantUrl }: Job): Promise<void> {
  const sqlite = new KeyvSqlite({ uri: `sqlite://${file}`, driver: 'node:sqlite', busyTimeout: 1_000 })
  const keyv = new Keyv({ store: sqlite, throwOnErrors: true })
  const tokens = createTokenProvider({ environment, clientId, clientSecret, store: keyvTokenStore(keyv) })
  const response = await createAuthFetch(tokens)(`${merchantUrl}/orders`)
  console.log(`  job ${process.pid}: ${response.status}`)
  await tokens.close() // the token is in the file
  await keyv.disconnect()
}

if (process.send === undefined) {
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
  const folder = mkdtempSync(join(tmpdir(), 'tokens-'))
  const job: Job = { file: join(folder, 'tokens.sqlite'), environment, clientId, clientSecret, merchantUrl }
  for (let run = 1; run <= 4; run += 1) {
    const child = fork(new URL(import.meta.url))
    child.send(job)
    const [code] = await once(child, 'exit')
    if (code !== 0) process.exitCode = 1
  }
  console.log(`Four jobs, one after the other, and ${sandbox.test.counts.token} token request`)
  if (sandbox.test.counts.token !== 1) process.exitCode = 1
  await sandbox.close()
  rmSync(folder, { recursive: true })
} else {
  process.once('message', async (job: Job) => {
    await runJob(job)
    process.disconnect()
  })
}

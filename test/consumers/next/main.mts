/** A Next.js application, built without and with `cacheComponents`, and called at the server that `next start` starts. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'

type Build = 'plain' | 'cached'

const folder = import.meta.dirname
const next = join(folder, '../node_modules/next/dist/bin/next')
const base = { ...process.env, NEXT_TELEMETRY_DISABLED: '1' }

await buildsWithoutConnection()
await buildsWithCacheComponents()
console.log('done')

/** A page that awaits the token while `next build` prerenders it becomes a dynamic page. */
async function buildsWithoutConnection(): Promise<void> {
  await using sandbox = await startSandbox()
  await build('plain', variables(sandbox))
  assert.deepEqual([sandbox.test.counts.token, sandbox.test.counts.merchant], [0, 0])
  await using server = await start('plain', sandbox)

  await server.shows('/plain')
  await server.shows('/plain')
  assert.deepEqual([sandbox.test.counts.token, sandbox.test.counts.merchant], [1, 2])
  // The token request says `no-store`: without that, this would get the revoked token from the cache.
  sandbox.test.revoke()
  await server.shows('/plain')
  assert.equal(sandbox.test.counts.token, 2)
  // Pages and route handlers share one token.
  await server.shows('/orders', { method: 'POST', body: '{}' })
  assert.equal(sandbox.test.counts.token, 2)
}

/** Built without the variables, as in a container image. */
async function buildsWithCacheComponents(): Promise<void> {
  await using sandbox = await startSandbox()
  await build('cached', {})
  await using server = await start('cached', sandbox)
  await server.shows('/')
  await server.shows('/')
  await server.shows('/orders', { method: 'POST', body: '{}' })
  assert.deepEqual([sandbox.test.counts.token, sandbox.test.counts.merchant], [1, 3])
  await server.shows('/cached')
  await server.shows('/cached')
  assert.deepEqual([sandbox.test.counts.token, sandbox.test.counts.merchant], [1, 4])
}

function variables({ test }: Sandbox): Record<string, string> {
  return { ...test.variables, MERCHANT_AUTH_API_URLS: `merchant=${test.merchantUrl}` }
}

async function build(name: Build, env: Record<string, string>): Promise<void> {
  await promisify(execFile)(process.execPath, [next, 'build', folder], {
    env: { ...base, ...env, BUILD: name },
    timeout: 120_000,
  })
}

interface Server extends AsyncDisposable {
  /** Fails unless the API was called for this path. */
  shows(path: string, init?: RequestInit): Promise<void>
}

async function start(name: Build, sandbox: Sandbox): Promise<Server> {
  const server = spawn(process.execPath, [next, 'start', folder, '-p', '0', '-H', '127.0.0.1'], {
    env: { ...base, ...variables(sandbox), BUILD: name },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(server, 'exit')
  const url = new Promise<string>((resolve, reject) => {
    createInterface(server.stdout).on('line', (line) => {
      const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? []
      if (found !== undefined) resolve(found)
    })
    ended.then(() => reject(new Error('next start ended')))
  })
  return {
    async shows(path, init) {
      const response = await fetch((await url) + path, init)
      assert.match(await response.text(), /The API returned 200/)
    },
    async [Symbol.asyncDispose]() {
      server.kill()
      await ended
    },
  }
}

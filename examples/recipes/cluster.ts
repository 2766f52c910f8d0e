/** node:cluster with four workers that share one token by Redis: 100 calls, one token request. Needs redis-server. */
import assert from 'node:assert/strict'
import cluster from 'node:cluster'
import { once } from 'node:events'
import axios from 'axios'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { startSandbox } from 'merchant-auth/testing'
import { createClient } from 'redis'
import { hasRedis, startRedis } from './support/redis.ts'
import { serviceEnv } from './support/service-env.ts'

const WORKERS = 4
const CALLS = 25

async function runPrimary(): Promise<void> {
  await using sandbox = await startSandbox()
  await using redis = await startRedis()
  const workers = Array.from({ length: WORKERS }, () =>
    cluster.fork({ ...serviceEnv(sandbox.test), REDIS_URL: redis.url }),
  )
  const ends = await Promise.all(workers.map((worker) => once(worker, 'exit')))
  assert.deepEqual(
    ends,
    workers.map(() => [0, null]),
  )
  const { token, merchant, unauthorized } = sandbox.test.counts
  assert.deepEqual(
    { token, merchant, unauthorized },
    { token: 1, merchant: WORKERS * CALLS, unauthorized: 0 },
  )
  console.log(`${WORKERS} workers, ${merchant} calls, ${token} token request`)
}

async function runWorker(): Promise<void> {
  const redis = createClient({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
  redis.on('error', (error: Error) => console.warn('Redis:', error.message))
  redis.connect().catch(() => {}) // not awaited: the service starts without Redis, too
  const sources: string[] = []
  const options = optionsFromEnv()
  const tokens = createTokenProvider({
    ...options,
    store: createRedisTokenStore(redis),
    onEvent: (event) => {
      if (event.type === 'token-acquired') sources.push(event.source)
    },
  })
  const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
  attachAuth(api, tokens)
  const answers = await Promise.all(Array.from({ length: CALLS }, (_, n) => api.get(`/orders/${n}`)))
  assert.ok(answers.every(({ status }) => status === 200))
  console.log(`  worker ${cluster.worker?.id}: ${answers.length} calls, token from: ${sources.join(', ')}`)
  await tokens.close()
  redis.destroy()
  cluster.worker?.disconnect()
}

if (cluster.isWorker) await runWorker()
else if (hasRedis()) await runPrimary()
else {
  console.log(
    'redis-server is not installed (apt-get install redis-server): there is nothing to share a token by.',
  )
  process.exitCode = process.env['CI'] === undefined ? 0 : 1
}

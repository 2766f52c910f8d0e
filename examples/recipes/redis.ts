/**
 * Four processes that share one token through Redis, two of them with each client: 100 calls, one token request. Needs
 * redis-server.
 */
import assert from 'node:assert/strict'
import cluster from 'node:cluster'
import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import axios from 'axios'
import { type AuthEvent, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'
import { hasRedis, startRedis } from './support/redis.ts'

const WORKERS = 4
const CALLS = 25

async function runPrimary(): Promise<void> {
  await using sandbox = await startSandbox()
  await using redis = await startRedis()
  const workers = Array.from({ length: WORKERS }, () =>
    cluster.fork({ ...sandbox.test.variables, REDIS_URL: redis.url }),
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

async function runWorker(id: number): Promise<void> {
  const sources: string[] = []
  subscribe('merchant-auth', (message) => {
    const event = message as AuthEvent
    if (event.type === 'token-acquired') sources.push(event.source)
  })
  const client = id % 2 === 0 ? 'redis' : 'ioredis'
  const { redis, tokens } = await (client === 'redis'
    ? import('./parts/redis-tokens.ts')
    : import('./parts/ioredis-tokens.ts'))
  const { apiUrls } = optionsFromEnv(process.env, { apis: ['merchant'] }).environment
  const api = axios.create({ baseURL: apiUrls.merchant })
  attachAuth(api, tokens)
  const answers = await Promise.all(Array.from({ length: CALLS }, (_, n) => api.get(`/orders/${n}`)))
  assert.ok(answers.every(({ status }) => status === 200))
  console.log(`  worker ${id}, ${client}: ${answers.length} calls, token from: ${sources.join(', ')}`)
  await tokens.close()
  if ('destroy' in redis) redis.destroy()
  else redis.disconnect()
  cluster.worker?.disconnect()
}

if (cluster.worker !== undefined) await runWorker(cluster.worker.id)
else if (hasRedis()) await runPrimary()
else {
  console.log(
    'redis-server is not installed (apt-get install redis-server): the workers have nothing to share a token through.',
  )
  process.exitCode = process.env['CI'] === undefined ? 0 : 1
}

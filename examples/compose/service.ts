/** The service of compose.yaml: it calls the merchant API, and shares its token through Redis. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createClient } from 'redis'

const redis = createClient({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
redis.on('error', (error) => console.warn('Redis:', error.message))
redis.connect().catch(() => {}) // not awaited: the service also starts without Redis
const options = optionsFromEnv(process.env, { apis: ['merchant'] })
const tokens = createTokenProvider({ ...options, store: createRedisTokenStore(redis) })
const authFetch = createAuthFetch(tokens)

const server = createServer(async (request, response) => {
  try {
    const { status, body } = await authFetch(`${options.environment.apiUrls.merchant}${request.url}`)
    response.writeHead(status, { 'content-type': 'application/json' })
    for await (const chunk of body ?? []) response.write(chunk)
    response.end()
  } catch (error) {
    console.error(error)
    response.writeHead(502).end()
  }
})
server.listen(Number(process.env['PORT'] ?? 3000), () => {
  console.log(`listens on port ${(server.address() as AddressInfo).port}`)
})

process.once('SIGTERM', () => {
  server.close(async () => {
    await tokens.close()
    redis.destroy()
  })
})

/** A provider that shares its token through node-redis. Shown in docs/sharing.md. */
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createClient } from 'redis'

export const redis = createClient({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
redis.on('error', (error) => console.warn('Redis:', error.message))
redis.connect().catch(() => {}) // not awaited: the service also starts without Redis
export const tokens = createTokenProvider({ ...optionsFromEnv(), store: createRedisTokenStore(redis) })

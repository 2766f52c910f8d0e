/** A provider that shares its token through ioredis. Named in docs/sharing.md. */
import { Redis } from 'ioredis'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'

export const redis = new Redis(process.env['REDIS_URL'] ?? 'redis://localhost:6379')
redis.on('error', (error) => console.warn('Redis:', error.message))
export const tokens = createTokenProvider({ ...optionsFromEnv(), store: createRedisTokenStore(redis) })

/** One token request for real processes that share a Redis. */
import { describe, it } from 'vitest'
import { expectShared } from '../store/processes.ts'
import { startRedis } from '../support/redis-server.ts'
import { CLIENTS } from './clients.ts'
import { SKIPPED } from './rig.ts'

describe.skipIf(SKIPPED)('real processes', () => {
  it.each(CLIENTS)('share one token request through %s', async (client) => {
    await using redis = await startRedis()
    await expectShared({ client, port: redis.port })
  })
})

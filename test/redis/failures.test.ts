/**
 * Failures of Redis: no call fails or waits for more than one operation, events report the failure, and a token is shared again
 * afterwards.
 */
import { Redis } from 'ioredis'
import type { TokenStore } from 'merchant-auth'
import { describe, expect, inject, it } from 'vitest'
import { eventually, failuresOf, onEachRedis, type Rig, sourcesOf } from './rig.ts'

const OPERATION_MS = 2_000
const ROOM_MS = 400
const TIMEOUT = 'ETIMEDOUT'
/** A client that is not connected: the error of ioredis has neither a code nor a class of its own. */
const CLOSED = ['undefined', 'ClientClosedError', 'ClientOfflineError', 'SocketClosedUnexpectedlyError']

interface Failure {
  readonly name: string
  inflict(rig: Rig): Promise<unknown>
  cure(rig: Rig): Promise<unknown>
  /** The operation that fails, and the codes that it may fail with. */
  readonly operation: 'get' | 'lease'
  readonly codes: readonly string[]
}

const everywhere =
  (...command: string[]) =>
  (rig: Rig) =>
    rig.every((server) => server.command(...command))

const restart = async (rig: Rig): Promise<void> => {
  await rig.every((server) => server.restart())
  await rig.redis.whole()
}

const DOWN: Failure = {
  name: 'is not running',
  inflict: (rig) => rig.every((server) => server.kill()),
  cure: restart,
  operation: 'get',
  codes: [TIMEOUT, ...CLOSED],
}

const FROZEN: Failure = {
  name: 'hangs (SIGSTOP)',
  inflict: (rig) => rig.every((server) => server.freeze()),
  cure: (rig) => rig.every((server) => server.thaw()),
  operation: 'get',
  codes: [TIMEOUT, ...CLOSED],
}

const PASSWORD: Failure = {
  name: 'requires a password',
  inflict: everywhere('config', 'set', 'requirepass', 'swordfish'),
  cure: (rig) =>
    rig.every(async ({ port }) => {
      const client = new Redis({ port, password: 'swordfish' })
      await client.config('SET', 'requirepass', '')
      client.disconnect()
    }),
  operation: 'get',
  codes: ['NOAUTH', TIMEOUT, ...CLOSED],
}

const FULL: Failure = {
  name: 'is full',
  inflict: everywhere('config', 'set', 'maxmemory', '1'),
  cure: everywhere('config', 'set', 'maxmemory', '0'),
  operation: 'lease',
  codes: ['OOM'],
}

const READ_ONLY: Failure = {
  name: 'is a replica whose master is down',
  inflict: everywhere('replicaof', '127.0.0.1', '1'),
  cure: everywhere('replicaof', 'no', 'one'),
  operation: 'lease',
  codes: ['READONLY'],
}

onEachRedis((rig) => {
  /** Starts a process; resolves with the outcome of its first call. */
  const begin = async (store: TokenStore) => {
    const { provider, events } = rig.start(store)
    const from = performance.now()
    const { value } = await provider.getToken()
    return { value, tookMs: performance.now() - from, events }
  }

  const expectOneWait = async (store: TokenStore, { operation, codes }: Failure): Promise<void> => {
    const { tookMs, events } = await begin(store)
    const [first, write] = failuresOf(events)
    expect(codes.map((code) => `${operation} ${code}`)).toContain(first)
    // Nobody waits for the write: it may not have failed yet.
    if (write !== undefined) expect(codes.map((code) => `set ${code}`)).toContain(write)
    expect(sourcesOf(events)).toEqual(['endpoint'])
    if (inject('quiet')) expect(tookMs).toBeLessThan(OPERATION_MS + ROOM_MS)
  }

  describe('a Redis server that', () => {
    it.each([DOWN, FROZEN, PASSWORD])('$name from the start fails no call', async (failure) => {
      await failure.inflict(rig)
      const stores = [rig.unconnected(), rig.unconnected()] as const
      try {
        await Promise.all(stores.map((store) => expectOneWait(store, failure)))
      } finally {
        await failure.cure(rig)
      }
      await rig.sharing(...stores)
    })

    const midway = rig.layout === 'cluster' ? [FROZEN, FULL] : [DOWN, FROZEN, FULL, READ_ONLY]
    it.each(midway)('$name while a token is shared fails no call', async (failure) => {
      const stores = [await rig.store(), await rig.store()] as const
      await rig.sharing(...stores)
      if (failure.operation === 'lease') await rig.begin()
      await failure.inflict(rig)
      try {
        for (const store of stores) await expectOneWait(store, failure)
      } finally {
        await failure.cure(rig)
      }
      await rig.sharing(...stores)
    })

    it.runIf(rig.layout === 'single node')(
      'restarts empty fails no call, and a token is shared again',
      async () => {
        const stores = [await rig.store(), await rig.store()] as const
        await rig.sharing(...stores)
        await rig.every((server) => server.restart())
        for (const store of stores) await begin(store)
        await rig.sharing(...stores)
      },
    )
  })

  it.runIf(rig.layout === 'cluster')(
    'a cluster that loses the node with the token fails no call',
    async () => {
      const stores = [await rig.store(), await rig.store()] as const
      await rig.sharing(...stores)
      const { server } = await rig.tokenEntry()
      const [witness] = rig.redis.servers.filter((other) => other !== server)
      await server.kill()
      const lost = { ...DOWN, codes: [TIMEOUT, ...CLOSED, 'CLUSTERDOWN'] }
      for (const store of stores) await expectOneWait(store, lost)
      await eventually('the others to notice', async () =>
        String(await witness?.command('cluster', 'info')).includes('cluster_state:fail'),
      )
      for (const store of stores) await expectOneWait(store, lost)
      await server.restart()
      await rig.redis.whole()
      await rig.sharing(...stores)
    },
  )
})

/** What the tests on real redis-servers share: the servers, and processes that have a token in common by them. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AuthEvent, TokenProviderOptions } from 'merchant-auth'
import { createRedisTokenStore, type RedisTokenStoreOptions, type TokenStore } from 'merchant-auth/redis'
import { afterAll, afterEach, beforeAll, beforeEach, describe } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { SafeStore } from '../../src/store/safe-store.ts'
import { type Process as Member, sourcesOf } from '../store/fleet.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  type RedisCluster,
  type RedisServer,
  redisMissing,
  startRedis,
  startRedisCluster,
} from '../support/redis-server.ts'
import { rig as provide, ScriptedEndpoint, SECRET } from '../token/harness.ts'
import { CLIENTS, type Client, type Connection, connect, LAYOUTS, type Layout } from './clients.ts'

export { type Member, sourcesOf }

/** Without redis-server these tests are left out, but in CI they fail. */
export const SKIPPED = redisMissing() !== undefined && !process.env['CI']

/** For tests in which Redis does not fail, on machines that are slow. */
export const PATIENT = { operationTimeoutMs: PATIENCE_MS }

/** A store as it is by default, for tests in which Redis fails: it has 250 ms for an operation. */
export const DEFAULTS = {}

/** A key in Redis, and the node that has it. */
export interface Entry {
  readonly key: string
  readonly server: RedisServer
}

/**
 * The same tests for both clients, on a single node and on a cluster. The four run at the same time, as they mostly
 * wait, each one's tests in turn on servers of its own.
 */
export function onEachRedis(suite: (rig: Rig) => void): void {
  for (const client of CLIENTS) {
    for (const layout of LAYOUTS) {
      describe(client, { concurrent: true, skip: SKIPPED }, () => {
        describe(layout, { concurrent: false }, () => {
          const rig = new Rig(client, layout)
          beforeAll(() => rig.open())
          beforeEach(() => rig.begin())
          afterEach(() => rig.end())
          afterAll(() => rig.close())
          suite(rig)
        })
      })
    }
  }
}

export class Rig {
  readonly client: Client
  readonly layout: Layout
  endpoint = new ScriptedEndpoint([])
  #redis: RedisCluster | undefined
  readonly #members: Member[] = []
  readonly #connections: Connection[] = []

  constructor(client: Client, layout: Layout) {
    this.client = client
    this.layout = layout
  }

  async open(): Promise<void> {
    this.#redis = this.layout === 'cluster' ? await startRedisCluster() : await alone()
  }

  async close(): Promise<void> {
    await this.#redis?.stop()
  }

  /** All nodes are there, whatever a test that failed has left, and nothing is in them. */
  async begin(): Promise<void> {
    this.endpoint = new ScriptedEndpoint([])
    await this.every(async (server) => {
      server.thaw()
      await server.command('ping').catch(() => server.restart())
    })
    await this.redis.whole()
    await this.every((server) => server.command('flushall'))
  }

  async end(): Promise<void> {
    await Promise.all(this.#members.splice(0).map(({ provider }) => provider.close()))
    for (const connection of this.#connections.splice(0)) connection.close()
  }

  get redis(): RedisCluster {
    if (this.#redis === undefined) throw new Error('No Redis has been started')
    return this.#redis
  }

  /** Does something with every node. */
  async every(act: (server: RedisServer) => unknown): Promise<void> {
    await Promise.all(this.redis.servers.map(act))
  }

  connect(): Connection {
    const connection = connect(this.client, this.layout, this.redis.ports)
    connection.ready.catch(() => {})
    this.#connections.push(connection)
    return connection
  }

  /** A store with a connected client of its own, which a slow machine does not make fail. */
  async store(options: RedisTokenStoreOptions = PATIENT): Promise<TokenStore> {
    const { client, ready } = this.connect()
    const store = createRedisTokenStore(client, options)
    await ready
    return store
  }

  /** As `store`, where the client cannot connect now. */
  unconnected(): TokenStore {
    return createRedisTokenStore(this.connect().client)
  }

  /** A store as a provider uses it. */
  safe(store: TokenStore): SafeStore {
    const context = { client: 'client', encryptionKeys: [SECRET], clock: systemClock, secrets: [] }
    return new SafeStore(store, { ...context, emit: () => {} })
  }

  start(store: TokenStore, options: Partial<TokenProviderOptions> = {}): Member {
    const { provider, events } = provide([], {
      clock: undefined,
      fetch: this.endpoint.fetch,
      store,
      ...options,
    })
    this.#members.push({ provider, events })
    return { provider, events }
  }

  /** As many members, each with a store of its own. */
  async startAll(count: number, options?: Partial<TokenProviderOptions>): Promise<Member[]> {
    const stores = await Promise.all(Array.from({ length: count }, () => this.store()))
    return stores.map((store) => this.start(store, options))
  }

  /** All that is there. */
  async entries(): Promise<Entry[]> {
    const found = await Promise.all(
      this.redis.servers.map(async (server) => {
        const keys = await server.command('keys', '*')
        return keys.split('\n').flatMap((key) => (key === '' ? [] : [{ key, server }]))
      }),
    )
    return found.flat()
  }

  /** The entry of the one token that is there. */
  async tokenEntry(): Promise<Entry> {
    const [entry, ...others] = (await this.entries()).filter(({ key }) => /v1\.token\.[^:]*$/.test(key))
    if (entry === undefined || others.length > 0) throw new Error(`${others.length} other tokens`)
    return entry
  }

  /** Resolves when a token is there, and nobody has its lease. */
  async written(): Promise<void> {
    await eventually('what is written', async () => {
      const keys = (await this.entries()).map(({ key }) => key)
      return keys.some((key) => key.includes('v1.token')) && !keys.some((key) => key.endsWith(':lease'))
    })
  }

  /** Resolves when a token that a process puts there by one client is found by another. */
  async sharing(one: TokenStore, other: TokenStore): Promise<void> {
    await eventually('a token to be shared', async () => {
      const [first, second] = [this.start(one), this.start(other)]
      const { value } = await first.provider.getToken()
      await first.provider.close() // when it is written
      const found = await second.provider.getToken()
      return found.value === value && sourcesOf(second.events)[0] === 'store'
    })
  }
}

/** The events of a store that failed. */
export function failuresOf(events: readonly AuthEvent[]): string[] {
  return events.flatMap((event) =>
    event.type === 'store-failed' ? [`${event.operation} ${event.code}`] : [],
  )
}

export async function eventually(
  what: string,
  condition: () => Promise<boolean>,
  everyMs = 50,
): Promise<void> {
  const endsAt = performance.now() + PATIENCE_MS
  while (!(await condition())) {
    if (performance.now() > endsAt) throw new Error(`Waited ${PATIENCE_MS} ms for ${what}`)
    await sleep(everyMs)
  }
}

async function alone(): Promise<RedisCluster> {
  const server = await startRedis()
  const stop = async (): Promise<void> => server[Symbol.asyncDispose]()
  return { ports: [server.port], servers: [server], whole: async () => {}, stop, [Symbol.asyncDispose]: stop }
}

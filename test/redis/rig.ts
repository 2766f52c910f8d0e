/** Shared by the tests on real Redis servers: the servers, and processes that share a token through them. */
import type { AuthEvent, TokenProviderOptions } from 'merchant-auth'
import { createRedisTokenStore, type TokenStore } from 'merchant-auth/redis'
import { afterAll, afterEach, beforeAll, beforeEach, describe } from 'vitest'
import { eventually } from '../store/contract.ts'
import { type Process as Member, sourcesOf } from '../store/fleet.ts'
import {
  type RedisCluster,
  type RedisServer,
  redisMissing,
  startRedis,
  startRedisCluster,
} from '../support/redis-server.ts'
import { rig as provide, ScriptedEndpoint } from '../token/harness.ts'
import { CLIENTS, type Client, type Connection, connect, LAYOUTS, type Layout } from './clients.ts'

export { eventually, type Member, sourcesOf }

/** Without redis-server these tests are skipped, but in CI they fail. */
export const SKIPPED = redisMissing() !== undefined && !process.env['CI']

/** A key in Redis and the node that stores it. */
export interface Entry {
  readonly key: string
  readonly server: RedisServer
}

/**
 * Runs the same tests for both clients, on a single node and on a cluster. The four combinations run concurrently,
 * because they mostly wait; the tests of each run one after the other on their own servers.
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

  /** Restores all nodes, whatever state a failed test left them in, and empties them. */
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

  /** Does something with every node, concurrently. */
  async every(act: (server: RedisServer) => unknown): Promise<void> {
    await Promise.all(this.redis.servers.map(act))
  }

  connect(): Connection {
    const connection = connect(this.client, this.layout, this.redis.ports)
    connection.ready.catch(() => {})
    this.#connections.push(connection)
    return connection
  }

  /** A store with its own connected client. */
  async store(): Promise<TokenStore> {
    const { client, ready } = this.connect()
    const store = createRedisTokenStore(client)
    await ready
    return store
  }

  /** As `store`, but with a client that cannot connect yet. */
  unconnected(): TokenStore {
    return createRedisTokenStore(this.connect().client)
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

  /** Starts `count` members, each with its own store. */
  async startAll(count: number, options?: Partial<TokenProviderOptions>): Promise<Member[]> {
    const stores = await Promise.all(Array.from({ length: count }, () => this.store()))
    return stores.map((store) => this.start(store, options))
  }

  /** All keys on all nodes. */
  async entries(): Promise<Entry[]> {
    const found = await Promise.all(
      this.redis.servers.map(async (server) => {
        const keys = await server.command('keys', '*')
        return keys.split('\n').flatMap((key) => (key === '' ? [] : [{ key, server }]))
      }),
    )
    return found.flat()
  }

  /** The entry of the only token. */
  async tokenEntry(): Promise<Entry> {
    const [entry, ...others] = (await this.entries()).filter(({ key }) => /v2\.token\.[^:]*$/.test(key))
    if (entry === undefined || others.length > 0) throw new Error(`${others.length} other tokens`)
    return entry
  }

  /** Resolves when a token is stored and its lease is released. */
  async written(): Promise<void> {
    await eventually('the token to be written', async () => {
      const keys = (await this.entries()).map(({ key }) => key)
      return keys.some((key) => key.includes('v2.token')) && !keys.some((key) => key.endsWith(':lease'))
    })
  }

  /** Resolves when a token that one store wrote is acquired through the other. */
  async sharing(one: TokenStore, other: TokenStore): Promise<void> {
    await eventually('a token to be shared', async () => {
      const [first, second] = [this.start(one), this.start(other)]
      const { value } = await first.provider.getToken()
      await first.provider.close() // waits until it is written
      const found = await second.provider.getToken()
      return found.value === value && sourcesOf(second.events)[0] === 'store'
    })
  }
}

/** The operations and codes of the store-failed events. */
export function failuresOf(events: readonly AuthEvent[]): string[] {
  return events.flatMap((event) =>
    event.type === 'store-failed' ? [`${event.operation} ${event.code}`] : [],
  )
}

async function alone(): Promise<RedisCluster> {
  const server = await startRedis()
  const stop = async (): Promise<void> => server[Symbol.asyncDispose]()
  return { ports: [server.port], servers: [server], whole: async () => {}, stop, [Symbol.asyncDispose]: stop }
}

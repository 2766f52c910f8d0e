/** Several providers, like several processes, share one token through a store. */
import assert from 'node:assert/strict'
import type { TokenStore } from 'merchant-auth'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { inWorld, until } from '../../clients/world.ts'
import { check, group } from './harness.ts'

group('One token for many processes')

/** A store with a lease, as a database could implement it. */
class SharedStore implements TokenStore {
  readonly entries = new Map<string, { value: string; endsAt: number }>()
  readonly #leases = new Map<string, object>()
  leases = 0

  async get(key: string): Promise<{ value: string; ttlMs: number } | undefined> {
    const entry = this.entries.get(key)
    const ttlMs = entry === undefined ? 0 : entry.endsAt - Date.now()
    return entry === undefined || ttlMs <= 0 ? undefined : { value: entry.value, ttlMs }
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    this.entries.set(key, { value, endsAt: Date.now() + ttlMs })
  }

  async lease(key: string): Promise<(() => Promise<void>) | undefined> {
    if (this.#leases.has(key)) return undefined
    const mine = {}
    this.#leases.set(key, mine)
    this.leases += 1
    return async () => {
      if (this.#leases.get(key) === mine) this.#leases.delete(key)
    }
  }
}

check('eight providers make one token request', () =>
  inWorld(async ({ service, provider, events }) => {
    service.configure({ tokenLatencyMs: 30 })
    const store = new SharedStore()
    const all = Array.from({ length: 8 }, () => provider({ store }))
    const values = await Promise.all(all.map(async (tokens) => (await tokens.getToken()).value))
    assert.equal(new Set(values).size, 1)
    assert.equal(service.counts.token, 1)
    assert.ok(store.leases >= 1)
    assert.ok(events.some((event) => event.type === 'token-acquired' && event.source === 'store'))
    assert.deepEqual(
      events.filter(({ type }) => type === 'store-failed'),
      [],
    )
  }),
)

check('the store gets only encrypted tokens, and no client secret', () =>
  inWorld(async ({ service, provider }) => {
    const store = new SharedStore()
    const { value } = await provider({ store }).getToken()
    await until(() => store.entries.size > 0)
    const stored = JSON.stringify([...store.entries])
    for (const part of value.split('.')) assert.ok(!stored.includes(part))
    assert.ok(!stored.includes(service.clientSecret))
  }),
)

check('a token that the API rejected is renewed once for all providers', () =>
  inWorld(async ({ service, provider }) => {
    const store = new SharedStore()
    const [one, two] = [provider({ store }), provider({ store })]
    const rejected = await one.getToken()
    assert.equal((await two.getToken()).value, rejected.value)
    service.revoke()
    const renewed = await Promise.all([one, two].map((tokens) => tokens.renewToken(rejected)))
    assert.equal(new Set(renewed.map((token) => token?.value)).size, 1)
    assert.equal(service.counts.token, 2)
  }),
)

check('no call fails if the store fails or hangs', () =>
  inWorld(async ({ provider, events }) => {
    const down = async (): Promise<never> => {
      throw Object.assign(new Error('down'), { code: 'ECONNREFUSED' })
    }
    const hangs = (): Promise<never> => new Promise(() => {})
    for (const act of [down, hangs]) {
      const store = { get: act, set: act, lease: act }
      assert.ok((await provider({ store }).getToken()).value)
    }
    await until(() => events.some((event) => event.type === 'store-failed' && event.code === 'ETIMEDOUT'))
    assert.ok(events.some((event) => event.type === 'store-failed' && event.code === 'ECONNREFUSED'))
  }),
)

check('merchant-auth/redis shares a token through a minimal Redis client', () =>
  inWorld(async ({ service, provider }) => {
    const entries = new Map<string, string>()
    const client = {
      isOpen: true,
      sendCommand: async () => {},
      async eval(script: string, { keys, arguments: args }: { keys: string[]; arguments: string[] }) {
        const [key = ''] = keys
        if (script.includes("'NX'")) return 1 // the lease
        const value = args.find((arg) => arg.startsWith('ey'))
        if (value !== undefined) entries.set(key, value)
        return [entries.get(key) ?? null, 60_000]
      },
    }
    const values: string[] = []
    for (let time = 0; time < 2; time += 1) {
      const store = createRedisTokenStore(client as unknown as Parameters<typeof createRedisTokenStore>[0])
      const tokens = provider({ store })
      values.push((await tokens.getToken()).value)
      await tokens.close()
    }
    assert.equal(values[0], values[1])
    assert.equal(service.counts.token, 1)
  }),
)

/** The contract of a token store, for the stores of this package. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { TokenStore } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { PATIENCE_MS } from '../support/patience.ts'

const LONG_MS = 60_000

/** Describes a store; `open` opens it anew, as another process does. */
export function describeTokenStore(open: () => Promise<TokenStore>): void {
  describe('a value', () => {
    it('is visible to other stores with its remaining TTL, and can be replaced', async () => {
      const [one, other] = [await open(), await open()]
      expect(await one.get('key')).toBeUndefined()
      await one.set('key', 'value', LONG_MS)
      const found = await other.get('key')
      expect(found).toEqual({ value: 'value', ttlMs: expect.any(Number) })
      expect(found?.ttlMs).toBeLessThanOrEqual(LONG_MS)
      expect(found?.ttlMs).toBeGreaterThan(LONG_MS / 2)
      await other.set('key', 'newer', LONG_MS)
      expect(await one.get('key')).toMatchObject({ value: 'newer' })
    })

    it('is gone when its TTL is over', async () => {
      const store = await open()
      await store.set('key', 'value', 30)
      await eventually('its end', async () => (await store.get('key')) === undefined)
    })
  })

  describe('a lease', () => {
    it('has a single holder until it is released', async () => {
      const [one, other] = [await open(), await open()]
      const release = await one.lease?.('key', LONG_MS)
      expect(await other.lease?.('key', LONG_MS)).toBeUndefined()
      expect(await one.lease?.('key', LONG_MS)).toBeUndefined()
      expect(await other.lease?.('another key', LONG_MS)).toBeTypeOf('function')
      await release?.()
      expect(await other.lease?.('key', LONG_MS)).toBeTypeOf('function')
    })

    it('is granted to one of many concurrent requests', async () => {
      const stores = await Promise.all(Array.from({ length: 8 }, () => open()))
      const leases = await Promise.all(stores.map((store) => store.lease?.('key', LONG_MS)))
      expect(leases.filter((lease) => lease !== undefined)).toHaveLength(1)
    })

    it('expires by itself', async () => {
      const [one, other] = [await open(), await open()]
      await one.lease?.('key', 100)
      await eventually('its end', async () => (await other.lease?.('key', LONG_MS)) !== undefined)
    })

    it('is not released by a former holder', async () => {
      const [one, other, third] = [await open(), await open(), await open()]
      const release = await one.lease?.('key', 1)
      await eventually('its end', async () => (await other.lease?.('key', LONG_MS)) !== undefined)
      await release?.()
      expect(await third.lease?.('key', LONG_MS)).toBeUndefined()
    })
  })
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

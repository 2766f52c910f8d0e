import { DurableObject, env, waitUntil } from 'cloudflare:workers'
import type { TokenStore } from 'merchant-auth'

interface Entry {
  readonly value: string
  readonly endsAt: number
}

/** It runs in one place, and one call at a time reads and writes its storage. */
export class TokenEntries extends DurableObject {
  async get(key: string): Promise<{ value: string; ttlMs: number } | undefined> {
    const entry = await this.ctx.storage.get<Entry>(key)
    const ttlMs = (entry?.endsAt ?? 0) - Date.now()
    return entry && ttlMs > 0 ? { value: entry.value, ttlMs } : undefined
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    await this.ctx.storage.put<Entry>(key, { value, endsAt: Date.now() + ttlMs })
  }

  async lease(key: string, holder: string, ttlMs: number): Promise<boolean> {
    if ((await this.get(`lease ${key}`)) !== undefined) return false
    await this.set(`lease ${key}`, holder, ttlMs)
    return true
  }

  async release(key: string, holder: string): Promise<void> {
    if ((await this.get(`lease ${key}`))?.value === holder) await this.ctx.storage.delete(`lease ${key}`)
  }
}

// Looked up for each operation: a stub belongs to the request that created it.
const entries = () => env.TOKENS.getByName('tokens')

/** Continues when the response has been returned. */
function finish<T>(operation: Promise<T>): Promise<T> {
  waitUntil(operation)
  return operation
}

export const tokenStore: TokenStore = {
  get: (key) => entries().get(key),
  set: (key, value, ttlMs) => finish(entries().set(key, value, ttlMs)),
  async lease(key, ttlMs) {
    const holder = crypto.randomUUID()
    const isHeld = await entries().lease(key, holder, ttlMs)
    return isHeld ? () => finish(entries().release(key, holder)) : undefined
  },
}

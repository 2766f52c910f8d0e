/** Any Keyv instance as a token store. Named in docs/sharing.md. */
import type { Keyv } from 'keyv'
import type { TokenStore } from 'merchant-auth'

export function keyvTokenStore(keyv: Keyv): TokenStore {
  return {
    async get(key) {
      const entry = await keyv.getRaw<string>(key)
      if (typeof entry !== 'object' || entry?.value === undefined) return undefined
      return { value: entry.value, ttlMs: (entry.expires ?? 0) - Date.now() }
    },
    async set(key, value, ttlMs) {
      await keyv.set(key, value, ttlMs)
    },
  }
}

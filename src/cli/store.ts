/** Opens the store of `--store` and `MERCHANT_AUTH_STORE` for one run of a command. */
import { once } from 'node:events'
import { untilAborted } from '../base/waiting.ts'
import type { StoreLocation } from '../options/store-location.ts'
import { storeOfFiles } from '../store/file/entries.ts'
import { createRedisTokenStore } from '../store/redis.ts'
import { storeErrorCode, type TokenStore } from '../store/token-store.ts'

/** How long (ms) a connection to Redis may take. After that the command continues without the store. */
const CONNECT_TIMEOUT_MS = 2_000

/** `failed`: it cannot be reached. `no-client`: no package for Redis is installed. */
export type OpenedStore =
  | { readonly kind: 'open'; readonly store: TokenStore; readonly close: () => void }
  | { readonly kind: 'failed'; readonly code: string | undefined }
  | { readonly kind: 'no-client' }

export const NO_CLIENT = 'needs a client'
export const INSTALL_CLIENT = 'npm install redis'

/** Opens a store. Resolves with a failure if the signal is aborted. */
export async function openStore({ kind, place }: StoreLocation, signal: AbortSignal): Promise<OpenedStore> {
  if (kind === 'directory') return { kind: 'open', store: storeOfFiles(place), close: () => {} }
  const client = await redisClient(place)
  if (client === undefined) return { kind: 'no-client' }
  const { store, connect, close } = client
  const timeout = AbortSignal.timeout(CONNECT_TIMEOUT_MS)
  try {
    await untilAborted(connect(), AbortSignal.any([signal, timeout]))
    return { kind: 'open', store, close }
  } catch (error) {
    close()
    return { kind: 'failed', code: timeout.aborted ? 'ETIMEDOUT' : storeErrorCode(error) }
  }
}

interface Client {
  readonly store: TokenStore
  readonly connect: () => Promise<unknown>
  readonly close: () => void
}

/** A client of the package that is installed. It does not connect again: the provider goes on without it. */
async function redisClient(url: string): Promise<Client | undefined> {
  const connectTimeout = CONNECT_TIMEOUT_MS
  const redis = await import('redis').catch(() => undefined)
  if (redis !== undefined) {
    const client = redis.createClient({ url, socket: { connectTimeout, reconnectStrategy: false } })
    const store = createRedisTokenStore(client) // which listens to its errors
    // Version 4 has no destroy().
    return { store, connect: () => client.connect(), close: () => client.isOpen && client.disconnect() }
  }
  const ioredis = await import('ioredis').catch(() => undefined)
  if (ioredis === undefined) return undefined
  const retry = { maxRetriesPerRequest: 0, retryStrategy: () => null }
  const client = new ioredis.Redis(url, { connectTimeout, lazyConnect: true, ...retry })
  const store = createRedisTokenStore(client)
  // The rejection of connect() says only that the connection is closed.
  const failed = once(client, 'error').then(([error]) => Promise.reject(error))
  const connect = (): Promise<unknown> => Promise.race([failed, client.connect()])
  return { store, connect, close: () => client.disconnect() }
}

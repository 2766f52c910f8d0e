/** A caller in TypeScript, as a service would write it. Compiled as ESM and as CommonJS against the built declarations. */
import axios, { type AxiosInstance } from 'axios'
import { Redis, Cluster as RedisCluster } from 'ioredis'
import {
  type AuthEvent,
  createAuthFetch,
  createTokenProvider,
  defineEnvironments,
  isMerchantAuthError,
  type RenewalSuppressedEvent,
  type StoreFailedEvent,
  type TokenProvider,
  type TokenProviderOptions,
  type TokenStore,
} from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { createFileTokenStore } from 'merchant-auth/file'
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { createRedisTokenStore, type RedisTokenStoreOptions } from 'merchant-auth/redis'
import { createStaticTokenProvider, startSandbox } from 'merchant-auth/testing'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'

export const environments = defineEnvironments({
  test: {
    authUrl: 'https://auth.test.example.com',
    audience: 'https://api.test.example.com',
    apiUrls: ['https://api.test.example.com/merchant', 'https://api.test.example.com/in-store'],
  },
})

export const options: TokenProviderOptions = {
  environment: environments.test,
  clientId: 'id',
  clientSecret: async () => 'secret',
  onEvent: (event) => console.log(describeEvent(event)),
}

export const tokens: TokenProvider = createTokenProvider(options)
export const telemetry: (event: AuthEvent) => void = createTelemetry({ attributes: { merchant: 'm-1' } })
export const api: AxiosInstance = axios.create({ baseURL: environments.test.apiUrls[0] })
export const detach: () => void = attachAuth(api, tokens, { header: 'X-Access-Token', scheme: '' })
export const plain = axios.create()
export const interceptor: number = plain.interceptors.request.use(createAuthInterceptor(options))
plain.interceptors.request.use(createAuthInterceptor(tokens, { renewOnStatus: [] }))
attachAuth(axios, tokens)

export const authFetch: typeof fetch = createAuthFetch(tokens, { fetch: globalThis.fetch })

/** Handles every event by its `type`, with its own fields. Does not compile if an event type is missing. */
export function describeEvent(event: AuthEvent): string {
  switch (event.type) {
    case 'token-requested':
      return `attempt ${event.attempt.toFixed()} ${event.url.toUpperCase()}`
    case 'token-acquired':
      return `${event.source} ${event.durationMs.toFixed()} ${event.lifetimeMs.toFixed()} ${event.remainsMs.toFixed()}`
    case 'token-request-failed':
      return `${event.attempt.toFixed()} ${event.code} ${event.status?.toFixed()} ${event.error} ${event.nextTryMs?.toFixed()}`
    case 'token-rejected':
      return `${event.api?.toUpperCase()} ${event.method?.toUpperCase()} ${event.url?.toUpperCase()}`
    case 'token-renewed':
      return event.reason
    case 'renewal-suppressed':
      return `${suppressed(event)} ${event.method?.toUpperCase()} ${event.url?.toUpperCase()}`
    case 'token-withheld':
      return `${event.reason} ${event.url.toUpperCase()}`
    case 'store-failed':
      return failed(event)
    default:
      return event satisfies never
  }
}

/** The clients of both Redis packages, as their factories create them with various settings. */
export const stores: readonly TokenStore[] = [
  createRedisTokenStore(createClient()),
  createRedisTokenStore(createClient({ RESP: 2, disableOfflineQueue: true })),
  createRedisTokenStore(createClient({ RESP: 3 })),
  createRedisTokenStore(createClientPool()),
  createRedisTokenStore(createCluster({ rootNodes: [] })),
  createRedisTokenStore(createSentinel({ name: 'main', sentinelRootNodes: [] })),
  createRedisTokenStore(new Redis()),
  createRedisTokenStore(new RedisCluster([])),
  createFileTokenStore('/var/lib/my-service/tokens'),
]
export const redisOptions: RedisTokenStoreOptions = { keyPrefix: 'shop:' }
export const shared: TokenProvider = createTokenProvider({
  ...options,
  store: createRedisTokenStore(createClient(), redisOptions),
  encryptionKeys: ['new', 'old'],
})

/** Custom stores: one with only the required methods, and one with all optional properties. */
export const minimalStore: TokenStore = {
  get: async (key) => (key === '' ? undefined : { value: key.toUpperCase(), ttlMs: 1 }),
  set: async (key, value, ttlMs) => console.log(key.length, value.length, ttlMs.toFixed()),
}
export const fullStore: TokenStore = {
  ...minimalStore,
  lease: async (key, ttlMs) => (ttlMs > 0 ? async () => console.log(key) : undefined),
}

function suppressed({ reason, api, nextRenewalMs }: RenewalSuppressedEvent): string {
  const known: 'accepted' | 'limited' | 'quota' | 'cooldown' = reason
  return `${known} ${api?.toUpperCase()} ${nextRenewalMs?.toFixed()}`
}

function failed({ operation, code }: StoreFailedEvent): string {
  const known: 'get' | 'set' | 'lease' = operation
  return `${known} ${code?.toUpperCase()}`
}

export async function call(): Promise<string> {
  const sandbox = await startSandbox()
  const none = createStaticTokenProvider()
  try {
    const response: Response = await authFetch(`${sandbox.test.merchantUrl}/orders`)
    return `${response.status} ${(await none.getToken({ signal: AbortSignal.timeout(1) })).value}`
  } catch (error) {
    return isMerchantAuthError(error) ? error.code : 'another error'
  } finally {
    await sandbox.close()
  }
}

// @ts-expect-error: unknown option
createTokenProvider({ ...options, timeout: 1 })
// @ts-expect-error: not an axios instance
attachAuth({}, tokens)
// @ts-expect-error: not a Redis client
createRedisTokenStore({})
// @ts-expect-error: unknown option
createRedisTokenStore(new Redis(), { prefix: 'shop:' })
// @ts-expect-error: a store must have set()
createTokenProvider({ ...options, store: { get: minimalStore.get } })
// @ts-expect-error: an entry must have ttlMs
createTokenProvider({ ...options, store: { ...minimalStore, get: async () => ({ value: '' }) } })

/** The Redis store of `merchant-auth token`, by whichever client is installed. */
import type { Writable } from 'node:stream'
import { ConfigurationError } from '../errors.ts'
import type { AuthEvent } from '../events.ts'
import { createRedisTokenStore } from '../store/redis.ts'
import type { TokenStore } from '../store/token-store.ts'
import { storeErrorCode as codeOf } from '../vocabulary.ts'
import { untilAborted } from '../waiting.ts'
import { paint, type Surroundings } from './terminal.ts'

export const STORE_VARIABLE = 'MERCHANT_AUTH_STORE'

/** How long (ms) a connection may take. Then the token is asked for without the store. */
const CONNECT_TIMEOUT_MS = 2_000

/** A store that a command uses and closes. */
export interface OpenStore {
  readonly store: TokenStore
  /** Says on stderr, once, that the store failed. */
  readonly onEvent: (event: AuthEvent) => void
  close(): void
}

/** What is used of either client. */
interface Client {
  readonly store: TokenStore
  connect(): Promise<unknown>
  close(): void
}

/**
 * Connects to Redis; undefined where no store is asked for, or where it cannot be reached, which costs no token.
 *
 * @throws ConfigurationError where the URL cannot be used, or no client is installed
 */
export async function openStore(
  url: string | undefined,
  { stderr, signal }: Surroundings,
): Promise<OpenStore | undefined> {
  if (url === undefined || url === '') return undefined
  if (!isRedisUrl(url)) {
    const reason = 'must be a URL such as redis://localhost:6379, or rediss://user:password@host:6379/0'
    throw new ConfigurationError('The store cannot be used', [
      { option: `${STORE_VARIABLE} (--store)`, reason },
    ])
  }
  const client = (await redisClient(url)) ?? (await ioredisClient(url))
  if (client === undefined) {
    throw new ConfigurationError('The store cannot be used', [
      { option: `${STORE_VARIABLE} (--store)`, reason: 'needs a client: npm install redis' },
    ])
  }
  const tell = onceOn(stderr)
  const end = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_TIMEOUT_MS)])
  try {
    await untilAborted(client.connect(), end)
  } catch (error) {
    client.close()
    if (!signal.aborted) tell(end.aborted ? 'ETIMEDOUT' : codeOf(error))
    return undefined
  }
  return {
    store: client.store,
    onEvent: (event) => {
      if (event.type === 'store-failed') tell(event.code)
    },
    close: () => client.close(),
  }
}

/** In parts that both clients read: they fail in ways of their own on others. */
function isRedisUrl(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname, username, password, pathname } = new URL(url)
  try {
    decodeURIComponent(username + password)
  } catch {
    return false
  }
  return /^rediss?:$/.test(protocol) && hostname !== '' && /^(?:\/\d*)?$/.test(pathname)
}

function onceOn(stderr: Writable): (code: string | undefined) => void {
  let told = false
  return (code) => {
    if (told) return
    told = true
    const advice = /^(?:NOAUTH|WRONGPASS)$/.test(code ?? '')
      ? '. Check the user name and the password in its URL'
      : ''
    const mark = paint('yellow', 'merchant-auth:', stderr)
    stderr.write(
      `${mark} the store failed${code === undefined ? '' : ` (${code})`}; this token is not shared${advice}\n`,
    )
  }
}

async function redisClient(url: string): Promise<Client | undefined> {
  const redis = await import('redis').catch(() => undefined)
  const client = redis?.createClient({
    url,
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: false },
  })
  client?.on('error', () => {}) // told by connect(), and by the provider's event
  return (
    client && {
      store: createRedisTokenStore(client),
      connect: () => client.connect(),
      close: () => (client.isOpen ? client.destroy() : undefined),
    }
  )
}

async function ioredisClient(url: string): Promise<Client | undefined> {
  const ioredis = await import('ioredis').catch(() => undefined)
  if (ioredis === undefined) return undefined
  let failure: unknown
  const client = new ioredis.Redis(url, {
    connectTimeout: CONNECT_TIMEOUT_MS,
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  })
  client.on('error', (error) => {
    failure ??= error
  })
  return {
    store: createRedisTokenStore(client),
    // What connect() rejects with says only that the connection is closed.
    connect: () => client.connect().catch((error: unknown) => Promise.reject(failure ?? error)),
    close: () => client.disconnect(),
  }
}

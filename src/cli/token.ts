/** `merchant-auth token`: the access token on stdout, for scripts, which may share it in Redis. */
import { once } from 'node:events'
import { tokenEndpoint } from '../environments.ts'
import { ConfigurationError, type Problem } from '../errors.ts'
import type { TokenProviderOptions } from '../options.ts'
import { createRedisTokenStore } from '../store/redis.ts'
import { storeErrorCode, type TokenStore } from '../store/token-store.ts'
import type { AccessToken } from '../token/access-token.ts'
import { createTokenProvider, type TokenProvider } from '../token/provider.ts'
import { untilAborted } from '../waiting.ts'
import { type Command, type CommandContext, EXIT, parseFlags, UsageError } from './command.ts'
import { watchConnection } from './connection.ts'
import { diagnose } from './diagnosis.ts'
import {
  HEADER_FLAGS,
  optionsFrom,
  readHeader,
  readSources,
  SETTINGS_FLAGS,
  SETTINGS_HELP,
  STORE_VARIABLE,
  unreadDotenv,
} from './settings.ts'
import { complain, Redactor } from './terminal.ts'

/** How long (ms) a connection to the store may take. After that the token is requested without it. */
const CONNECT_TIMEOUT_MS = 2_000

const FLAGS = {
  header: { type: 'boolean' },
  ...HEADER_FLAGS,
  json: { type: 'boolean' },
  store: { type: 'string' },
  'min-validity': { type: 'string', default: '60' },
} as const

export const tokenCommand: Command = {
  help: `Usage: npx merchant-auth token [--header | --json] [--store URL] [flags]

Prints an access token on stdout, and nothing else. Errors go to stderr, with
the exit codes of npx merchant-auth check.

  --header             print the header line: Authorization: Bearer …
  --header-name NAME   header that carries the token; implies --header
  --scheme SCHEME      scheme before the token, '' for none; implies --header
  --json               print JSON: { accessToken, tokenType, scope, expiresAt
                       (ms since 1970), expiresInSeconds }
  --store URL          share the token, encrypted, in Redis (needs the package
                       redis or ioredis); variable: MERCHANT_AUTH_STORE
  --min-validity SECONDS
                       renew a token from the store that is valid for less (60)

${SETTINGS_HELP}

Example:
  npx merchant-auth token --header | curl -H @- https://api.example.com/orders
`,

  async run(args, context) {
    const { env, stdout, stderr, signal } = context
    const flags = parseFlags(args, { ...SETTINGS_FLAGS, ...FLAGS })
    const isHeader = flags.header || flags['header-name'] !== undefined || flags.scheme !== undefined
    if (isHeader && flags.json) throw new UsageError('--header and --json cannot be combined.')
    const { header, scheme } = readHeader(flags)
    if (!/^\d{1,9}$/.test(flags['min-validity']))
      throw new UsageError('--min-validity must be a whole number of seconds.')
    const minValidityMs = Number(flags['min-validity']) * 1000
    const print = (token: AccessToken): string => {
      if (flags.json) return jsonOf(token)
      return isHeader ? `${header}: ${scheme === '' ? '' : `${scheme} `}${token.value}` : token.value
    }
    let isStoreReported = false
    const reportStore = (code: string | undefined): void => {
      if (isStoreReported) return
      isStoreReported = true
      const what = `the store failed${code ? ` (${code})` : ''}; this token is not shared`
      complain(stderr, what, { color: 'yellow' })
    }
    const redactor = new Redactor()
    let redis: Client | undefined
    let watched: ReturnType<typeof watchConnection> | undefined
    let tokens: TokenProvider | undefined
    let options: TokenProviderOptions | undefined
    let isStale = false
    try {
      const sources = await readSources(flags, context)
      const { secret, variables } = sources
      options = optionsFrom(sources)
      redactor.secrets.add(secret)
      const redisUrl = flags.store ?? variables[STORE_VARIABLE]
      if (redisUrl !== undefined && options.clientAssertion !== undefined)
        throw new UsageError(
          'A store needs a client secret, which encrypts its entries, instead of an assertion.',
        )
      redis = await openStore(redisUrl, context, reportStore)
      watched = watchConnection(tokenEndpoint(options.environment), env, redactor.show)
      tokens = createTokenProvider({
        ...options,
        ...(redis && { store: redis.store }),
        refreshAheadMs: 0, // the process ends before a background refresh would
        onEvent: (event) => {
          if (event.type === 'store-failed') reportStore(event.code)
          if (event.type !== 'token-acquired') return
          const { source, remainsMs, lifetimeMs } = event
          isStale = source === 'store' && remainsMs < Math.min(minValidityMs, lifetimeMs / 2)
        },
      })
      let token = await tokens.getToken({ signal })
      // A renewal that fails leaves a token that is still valid.
      if (isStale) token = (await tokens.renewToken(token, { signal }).catch(() => undefined)) ?? token
      signal.throwIfAborted()
      stdout.write(`${print(token)}\n`)
      return EXIT.ok
    } catch (error) {
      if (signal.aborted) return EXIT.unexpected
      const diagnosis = diagnose(error, {
        connection: watched?.connection,
        unread: unreadDotenv('token', flags),
        options,
      })
      if (diagnosis === undefined) throw error
      complain(stderr, diagnosis.finding.text, diagnosis.finding)
      return diagnosis.exitCode
    } finally {
      watched?.stop()
      await tokens?.close()
      redis?.close()
    }
  },
}

function jsonOf({ value, tokenType, scope, expiresAt }: AccessToken): string {
  const expiresInSeconds = Math.max(0, Math.floor((expiresAt - Date.now()) / 1000))
  return JSON.stringify({ accessToken: value, tokenType, scope, expiresAt, expiresInSeconds }, null, 2)
}

interface Client {
  readonly store: TokenStore
  readonly connect: () => Promise<unknown>
  readonly close: () => void
}

/**
 * Connects to Redis. Resolves with undefined where it is not wanted, or cannot be reached.
 *
 * @throws ConfigurationError where the URL is invalid, or no client is installed
 */
async function openStore(
  url: string | undefined,
  { signal }: CommandContext,
  report: (code: string | undefined) => void,
): Promise<Client | undefined> {
  if (url === undefined || url === '') return undefined
  const fail = (kind: Problem['kind'], reason: string): never => {
    throw new ConfigurationError('The store cannot be used', [{ option: STORE_VARIABLE, kind, reason }])
  }
  if (!/^rediss?:\/\/[^/]+(?:\/\d*)?$/.test(url) || !URL.canParse(url))
    fail('invalid', 'must be a URL such as redis://localhost:6379, or rediss://user:password@host:6379/0')
  const client = await redisClient(url)
  if (client === undefined) return fail('unavailable', 'needs a client: npm install redis')
  const timeout = AbortSignal.timeout(CONNECT_TIMEOUT_MS)
  try {
    await untilAborted(client.connect(), AbortSignal.any([signal, timeout]))
    return client
  } catch (error) {
    client.close()
    if (!signal.aborted) report(timeout.aborted ? 'ETIMEDOUT' : storeErrorCode(error))
    return undefined
  }
}

/** A client of the package that is installed. It does not connect again: the provider goes on without it. */
async function redisClient(url: string): Promise<Client | undefined> {
  const connectTimeout = CONNECT_TIMEOUT_MS
  const redis = await import('redis').catch(() => undefined)
  if (redis !== undefined) {
    const client = redis.createClient({ url, socket: { connectTimeout, reconnectStrategy: false } })
    const store = createRedisTokenStore(client) // which listens to its errors
    return { store, connect: () => client.connect(), close: () => client.isOpen && client.destroy() }
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

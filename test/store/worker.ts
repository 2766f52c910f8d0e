/** A process that shares a token, and uses it until it is killed. It reports what it gets, and what fails. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createTokenProvider, type TokenProviderOptions, type TokenStore } from '../../src/index.ts'
import { createFileTokenStore } from '../../src/store/file/index.ts'
import { createRedisTokenStore } from '../../src/store/redis.ts'
import { type Client, connect } from '../redis/clients.ts'

/** What a worker gets as its argument, as JSON. */
export interface Work {
  readonly store: { readonly directory: string } | { readonly client: Client; readonly port: number }
  readonly options: Pick<TokenProviderOptions, 'clientId' | 'timeoutMs' | 'environment'> & {
    readonly clientSecret: string
  }
}

/** What it sends, for each token and each failure. */
export type Message = { readonly tookMs: number } | { readonly failure: string }

const EVERY_MS = 5

const { store, options } = JSON.parse(process.argv[2] ?? '') as Work
const send = (message: Message): unknown => process.send?.(message)
process.on('disconnect', () => process.exit()) // the parent is gone

const tokens = createTokenProvider({
  ...options,
  store: await opened(),
  onEvent: (event) => {
    if (event.type === 'store-failed') send({ failure: `store-failed ${event.operation} ${event.code}` })
  },
})
let last = ''
for (;;) {
  const from = performance.now()
  try {
    const { value } = await tokens.getToken()
    if (value !== last) send({ tookMs: performance.now() - from })
    last = value
  } catch (error) {
    send({ failure: String(error) })
  }
  await sleep(EVERY_MS)
}

async function opened(): Promise<TokenStore> {
  if ('directory' in store) return createFileTokenStore(store.directory)
  const { client, ready } = connect(store.client, 'single node', [store.port])
  const redis = createRedisTokenStore(client)
  await ready
  return redis
}

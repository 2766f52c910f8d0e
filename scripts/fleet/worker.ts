/** One process of the fleet: a service that calls the API at a steady pace with a token provider of its own. */
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AuthEvent, createAuthFetch, createTokenProvider, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createFileTokenStore } from 'merchant-auth/file'
import { createRedisTokenStore, type TokenStore } from 'merchant-auth/redis'
import { MOST_DURATIONS, noFigures, type Report, type StoreAddress, type Task } from './protocol.ts'

/** A call that takes longer has failed (ms). */
const CALL_LIMIT_MS = 60_000
const REPORT_EVERY_MS = 250

interface Connection {
  readonly store: TokenStore
  end(): void
}

/** Each process loads the client that it uses, and no other: dozens of them start at once. */
const OPEN: Record<StoreAddress['kind'], (address: string) => Promise<Connection>> = {
  'node-redis': async (url) => {
    const { createClient } = await import('redis')
    const redis = createClient({ url })
    redis.on('error', () => {})
    await redis.connect()
    return { store: createRedisTokenStore(redis), end: () => redis.destroy() }
  },
  file: async (directory) => ({ store: createFileTokenStore(directory), end: () => {} }),
  ioredis: async (url) => {
    const { Redis } = await import('ioredis')
    const redis = new Redis(url, { lazyConnect: true })
    redis.on('error', () => {})
    await redis.connect()
    return { store: createRedisTokenStore(redis), end: () => redis.disconnect() }
  },
}

// The servers come first where there are too many processes: those of a real fleet run on other machines.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
process.on('disconnect', () => process.exit()) // the parent is gone
if (!process.connected) process.exit()
process.on('SIGINT', () => {}) // a terminal sends it to all; the parent ends its processes

const [task] = (await once(process, 'message')) as [Task]
const connection = await OPEN[task.store.kind](task.store.address)
const figures = noFigures()
let startedAt = 0
const tokens = createTokenProvider({
  environment: task.environment,
  clientId: task.clientId,
  clientSecret: task.clientSecret,
  store: measured(connection.store),
  onEvent: note,
})
const send = await senderOf(task, tokens)
await report('ready')

await once(process, 'message')
startedAt = performance.now()
const reports = setInterval(() => report({ figures, last: false }), REPORT_EVERY_MS)
const calls: Promise<void>[] = [call()] // the first one with those of all other processes, the next ones spread
await sleep(Math.random() * task.everyMs)
while (!isOver()) {
  calls.push(call())
  await sleep(task.everyMs)
}
await Promise.all(calls)
clearInterval(reports)
await tokens.close()
connection.end()
await report({ figures, last: true })
process.exit()

/**
 * How a call is made. Resolves with the answer's status. There is a connection before the first one, as in a service
 * that has been started, so that the wait for a token is not one for code to be loaded.
 */
async function senderOf({ caller, url }: Task, provider: TokenProvider): Promise<() => Promise<number>> {
  if (caller === 'fetch') {
    const get = async (send: typeof fetch): Promise<number> => {
      const response = await send(url, { signal: AbortSignal.timeout(CALL_LIMIT_MS) })
      await response.arrayBuffer()
      return response.status
    }
    await get(fetch)
    const authFetch = createAuthFetch(provider)
    return () => get(authFetch)
  }
  const { default: axios } = await import('axios')
  const api = axios.create({ timeout: CALL_LIMIT_MS, validateStatus: () => true })
  await api.get(url)
  attachAuth(api, provider)
  return async () => (await api.get(url)).status
}

async function call(): Promise<void> {
  const beganAt = performance.now()
  let failure: string | undefined
  try {
    const status = await send()
    if (status === 401) figures.unauthorized += 1
    const mayHaveExpired = status === 401 && performance.now() - beganAt >= task.marginMs
    if (status !== 200 && !mayHaveExpired) failure = `status ${status}`
  } catch (error) {
    failure = nameOf(error)
  }
  figures.calls += 1
  if (failure !== undefined) figures.failures[failure] = (figures.failures[failure] ?? 0) + 1
  figures.longestCallMs = Math.max(figures.longestCallMs, performance.now() - beganAt)
}

function measured(store: TokenStore): TokenStore {
  return {
    ...store,
    async get(key) {
      const beganAt = performance.now()
      const found = await store.get(key)
      figures.longestLookMs = Math.max(figures.longestLookMs, performance.now() - beganAt)
      return found
    },
  }
}

/** On a slow machine it may take longer until a process uses the store. */
function isOver(): boolean {
  const passedMs = performance.now() - startedAt
  if (task.storeFails && figures.storeFailures === 0 && passedMs < MOST_DURATIONS * task.durationMs)
    return false
  return passedMs >= task.durationMs
}

/** The code of an error or of its cause, or else its name. */
function nameOf(error: unknown): string {
  const { code, name, cause } = error as { code?: unknown; name?: unknown; cause?: { code?: unknown } }
  return String([code, cause?.code, name].find((text) => typeof text === 'string') ?? error)
}

function note(event: AuthEvent): void {
  if (event.type === 'store-failed') figures.storeFailures += 1
  if (event.type !== 'token-acquired') return
  figures.firstTokenMs ??= performance.now() - startedAt
  if (event.source === 'store') figures.fromStore += 1
  else figures.requestedAt.push(Date.now() - event.durationMs)
}

function report(message: Report): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()))
}

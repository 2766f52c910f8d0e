/** Callers that all begin at once while there is no token: how long they take, and what one weighs while it waits. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Client, Service } from '../contender.ts'
import { contenderOf } from '../contenders/index.ts'
import { reportTo, tell } from './apart.ts'
import { collect, keptBytes } from './heap.ts'
import { createTransport } from './transport.ts'

/** The bare provider, without a client around it. */
export const GET_TOKEN = 'getToken'

export interface ColdJob {
  /** A contender's name, or `GET_TOKEN`. */
  readonly what: string
  readonly service: Service
  readonly callers: number
  /** Rounds before, each with this many callers, so that the code is compiled. */
  readonly warmUp: { readonly rounds: number; readonly callers: number; readonly service: Service }
  /** Whether the waiters are weighed; the token endpoint is then held until `HELD` is told. */
  readonly weigh: boolean
}

export interface ColdFound {
  readonly tookMs: number
  /** Processor time of the thread: what other processes do to the time on the wall is not in it. */
  readonly cpuMs: number
  /** Bytes that one waiter takes; NaN where it is not weighed. */
  readonly waiterBytes: number | null
}

export const HELD = 'held'
const SETTLE_MS = 200

async function clientOf(what: string, service: Service): Promise<Client> {
  if (what === GET_TOKEN) {
    const { createTokenProvider } = await import('merchant-auth')
    const { authUrl, audience, apiUrl, clientId, clientSecret } = service
    const environment = { authUrl, audience, apiUrls: [apiUrl] }
    const tokens = createTokenProvider({ environment, clientId, clientSecret, timeoutMs: 60_000 })
    return { call: async () => ((await tokens.getToken()).value === '' ? 0 : 200) }
  }
  const contender = contenderOf(what)
  return await contender.create(service, await createTransport(contender.client, () => 200))
}

async function callAll(client: Client, callers: number): Promise<void> {
  const calls: Promise<number>[] = new Array(callers)
  for (let caller = 0; caller < callers; caller += 1) calls[caller] = client.call('/orders')
  const statuses = await Promise.all(calls)
  if (statuses.some((status) => status !== 200)) throw new Error('A call failed')
}

async function weigh(client: Client, callers: number): Promise<number> {
  const before = await keptBytes()
  const all = callAll(client, callers)
  await delay(SETTLE_MS)
  collect()
  const waiterBytes = (process.memoryUsage().heapUsed - before) / callers
  tell(HELD)
  await all
  return waiterBytes
}

reportTo(async ({ what, service, callers, warmUp, weigh: isWeighed }: ColdJob): Promise<ColdFound> => {
  for (let round = 0; round < warmUp.rounds; round += 1)
    await callAll(await clientOf(what, warmUp.service), warmUp.callers)
  const client = await clientOf(what, service)
  collect()
  const startedAt = performance.now()
  const cpu = process.threadCpuUsage()
  const waiterBytes = isWeighed ? await weigh(client, callers) : await callAll(client, callers)
  const { user, system } = process.threadCpuUsage(cpu)
  const tookMs = performance.now() - startedAt
  return { tookMs, cpuMs: (user + system) / 1_000, waiterBytes: waiterBytes ?? null }
})

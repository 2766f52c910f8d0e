/** What an idle client takes in memory, and what calls leave behind. */
import { getEventListeners } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import type { Client, Service } from '../contenders/contender.ts'
import { contenderOf, contenders } from '../contenders/index.ts'
import { shown, shownBytes } from '../numbers.ts'
import { type Check, eachOf, inOwnProcess, mustBeFound, progress, runPart, type Section } from '../part.ts'
import { startService } from '../service.ts'
import { stubTransport } from '../stub.ts'

const WIDTH = 2
const CALLS = 100_000
/**
 * Calls between full collections. Tables of weak references grow with the garbage in between and do not shrink again:
 * equal batches keep that out of the figures.
 */
const BATCH = 20_000
const WARM_UP_BATCHES = 2
const CLIENTS = 2_000
const CLIENTS_AT_ONCE = 50

interface Job {
  readonly name: string
  readonly service: Service
}

interface Kept {
  readonly bytesPerCall: number
  /** Listeners that are left on the signal. */
  readonly listeners: number
}

interface Found {
  /** Bytes for each idle client, before and after it has got a token. */
  readonly idle: { readonly isNew: number; readonly withToken: number }
  readonly plain: Kept
  /** With one signal that every call is given. What calls keep without a signal they keep with one, too. */
  readonly signal: Kept
}

const weigh = inOwnProcess(import.meta, weighClient)

async function weighClient({ name, service }: Job): Promise<Found> {
  const idle = await weighIdle({ name, service })
  const client = await contenderOf(name).create(service, stubTransport())
  return {
    idle,
    plain: await callMany(client),
    signal: await callMany(client, new AbortController().signal),
  }
}

async function callMany(client: Client, signal?: AbortSignal): Promise<Kept> {
  const options = signal && { signal }
  let before = 0
  let after = 0
  for (let batch = 0; batch < WARM_UP_BATCHES + CALLS / BATCH; batch += 1) {
    for (let made = 0; made < BATCH; made += 1) {
      const status = await client.call('/orders', options)
      if (status !== 200) throw new Error(`A call was answered ${status}`)
    }
    after = await usedBytes()
    if (batch < WARM_UP_BATCHES) before = after
  }
  return {
    bytesPerCall: Math.max(0, after - before) / CALLS,
    listeners: signal ? getEventListeners(signal, 'abort').length : 0,
  }
}

async function weighIdle({ name, service }: Job): Promise<Found['idle']> {
  const transport = stubTransport()
  const create = () => contenderOf(name).create(service, transport)
  await eachOf(Array.from({ length: 100 }), CLIENTS_AT_ONCE, async () => (await create()).call())
  const before = await usedBytes()
  const clients = await eachOf(Array.from({ length: CLIENTS }), CLIENTS_AT_ONCE, create)
  const created = await usedBytes()
  await eachOf(clients, CLIENTS_AT_ONCE, (client) => client.call())
  const used = await usedBytes()
  const { length } = clients // keeps them alive until here
  return { isNew: (created - before) / length, withToken: (used - before) / length }
}

/** Bytes of the heap that are in use after full collections. */
async function usedBytes(): Promise<number> {
  if (globalThis.gc === undefined) throw new Error('This program needs --expose-gc')
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 4; round += 1) {
    globalThis.gc()
    await turn() // weak references and finalizers take a turn of their own
    globalThis.gc()
    least = Math.min(least, process.memoryUsage().heapUsed)
  }
  return least
}

async function memory(): Promise<Section> {
  const { service, close } = await startService()
  const rows = await eachOf(contenders, WIDTH, async (contender) => {
    progress(contender.name)
    const outcome = await weigh({ name: contender.name, service }, 300_000)
    mustBeFound(contender, outcome)
    return { ...contender, outcome }
  })
  await close()
  return {
    title: 'Memory',
    intro:
      `Bytes of the heap for each of ${shown(CLIENTS)} idle clients: when they have been set up, and when each has its token and has made one ` +
      `call. Then, for one client, the growth of the heap by ${shown(CALLS)} calls made one after the other, without a signal and with ` +
      `one AbortSignal given to every call; ${shown(WARM_UP_BATCHES * BATCH)} calls go before. A stub takes the place of the API.`,
    columns: [
      'Client',
      'idle client, set up',
      'with a token',
      'kept by calls',
      'by calls with a signal',
      'listeners left',
    ],
    rows: rows.map(({ name, outcome }) => {
      if ('why' in outcome) return [name, outcome.why, '', '', '', '']
      const { idle, plain, signal } = outcome.found
      const kept = [plain, signal].map(({ bytesPerCall }) => bytesPerCall * CALLS)
      return [name, ...[idle.isNew, idle.withToken, ...kept].map(shownBytes), signal.listeners]
    }),
    notes: [
      'With axios, the axios instance is part of an idle client: see its baseline.',
      'The baselines and axios-auth-refresh have their token from the start.',
      'What the compiler adds to the heap while it runs is in what calls keep, for every client.',
    ],
    checks: rows
      .filter(({ kind }) => kind === 'ours')
      .flatMap(({ name, outcome }): Check[] => {
        if ('why' in outcome) return []
        const { plain, signal } = outcome.found
        const limits = { limit: 0.5, tolerance: 1.5 }
        return [
          { name: `${name}: bytes kept per call`, value: plain.bytesPerCall, ...limits },
          { name: `${name}: bytes kept per call with a signal`, value: signal.bytesPerCall, ...limits },
          { name: `${name}: listeners left on the signal`, value: signal.listeners, limit: 0, tolerance: 1 },
        ]
      }),
  }
}

await runPart(import.meta, memory)

/** Makes many calls one after the other, and weighs what they leave behind. */
import { getEventListeners } from 'node:events'
import type { Service } from '../contender.ts'
import { contenderOf } from '../contenders/index.ts'
import { reportTo } from './apart.ts'
import { keptBytes } from './heap.ts'
import { createTransport } from './transport.ts'

export interface MemoryJob {
  readonly contender: string
  readonly service: Service
  readonly calls: number
  /** Whether each call is given one and the same signal. */
  readonly signal: boolean
  /** After it (ms) no more calls are made. */
  readonly mostMs: number
}

export interface MemoryFound {
  /** How many were made. */
  readonly calls: number
  readonly keptBytes: number
  /** Listeners that are left on the signal. */
  readonly listeners: number
}

/**
 * Between full collections. Tables of weak references grow with the garbage in between and do not shrink again:
 * equal batches keep that out of the figures.
 */
const BATCH = 20_000
const WARM_UP_BATCHES = 2

reportTo(async ({ contender, service, calls, signal, mostMs }: MemoryJob): Promise<MemoryFound> => {
  const chosen = contenderOf(contender)
  const transport = await createTransport(chosen.client, () => 200)
  const client = await chosen.create(service, transport)
  const shared = new AbortController().signal
  const options = signal ? { signal: shared } : undefined
  const makeBatch = async (): Promise<number> => {
    for (let call = 0; call < BATCH; call += 1) {
      const status = await client.call('/orders', options)
      if (status !== 200) throw new Error(`A call was answered ${status}`)
    }
    return await keptBytes()
  }
  let before = 0
  for (let batch = 0; batch < WARM_UP_BATCHES; batch += 1) before = await makeBatch()
  const startedAt = performance.now()
  let made = 0
  let after = before
  while (made < calls && performance.now() - startedAt < mostMs) {
    after = await makeBatch()
    made += BATCH
  }
  return { calls: made, keptBytes: after - before, listeners: getEventListeners(shared, 'abort').length }
})

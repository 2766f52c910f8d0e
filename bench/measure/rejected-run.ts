/** Many callers whose calls carry one and the same token, which the API refuses. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Service } from '../contender.ts'
import { contenderOf } from '../contenders/index.ts'
import { reportTo } from './apart.ts'
import { createTransport } from './transport.ts'

export interface RejectedJob {
  readonly contender: string
  readonly service: Service
  readonly callers: number
  /** Over which time (ms) the refusals arrive; 0: all at once. */
  readonly spreadMs: number
}

export interface RejectedFound {
  readonly tookMs: number
  /** Calls that ended with the refusal, or with an error. */
  readonly failed: number
  /** What was sent to the API. */
  readonly sent: number
}

reportTo(async ({ contender, service, callers, spreadMs }: RejectedJob): Promise<RejectedFound> => {
  const chosen = contenderOf(contender)
  let refused: string | undefined
  let last = ''
  let sent = 0
  const refuse = async (number: number): Promise<number> => {
    if (spreadMs > 0) await delay((number % callers) * (spreadMs / callers))
    return 401
  }
  const transport = await createTransport(chosen.client, (authorization) => {
    sent += 1
    last = authorization()
    return last === refused ? refuse(sent) : 200
  })
  const client = await chosen.create(service, transport)
  for (let call = 0; call < 200; call += 1) await client.call('/orders')
  refused = last
  sent = 0
  const startedAt = performance.now()
  const calls = Array.from({ length: callers }, () => client.call('/orders').catch(() => 0))
  const statuses = await Promise.all(calls)
  const tookMs = performance.now() - startedAt
  return { tookMs, failed: statuses.filter((status) => status !== 200).length, sent }
})

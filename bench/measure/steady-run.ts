/** A constant rate of calls over real sockets, whatever the calls before are doing; how long each takes. */
import type { Service } from '../contender.ts'
import { contenderOf } from '../contenders/index.ts'
import { reportTo } from './apart.ts'
import { quantile } from './stats.ts'

export interface SteadyJob {
  readonly contender: string
  readonly service: Service
  readonly callsPerSecond: number
  readonly seconds: number
  /** A call that takes longer (ms), while the event loop goes on, has waited for a token. */
  readonly waitedMs: number
}

export interface SteadyFound {
  readonly calls: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
  readonly max: number
  readonly waited: number
  /** Calls that took as long because the machine was busy with something else. */
  readonly heldUp: number
  /** Calls whose caller got a 401. */
  readonly refused: number
  /** Calls that were rejected. */
  readonly failed: number
}

const WARM_UP = 50
const STEP_MS = 1
/** The event loop stood still if it took longer (ms) to come round. */
const STALL_MS = 10

interface Span {
  readonly from: number
  readonly to: number
}

reportTo(async (job: SteadyJob): Promise<SteadyFound> => {
  const client = await contenderOf(job.contender).create(job.service)
  for (let call = 0; call < WARM_UP; call += 1) await client.call('/orders')

  const calls = job.callsPerSecond * job.seconds
  const spans: Span[] = []
  const stalls: Span[] = []
  let refused = 0
  let failed = 0
  const make = async (intendedAt: number): Promise<void> => {
    const status = await client.call('/orders').catch(() => 0)
    spans.push({ from: intendedAt, to: performance.now() })
    if (status === 401) refused += 1
    else if (status !== 200) failed += 1
  }

  const all: Promise<void>[] = []
  const begunAt = performance.now()
  await new Promise<void>((resolve) => {
    let steppedAt = begunAt
    const step = (): void => {
      const now = performance.now()
      if (now - steppedAt > STALL_MS) stalls.push({ from: steppedAt, to: now })
      steppedAt = now
      for (;;) {
        const intendedAt = begunAt + (all.length * 1_000) / job.callsPerSecond
        if (intendedAt > now || all.length === calls) break
        all.push(make(intendedAt))
      }
      if (all.length < calls) setTimeout(step, STEP_MS)
      else resolve()
    }
    step()
  })
  await Promise.all(all)
  const tookMs = spans.map(({ from, to }) => to - from)
  const slow = spans.filter(({ from, to }) => to - from > job.waitedMs)
  const waited = slow.filter((span) => span.to - span.from - overlapMs(span, stalls) > job.waitedMs)
  return {
    calls,
    p50: quantile(tookMs, 0.5),
    p99: quantile(tookMs, 0.99),
    p999: quantile(tookMs, 0.999),
    max: Math.max(...tookMs),
    waited: waited.length,
    heldUp: slow.length - waited.length,
    refused,
    failed,
  }
})

/** For how much of a span the event loop stood still. */
function overlapMs(span: Span, stalls: readonly Span[]): number {
  return stalls.reduce(
    (sum, stall) => sum + Math.max(0, Math.min(span.to, stall.to) - Math.max(span.from, stall.from)),
    0,
  )
}

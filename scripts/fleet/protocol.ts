/** What the fleet's parent and its processes tell each other. */
import type { Environment } from 'merchant-auth'

/** Which package a process talks to Redis with. */
export type RedisClient = 'node-redis' | 'ioredis'

/** What one process does. It is told once, and begins when it is told again. */
export interface Task {
  readonly environment: Environment
  readonly clientId: string
  readonly clientSecret: string
  readonly url: string
  readonly caller: 'fetch' | 'axios'
  readonly store: { readonly url: string; readonly client: RedisClient } | undefined
  /** From one call to the next (ms). */
  readonly everyMs: number
  /** When the cold start is over (ms). */
  readonly settledAfterMs: number
  /** No call begins later (ms). */
  readonly durationMs: number
}

/** What one process has done until now. */
export interface Figures {
  calls: number
  /** Without a good answer, by what they ended with. */
  failures: Record<string, number>
  /** Answers with status 401 among them. */
  unauthorized: number
  fromEndpoint: number
  fromStore: number
  storeFailures: number
  /** From the start until there was a token (ms). */
  firstTokenMs: number | undefined
  /** Of the calls that began after the cold start. */
  slowCalls: number
  /** Of the same calls (ms). */
  longestMs: number
}

/** What a process tells: that it is connected, then figures, the last ones when all of its calls have ended. */
export type Report =
  | { readonly type: 'ready' }
  | { readonly type: 'figures'; readonly figures: Figures; readonly last: boolean }

export function noFigures(): Figures {
  return {
    calls: 0,
    failures: {},
    unauthorized: 0,
    fromEndpoint: 0,
    fromStore: 0,
    storeFailures: 0,
    firstTokenMs: undefined,
    slowCalls: 0,
    longestMs: 0,
  }
}

export function failedCalls({ failures }: Figures): number {
  return Object.values(failures).reduce((sum, count) => sum + count, 0)
}

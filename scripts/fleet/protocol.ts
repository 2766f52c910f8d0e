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
  /** No call begins later (ms), once the store has failed where it is to. */
  readonly durationMs: number
  readonly storeFails: boolean
  /** A token that is handed out lives for as long (ms) at least: one that takes longer to the API may expire on its way. */
  readonly marginMs: number
}

/** What one process has done until now. */
export interface Figures {
  calls: number
  /** Without a good answer, by what they ended with. */
  failures: Record<string, number>
  /** Answers with status 401 among them. */
  unauthorized: number
  /** When the tokens were asked for that came from the token endpoint (ms since the epoch). */
  askedAt: number[]
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

/** No process goes on for more than so many times its duration. */
export const MOST_DURATIONS = 10

export function noFigures(): Figures {
  return {
    calls: 0,
    failures: {},
    unauthorized: 0,
    askedAt: [],
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

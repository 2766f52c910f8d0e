/** What the fleet's parent and its processes send each other. */
import type { Environment } from 'merchant-auth'

/** A store that processes share: how worker.ts opens it, and where it is. */
export interface StoreAddress {
  readonly kind: 'node-redis' | 'ioredis' | 'file'
  readonly address: string
}

/** What one process does. It gets it once, and begins with the next message. */
export interface Task {
  readonly environment: Environment
  readonly clientId: string
  readonly clientSecret: string
  readonly url: string
  readonly caller: 'fetch' | 'axios'
  readonly store: StoreAddress
  /** From one call to the next (ms). */
  readonly everyMs: number
  /** No call begins later (ms), once the store has failed where it is to fail. */
  readonly durationMs: number
  readonly storeFails: boolean
  /** A token lives at least this long (ms) after it is handed out: a call that takes longer may be rejected. */
  readonly marginMs: number
}

/** What one process has done so far. */
export interface Figures {
  calls: number
  /** Calls without a good answer, by what they ended with. */
  failures: Record<string, number>
  /** Answers with status 401. */
  unauthorized: number
  /** When it requested the tokens that it got from the token endpoint (ms since the epoch). */
  requestedAt: number[]
  fromStore: number
  storeFailures: number
  /** The longest look at the store (ms). */
  longestLookMs: number
  /** From the start until there was a token (ms). */
  firstTokenMs: number | undefined
  longestCallMs: number
}

/** What a process sends: that it is connected, then figures, the last ones when all of its calls have ended. */
export type Report = 'ready' | { readonly figures: Figures; readonly last: boolean }

/** No process runs for more than so many times its duration. */
export const MOST_DURATIONS = 10

export function noFigures(): Figures {
  return {
    calls: 0,
    failures: {},
    unauthorized: 0,
    requestedAt: [],
    fromStore: 0,
    storeFailures: 0,
    longestLookMs: 0,
    firstTokenMs: undefined,
    longestCallMs: 0,
  }
}

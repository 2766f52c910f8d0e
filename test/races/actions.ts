/** The possible events of a race: what callers do, what happens around them, and how the token endpoint answers. */
import fc from 'fast-check'
import { CLIENTS, type ClientName } from './clients.ts'
import type { TokenAnswer } from './endpoint.ts'
import type { RefereeOptions } from './referee.ts'

/** `process`: which one, of two. `nth`: which of several, the newest first. */
export type Action =
  | {
      readonly does: 'getToken'
      readonly process: number
      readonly isAbortable: boolean
      readonly isForced: boolean
    }
  | {
      readonly does: 'call'
      readonly process: number
      /** The APIs, and another origin. */
      readonly target: number
      readonly client: ClientName
      readonly isAbortable: boolean
      readonly fault: 'bad' | 'redirected' | undefined
      readonly isStream: boolean
    }
  | { readonly does: 'currentToken' | 'close'; readonly process: number }
  | {
      readonly does: 'renewToken'
      readonly process: number
      readonly nth: number
      readonly api: number | undefined
    }
  | { readonly does: 'abort' | 'drop'; readonly nth: number }
  | { readonly does: 'advance' | 'stepWallClock'; readonly ms: number }
  | { readonly does: 'revoke' }
  | { readonly does: 'lag'; readonly lags: boolean }
  | { readonly does: 'rejectAll'; readonly api: number; readonly rejects: boolean }

const process = fc.nat(1)
const api = fc.nat(1)
const nth = fc.nat(4)
const isAbortable = fc.boolean()
const passing = fc.constantFrom(1, 50, 200, 999, 1_000, 2_500, 5_000, 7_500, 12_000, 30_000, 60_000, 300_000)
const target = fc.constantFrom(0, 0, 0, 1, 1, 1, 2)
const client = fc.constantFrom(...CLIENTS)
const fault = fc.constantFrom(undefined, undefined, undefined, undefined, 'bad', 'redirected')
const seldom = fc.constantFrom(false, false, false, false, false, true)
/** Ahead, as in a machine that slept, or back. */
const step = fc.oneof(
  passing,
  passing,
  passing.map((ms) => -ms),
)

/** A thing that happens, with its weight and its parameters. */
const weighted = (weight: number, does: string, more: Record<string, fc.Arbitrary<unknown>> = {}) => ({
  weight,
  arbitrary: fc.record({ does: fc.constant(does), ...more }),
})

const anAction = fc.oneof(
  weighted(18, 'getToken', { process, isAbortable, isForced: seldom }),
  weighted(24, 'call', { process, target, client, isAbortable, fault, isStream: seldom }),
  weighted(6, 'currentToken', { process }),
  weighted(9, 'renewToken', { process, nth, api: fc.option(api, { nil: undefined }) }),
  weighted(9, 'abort', { nth }),
  weighted(6, 'drop', { nth }),
  weighted(24, 'advance', { ms: passing }),
  weighted(6, 'stepWallClock', { ms: step }),
  weighted(9, 'revoke'),
  weighted(3, 'lag', { lags: fc.boolean() }),
  weighted(3, 'rejectAll', { api, rejects: fc.boolean() }),
  weighted(1, 'close', { process }),
) as fc.Arbitrary<Action>

const lifetimeSeconds = fc.constantFrom(1, 5, 20, 100, 1_000, 36_000)
const status = fc.constantFrom(400, 401, 403, 500, 503, 302)
const limitingStatus = fc.constantFrom(429, 503)
const retryAfter = fc.constantFrom(0, 1, 3, 20, 3_600)
const fails = fc.constantFrom('no connection', 'bad body', 'hang', 'hang at body')

const anAnswer = fc.oneof(
  { weight: 7, arbitrary: fc.record({ kind: fc.constant('token'), lifetimeSeconds }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('status'), status }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('status'), status: limitingStatus, retryAfter }) },
  { weight: 3, arbitrary: fc.record({ kind: fails }) },
) as fc.Arbitrary<TokenAnswer>

interface RaceOptions extends RefereeOptions {
  readonly retries: number
  /** Two share a store. */
  readonly processes: number
  /** Whether they run on Cloudflare Workers, where calls may be dropped with all they started. */
  readonly isOnWorkers: boolean
  /** Whether the `fetch` of token requests ignores that they are aborted. */
  readonly isDeaf: boolean
}

/** A race, before the schedule interleaves it. */
export interface Race {
  readonly actions: readonly Action[]
  /** How the token endpoint answers, in this order; afterwards with a token of this lifetime. */
  readonly answers: readonly TokenAnswer[]
  readonly lifetimeSeconds: number
  readonly options: RaceOptions
  readonly seed: number
}

/** Actions and answers, each in this order; the schedule interleaves the two. */
export const aRace: fc.Arbitrary<Race> = fc.record({
  actions: fc.array(anAction, { minLength: 1, maxLength: 30, size: 'max' }),
  answers: fc.array(anAnswer, { minLength: 0, maxLength: 12, size: 'max' }),
  lifetimeSeconds: fc.constant(1_000),
  options: fc.record({
    timeoutMs: fc.constantFrom(4_000, 10_000),
    retries: fc.nat(2),
    expiryMarginMs: fc.constantFrom(undefined, undefined, 0, 2_000),
    refreshAheadMs: fc.constantFrom(undefined, undefined, 0, 60_000),
    processes: fc.constantFrom(1, 1, 2),
    isOnWorkers: fc.boolean(),
    isDeaf: fc.constantFrom(false, false, false, true),
  }),
  seed: fc.nat(),
})

/** Hundreds of calls of an API that rejects many of them, with tokens of a day. */
export const aLongRace: fc.Arbitrary<Race> = fc
  .record({
    ms: fc.constantFrom(5_000, 20_000, 60_000, 300_000),
    /** One of so many calls is accepted. */
    acceptedOf: fc.constantFrom(2, 5, 1_000),
    client,
    seed: fc.nat(),
  })
  .map(({ ms, acceptedOf, client, seed }) => ({
    actions: Array.from({ length: 300 }, (_, at): Action[] => {
      const fault = (at + 1) % acceptedOf === 0 ? undefined : 'bad'
      const call = {
        does: 'call',
        process: 0,
        target: 0,
        client,
        isAbortable: false,
        isStream: false,
      } as const
      return [
        { does: 'advance', ms },
        { ...call, fault },
      ]
    }).flat(),
    answers: [],
    lifetimeSeconds: 86_400,
    options: {
      timeoutMs: 10_000,
      retries: 2,
      expiryMarginMs: undefined,
      refreshAheadMs: undefined,
      processes: 1,
      isOnWorkers: false,
      isDeaf: false,
    },
    seed,
  }))

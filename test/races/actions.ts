/** The possible events of a race: what callers do, what happens around them, and how the endpoint answers. */
import fc from 'fast-check'
import type { Answer } from './endpoint.ts'
import type { RefereeOptions } from './referee.ts'

export type Action =
  | { readonly does: 'getToken'; readonly abortable: boolean }
  | { readonly does: 'call'; readonly api: number; readonly abortable: boolean; readonly isBad: boolean }
  | { readonly does: 'currentToken' }
  | { readonly does: 'renewToken'; readonly nth: number; readonly api: number | undefined }
  | { readonly does: 'abort' | 'drop'; readonly nth: number }
  | { readonly does: 'advance' | 'stepWallClock' | 'freeze'; readonly ms: number }
  | { readonly does: 'revoke' }
  | { readonly does: 'lag'; readonly lags: boolean }
  | { readonly does: 'rejectAll'; readonly api: number; readonly rejects: boolean }
  | { readonly does: 'close' }

const api = fc.nat(1)
const nth = fc.nat(4)
/** Whether an API rejects a call with every token. */
const isBad = fc.constantFrom(false, false, false, true)
const passing = fc.constantFrom(1, 50, 200, 999, 1_000, 2_500, 5_000, 7_500, 12_000, 30_000, 60_000, 300_000)

const anAction: fc.Arbitrary<Action> = fc.oneof(
  { weight: 18, arbitrary: fc.record({ does: fc.constant('getToken'), abortable: fc.boolean() }) },
  { weight: 24, arbitrary: fc.record({ does: fc.constant('call'), api, abortable: fc.boolean(), isBad }) },
  { weight: 6, arbitrary: fc.record({ does: fc.constant('currentToken') }) },
  {
    weight: 9,
    arbitrary: fc.record({ does: fc.constant('renewToken'), nth, api: fc.option(api, { nil: undefined }) }),
  },
  { weight: 9, arbitrary: fc.record({ does: fc.constant('abort'), nth }) },
  { weight: 6, arbitrary: fc.record({ does: fc.constant('drop'), nth }) },
  { weight: 24, arbitrary: fc.record({ does: fc.constant('advance'), ms: passing }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant('freeze'), ms: passing }) },
  {
    weight: 3,
    arbitrary: fc.record({
      does: fc.constant('stepWallClock'),
      ms: fc.tuple(passing, fc.constantFrom(-1, 1)).map(([ms, sign]) => ms * sign),
    }),
  },
  { weight: 9, arbitrary: fc.record({ does: fc.constant('revoke') }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant('lag'), lags: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant('rejectAll'), api, rejects: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('close') }) },
) as fc.Arbitrary<Action>

const anAnswer: fc.Arbitrary<Answer> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('token'),
      lifetimeSeconds: fc.constantFrom(1, 5, 20, 100, 1_000, 36_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('token'),
      lifetimeSeconds: fc.constantFrom(100, 1_000),
      quota: fc.record({
        limit: fc.constant(10),
        remaining: fc.constantFrom(0, 2, 3),
        resetsInSeconds: fc.constantFrom(5, 100, 1_000),
      }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('status'),
      status: fc.constantFrom(400, 401, 403, 500, 503, 302),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('status'),
      status: fc.constantFrom(429, 503),
      retryAfter: fc.constantFrom(0, 1, 3, 20, 3_600),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('no connection', 'bad body', 'hang', 'hang at body', 'deaf'),
    }),
  },
) as fc.Arbitrary<Answer>

/** Options of the provider. */
const someOptions = fc.record({
  timeoutMs: fc.constantFrom(4_000, 10_000),
  retries: fc.nat(2),
  expiryMarginMs: fc.constantFrom(undefined, undefined, 0, 2_000),
  refreshAheadMs: fc.constantFrom(undefined, undefined, 0, 60_000),
  onWorkers: fc.boolean(),
})

interface RaceOptions extends RefereeOptions {
  /** Whether it runs on Cloudflare Workers, where calls may be dropped with all they started. */
  readonly onWorkers: boolean
}

/** A race, before the schedule interleaves it. */
export interface Race {
  readonly actions: readonly Action[]
  readonly answers: readonly Answer[]
  readonly options: RaceOptions
  readonly seed: number
}

/** Actions and answers, each in this order; the schedule interleaves the two. */
export const aRace: fc.Arbitrary<Race> = fc.record({
  actions: fc.array(anAction, { minLength: 1, maxLength: 30, size: 'max' }),
  answers: fc.array(anAnswer, { minLength: 0, maxLength: 12, size: 'max' }),
  options: someOptions,
  seed: fc.nat(),
})

/** The possible events of a fleet: what its callers do, and what happens to its processes, its network and its Redis. */
import fc from 'fast-check'
import type { Answer } from '../model/endpoint.ts'
import type { GrantOptions } from '../model/grant.ts'

/** How the server treats commands; `full`: it rejects writes. */
export type Mood = 'well' | 'hangs' | 'down' | 'full'

export type Action =
  /** An API is called, which rejects tokens that are revoked. */
  | { readonly does: 'call'; readonly who: number }
  | { readonly does: 'callAll' | 'revokeAll' | 'flush' }
  /** An API rejects the last token that this process got, or an earlier one if its answer is late. */
  | { readonly does: 'reject'; readonly who: number; readonly nth: number }
  /** Time passes, and everything that is due happens. */
  | { readonly does: 'pass'; readonly ms: number }
  /** Time passes before anything that is due happens. */
  | { readonly does: 'jump'; readonly ms: number }
  | { readonly does: 'pause' | 'goOn' | 'holdLink' | 'letLinkGo'; readonly who: number }
  /** `replaced`: a new process is started instead. */
  | { readonly does: 'crash' | 'close'; readonly who: number; readonly replaced: boolean }
  /** Its connection is lost; `arriving` of its commands have left the machine and still arrive. */
  | { readonly does: 'cut'; readonly who: number; readonly arriving: number }
  | { readonly does: 'server'; readonly mood: Mood }

const who = fc.nat(3)
const replaced = fc.boolean()
const passing = fc.constantFrom(1, 49, 50, 100, 249, 250, 500, 999, 1_000, 2_000, 5_000, 60_000)

function weighted(weight: number, action: { [K in string]: fc.Arbitrary<unknown> }) {
  return { weight, arbitrary: fc.record(action) as unknown as fc.Arbitrary<Action> }
}

const inCalm = [
  weighted(8, { does: fc.constant('call'), who }),
  weighted(3, { does: fc.constant('callAll') }),
  weighted(4, { does: fc.constant('reject'), who, nth: fc.oneof(fc.constant(0), fc.nat(2)) }),
  weighted(2, { does: fc.constant('revokeAll') }),
  weighted(6, { does: fc.constant('pass'), ms: passing }),
]

const inTrouble = [
  weighted(6, { does: fc.constant('jump'), ms: passing }),
  weighted(6, { does: fc.constantFrom('pause', 'goOn'), who }),
  weighted(4, { does: fc.constantFrom('holdLink', 'letLinkGo'), who }),
  weighted(2, { does: fc.constantFrom('crash', 'close'), who, replaced }),
  weighted(4, { does: fc.constant('cut'), who, arriving: fc.nat(2) }),
  weighted(3, { does: fc.constant('server'), mood: fc.constantFrom('well', 'hangs', 'down', 'full') }),
  weighted(1, { does: fc.constant('flush') }),
]

const lifetimeSeconds = fc.constantFrom(2, 5, 20, 100, 1_000)

const anAnswer = fc.oneof(
  { weight: 9, arbitrary: fc.record({ kind: fc.constant('token'), lifetimeSeconds }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('status'), status: fc.constantFrom(400, 503) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('no connection', 'hang', 'lost') }) },
) as fc.Arbitrary<Answer>

/** How the processes differ. */
export interface Machine {
  /** How far its clocks are from the server's (ms). */
  readonly monotonicMs: number
  readonly epochMs: number
  /** Whether the client sends unanswered commands again after a lost connection (ioredis), or rejects them (node-redis). */
  readonly resends: boolean
  /** Whether commands keep their order: not so in a pool, nor where a cluster redirects them. */
  readonly ordered: boolean
  /** Whether other steps can happen between the receipt of a token and its encryption. */
  readonly encryptsLate: boolean
}

const aMachine: fc.Arbitrary<Machine> = fc.record({
  monotonicMs: fc.constantFrom(0, 1, 86_400_000),
  epochMs: fc.constantFrom(0, -3_600_000, 7_200_000),
  resends: fc.boolean(),
  ordered: fc.oneof(
    { weight: 3, arbitrary: fc.constant(true) },
    { weight: 1, arbitrary: fc.constant(false) },
  ),
  encryptsLate: fc.boolean(),
})

export interface FleetOptions extends GrantOptions {
  readonly timeoutMs: number
  readonly retries: number
}

/** A fleet and what happens to it, before the schedule interleaves it. */
export interface Story {
  readonly machines: readonly Machine[]
  readonly actions: readonly Action[]
  readonly answers: readonly Answer[]
  readonly options: FleetOptions
  readonly seed: number
}

function stories(anAction: fc.Arbitrary<Action>): fc.Arbitrary<Story> {
  return fc.record({
    machines: fc.array(aMachine, { minLength: 2, maxLength: 5, size: 'max' }),
    actions: fc.array(anAction, { minLength: 4, maxLength: 28, size: 'max' }),
    answers: fc.oneof(
      { weight: 9, arbitrary: fc.array(anAnswer, { maxLength: 8, size: 'max' }) },
      {
        weight: 1,
        arbitrary: fc.array(fc.constant<Answer>({ kind: 'hang' }), { maxLength: 8, size: 'max' }),
      },
    ),
    options: fc.record({
      timeoutMs: fc.constantFrom(2_000, 5_000),
      retries: fc.nat(1),
      expiryMarginMs: fc.constantFrom(undefined, 0),
      refreshAheadMs: fc.constantFrom(undefined, 0),
    }),
    seed: fc.nat(),
  })
}

/** Some fleets have no faults, to test the rules for that case, too; each of the others has its own set of faults. */
export const aStory: fc.Arbitrary<Story> = fc.oneof(
  { weight: 1, arbitrary: stories(fc.oneof(...inCalm)) },
  {
    weight: 3,
    arbitrary: fc.subarray(inTrouble).chain((troubles) => stories(fc.oneof(...inCalm, ...troubles))),
  },
)

/** The price of a call: what a contender adds to a constant header in a process that has one client, eight calls at a time. */
import { undiciBaseline } from '../contenders/baselines.ts'
import { before } from '../contenders/ours.ts'
import { handwrittenUndici, undiciWithoutInterceptor } from '../contenders/price-undici.ts'
import { median, shown } from '../numbers.ts'
import { type Check, isAgainst, progress, runPart, type Section } from '../part.ts'
import { shuffled } from '../rounds.ts'
import { startService } from '../service.ts'
import { CORE_OF_SERVICE, IN_FLIGHT, type Participant, startParticipant, type Turn } from '../turns.ts'

/** Each set has processes of its own: what a call costs in one differs from the next, with the same code, by 2 to 3 % (standard deviation). */
const SETS = 10
const ROUNDS = 40
const WARM_UP_TURNS = 15
/** What two copies of the same client differ by. */
const NOISE = 1.02
const TOLERANCE_AGAINST = 1.05

interface Group {
  readonly baseline: string
  readonly handwritten: string
  readonly ours: readonly string[]
  /** What is only shown. */
  readonly others?: readonly string[]
  /**
   * About 30 ms for the calls that count, and 15 for the others. The machine is faster for some tenths of a second than for
   * the next: two short turns, one after the other, mostly have the same speed.
   */
  readonly turn: Turn
  /**
   * How many calls each turn before the measurement has. Services live long, and the compiler needs about 40 000 calls of
   * an interceptor, fewer of handwritten lines. It counts where a call is short.
   */
  readonly warmUpCalls: number
  /** The highest ratio to the baseline, by contender. */
  readonly limits?: Readonly<Record<string, number>>
  /** How far the ratios of ours may be above that of the handwritten lines, beside which ours then take their turns. */
  readonly aboveHandwritten?: number
}

const GROUPS: readonly Group[] = [
  {
    baseline: 'axios, default header',
    handwritten: 'handwritten interceptor',
    ours: ['createAuthInterceptor', 'attachAuth'],
    turn: { uncounted: 40, calls: 80 },
    warmUpCalls: 400,
    limits: { createAuthInterceptor: 1.03, attachAuth: 1.06 },
  },
  {
    baseline: 'fetch, constant header',
    handwritten: 'handwritten fetch',
    ours: ['createAuthFetch'],
    turn: { uncounted: 80, calls: 160 },
    warmUpCalls: 800,
    aboveHandwritten: 0.02,
  },
  {
    baseline: undiciWithoutInterceptor.name,
    handwritten: handwrittenUndici.name,
    ours: ['createAuthDispatch'],
    others: [undiciBaseline.name],
    turn: { uncounted: 200, calls: 400 },
    warmUpCalls: 2_700,
    aboveHandwritten: 0.05,
  },
]

const SECOND_COPY = ', second copy'

/** A contender, and the one whose CPU time its own is divided by. */
interface Comparison {
  readonly name: string
  readonly by: string
}

function comparisonsOf({ baseline, handwritten, ours, others = [], aboveHandwritten }: Group): Comparison[] {
  if (isAgainst) return ours.map((name) => ({ name, by: before(name) }))
  const beside = aboveHandwritten === undefined ? baseline : handwritten
  return [
    { name: baseline + SECOND_COPY, by: baseline },
    ...[...others, handwritten].map((name) => ({ name, by: baseline })),
    ...ours.map((name) => ({ name, by: beside })),
  ]
}

/** The CPU time (µs) of a call, in two turns of which one followed the other. */
interface Pair {
  readonly own: number
  readonly other: number
}

/** By the name of the contender. */
type Pairs = ReadonlyMap<string, readonly Pair[]>

/** Both have a process of their own, so that both make as many calls, after as many of the others. */
interface Comparing extends Comparison {
  readonly own: Participant
  readonly other: Participant
}

async function measureSet(): Promise<Pairs> {
  const { service, close } = await startService({ core: CORE_OF_SERVICE })
  const start = (name: string): Promise<Participant> =>
    startParticipant(name.replace(SECOND_COPY, ''), service)
  const pairs = new Map<string, Pair[]>()
  for (const group of shuffled(GROUPS)) {
    const comparing = await Promise.all(
      comparisonsOf(group).map(
        async ({ name, by }): Promise<Comparing> => ({
          name,
          by,
          own: await start(name),
          other: await start(by),
        }),
      ),
    )
    const takeTurns = async ({ own, other }: Comparing, turn: Turn): Promise<Pair> => {
      if (Math.random() < 0.5) return { own: await own.takeTurn(turn), other: await other.takeTurn(turn) }
      return { other: await other.takeTurn(turn), own: await own.takeTurn(turn) }
    }
    for (let turn = 0; turn < WARM_UP_TURNS; turn += 1) {
      for (const one of shuffled(comparing)) await takeTurns(one, { uncounted: 0, calls: group.warmUpCalls })
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const one of shuffled(comparing))
        pairs.set(one.name, [...(pairs.get(one.name) ?? []), await takeTurns(one, group.turn)])
    }
    await Promise.all(comparing.flatMap(({ own, other }) => [own.end(), other.end()]))
  }
  await close()
  return pairs
}

interface Price {
  /** The median of the ratios in all pairs of all sets. */
  readonly ratio: number
  /** The range of the sets' medians. */
  readonly from: number
  readonly to: number
  /** The median of the other's CPU time (µs). */
  readonly otherUs: number
}

function priceOf(sets: readonly Pairs[], name: string): Price {
  const pairsOf = (pairs: Pairs): readonly Pair[] => pairs.get(name) ?? []
  const ratioOf = (pairs: readonly Pair[]): number => median(pairs.map(({ own, other }) => own / other))
  const medians = sets.map((pairs) => ratioOf(pairsOf(pairs)))
  const all = sets.flatMap(pairsOf)
  return {
    ratio: ratioOf(all),
    from: Math.min(...medians),
    to: Math.max(...medians),
    otherUs: median(all.map(({ other }) => other)),
  }
}

/** The price by the baseline: that by what a contender was compared with, times the price of that. */
function priceByBaseline(sets: readonly Pairs[], group: Group, name: string): Price {
  const by = comparisonsOf(group).find((one) => one.name === name)?.by ?? name
  if (by === group.baseline || isAgainst) return priceOf(sets, name)
  const { ratio: ratioOfBy, otherUs } = priceByBaseline(sets, group, by)
  const { ratio, from, to } = priceOf(sets, name)
  return { ratio: ratio * ratioOfBy, from: from * ratioOfBy, to: to * ratioOfBy, otherUs }
}

function checksOf(sets: readonly Pairs[], group: Group): Check[] {
  const { baseline, handwritten, ours, limits = {}, aboveHandwritten } = group
  const ratioOf = (name: string): number => priceByBaseline(sets, group, name).ratio
  if (isAgainst)
    return ours.map((name) => ({
      name: `price of a call: ${name} by the earlier build`,
      value: ratioOf(name),
      limit: 1,
      tolerance: TOLERANCE_AGAINST,
    }))
  const byBaseline = Object.entries(limits).map(([name, limit]) => ({
    name: `price of a call: ${name} by ${baseline}`,
    value: ratioOf(name),
    limit,
  }))
  const byHandwritten =
    aboveHandwritten === undefined
      ? []
      : ours.map((name) => ({
          name: `price of a call: 1 + ${name} − ${handwritten}, both by ${baseline}`,
          value: 1 + ratioOf(name) - ratioOf(handwritten),
          limit: 1 + aboveHandwritten,
        }))
  return [...byBaseline, ...byHandwritten].map((check) => ({ ...check, tolerance: NOISE }))
}

interface Row {
  readonly name: string
  readonly us: string
  readonly ratio: number
  readonly range: string
}

/** The CPU time of a contender is that of the baseline times its ratio, so that the figures agree. */
function rowsOf(sets: readonly Pairs[], group: Group): Row[] {
  const compared = comparisonsOf(group).map(({ name, by }) => ({
    name,
    by: isAgainst ? by : group.baseline,
    price: priceByBaseline(sets, group, name),
  }))
  return [...Map.groupBy(compared, ({ by }) => by)].flatMap(([by, contenders]): Row[] => {
    const byUs = median(contenders.map(({ price }) => price.otherUs))
    const rows = contenders.map(({ name, price: { ratio, from, to } }) => ({
      name,
      us: shown(ratio * byUs),
      ratio,
      range: `${from.toFixed(3)} to ${to.toFixed(3)}`,
    }))
    return [{ name: by, us: shown(byUs), ratio: 1, range: '' }, ...rows]
  })
}

async function price(): Promise<Section> {
  const sets: Pairs[] = []
  for (let set = 1; set <= SETS; set += 1) {
    progress(`processes, set ${set} of ${SETS}`)
    sets.push(await measureSet())
  }
  const rows = GROUPS.flatMap((group) => rowsOf(sets, group))
  return {
    title: 'The price of a call',
    intro:
      `CPU time of a call in a process that has one client, as services have it: ${IN_FLIGHT} calls at a time over connections that are ` +
      'kept, to an HTTP server in another process, and on another core, on loopback. The processes of the clients live at once and take short turns, each ' +
      'beside a turn of the baseline, a constant header; those of createAuthFetch and createAuthDispatch beside handwritten lines, ' +
      'whose ratio theirs is multiplied by. The ratio is the median of a turn’s CPU time by that of the turn beside it. ' +
      `All processes are started ${SETS} times, for ${ROUNDS} turns each: the table has the median of all ratios, and the range of the medians of these sets. ` +
      'V8 has its default flags. The second copy of the baseline shows the noise.',
    columns: ['Client', 'µs per call', 'Ratio to the baseline', `${SETS} sets`],
    rows: rows.map(({ name, us, ratio, range }) => [name, us, ratio.toFixed(3), range]),
    notes: [
      'In the next section the clients share a process and make one call at a time: every call costs more, and what a client adds is a smaller part of it.',
      `${undiciWithoutInterceptor.name}: no interceptor. ${undiciBaseline.name}: an interceptor that spreads options and headers. ${handwrittenUndici.name}: it also keeps a token until it expires, as the other handwritten lines do.`,
    ],
    checks: GROUPS.flatMap((group) => checksOf(sets, group)),
  }
}

await runPart(import.meta, price)

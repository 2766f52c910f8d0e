/** The price of a call: what a contender adds to a constant header in a process that has one client, eight calls at a time. */
import { before } from '../contenders/ours.ts'
import { handwrittenUndici, undiciWithoutInterceptor } from '../contenders/price-undici.ts'
import { median, shown } from '../numbers.ts'
import { type Check, isAgainst, progress, runPart, type Section } from '../part.ts'
import { type Ratio, ratioOf, shuffled, type Times } from '../rounds.ts'
import { startService } from '../service.ts'
import { IN_FLIGHT, startParticipant } from '../turns.ts'

/** Each set has processes of its own: one process differs from the next by what the compiler made of the same code. */
const SETS = 5
/** Beside other programs, more and shorter turns are more precise: what disturbs them changes less between the turns of a pair. */
const CALLS = isAgainst ? 100 : 400
const ROUNDS = isAgainst ? 101 : 35
const WARM_UP_TURNS = 20
const TOLERANCE_AGAINST = 1.05

interface Group {
  readonly baseline: string
  readonly handwritten: string
  readonly ours: readonly string[]
  /**
   * How many calls a turn has before the measurement. Services live long, and the compiler needs about 40 000 calls of an
   * interceptor, fewer of handwritten lines. It counts where a call is short.
   */
  readonly warmUpCalls: number
  /** The highest ratio to the baseline, by contender. */
  readonly limits?: Readonly<Record<string, number>>
  /** How far the ratios of ours may be above that of the handwritten lines. */
  readonly aboveHandwritten?: number
}

const GROUPS: readonly Group[] = [
  {
    baseline: 'axios, default header',
    handwritten: 'handwritten interceptor',
    ours: ['createAuthInterceptor', 'attachAuth'],
    warmUpCalls: 400,
    limits: { createAuthInterceptor: 1.03, attachAuth: 1.06 },
  },
  {
    baseline: 'fetch, constant header',
    handwritten: 'handwritten fetch',
    ours: ['createAuthFetch'],
    warmUpCalls: 400,
    aboveHandwritten: 0.02,
  },
  {
    baseline: undiciWithoutInterceptor.name,
    handwritten: handwrittenUndici.name,
    ours: ['createAuthDispatch'],
    warmUpCalls: 2_000,
    aboveHandwritten: 0.05,
  },
]

const SECOND_COPY = ', second copy'

function namesOf({ baseline, handwritten, ours }: Group): string[] {
  if (isAgainst) return [baseline, ...ours.flatMap((name) => [name, before(name)])]
  return [baseline, baseline + SECOND_COPY, handwritten, ...ours]
}

async function measureSet(): Promise<Times> {
  const { service, close } = await startService()
  const start = async (name: string, { warmUpCalls }: Group) => ({
    name,
    warmUpCalls,
    participant: await startParticipant(name.replace(SECOND_COPY, ''), service),
  })
  const groups = await Promise.all(
    GROUPS.map((group) => Promise.all(namesOf(group).map((name) => start(name, group)))),
  )
  // The clients of a group follow each other, so that little changes between the two turns of a pair.
  const inTurn = () => shuffled(groups).flatMap(shuffled)
  for (let turn = 0; turn < WARM_UP_TURNS; turn += 1) {
    for (const { participant, warmUpCalls } of inTurn()) await participant.takeTurn(warmUpCalls)
  }
  const times = new Map<string, number[]>(groups.flat().map(({ name }) => [name, []]))
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { name, participant } of inTurn()) {
      times.get(name)?.push(await participant.takeTurn(CALLS))
    }
  }
  await Promise.all(groups.flat().map(({ participant }) => participant.end()))
  await close()
  return times
}

/** The median of the sets' ratios, and their range. */
function priceOf(sets: readonly Times[], name: string, baseline: string): Ratio {
  const medians = sets.map((times) => ratioOf(times, name, baseline).ratio)
  return { ratio: median(medians), from: Math.min(...medians), to: Math.max(...medians) }
}

function checksOf(sets: readonly Times[], group: Group): Check[] {
  const { baseline, handwritten, ours, limits = {}, aboveHandwritten } = group
  const price = (name: string): number => priceOf(sets, name, baseline).ratio
  if (isAgainst)
    return ours.map((name) => ({
      name: `price of a call: ${name} by the earlier build`,
      value: priceOf(sets, name, before(name)).ratio,
      limit: 1,
      tolerance: TOLERANCE_AGAINST,
    }))
  const byBaseline = Object.entries(limits).map(([name, limit]) => ({
    name: `price of a call: ${name} by ${baseline}`,
    value: price(name),
    limit,
  }))
  const byHandwritten =
    aboveHandwritten === undefined
      ? []
      : ours.map((name) => ({
          name: `price of a call: 1 + ${name} − ${handwritten}, both by ${baseline}`,
          value: 1 + price(name) - price(handwritten),
          limit: 1 + aboveHandwritten,
        }))
  return [...byBaseline, ...byHandwritten].map((check) => ({ ...check, tolerance: 1 }))
}

async function price(): Promise<Section> {
  const sets: Times[] = []
  for (let set = 1; set <= SETS; set += 1) {
    progress(`processes, set ${set} of ${SETS}`)
    sets.push(await measureSet())
  }
  const measured = GROUPS.flatMap(({ baseline, ...group }) =>
    namesOf({ baseline, ...group }).map((name) => {
      const own = priceOf(sets, name, baseline)
      // As in call-cost.ts: the figures agree although the machine's speed varies.
      const us = own.ratio * median(sets.flatMap((times) => times.get(baseline) ?? []))
      return { name, isBaseline: name === baseline, us: shown(us), ...own }
    }),
  )
  return {
    title: 'The price of a call',
    intro:
      `CPU time of a call in a process that has one client, as services have it: ${IN_FLIGHT} calls at a time over connections that are ` +
      `kept, to an HTTP server in another process on loopback. The processes of all clients live at once and take turns of ${CALLS} ` +
      `calls. The ratio is the median over ${ROUNDS} rounds of a turn’s CPU time by that of the baseline, a constant header, in the same ` +
      `round. All processes are started ${SETS} times: the table has the median of these sets, and their range. ` +
      'The second copy of the baseline shows the noise.',
    columns: ['Client', 'µs per call', 'Ratio to the baseline', `${SETS} sets`],
    rows: measured.map(({ name, isBaseline, us, ratio, from, to }) => {
      const range = isBaseline ? '' : `${from.toFixed(3)} to ${to.toFixed(3)}`
      return [name, us, ratio.toFixed(3), range]
    }),
    notes: [
      'In the next section the clients share a process and make one call at a time: every call costs more, and what a client adds is a smaller part of it.',
      `${undiciWithoutInterceptor.name}: no interceptor. ${handwrittenUndici.name}: spreads options and headers, with a constant header.`,
    ],
    checks: GROUPS.flatMap((group) => checksOf(sets, group)),
    summary: {
      page: 'docs/speed.md',
      columns: ['A call in a process with one client', 'µs', 'ratio'],
      rows: measured
        .filter(({ name }) => !name.endsWith(SECOND_COPY))
        .map(({ name, us, ratio }) => [name, us, ratio.toFixed(2)]),
    },
  }
}

await runPart(import.meta, price)

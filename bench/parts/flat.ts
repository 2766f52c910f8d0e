/** Whether a call costs the same with one call in flight as with ten thousand. */
import type { Client, Contender } from '../contender.ts'
import { contenderOf } from '../contenders/index.ts'
import { Gate, startTokenEndpoint, stubTransport } from '../no-network.ts'
import { compare, type Measured, type Rounds, type Runner } from '../rounds.ts'
import { type Chart, isCheck, type Mark, runAlone, type Section } from '../section.ts'

const SIZES = isCheck ? [1, 10_000] : [1, 10, 100, 1_000, 10_000]
const ROUNDS: Rounds = isCheck
  ? { rounds: 9, sliceMs: 25, warmUpMs: 200 }
  : { rounds: 17, sliceMs: 25, warmUpMs: 200 }

interface Group {
  readonly floor: string
  readonly ours: string
  /** Left out of a check. */
  readonly others: readonly string[]
}

const GROUPS: readonly Group[] = [
  {
    floor: 'axios, default header',
    ours: 'attachAuth',
    others: ['handwritten interceptor', 'axios-token-interceptor', 'axios-auth-refresh'],
  },
  {
    floor: 'fetch, constant header',
    ours: 'createAuthFetch',
    others: ['handwritten fetch', '@badgateway/oauth2-client', 'auth0'],
  },
]

/** The growth of the ratio from 1 to 10 000 calls in flight that still counts as flat. */
const LIMIT = 1.25
const ROOM = 1.3

interface Entrant {
  readonly contender: Contender
  readonly client: Client
  readonly gate: Gate
}

interface Result {
  readonly group: Group
  /** By number in flight. */
  readonly measured: ReadonlyMap<number, readonly Measured[]>
}

export default async function flat(): Promise<Section> {
  const { service, close } = await startTokenEndpoint()
  const results: Result[] = []
  for (const group of GROUPS) {
    const entrants: Entrant[] = []
    for (const name of [group.floor, group.ours, ...(isCheck ? [] : group.others)]) {
      const contender = contenderOf(name)
      const gate = new Gate()
      const client = await contender.create(service, stubTransport({ arrive: gate.arrive }))
      await client.call() // gets the token
      entrants.push({ contender, client, gate })
    }
    const measured = new Map<number, readonly Measured[]>()
    for (const size of SIZES) {
      process.stderr.write(`${group.floor}: ${size} in flight\n`)
      measured.set(
        size,
        await compare(
          entrants.map((entrant) => runnerOf(entrant, size)),
          ROUNDS,
        ),
      )
    }
    results.push({ group, measured })
  }
  await close()
  return sectionOf(results)
}

/** One time is one batch: so many calls, none of which is answered before all of them have reached the stub. */
function runnerOf({ contender, client, gate }: Entrant, size: number): Runner {
  return {
    name: contender.name,
    async run(times) {
      gate.setSize(size)
      for (let done = 0; done < times; done += 1) {
        await batch(client, size)
      }
    },
  }
}

/** As Promise.all would do it, with less that is done once for the batch: that would favour the large ones. */
function batch(client: Client, size: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let left = size
  const done = (): void => {
    left -= 1
    if (left === 0) resolve()
  }
  for (let nth = 0; nth < size; nth += 1) client.call().then(done, reject)
  return promise
}

function sectionOf(results: readonly Result[]): Section {
  return {
    title: 'Calls in flight',
    intro:
      'The cost per call with a fresh token, by the cost of the floor with the same number of calls in flight; the stub answers ' +
      'none of a batch before all of it has arrived. A line that stays level: waiting calls do not get in each other’s way. ' +
      `Medians of ${ROUNDS.rounds} rounds.`,
    columns: ['Contender', ...SIZES.map((size) => `${inWords(size)} in flight`), 'last by first'],
    rows: results.flatMap((result) =>
      namesOf(result).map((name) => [
        name,
        ...SIZES.map((size) => {
          const found = figureOf(result, { name, size })
          return name === result.group.floor
            ? `${Math.round(found.nsPerRun / size)} ns`
            : found.ratio.toFixed(2)
        }),
        growthOf(result, name).toFixed(2),
      ]),
    ),
    notes: [
      'The lines of the floors state the time of a call, the others ratios to it.',
      'The room of the marks: runs on a busy machine gave 0.89 to 1.36 for one and the same code.',
    ],
    marks: results.map(markOf),
    charts: isCheck ? [] : results.map(chartOf),
  }
}

function inWords(size: number): string {
  return size >= 10_000 ? size.toLocaleString('en').replace(',', ' ') : String(size)
}

function namesOf({ measured }: Result): string[] {
  return [...(measured.get(1) ?? [])].map(({ name }) => name)
}

function figureOf({ measured }: Result, { name, size }: { name: string; size: number }): Measured {
  const found = measured.get(size)?.find((one) => one.name === name)
  if (!found) throw new Error(`${name} was not measured with ${size} in flight`)
  return found
}

/** Of the ratio; of a floor, whose ratio is always 1, that of the time of a call. */
function growthOf(result: Result, name: string): number {
  const [first = 1, last = 1] = [SIZES[0], SIZES.at(-1)]
  const at = (size: number) => {
    const found = figureOf(result, { name, size })
    return name === result.group.floor ? found.nsPerRun / size : found.ratio
  }
  return at(last) / at(first)
}

function markOf(result: Result): Mark {
  const { ours, floor } = result.group
  return {
    name: `${ours} by ${floor}, with 10 000 in flight by with 1`,
    value: growthOf(result, ours),
    limit: LIMIT,
    room: ROOM,
  }
}

function chartOf(result: Result, nth: number): Chart {
  return {
    file: nth === 0 ? 'flat-axios.svg' : 'flat-fetch.svg',
    title: `Cost per call by calls in flight, ${nth === 0 ? 'axios' : 'fetch'}`,
    unit: `times the floor (${result.group.floor})`,
    kind: 'lines',
    scale: nth === 0 ? 'linear' : 'log',
    series: namesOf(result).map((name) => ({
      name,
      kind: contenderOf(name).kind,
      values: SIZES.map((size) => ({ x: inWords(size), y: figureOf(result, { name, size }).ratio })),
    })),
  }
}

await runAlone(import.meta, flat)

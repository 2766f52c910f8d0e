/** What one call costs with a fresh token and without a network: the code around the call, and nothing else. */
import type { Client, Contender } from '../contender.ts'
import { axiosCreateFloor } from '../contenders/floors.ts'
import { contenders } from '../contenders/index.ts'
import { type StubOptions, startTokenEndpoint, stubTransport } from '../no-network.ts'
import { compare, type Measured, type Rounds, type Runner } from '../rounds.ts'
import { type Chart, isCheck, type Mark, runAlone, type Section } from '../section.ts'

interface Group {
  readonly title: string
  readonly floor: string
  readonly stub: StubOptions
  readonly clients: readonly Contender['client'][]
  /** The highest ratio that is promised, by contender. */
  readonly limits: Readonly<Record<string, number>>
}

const GROUPS: readonly Group[] = [
  {
    title: 'axios, no-op adapter',
    floor: 'axios, default header',
    stub: {},
    clients: ['axios'],
    limits: { attachAuth: 1.02 },
  },
  {
    title: 'fetch, a stub that returns a ready response',
    floor: 'fetch, constant header',
    stub: { response: 'ready' },
    clients: ['fetch', 'other'],
    limits: {},
  },
  {
    title: 'fetch, a stub that builds a Response',
    floor: 'fetch, constant header',
    stub: { response: 'built' },
    clients: ['fetch', 'other'],
    limits: { createAuthFetch: 2.2 },
  },
  {
    title: 'undici, no-op dispatcher',
    floor: 'undici, constant header',
    stub: {},
    clients: ['undici'],
    limits: {},
  },
]

/** Room for noise: see the notes of the section. */
const ROOM: Readonly<Record<string, number>> = { attachAuth: 1.04, createAuthFetch: 1.1 }
const ROUNDS: Rounds = isCheck
  ? { rounds: 75, sliceMs: 20, warmUpMs: 300 }
  : { rounds: 80, sliceMs: 25, warmUpMs: 400 }
const SECOND_COPY = ', second copy'

interface Result {
  readonly group: Group
  readonly measured: readonly (Measured & { readonly kind: Contender['kind'] })[]
}

export default async function cost(): Promise<Section> {
  const { service, close } = await startTokenEndpoint()
  const failures: string[] = []
  const results: Result[] = []
  for (const group of GROUPS) {
    const chosen = [...contenders, axiosCreateFloor].filter(
      ({ name, client, kind }) =>
        group.clients.includes(client) &&
        (!isCheck || (kind === 'floor' && hasLimits(group)) || name in group.limits),
    )
    if (isCheck && chosen.length < 2) continue
    const floor = chosen.find(({ name }) => name === group.floor)
    if (!floor) throw new Error(`${group.floor} is missing`)
    const entrants = [
      floor,
      { ...floor, name: floor.name + SECOND_COPY },
      ...chosen.filter((one) => one !== floor),
    ]
    const runners: Runner[] = []
    for (const contender of entrants) {
      try {
        const client = await contender.create(service, stubTransport(group.stub))
        await checked(client)
        runners.push(runnerOf(contender.name, client))
      } catch (error) {
        if (contender.kind !== 'peer') throw error
        failures.push(`${contender.name} could not be measured: ${error}`)
      }
    }
    process.stderr.write(`${group.title}: ${runners.length} contenders\n`)
    const measured = await compare(runners, ROUNDS)
    results.push({
      group,
      measured: measured.map((one) => ({
        ...one,
        kind: entrants.find(({ name }) => name === one.name)?.kind ?? 'peer',
      })),
    })
  }
  await close()
  return sectionOf(results, failures)
}

async function checked(client: Client): Promise<void> {
  const status = await client.call()
  if (status !== 200) throw new Error(`answers ${status}`)
}

function runnerOf(name: string, client: Client): Runner {
  return {
    name,
    async run(times) {
      for (let done = 0; done < times; done += 1) await client.call()
    },
  }
}

function sectionOf(results: readonly Result[], failures: readonly string[]): Section {
  const noise = results.map(({ group, measured }) => {
    const twin = measured.find(({ name }) => name.endsWith(SECOND_COPY))
    return `${group.title}: ${twin?.ratio.toFixed(3)} (${range(twin)})`
  })
  const notes = contenders.flatMap(({ name, note }) => (note ? [`${name}: ${note}.`] : []))
  return {
    title: 'Cost per call',
    intro:
      'What one call costs while the token is fresh, with a stub in place of the network. The ratio is the median, over ' +
      `${ROUNDS.rounds} rounds, of a contender’s time by the time of the floor (the first line of its group) in the same round; ` +
      'in brackets where that median lies with a confidence of 95 %. All run in one process, in another order in each round.',
    columns: ['Stub', 'Contender', 'ns per call', 'Ratio to the floor', '95 %'],
    rows: results.flatMap(({ group, measured }) =>
      measured.map((one) => [
        group.title,
        one.name,
        Math.round(one.nsPerRun),
        one.ratio.toFixed(3),
        range(one),
      ]),
    ),
    notes: [
      `The noise: a second copy of the floor ought to have the ratio 1. It had, with ${noise.join('; ')}.`,
      'The room of a mark is the largest deviation from the median in six short runs on four cores that ten other processes kept busy, rounded up.',
      'A stub that returns the same response each time costs next to nothing, so there the ratio says what two looks at a clock and a promise cost.',
      ...notes,
      ...failures,
    ],
    marks: results.flatMap(marksOf),
    charts: results.filter(({ group }) => hasLimits(group)).map(chartOf),
    summary: summaryOf(results),
  }
}

function range(one: Measured | undefined): string {
  return one ? `${one.from.toFixed(3)} to ${one.to.toFixed(3)}` : ''
}

/** A mark for each floor of the group: there are two ways to give axios a default header. */
function marksOf({ group, measured }: Result): Mark[] {
  const floors = measured.filter(({ name, kind }) => kind === 'floor' && !name.endsWith(SECOND_COPY))
  return measured.flatMap(({ name, ratio }) => {
    const limit = group.limits[name]
    if (limit === undefined) return []
    return floors.map((floor) => ({
      name: `${name} by ${floor.name}`,
      value: ratio / floor.ratio,
      limit,
      room: ROOM[name] ?? 1,
    }))
  })
}

function hasLimits({ limits }: Group): boolean {
  return Object.keys(limits).length > 0
}

function chartOf({ group, measured }: Result, nth: number): Chart {
  return {
    file: nth === 0 ? 'cost-axios.svg' : 'cost-fetch.svg',
    title: `Cost per call, ${group.title}`,
    unit: `times the floor (${group.floor})`,
    kind: 'bars',
    scale: nth === 0 ? 'linear' : 'log',
    series: measured
      .filter(({ name }) => !name.endsWith(SECOND_COPY))
      .map(({ name, kind, ratio }) => ({ name, kind, values: [{ x: name, y: ratio }] })),
  }
}

function summaryOf(results: readonly Result[]): NonNullable<Section['summary']> {
  return {
    columns: ['Cost of a call without network', 'ns', 'ratio'],
    rows: results
      .filter(({ group }) => group.stub.response !== 'ready')
      .flatMap(({ measured }) =>
        measured
          .filter(({ name }) => !name.endsWith(SECOND_COPY))
          .map(({ name, nsPerRun, ratio }) => [name, Math.round(nsPerRun), ratio.toFixed(2)]),
      ),
  }
}

await runAlone(import.meta, cost)

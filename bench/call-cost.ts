/** What a call costs in CPU time: the clients of one kind in turn, each by the baseline of that kind. */
import type { Client, Contender, Service, Transport } from './contenders/contender.ts'
import { contenders } from './contenders/index.ts'
import { before } from './contenders/ours.ts'
import { median, shown } from './numbers.ts'
import { type Check, isAgainst, isCheck, progress, type Section } from './part.ts'
import { measure, type Ratio, type Rounds, type Runner, ratioOf, type Times } from './rounds.ts'

export interface Group {
  readonly title: string
  readonly clients: readonly Contender['client'][]
  /** Names of contenders, besides the baseline. By default all, or in a short run those that have a limit. */
  readonly only?: readonly string[]
  /** How many calls begin at once; the next begin when all of them have ended. 1 by default. */
  readonly inFlight?: number
  readonly transport?: () => Transport
  /** The highest ratio to the baseline, by contender. */
  readonly limits?: Readonly<Record<string, number>>
  /** Room for noise in the ratio to an earlier build. */
  readonly tolerance: number
}

export interface Result {
  readonly group: Group
  readonly baseline: string
  readonly entrants: readonly Contender[]
  readonly times: Times
  /** Contenders that could not be measured, each as a sentence. */
  readonly failures: readonly string[]
}

/** A second copy of the baseline shows how much of a difference is noise. */
const SECOND_COPY = ', second copy'

export async function measureGroups(
  groups: readonly Group[],
  { service, rounds }: { service: Service; rounds: Rounds },
): Promise<Result[]> {
  const results: Result[] = []
  for (const group of groups) {
    const entrants = entrantsOf(group)
    if (entrants.length < 2) continue
    progress(`${group.title}: ${entrants.length} clients`)
    results.push(await measureGroup(group, { entrants, service, rounds }))
  }
  return results
}

function entrantsOf({ clients, only, limits = {} }: Group): Contender[] {
  const names = only ?? (isCheck ? Object.keys(limits) : undefined)
  const [baseline, ...others] = contenders.filter(
    ({ client, kind, name }) =>
      clients.includes(client) &&
      (kind === 'baseline' ||
        (isAgainst ? kind === 'ours' || kind === 'before' : !names || names.includes(name))),
  )
  if (!baseline) throw new Error(`No client is ${clients.join(' or ')}`)
  const copy = { ...baseline, name: baseline.name + SECOND_COPY }
  return isCheck ? [baseline, ...others] : [baseline, copy, ...others]
}

async function measureGroup(
  group: Group,
  { entrants, service, rounds }: { entrants: readonly Contender[]; service: Service; rounds: Rounds },
): Promise<Result> {
  const clients: Client[] = []
  const runners: Runner[] = []
  const failures: string[] = []
  for (const { name, kind, create } of entrants) {
    try {
      const client = await create(service, group.transport?.())
      clients.push(client)
      const runner = runnerOf(name, client, group)
      await runner.run(runner.batch ?? 1) // gets the token, and throws if a call is not answered with 200
      runners.push(runner)
    } catch (error) {
      if (kind !== 'peer' && kind !== 'before') throw error
      failures.push(`${name} could not be measured: ${error}`)
    }
  }
  const times = await measure(runners, rounds)
  for (const client of clients) await client.close?.()
  return { group, baseline: entrants[0]?.name ?? '', entrants, times, failures }
}

function runnerOf(name: string, client: Client, { inFlight = 1 }: Group): Runner {
  const call = async (): Promise<void> => {
    const status = await client.call()
    if (status !== 200) throw new Error(`${name}: a call was answered ${status}`)
  }
  return {
    name,
    batch: inFlight,
    async run(calls) {
      for (let made = 0; made < calls; made += inFlight) {
        if (inFlight === 1) await call()
        else await allOf(inFlight, call)
      }
    },
  }
}

/** As Promise.all, but with less work that is done once for all: that would favor large batches. */
function allOf(size: number, call: () => Promise<void>): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let left = size
  const done = (): void => {
    left -= 1
    if (left === 0) resolve()
  }
  for (let nth = 0; nth < size; nth += 1) call().then(done, reject)
  return promise
}

export function ratioToBaseline({ times, baseline }: Result, name: string): Ratio {
  return ratioOf(times, name, baseline)
}

/** The median of the baseline times the ratio: the figures of a group agree although the machine's speed varies. */
function usPerCall(result: Result, name: string): number {
  return median(result.times.get(result.baseline) ?? []) * ratioToBaseline(result, name).ratio
}

function measuredOf({ entrants, times }: Result): Contender[] {
  return entrants.filter(({ name }) => times.has(name))
}

const RATIOS =
  'The ratio is the median, over many rounds, of a client’s time by that of the baseline (the first line of its group) in the same ' +
  'round; beside it is where that median lies with a confidence of 95 %. The second copy of the baseline shows the noise.'

/** The table and the checks of all groups. */
export function costSection(
  { notes, ...texts }: Pick<Section, 'title' | 'intro' | 'notes'>,
  results: readonly Result[],
): Section {
  const measured = results.flatMap((result) =>
    measuredOf(result).map((contender) => ({ result, ...contender })),
  )
  return {
    ...texts,
    columns: ['Group', 'Client', 'µs per call', 'Ratio to the baseline', '95 %'],
    rows: measured.map(({ result, name }) => {
      const { ratio, from, to } = ratioToBaseline(result, name)
      const range = name === result.baseline ? '' : `${from.toFixed(3)} to ${to.toFixed(3)}`
      return [result.group.title, name, shown(usPerCall(result, name)), ratio.toFixed(3), range]
    }),
    notes: [RATIOS, ...(notes ?? []), ...results.flatMap(({ failures }) => failures)],
    checks: results.flatMap(isAgainst ? checksAgainstBefore : checksOfLimits),
  }
}

/** A short run beside other programs must pass: two copies of one build differ by up to 5 %. `npm run bench` has no such room. */
const CHECK_TOLERANCE = 1.1

function checksOfLimits(result: Result): Check[] {
  const { group, baseline, times } = result
  return Object.entries(group.limits ?? {})
    .filter(([name]) => times.has(name))
    .map(([name, limit]) => ({
      name: `${group.title}: ${name} by ${baseline}`,
      value: ratioToBaseline(result, name).ratio,
      limit,
      tolerance: isCheck ? CHECK_TOLERANCE : 1,
    }))
}

function checksAgainstBefore({ group, entrants, times }: Result): Check[] {
  return entrants
    .filter(({ kind, name }) => kind === 'ours' && times.has(before(name)))
    .map(({ name }) => ({
      name: `${group.title}: ${name} by the earlier build`,
      value: ratioOf(times, name, before(name)).ratio,
      limit: 1,
      tolerance: group.tolerance,
    }))
}

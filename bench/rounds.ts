/** Compares runners in one process: many short rounds, each runner once in each, and the ratios taken within a round. */
import { setImmediate } from 'node:timers/promises'
import { median } from './numbers.ts'

export interface Runner {
  readonly name: string
  /** Makes so many calls, and resolves when they are done. */
  run(calls: number): Promise<void>
  /** The calls of a run are a multiple of it; 1 by default. */
  readonly batch?: number
}

export interface Rounds {
  readonly rounds: number
  /**
   * How long (ms) a runner runs in a round. Short slices and many rounds: what disturbs some of them is then not
   * in the median.
   */
  readonly sliceMs: number
  readonly warmUpMs: number
}

/** CPU time (µs) of a call, by the runner's name and then by round. */
export type Times = ReadonlyMap<string, readonly number[]>

export async function measure(
  runners: readonly Runner[],
  { rounds, sliceMs, warmUpMs }: Rounds,
): Promise<Times> {
  const times = new Map<string, number[]>()
  const counts = new Map<Runner, number>()
  // Twice, since warming up one runner can undo what was compiled for another.
  for (const ms of [warmUpMs, warmUpMs]) {
    for (const runner of runners) counts.set(runner, await countIn(runner, { ms, sliceMs }))
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const runner of shuffled(runners)) {
      const count = counts.get(runner) ?? 1
      const own = times.get(runner.name) ?? []
      times.set(runner.name, [...own, (await cpuUs(runner, count)) / count])
    }
  }
  return times
}

export interface Ratio {
  /** The median, over the rounds, of a runner's time by that of the other in the same round. */
  readonly ratio: number
  /** Where the true median lies with a confidence of 95 %, by the order of the rounds. */
  readonly from: number
  readonly to: number
}

export function ratioOf(times: Times, name: string, to: string): Ratio {
  const [own, others] = [times.get(name), times.get(to)]
  if (!own || !others) throw new Error(`${own ? to : name} was not measured`)
  const ratios = own.map((us, round) => us / (others[round] ?? Number.NaN)).sort((a, b) => a - b)
  const { length } = ratios
  const reach = Math.ceil(0.98 * Math.sqrt(length))
  const at = (place: number) => ratios[Math.min(length - 1, Math.max(0, place))] ?? Number.NaN
  return {
    ratio: median(ratios),
    from: at(Math.floor(length / 2) - reach),
    to: at(Math.floor(length / 2) + reach),
  }
}

/** CPU time of the whole process, garbage collection included. Other processes do not show in it, as they do in elapsed time. */
async function cpuUs(runner: Runner, count: number): Promise<number> {
  await setImmediate() // what the runner before left to the event loop does not count
  const start = process.cpuUsage()
  await runner.run(count)
  const { user, system } = process.cpuUsage(start)
  return user + system
}

/** Runs it for that long, and finds how many calls fit into a slice. */
async function countIn(runner: Runner, { ms, sliceMs }: { ms: number; sliceMs: number }): Promise<number> {
  const end = performance.now() + ms
  const { batch = 1 } = runner
  let count = batch
  do {
    const wanted = (count * sliceMs * 1_000) / Math.max(await cpuUs(runner, count), 1)
    count = batch * Math.max(1, Math.round(Math.min(count * 4, wanted) / batch))
  } while (performance.now() < end)
  return count
}

/** The order of a round must favor no runner. */
export function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, order: Math.random() }))
    .sort((a, b) => a.order - b.order)
    .map(({ value }) => value)
}

/** Compares runners in one process: many short rounds, each runner once in each, and the ratios taken within a round. */
import { setImmediate } from 'node:timers/promises'

export interface Runner {
  readonly name: string
  /** Does it so many times and resolves when that is done. */
  run(times: number): Promise<void>
}

export interface Measured {
  readonly name: string
  /** The median of the first runner, times the ratio: so the figures agree although the machine’s speed varies. */
  readonly nsPerRun: number
  /** Median, over the rounds, of this runner's time by that of the first runner in the same round. */
  readonly ratio: number
  /** Where the true median lies with a confidence of 95 %, by the rounds' order. */
  readonly from: number
  readonly to: number
}

export interface Rounds {
  readonly rounds: number
  readonly sliceMs: number
  readonly warmUpMs: number
}

/** The first runner is what the others are compared with. */
export async function compare(
  runners: readonly Runner[],
  { rounds, sliceMs, warmUpMs }: Rounds,
): Promise<Measured[]> {
  const counts = new Map<Runner, number>()
  // Twice, since what is warmed up later can undo what was compiled before.
  for (const ms of [warmUpMs, warmUpMs]) {
    for (const runner of runners) counts.set(runner, await countIn(runner, { ms, sliceMs }))
  }
  const times = new Map<Runner, number[]>(runners.map((runner) => [runner, []]))
  for (let round = 0; round < rounds; round += 1) {
    for (const runner of shuffled(runners)) {
      const count = counts.get(runner) ?? 1
      times.get(runner)?.push((await msOf(runner, count)) / count)
    }
  }
  const floor = timesOf(times, runners[0])
  return runners.map((runner) => {
    const own = timesOf(times, runner)
    const ratios = own.map((ms, round) => ms / (floor[round] ?? Number.NaN)).sort((a, b) => a - b)
    const reach = Math.ceil(0.98 * Math.sqrt(rounds))
    const at = (place: number) => ratios[Math.min(rounds - 1, Math.max(0, place))] ?? Number.NaN
    const ratio = median(ratios)
    return {
      name: runner.name,
      nsPerRun: median(floor) * ratio * 1e6,
      ratio,
      from: at(Math.floor(rounds / 2) - reach),
      to: at(Math.floor(rounds / 2) + reach),
    }
  })
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) + (sorted[Math.floor(middle)] ?? Number.NaN)) / 2
}

function timesOf(times: Map<Runner, number[]>, runner: Runner | undefined): number[] {
  const found = runner && times.get(runner)
  if (!found) throw new Error('Nothing to compare with')
  return found
}

/** Processor time of the whole process, collector included: what other processes do to the time on the wall is not in it. */
async function msOf(runner: Runner, count: number): Promise<number> {
  await setImmediate() // what the one before left to the event loop is not this one's
  const start = process.cpuUsage()
  await runner.run(count)
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1_000
}

/** Runs it for that long, and says how often it fits into a slice by then. */
async function countIn(runner: Runner, { ms, sliceMs }: { ms: number; sliceMs: number }): Promise<number> {
  const end = performance.now() + ms
  let count = 1
  do {
    const took = await msOf(runner, count)
    const wanted = (count * sliceMs) / Math.max(took, 0.001)
    count = Math.max(1, Math.round(Math.min(count * 4, wanted)))
  } while (performance.now() < end)
  return count
}

/** The order of a round must not favour anyone. */
function shuffled<T>(values: readonly T[]): T[] {
  const result = [...values]
  for (let last = result.length - 1; last > 0; last -= 1) {
    const other = Math.floor(Math.random() * (last + 1))
    ;[result[last], result[other]] = [result[other] as T, result[last] as T]
  }
  return result
}

/** How the run time grows for a text of 8 times the length: 8 is linear, 64 is quadratic. */
export function growth(
  run: (text: string) => void,
  textOf: (length: number) => string,
  length: number,
): number {
  const [short, long] = [textOf(length), textOf(8 * length)]
  run(short) // warm-up, for the compiler
  return fastest(() => run(long)) / fastest(() => run(short))
}

const SLICE_MS = 3
const ROUNDS = 9

/** The least CPU time of one run (ms): it excludes other processes, and noise only makes it longer. */
function fastest(run: () => void): number {
  let count = 1
  while (cpuMsOf(run, count) < SLICE_MS) count *= 2
  return Math.min(...Array.from({ length: ROUNDS }, () => cpuMsOf(run, count) / count))
}

function cpuMsOf(run: () => void, count: number): number {
  const from = process.cpuUsage()
  for (let done = 0; done < count; done += 1) run()
  const { user, system } = process.cpuUsage(from)
  return (user + system) / 1_000
}

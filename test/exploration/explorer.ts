/**
 * Runs a small world in every order of events, not in random ones. Whenever a world has settled, several things can
 * happen next: a caller arrives, the token endpoint answers, time passes. The world lists them, and the explorer chooses
 * one. It runs the world from the start with the first choice each time, until nothing is left to choose; then again with
 * the last choice replaced by its next alternative, and so on, like a counter whose digits have different bases. When no
 * choice has an alternative left, every schedule within the bounds of the world has been run.
 */

/** Chooses one of the things that can happen next. Their names differ from each other. */
export type Choose = (alternatives: readonly string[]) => number

/** Runs one schedule; throws if a rule is broken. */
export type Run = (choose: Choose) => Promise<void>

interface ChoicePoint {
  readonly alternatives: readonly string[]
  chosen: number
}

/** Runs every schedule, and returns their number. `most`: how many there may be at most. */
export async function explore(run: Run, { most }: { readonly most: number }): Promise<number> {
  let path: ChoicePoint[] = []
  for (let schedules = 1; schedules <= most; schedules += 1) {
    let depth = 0
    const choose: Choose = (alternatives) => {
      const point = path[depth] ?? { alternatives: [...alternatives], chosen: 0 }
      if (depth === path.length) path.push(point)
      depth += 1
      if (point.alternatives.join() !== alternatives.join())
        throw new Error(`The world is not deterministic: ${alternatives} after ${namesOf(path, depth - 1)}`)
      return point.chosen
    }
    try {
      await run(choose)
    } catch (error) {
      const names = JSON.stringify(namesOf(path, depth))
      throw new Error(`Schedule ${schedules}: ${(error as Error).message}\nreplay(…, ${names})`, {
        cause: error,
      })
    }
    if (depth < path.length)
      throw new Error(`The world is not deterministic: it ends after ${namesOf(path, depth)}`)
    path = nextPath(path)
    if (path.length === 0) return schedules
  }
  throw new Error(`There are more than ${most} schedules`)
}

/** Runs one schedule again, given the names of its choices; after them, the first choice each time. */
export async function replay(run: Run, names: readonly string[]): Promise<void> {
  let depth = 0
  await run((alternatives) => {
    const name = names[depth]
    depth += 1
    const chosen = name === undefined ? 0 : alternatives.indexOf(name)
    if (chosen === -1) throw new Error(`'${name}' is not possible, but: ${alternatives.join(', ')}`)
    return chosen
  })
  if (depth < names.length) throw new Error(`Over after ${depth} choices`)
}

/** The path to the next schedule: the last choice that has an alternative left is replaced by it. Empty if there is none. */
function nextPath(path: readonly ChoicePoint[]): ChoicePoint[] {
  const last = path.findLastIndex(({ alternatives, chosen }) => chosen + 1 < alternatives.length)
  if (last === -1) return []
  const { alternatives, chosen } = path[last] as ChoicePoint
  return [...path.slice(0, last), { alternatives, chosen: chosen + 1 }]
}

function namesOf(path: readonly ChoicePoint[], depth: number): string[] {
  return path.slice(0, depth).map(({ alternatives, chosen }) => alternatives[chosen] as string)
}

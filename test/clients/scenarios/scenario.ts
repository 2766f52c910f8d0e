/** What holds for every client: a plain function that any test runner can run, with a client and a world of its own. */
import type { Driver } from '../drivers.ts'
import type { World } from '../world.ts'

export interface Scenario {
  /** What several scenarios have in common. */
  readonly group: string
  readonly name: string
  /** The names of the drivers that it is about; all, where it is left out. */
  readonly drivers?: readonly string[]
  /** Whether it is run on Node.js alone. */
  readonly nodeOnly?: boolean
  /** Resolves with what came of it, in a few words: the cell of a table. */
  run(world: World, driver: Driver): Promise<string>
}

/** Whether a scenario is about this driver. */
export function concerns({ drivers }: Scenario, { name }: Pick<Driver, 'name'>): boolean {
  return drivers === undefined || drivers.some((one) => name.startsWith(one))
}

/** `1 token request`, `2 token requests` */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

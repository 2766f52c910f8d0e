/** A behavior of every client, as a plain function that any test runner can run with a client and its own world. */
import type { Driver } from '../drivers.ts'
import type { World } from '../world.ts'

export interface Scenario {
  /** The behavior that several scenarios share. */
  readonly group: string
  readonly name: string
  /** The prefixes of the names of its drivers; by default all. */
  readonly drivers?: readonly string[]
  /** Whether it runs on Node.js only. */
  readonly nodeOnly?: boolean
  /** Resolves with the outcome in a few words: a cell of the table. */
  run(world: World, driver: Driver): Promise<string>
}

/** Whether a scenario runs with this driver. */
export function concerns({ drivers }: Scenario, { name }: Pick<Driver, 'name'>): boolean {
  return drivers === undefined || drivers.some((one) => name.startsWith(one))
}

/** `1 token request`, `2 token requests` */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

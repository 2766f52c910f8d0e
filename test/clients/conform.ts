/** Runs scenarios in Vitest with every client that they concern, and records their outcomes for docs/faults.md. */
import { createAuthDispatch } from 'merchant-auth/undici'
import * as undici from 'undici'
import { describe, it } from 'vitest'
import { record } from '../faults/cells.ts'
import { thinOut } from '../support/recorded.ts'
import { AXIOS_FETCH, AXIOS_FUNCTION, AXIOS_HTTP, type Driver, FETCH, undiciDriver } from './drivers.ts'
import { concerns, type Scenario } from './scenarios/scenario.ts'
import { inWorld } from './world.ts'

export const UNDICI: Driver = undiciDriver('undici', undici as never, createAuthDispatch)
const DRIVERS: readonly Driver[] = [AXIOS_HTTP, AXIOS_FETCH, AXIOS_FUNCTION, FETCH, UNDICI]

/** Runs scenarios with every client. */
export function conform(table: string, scenarios: readonly Scenario[]): void {
  conformWith(DRIVERS, scenarios, table)
}

/** Runs scenarios with these clients. Without a table, nothing is recorded. */
export function conformWith(
  drivers: readonly Driver[],
  scenarios: readonly Scenario[],
  table?: string,
): void {
  describe.for([...new Set(scenarios.map(({ group }) => group))])('%s', (group) => {
    it.for(
      scenarios
        .filter((scenario) => scenario.group === group)
        .flatMap((scenario) =>
          drivers.filter((driver) => concerns(scenario, driver)).map((driver) => ({ scenario, driver })),
        ),
    )('$driver.name: $scenario.name', async ({ scenario, driver }, { task }) => {
      const cell = await inWorld((world) => scenario.run(world, driver))
      thinOut()
      if (table !== undefined) record(task, { table, group, row: scenario.name, column: driver.name, cell })
    })
  })
}

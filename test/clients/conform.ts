/** Runs scenarios in Vitest with every client that they concern. */
import { createAuthDispatch } from 'merchant-auth/undici'
import * as undici from 'undici'
import { describe, it } from 'vitest'
import { thinOut } from '../support/recorded.ts'
import { AXIOS_FETCH, AXIOS_FUNCTION, AXIOS_HTTP, type Driver, FETCH, undiciDriver } from './drivers.ts'
import { concerns, type Scenario } from './scenarios/scenario.ts'
import { inWorld } from './world.ts'

export const UNDICI: Driver = undiciDriver('undici', undici as never, createAuthDispatch)
const DRIVERS: readonly Driver[] = [AXIOS_HTTP, AXIOS_FETCH, AXIOS_FUNCTION, FETCH, UNDICI]

/** Runs scenarios with every client. */
export function conform(scenarios: readonly Scenario[]): void {
  conformWith(DRIVERS, scenarios)
}

/** Runs scenarios with these clients. */
export function conformWith(drivers: readonly Driver[], scenarios: readonly Scenario[]): void {
  describe.for([...new Set(scenarios.map(({ group }) => group))])('%s', (group) => {
    it.for(
      scenarios
        .filter((scenario) => scenario.group === group)
        .flatMap((scenario) =>
          drivers.filter((driver) => concerns(scenario, driver)).map((driver) => ({ scenario, driver })),
        ),
    )('$driver.name: $scenario.name', async ({ scenario, driver }) => {
      await inWorld((world) => scenario.run(world, driver))
      thinOut()
    })
  })
}

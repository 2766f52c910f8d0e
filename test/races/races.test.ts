import fc from 'fast-check'
import { describe, inject, it } from 'vitest'
import { record } from '../faults/cells.ts'
import { seeded } from '../model/driver.ts'
import { aRace } from './actions.ts'
import { RULES } from './referee.ts'
import { World } from './world.ts'

describe('a provider and its callers, with events in random order', () => {
  it('follow every rule', { timeout: 100 * inject('schedules') }, async ({ task }) => {
    const property = fc.asyncProperty(fc.scheduler(), aRace, (schedule, race) =>
      seeded(race.seed, () => new World(schedule, race).run()),
    )
    await fc.assert(property, { numRuns: inject('schedules') })
    for (const row of Object.values(RULES))
      record(task, {
        table: 'races',
        row,
        column: `broken in ${inject('schedules')} schedules`,
        cell: 'never',
      })
  })
})

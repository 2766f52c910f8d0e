import fc from 'fast-check'
import { beforeAll, describe, inject, it } from 'vitest'
import { record } from '../faults/cells.ts'
import { seeded } from '../model/driver.ts'
import { aStory } from './actions.ts'
import { fakeEncryption, loadProvider } from './encryption.ts'
import { runStory } from './fleet.ts'
import { RULES } from './ledger.ts'

const SCHEDULES = Math.round(0.3 * inject('schedules'))

beforeAll(async () => {
  await loadProvider()
  await fakeEncryption()
})

describe('a fleet, its Redis and the token endpoint, with events in random order', () => {
  it('follow every rule', { timeout: 200 * SCHEDULES + 60_000 }, async ({ task }) => {
    const property = fc.asyncProperty(fc.scheduler(), aStory, (schedule, story) =>
      seeded(story.seed, () => runStory(schedule, story)),
    )
    await fc.assert(property, { numRuns: SCHEDULES })
    for (const row of Object.values(RULES))
      record(task, { table: 'fleet', row, column: `broken in ${SCHEDULES} schedules`, cell: 'never' })
  })
})

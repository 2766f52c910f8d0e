import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest'
import { record } from '../faults/cells.ts'
import { forget } from '../support/recorded.ts'
import { aRace, type Race } from './actions.ts'
import { settled } from './clock.ts'
import { randomFrom } from './random.ts'
import { RULES } from './rules.ts'
import { World } from './world.ts'

const unhandled: unknown[] = []
const note = (reason: unknown): void => void unhandled.push(reason)
beforeEach(() => void process.on('unhandledRejection', note))
afterEach(() => void process.off('unhandledRejection', note))

async function run(schedule: fc.Scheduler, race: Race): Promise<void> {
  const random = vi.spyOn(Math, 'random').mockImplementation(randomFrom(race.seed))
  const world = new World(schedule, race)
  await world.run()
  await settled()
  random.mockRestore()
  forget()
  expect(world.referee.problems).toEqual([])
  expect(unhandled, RULES.unhandled).toEqual([])
}

describe('a provider, its callers and the world, in any order', () => {
  it('keep every rule', { timeout: 100 * inject('schedules') }, async ({ task }) => {
    await fc.assert(fc.asyncProperty(fc.scheduler(), aRace, run), { numRuns: inject('schedules') })
    for (const row of Object.values(RULES))
      record(task, {
        table: 'races',
        row,
        column: `broken in ${inject('schedules')} schedules`,
        cell: 'never',
      })
  })
})

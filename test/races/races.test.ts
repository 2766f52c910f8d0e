import fc from 'fast-check'
import { describe, expect, inject, it, vi } from 'vitest'
import { Random } from '../support/random.ts'
import { forget } from '../support/recorded.ts'
import { unhandledRejections } from '../token/harness.ts'
import { aRace, type Race } from './actions.ts'
import { World } from './world.ts'

/** Runs one race, with jitter from its seed. */
async function run(schedule: fc.Scheduler, race: Race): Promise<void> {
  const random = new Random(race.seed)
  const jitter = vi.spyOn(Math, 'random').mockImplementation(() => random.next())
  const unhandled = unhandledRejections()
  const world = new World(schedule, race)
  try {
    await world.run()
  } finally {
    jitter.mockRestore()
    forget()
    expect(await unhandled(), 'unhandled rejections').toBe(0)
  }
}

describe('a provider and its callers, with events in random order', () => {
  it('follow every rule', { timeout: 100 * inject('schedules') }, async () => {
    await fc.assert(fc.asyncProperty(fc.scheduler(), aRace, run), { numRuns: inject('schedules') })
  })
})

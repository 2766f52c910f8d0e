import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest'
import { record } from '../faults/cells.ts'
import { settled } from '../races/clock.ts'
import { randomFrom } from '../races/random.ts'
import { forget } from '../support/recorded.ts'
import { aStory, type Story } from './actions.ts'
import { RULES } from './rules.ts'
import { sealing } from './sealing.ts'
import { World } from './world.ts'

vi.mock('../../src/store/sealing.ts', async (original) => {
  const { watchedSealing } = await import('./sealing.ts')
  const { SealingKey } = await original<typeof import('../../src/store/sealing.ts')>()
  return { SealingKey: watchedSealing(SealingKey) }
})

const SCHEDULES = Math.round(0.3 * inject('schedules'))
const REALLY_SEALED = Math.round(SCHEDULES / 100)

const unhandled: unknown[] = []
const note = (reason: unknown): void => void unhandled.push(reason)
beforeEach(() => void process.on('unhandledRejection', note))
afterEach(() => void process.off('unhandledRejection', note))

async function run(schedule: fc.Scheduler, story: Story): Promise<void> {
  const random = vi.spyOn(Math, 'random').mockImplementation(randomFrom(story.seed))
  try {
    await new World(schedule, story).run()
    await settled()
  } finally {
    random.mockRestore()
    forget()
  }
  expect(unhandled, RULES.unhandled).toEqual([])
}

describe('a fleet, its Redis and the token endpoint, in any order', () => {
  it('keep every rule', { timeout: 200 * SCHEDULES + 60_000 }, async ({ task }) => {
    await import('../../src/token/shared-entries.ts') // not in the middle of a schedule
    await fc.assert(fc.asyncProperty(fc.scheduler(), aStory, run), { numRuns: SCHEDULES })
    for (const row of Object.values(RULES))
      record(task, { table: 'fleet', row, column: `broken in ${SCHEDULES} schedules`, cell: 'never' })
  })

  it('keep every rule with entries that are really encrypted', async () => {
    sealing.real = true
    try {
      await fc.assert(fc.asyncProperty(fc.scheduler(), aStory, run), { numRuns: REALLY_SEALED })
    } finally {
      sealing.real = false
    }
  })
})

/**
 * Random races reach what the exploration of small worlds cannot: long sequences of events, clocks that are set, timers that
 * fire late, calls of three clients, and processes with a store whose acquisitions are lost. test/exploration runs every order of a
 * few events.
 */
import fc from 'fast-check'
import { describe, expect, inject, it, vi } from 'vitest'
import { Random } from '../support/random.ts'
import { forget } from '../support/recorded.ts'
import { unhandledRejections } from '../token/harness.ts'
import { aLongRace, aRace, type Race } from './actions.ts'
import { World } from './world.ts'

/** Runs one race, with jitter from its seed. */
async function run(schedule: fc.Scheduler, race: Race): Promise<void> {
  const random = new Random(race.seed)
  const jitter = vi.spyOn(Math, 'random').mockImplementation(() => random.next())
  const unhandled = unhandledRejections()
  try {
    await new World(schedule, race).run()
  } finally {
    jitter.mockRestore()
    forget()
    expect(await unhandled(), 'unhandled rejections').toBe(0)
  }
}

/** For one race, on a machine that does other things, too. */
const MOST_MS = 300
const schedules = inject('schedules')

describe('processes and their callers keep every promise', () => {
  it('with events in random order', { timeout: MOST_MS * schedules }, async () => {
    await fc.assert(fc.asyncProperty(fc.scheduler(), aRace, run), { numRuns: schedules })
  })

  it('with hundreds of calls that an API rejects', { timeout: MOST_MS * schedules }, async () => {
    await fc.assert(fc.asyncProperty(fc.scheduler(), aLongRace, run), { numRuns: Math.ceil(schedules / 100) })
  })
})

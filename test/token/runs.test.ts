/** The runs of a provider: one after the other, and what becomes of those behind a run that outlived its step. */
import { expect, it } from 'vitest'
import { Runs } from '../../src/token/runs.ts'
import { ManualClock, settled } from '../support/clock.ts'

const STEP_MS = 5_000

it('a run that is only late makes no run behind it run twice, or beside another', async () => {
  const clock = new ManualClock()
  const closed = new AbortController().signal
  const runs = new Runs(clock, { firstStepMs: STEP_MS, closed, lost: () => new Error('lost') })
  const begun: string[] = []
  let underWay = 0
  let most = 0
  const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const run = (key: string, end: Promise<void> | undefined) => async () => {
    begun.push(key)
    underWay += 1
    most = Math.max(most, underWay)
    await end
    underWay -= 1
  }
  const first = runs.join('first', async () => {
    const isLate = begun.length === 0
    begun.push('first')
    await ends[isLate ? 0 : 1]?.promise
  })
  const second = runs.join('second', run('second', undefined))
  const third = runs.join('third', run('third', undefined))
  await clock.advance(STEP_MS + 1_000) // the first one counts as lost: all begin anew
  expect(begun).toEqual(['first', 'first'])
  ends[0]?.resolve()
  await settled()
  expect(begun).toEqual(['first', 'first'])
  ends[1]?.resolve()
  await Promise.all([first, second, third])
  await settled()
  expect([begun, most, clock.sleeping]).toEqual([['first', 'first', 'second', 'third'], 1, 0])
})

/** A clock of a process that can stand still: its timers fire late, in the order of their times. */
class FreezingClock extends ManualClock {
  async standStill(ms: number): Promise<void> {
    this.pass(ms)
    await this.advance(0)
  }
}

it('a run that stood still with the process ends by its own limits before it counts as lost', async () => {
  const clock = new FreezingClock()
  const closed = new AbortController().signal
  const runs = new Runs(clock, { firstStepMs: STEP_MS, closed, lost: () => new Error('lost') })
  let begun = 0
  const waiting = runs.join('key', async () => {
    begun += 1
    await clock.sleep(3_000)
    runs.beginStep(STEP_MS)
    await clock.sleep(STEP_MS)
  })
  await clock.advance(4_000)
  await clock.standStill(20_000)
  await waiting
  expect([begun, clock.sleeping]).toEqual([1, 0])
})

it('a run counts as under way for 0.1 s after the process stood still, and no longer if it was lost', async () => {
  const clock = new FreezingClock()
  const closed = new AbortController().signal
  const runs = new Runs(clock, { firstStepMs: STEP_MS, closed, lost: () => new Error('lost') })
  runs.start('key', () => new Promise(() => {}))
  await clock.standStill(20_000)
  expect(runs.has('key')).toBe(true)
  await clock.advance(99)
  expect(runs.has('key')).toBe(true)
  await clock.advance(1)
  expect(runs.has('key')).toBe(false)
  runs.start('key', async () => {
    runs.beginStep(STEP_MS)
    await clock.sleep(STEP_MS)
  })
  await clock.advance(0)
  await clock.standStill(4_000)
  expect(runs.has('key')).toBe(true)
  await clock.advance(1_000)
  expect(runs.has('key')).toBe(false)
})

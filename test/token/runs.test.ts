/** The runs of a provider: one after the other, and what becomes of those behind a run that outlived its step. */
import type { Clock } from 'merchant-auth'
import { expect, it, vi } from 'vitest'
import { Runs } from '../../src/token/runs.ts'
import { ManualClock, ScheduledClock, settled } from '../support/clock.ts'

const STEP_MS = 5_000
/** A run is lost a second after the limit of its step. */
const LOST_MS = STEP_MS + 1_000

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

const runsOn = (clock: Clock): Runs =>
  new Runs(clock, {
    firstStepMs: STEP_MS,
    closed: new AbortController().signal,
    lost: () => new Error('lost'),
  })

const forever = (): Promise<void> => new Promise(() => {})

it('a run counts as under way until a second after the limit of its step', async () => {
  const clock = new ManualClock()
  const runs = runsOn(clock)
  runs.start('key', forever)
  await settled()
  for (let passedMs = 0; passedMs < LOST_MS; passedMs += 500) {
    expect(runs.has('key'), `after ${passedMs} ms`).toBe(true)
    await clock.advance(500)
  }
})

it('a run that was lost while the process stood still begins anew 0.1 s later', async () => {
  const clock = new FreezingClock()
  const runs = runsOn(clock)
  let begun = 0
  const waiting = runs.join('key', async () => {
    begun += 1
    if (begun > 1) return
    await clock.sleep(3_000)
    runs.beginStep(STEP_MS)
    await forever()
  })
  await clock.advance(3_000)
  await clock.standStill(LOST_MS)
  expect(begun).toBe(1)
  await clock.advance(99)
  expect(begun).toBe(1)
  await clock.advance(1)
  expect(begun).toBe(2)
  await waiting
})

it('a run that was lost begins anew at its time, whoever waits or begins another one meanwhile', async () => {
  const clock = new ManualClock()
  const runs = runsOn(clock)
  let begun = 0
  const waiting = [
    runs.join('lost', async () => {
      begun += 1
      if (begun === 1) await forever()
    }),
  ]
  await clock.advance(2_000)
  waiting.push(runs.join('waited for', async () => {}))
  await clock.advance(2_000)
  runs.start('waited for by nobody', async () => {})
  await clock.advance(LOST_MS - 4_001)
  expect(begun).toBe(1)
  await clock.advance(1)
  expect(begun).toBe(2)
  await Promise.all(waiting)
})

it('a run that goes on in the moment in which it would be lost does not begin anew', async () => {
  const clock = new ScheduledClock((wake) => wake())
  const runs = runsOn(clock)
  let begun = 0
  const waiting = runs.join('key', async () => {
    begun += 1
    await clock.sleep(LOST_MS)
    runs.beginStep(STEP_MS)
    await clock.sleep(STEP_MS)
  })
  await settled()
  clock.advance(LOST_MS)
  await settled()
  expect(begun).toBe(1)
  clock.advance(STEP_MS)
  await waiting
})

it('a run after one that was lost begins anew if it is lost, too', async () => {
  const clock = new ManualClock()
  const runs = runsOn(clock)
  runs.start('lost before', forever)
  await clock.advance(LOST_MS)
  let begun = 0
  const waiting = runs.join('key', async () => {
    begun += 1
    if (begun === 1) await forever()
  })
  await clock.advance(100)
  expect(begun).toBe(1)
  await clock.advance(LOST_MS)
  expect(begun).toBe(2)
  await waiting
})

it('a run begins anew, once for all who wait, where the runtime ends their wait with an error of its own', async () => {
  const clock = new ManualClock()
  const { promise, reject } = Promise.withResolvers<never>()
  vi.spyOn(clock, 'sleep').mockReturnValueOnce(promise).mockReturnValueOnce(promise)
  const runs = runsOn(clock)
  const end = Promise.withResolvers<void>()
  let begun = 0
  const run = async (): Promise<void> => {
    begun += 1
    await (begun === 1 ? forever() : end.promise)
  }
  const first = runs.join('key', run)
  await settled()
  const second = runs.join('key', run) // of another request: it has a wait of its own
  await settled()
  reject(new Error('The request that this promise belongs to has ended'))
  await settled()
  expect(begun).toBe(2)
  end.resolve()
  await Promise.all([first, second])
  expect(begun).toBe(2)
})

it('a run that fails with an error of other code begins anew once, and then fails with that error', async () => {
  const runs = runsOn(new ManualClock())
  const error = new TypeError('of other code')
  const run = vi.fn(async () => {
    throw error
  })
  await expect(runs.join('key', run)).rejects.toBe(error)
  expect(run).toHaveBeenCalledTimes(2)
})

it('a thousand calls that begin to wait at once need one timer', async () => {
  const clock = new ManualClock()
  const runs = runsOn(clock)
  const end = Promise.withResolvers<void>()
  const waiting = Array.from({ length: 1_000 }, () => runs.join('key', () => end.promise))
  await settled()
  expect(clock.sleeping).toBe(1)
  end.resolve()
  await Promise.all(waiting)
})

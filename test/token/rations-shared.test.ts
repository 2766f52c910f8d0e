/** Renewals after rejections, rationed for all processes that share a store. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { elsewhere, type Process } from '../store/fleet.ts'
import { longLived, oneRenewed, refused } from '../store/scenes.ts'
import { IN_STORE_URL } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

const HOUR_MS = 3_600_000
/** Enough, after two renewals in a row, for the gap to begin anew. */
const QUIET_MS = 64_001
const MERCHANT = 'https://api.test.example/merchant'

describe('the gap after a renewal', () => {
  it.each([
    ['with a lease', true],
    ['without', false],
  ])('holds for the next process, too: on a store %s', async (_, leases) => {
    const { fleet, other } = await oneRenewed(leases)
    await fleet.skip(400)
    other.events.length = 0
    expect(await refused(fleet, other)).toBe(false)
    expect(other.events.at(-1)).toEqual({
      type: 'renewal-suppressed',
      api: MERCHANT,
      nextRenewalMs: 600,
      environment: 'test',
    })
    await fleet.skip(599)
    expect(await refused(fleet, other)).toBe(false)
    await fleet.skip(1)
    expect(await refused(fleet, other)).toBe(true)
  })

  it('holds for a process that starts in it', async () => {
    const { fleet } = await oneRenewed()
    expect(await refused(fleet, fleet.start())).toBe(false)
  })

  it('doubles from process to process', async () => {
    const { fleet, one, other } = await oneRenewed()
    const processes = [other, one, fleet.start(), fleet.start(), other]
    for (const [n, gapMs] of [1_000, 2_000, 4_000, 8_000, 16_000].entries()) {
      const process = processes[n] ?? one
      await fleet.skip(gapMs - 1)
      expect(await refused(fleet, process)).toBe(false)
      await fleet.skip(1)
      expect(await refused(fleet, process)).toBe(true)
    }
  })

  it.each([
    { agoMs: 62_000, isOver: false, when: 'a minute and twice the gap ago' },
    { agoMs: 62_001, isOver: true, when: 'longer ago than that' },
  ])('is forgotten or not by a process that starts $when', async ({ agoMs, isOver }) => {
    const { fleet } = await oneRenewed()
    await fleet.skip(agoMs)
    const late = fleet.start()
    expect(await refused(fleet, late)).toBe(true)
    await fleet.skip(1_000)
    expect(await refused(fleet, late)).toBe(isOver)
  })

  it('is measured by the store, whatever the clocks of the machines say', async () => {
    const { fleet } = await oneRenewed()
    await fleet.skip(999)
    const clock = elsewhere(fleet.clock, { monotonicMs: 12_345_678, epochMs: -5 * HOUR_MS })
    const late = fleet.start({ clock })
    expect(await refused(fleet, late)).toBe(false)
    await fleet.skip(1)
    expect(await refused(fleet, late)).toBe(true)
  })

  it('is for one API alone', async () => {
    const { fleet, other } = await oneRenewed()
    expect(await refused(fleet, other)).toBe(false)
    expect(await refused(fleet, { ...other, url: IN_STORE_URL })).toBe(true)
    expect(await refused(fleet, { ...fleet.start(), url: IN_STORE_URL })).toBe(false)
    expect(new Set(fleet.store.keys.filter((key) => key.includes('.ration-'))).size).toBe(2)
  })

  it('is shared by refusals without a url, too, which have one of their own', async () => {
    const { fleet, other } = await oneRenewed()
    expect(await refused(fleet, { ...other, url: null })).toBe(true)
    expect(await refused(fleet, { ...fleet.start(), url: null })).toBe(false)
  })

  it('is for one client alone', async () => {
    const { fleet } = await oneRenewed()
    const stranger = fleet.start({ clientId: 'client-2' })
    expect(await refused(fleet, stranger)).toBe(true)
  })

  it('is not begun by a renewal that failed', async () => {
    const { fleet, other } = await oneRenewed()
    await fleet.skip(1_000)
    fleet.endpoint.answers.push(() => new Response('', { status: 400 }))
    await expect(refused(fleet, other)).rejects.toMatchObject({ status: 400 })
    expect(await refused(fleet, fleet.start())).toBe(true)
  })

  it('is not begun by a renewal in the background, nor by a first token', async () => {
    const fleet = longLived()
    await fleet.begin()
    expect(fleet.store.keys.filter((key) => key.includes('.ration-'))).toEqual([])
  })

  it('of a process itself is not made shorter by what the store says', async () => {
    const { fleet, one } = await oneRenewed()
    const { rationKey: key } = fleet.store
    const { value = '', ttlMs = 0 } = fleet.store.entry(key) ?? {}
    await fleet.skip(1_000)
    expect(await refused(fleet, one)).toBe(true) // and now the gap is 2 s
    fleet.store.put(key, value, ttlMs)
    await fleet.skip(1_999)
    expect(await refused(fleet, one)).toBe(false)
    await fleet.skip(1)
    expect(await refused(fleet, one)).toBe(true)
  })

  it('is kept in the store for an hour', async () => {
    const { fleet } = await oneRenewed()
    const { rationKey: key } = fleet.store
    expect(fleet.store.entry(key)?.ttlMs).toBe(HOUR_MS)
  })
})

/** When the token endpoint was asked, and how many of these times were within one hour at the most. */
function mostInAnHour(askedAt: readonly number[]): number {
  return Math.max(...askedAt.map((from) => askedAt.filter((at) => at >= from && at < from + HOUR_MS).length))
}

describe('an API that refuses every token', () => {
  it.each([
    { seconds: 10, processes: 3 },
    { seconds: 65, processes: 2 },
    { seconds: 130, processes: 4 },
  ])(
    'costs all processes together at most 20 an hour, called in turn by $processes of them every $seconds s',
    async ({ seconds, processes: count }) => {
      const fleet = longLived()
      const processes = Array.from({ length: count }, () => fleet.start())
      await processes[0]?.provider.getToken()
      const askedAt: number[] = []
      for (let step = 0; step < 100; step += 1) {
        const process = processes[step % count]
        if (process && (await refused(fleet, process))) askedAt.push(step * seconds * 1_000)
        await fleet.clock.advance(seconds * 1_000)
      }
      expect(mostInAnHour(askedAt)).toBeLessThanOrEqual(20)
      expect(askedAt.length).toBeGreaterThan(5)
    },
  )

  it('costs no more where each call comes from a process that has just started', async () => {
    const fleet = longLived()
    const askedAt: number[] = []
    for (let step = 0; step < 130; step += 1) {
      const process = fleet.start()
      if (await refused(fleet, process)) askedAt.push(fleet.clock.monotonicMs())
      await process.provider.close()
      await fleet.clock.advance(step % 2 === 0 ? 1_000 : QUIET_MS)
    }
    expect(askedAt.length).toBeGreaterThan(20)
    expect(mostInAnHour(askedAt)).toBeLessThanOrEqual(20)
  })

  it('costs no more where a process renewed twenty times, long ago', async () => {
    const fleet = longLived()
    const askedAt: number[] = []
    const renewInPairs = async (process: Process, pairs: number): Promise<void> => {
      for (let step = 0; step < 2 * pairs; step += 1) {
        if (await refused(fleet, process)) askedAt.push(fleet.clock.monotonicMs())
        await fleet.skip(step % 2 === 0 ? 1_000 : QUIET_MS)
      }
    }
    const veteran = await fleet.begin()
    await renewInPairs(veteran, 10)
    await fleet.skip(3 * HOUR_MS)
    const other = fleet.start()
    await renewInPairs(other, 9)
    await renewInPairs(veteran, 1)
    await renewInPairs(other, 9)
    expect(mostInAnHour(askedAt)).toBeLessThanOrEqual(20)
  })
})

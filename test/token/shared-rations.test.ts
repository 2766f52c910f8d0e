/** Rations in the store that nobody can read: each process goes by its own. */
import { describe, expect, it } from 'vitest'
import { failuresOf } from '../store/fleet.ts'
import { answers, FAILURES } from '../store/memory-store.ts'
import { oneRenewed, refused, sealedByHand } from '../store/scenes.ts'

const HOUR_MS = 3_600_000

describe('a ration that cannot be read', () => {
  it.each([
    ['throws', FAILURES.throws],
    ['rejects', FAILURES.rejects],
    ['hangs', FAILURES.hangs],
    ['makes no sense', answers(5)],
    ['was sealed by nobody', answers({ value: 'text', ttlMs: HOUR_MS })],
    ['is none', answers(undefined)],
  ])("leaves each process its own, because the store's answer %s", async (_, fault) => {
    const { fleet, one, other } = await oneRenewed()
    fleet.store.faults.get = fault
    const renewal = refused(fleet, other)
    await fleet.tookMs(renewal)
    expect(await renewal).toBe(true)
    const again = refused(fleet, one)
    await fleet.tookMs(again)
    expect(await again).toBe(false)
  })

  it('is told as any other failure', async () => {
    const { fleet, other } = await oneRenewed()
    await fleet.skip(1_000)
    const { rationKey: key } = fleet.store
    fleet.store.put(key, 'text', HOUR_MS)
    expect(await refused(fleet, other)).toBe(true)
    expect(failuresOf(other.events)).toEqual([{ operation: 'get', code: 'UNREADABLE' }])
  })

  it('because the token of another entry was put in its place counts as absent', async () => {
    const { fleet, other } = await oneRenewed()
    const { rationKey: key } = fleet.store
    fleet.store.put(key, String(fleet.store.entry(fleet.store.tokenKey)?.value), HOUR_MS)
    expect(await refused(fleet, other)).toBe(true)
    expect(failuresOf(other.events)).toContainEqual({ operation: 'get', code: 'UNREADABLE' })
  })

  it.each([
    ['no gap', { renewedAgoMs: [0] }],
    ['no renewals', { gapMs: 1_000 }],
    ['renewals that are no times', { gapMs: 1_000, renewedAgoMs: ['now'] }],
    ['an empty list of them', { gapMs: 1_000, renewedAgoMs: [] }],
    ['null', null],
  ])('because somebody with the key has other ideas of it counts as absent: %s', async (_, content) => {
    const { fleet, other } = await oneRenewed()
    const { rationKey: key } = fleet.store
    fleet.store.put(key, await sealedByHand(key, content), HOUR_MS)
    fleet.store.asked.length = 0
    expect(await refused(fleet, other)).toBe(true)
    expect(fleet.store.operations.filter((operation) => operation === 'set')).toHaveLength(2)
  })
})

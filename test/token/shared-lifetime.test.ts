/** How long a token lives that another process has asked for: by the store's own count, and on the reader's clocks. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { elsewhere, Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { granted } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

describe('a token in the store', () => {
  it.each([
    ['the same', {}],
    ['hours ahead', { monotonicMs: 5_000_000, epochMs: 3 * 3_600_000 }],
    ['hours behind', { monotonicMs: -900, epochMs: -3 * 3_600_000 }],
  ])(
    'lives on for as long as the store says, where the clocks of the next machine are %s',
    async (_, hands) => {
      const fleet = new Fleet()
      await fleet.begin()
      await fleet.skip(400_000)
      const clock = elsewhere(fleet.clock, hands)
      const { provider } = fleet.start({ clock, refreshAheadMs: 0 })
      const token = await provider.getToken()
      expect(token.expiresAt).toBe(clock.epochMs() + 600_000)
      await fleet.skip(589_999) // the margin of 10 s ends its use
      expect(provider.currentToken()).toBe(token)
      await fleet.skip(1)
      expect(provider.currentToken()).toBeUndefined()
    },
  )

  it('has the margin and the refresh window of its whole lifetime, however late it is taken', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(granted({ expires_in: 100 }))
    await fleet.begin({ refreshAheadMs: 0 })
    await fleet.skip(60_000)
    const { provider } = fleet.start()
    const token = await provider.getToken() // a margin of 5 s, and before it a window of 20 s
    fleet.store.asked.length = 0
    await fleet.skip(14_999)
    expect(provider.currentToken()).toBe(token)
    await quiet()
    expect(fleet.store.asked).toEqual([])
    await fleet.skip(1)
    expect(provider.currentToken()).toBe(token)
    await quiet()
    expect(fleet.store.operations).toContain('get')
    expect(provider.currentToken()?.value).not.toBe(token.value)
  })

  it('is older by the time that the store took to answer', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    fleet.store.faults.get = async (run) => {
      const found = await run()
      await fleet.clock.sleep(200)
      return found
    }
    const askedAt = fleet.clock.epochMs()
    const waiting = fleet.start().provider.getToken()
    await fleet.pass(200)
    expect((await waiting).expiresAt).toBe(askedAt + 1_000_000)
  })

  it('lives no longer than the token endpoint said, whatever the store says', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    const key = fleet.store.tokenKey
    fleet.store.put(key, String(fleet.store.entry(key)?.value), 10_000_000)
    const { expiresAt } = await fleet.start().provider.getToken()
    expect(expiresAt).toBe(fleet.clock.epochMs() + 1_000_000)
  })

  it('within its margin is left there, and another is asked for', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    await fleet.skip(989_999)
    const unhurried = { refreshAheadMs: 0 }
    expect((await fleet.start(unhurried).provider.getToken()).value).toBe(token)
    await fleet.skip(1)
    const { provider, events } = fleet.start(unhurried)
    expect((await provider.getToken()).value).not.toBe(token)
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
  })

  it('is kept there for exactly the time that it has left', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(async (init) => {
      await fleet.clock.sleep(1_500)
      return await granted()(init)
    })
    const { provider } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(1_500)
    await waiting
    expect(fleet.store.asked.find(({ operation }) => operation === 'set')).toMatchObject({ ttlMs: 998_500 })
  })
})

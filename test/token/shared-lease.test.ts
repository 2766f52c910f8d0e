/** Who asks the token endpoint when several processes need a token at the same time, and how the others wait. */
import { getEventListeners } from 'node:events'
import { ProviderClosedError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { elsewhere, Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { FAILURES } from '../store/memory-store.ts'
import { heldByAnother } from '../store/scenes.ts'
import { type Answer, granted, hang, rejection } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

/** A token endpoint that takes its time. */
const after =
  (fleet: Fleet, ms: number): Answer =>
  async (init) => {
    await fleet.clock.sleep(ms)
    return await granted()(init)
  }

describe('processes that need a token at the same time', () => {
  it.each([2, 20])('ask once, and share what comes: %i of them', async (count) => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(after(fleet, 330))
    const processes = Array.from({ length: count }, () => fleet.start())
    const waiting = Promise.all(processes.map(({ provider }) => provider.getToken()))
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(430)
    expect(new Set((await waiting).map(({ value }) => value)).size).toBe(1)
    expect(fleet.endpoint.count).toBe(1)
    const sources = processes.flatMap(({ events }) => sourcesOf(events)).sort()
    expect(sources).toEqual(['endpoint', ...Array.from({ length: count - 1 }, () => 'store')])
    await quiet()
    expect([fleet.store.leased, fleet.clock.sleeping]).toEqual([0, 0])
  })

  it('each ask where the store has no lease, and whoever comes later takes the last', async () => {
    const fleet = new Fleet({ leases: false })
    const two = [fleet.start(), fleet.start()]
    const tokens = await Promise.all(two.map(({ provider }) => provider.getToken()))
    await quiet()
    expect(fleet.endpoint.count).toBe(2)
    expect(fleet.store.operations.sort()).toEqual(['get', 'get', 'set', 'set'])
    const later = await fleet.start().provider.getToken()
    expect(tokens.map(({ value }) => value)).toContain(later.value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('wait for nothing where the store has no lease', async () => {
    const fleet = new Fleet({ leases: false })
    expect(await fleet.tookMs(fleet.start().provider.getToken())).toBe(0)
  })

  it('take a lease for as long as a token request may take', async () => {
    const fleet = new Fleet()
    await fleet.start({ timeoutMs: 3_000 }).provider.getToken()
    await quiet()
    const [lease] = fleet.store.asked.filter(({ operation }) => operation === 'lease')
    const [key] = fleet.store.keys
    expect(lease).toEqual({ operation: 'lease', key, ttlMs: 3_000 })
  })
})

describe('a process that waits for another', () => {
  it('looks every 50 ms', async () => {
    const { fleet } = await heldByAnother(60_000)
    const { provider } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(40)
    expect(fleet.store.operations).toEqual(['get', 'lease'])
    await fleet.pass(10)
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'lease'])
    await fleet.pass(450)
    expect(fleet.store.operations.filter((operation) => operation === 'get')).toHaveLength(11)
    expect(fleet.store.operations).toHaveLength(22)
    await provider.close()
    await rejection(waiting)
  })

  it.each([0, 10, 40, 50, 470])('has the token within 100 ms of it being there (%i ms later)', async (ms) => {
    const { fleet, token, write } = await heldByAnother(60_000)
    const waiting = fleet.start().provider.getToken()
    await fleet.pass(ms)
    write()
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(100)
    expect((await waiting).value).toBe(token)
    expect(fleet.endpoint.count).toBe(1)
  })

  it('takes over when the lease is given back and nothing is there', async () => {
    const { fleet, giveBack } = await heldByAnother(60_000)
    const waiting = fleet.start().provider.getToken()
    await fleet.pass(2_000)
    expect(fleet.endpoint.count).toBe(1)
    giveBack()
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(100)
    expect(fleet.endpoint.count).toBe(2)
    await quiet()
    expect([fleet.store.tokenKey, fleet.store.leased]).toEqual([expect.any(String), 0])
  })

  it('takes over when the lease of a holder that died runs out', async () => {
    const { fleet } = await heldByAnother(3_000)
    const { provider, events } = fleet.start()
    const took = await fleet.tookMs(provider.getToken())
    expect(took).toBeGreaterThanOrEqual(3_000)
    expect(took).toBeLessThanOrEqual(3_100)
    await quiet()
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
    expect(fleet.store.tokenKey).toBeDefined()
  })

  it.each([1_000, 10_000])(
    'asks some time after its own timeoutMs (%i) all the same, and writes nothing without the lease',
    async (timeoutMs) => {
      const { fleet } = await heldByAnother(60_000)
      expect(await fleet.tookMs(fleet.start({ timeoutMs }).provider.getToken())).toBe(
        timeoutMs + Math.min(timeoutMs / 4, 1_000),
      )
      await quiet()
      expect(fleet.store.keys).toEqual([])
      expect(new Set(fleet.store.operations)).toEqual(new Set(['get', 'lease']))
    },
  )

  it('has its whole timeoutMs for its own request then', async () => {
    const { fleet } = await heldByAnother(3_000)
    fleet.endpoint.otherwise = hang
    const failing = rejection(fleet.start({ timeoutMs: 4_000 }).provider.getToken())
    const took = await fleet.tookMs(failing)
    expect(took).toBeGreaterThanOrEqual(7_000)
    expect(took).toBeLessThanOrEqual(7_100)
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 2 })
  })

  it('leaves at once when its signal says so, alone, and the others get the token', async () => {
    const { fleet, giveBack } = await heldByAnother(60_000)
    const { provider } = fleet.start()
    const controller = new AbortController()
    const leaving = rejection(provider.getToken({ signal: controller.signal }))
    const staying = provider.getToken({ signal: new AbortController().signal })
    await fleet.pass(230)
    const reason = new Error('no longer needed')
    controller.abort(reason)
    expect(await leaving).toBe(reason)
    giveBack()
    await fleet.pass(50)
    expect(await staying).toBe(provider.currentToken())
  })

  it('leaves at once with a refused token, too', async () => {
    const fleet = new Fleet()
    const { provider, token } = await fleet.begin()
    fleet.store.hold(fleet.store.tokenKey, 60_000)
    const controller = new AbortController()
    const leaving = rejection(provider.renewToken(token, { signal: controller.signal }))
    await fleet.pass(230)
    controller.abort('enough')
    expect(await leaving).toBe('enough')
    await provider.close()
  })

  it('leaves no listener on the signal of its callers, and one for all of them while they wait', async () => {
    const { fleet, giveBack } = await heldByAnother(60_000)
    const { provider } = fleet.start()
    const { signal } = new AbortController()
    const waiting = Promise.all(Array.from({ length: 100 }, () => provider.getToken({ signal })))
    await fleet.pass(500)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    giveBack()
    await fleet.pass(50)
    await waiting
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it.each([
    ['between two looks', {}],
    ['in a look', { get: FAILURES.hangs }],
    ['while the lease is asked for', { lease: FAILURES.hangs }],
  ])('leaves at once when it is closed: %s', async (_, faults) => {
    const { fleet } = await heldByAnother(60_000)
    const { provider, events } = fleet.start()
    const waiting = rejection(provider.getToken())
    await fleet.pass(40)
    Object.assign(fleet.store.faults, faults)
    await fleet.pass(20)
    const closing = provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(await fleet.tookMs(closing)).toBeLessThanOrEqual(250)
    fleet.store.asked.length = 0
    await fleet.pass(1_000)
    expect([fleet.store.asked, fleet.clock.sleeping, fleet.endpoint.count]).toEqual([[], 0, 1])
    expect(sourcesOf(events)).toEqual([])
  })

  it('counts the time on its own monotonic clock, whatever the wall clock does', async () => {
    const { fleet } = await heldByAnother(60_000)
    const waiting = fleet
      .start({ timeoutMs: 1_000, clock: elsewhere(fleet.clock, { monotonicMs: 77 }) })
      .provider.getToken()
    fleet.clock.stepWallClock(-3_600_000)
    expect(await fleet.tookMs(waiting)).toBe(1_250)
  })
})

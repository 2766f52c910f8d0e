/** Which process makes the token request, how the others wait, and when the lease is released. */
import { getEventListeners } from 'node:events'
import { ProviderClosedError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { OPERATION_MS } from '../../src/token/shared/encrypted-store.ts'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { FAILURES, slow } from '../store/memory-store.ts'
import { leaseHeldByAnother } from '../store/scenes.ts'
import { ManualClock } from '../support/clock.ts'
import { granted, hang, rejection, status, withoutJitter } from './harness.ts'

withoutJitter()

describe('processes that need a token at the same time', () => {
  it.each([2, 20])('make one token request and share its token: %i processes', async (count) => {
    const fleet = new Fleet()
    fleet.answerAfter(330)
    const processes = Array.from({ length: count }, () => fleet.start())
    const waiting = Promise.all(processes.map(({ provider }) => provider.getToken()))
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(430)
    expect(new Set((await waiting).map(({ value }) => value)).size).toBe(1)
    expect(fleet.endpoint.count).toBe(1)
    const sources = processes.flatMap(({ events }) => sourcesOf(events)).sort()
    expect(sources).toEqual(['endpoint', ...Array.from({ length: count - 1 }, () => 'store')])
    await quiet()
    expect(fleet.store.leased).toBe(0)
  })

  it('each make a request at once if the store has no leases, and a later process acquires a stored token', async () => {
    const fleet = new Fleet({ leases: false })
    const tokens = Promise.all([fleet.tokenOf(), fleet.tokenOf()])
    expect(await fleet.tookMs(tokens)).toBe(0)
    await quiet()
    expect(fleet.endpoint.count).toBe(2)
    expect(await tokens).toContain(await fleet.tokenOf())
    expect(fleet.endpoint.count).toBe(2)
  })
})

describe('a process that waits for another', () => {
  it.each([
    ['is released', 2_000, 60_000],
    ['of a dead holder expires', 3_000, 3_000],
  ])('takes over when the lease %s and no token was written', async (_, ms, leaseMs) => {
    const { fleet, releaseLease } = await leaseHeldByAnother(leaseMs)
    const { provider, events } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(ms - 10)
    expect(fleet.endpoint.count).toBe(1)
    await fleet.pass(10)
    releaseLease()
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(100)
    await quiet()
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
    expect([fleet.endpoint.count, fleet.store.tokenKey, fleet.store.leased]).toEqual([
      2,
      expect.any(String),
      0,
    ])
  })

  it.each([
    [1_000, 4_000],
    [10_000, 13_000],
  ])(
    'requests a token without the lease soon after the lease of a dead holder must have expired, and shares it (timeoutMs %i)',
    async (timeoutMs, tookMs) => {
      const { fleet } = await leaseHeldByAnother(60_000)
      const { provider } = fleet.start({ timeoutMs })
      expect(await fleet.tookMs(provider.getToken())).toBe(tookMs)
      expect(fleet.endpoint.count).toBe(2)
      expect(await fleet.tokenOf()).toBe(provider.currentToken()?.value)
    },
  )

  it('tries to acquire the lease every 50 ms', async () => {
    const { fleet } = await leaseHeldByAnother(60_000)
    fleet.start().provider.getToken()
    await fleet.pass(40)
    expect(fleet.store.operations).toEqual(['get', 'lease'])
    await fleet.pass(10)
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'lease'])
  })

  it('stops waiting as soon as its own signal aborts; the others get the token', async () => {
    const { fleet, releaseLease } = await leaseHeldByAnother(60_000)
    const { provider } = fleet.start()
    const controller = new AbortController()
    const { signal } = new AbortController()
    const leaving = rejection(provider.getToken({ signal: controller.signal }))
    const staying = Promise.all(Array.from({ length: 100 }, () => provider.getToken({ signal })))
    await fleet.pass(230)
    const reason = new Error('no longer needed')
    controller.abort(reason)
    expect(await leaving).toBe(reason)
    releaseLease()
    await fleet.pass(50)
    expect(new Set(await staying)).toEqual(new Set([provider.currentToken()]))
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it.each([
    ['between two reads', {}, 0],
    ['during a read', { get: FAILURES.hangs }, 0],
    [
      'during an attempt to acquire the lease, which may still be granted',
      { lease: FAILURES.hangs },
      OPERATION_MS - 10,
    ],
  ])('stops waiting as soon as it is closed: %s', async (_, faults, closingMs) => {
    const { fleet } = await leaseHeldByAnother(60_000)
    const { provider, events } = fleet.start()
    const waiting = rejection(provider.getToken())
    await fleet.pass(40)
    Object.assign(fleet.store.faults, faults)
    await fleet.pass(20)
    const closing = provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(await fleet.tookMs(closing)).toBe(closingMs)
    fleet.store.asked.length = 0
    await fleet.pass(1_000)
    expect([fleet.store.asked, fleet.clock.sleeping, fleet.endpoint.count]).toEqual([[], 0, 1])
    expect(sourcesOf(events)).toEqual([])
  })
})

describe('the lease', () => {
  const began = async (): Promise<{ fleet: Fleet } & Process> => {
    const fleet = new Fleet()
    return { fleet, ...fleet.start() }
  }

  it('is released after the token was written, and not before', async () => {
    const { fleet, provider } = await began()
    fleet.store.faults.set = slow(fleet.clock, 200)
    const waiting = provider.getToken()
    await fleet.pass(190)
    expect([fleet.store.leased, fleet.store.keys.length]).toEqual([1, 0])
    await fleet.pass(10)
    await waiting
    expect([fleet.store.leased, fleet.store.keys.length]).toEqual([0, 1])
  })

  it('is kept while a write that takes too long is under way', async () => {
    const { fleet, provider, events } = await began()
    fleet.store.faults.set = slow(fleet.clock, OPERATION_MS + 500)
    expect(await fleet.tookMs(provider.getToken())).toBe(OPERATION_MS)
    await fleet.pass(490)
    expect([fleet.store.leased, fleet.store.keys.length]).toEqual([1, 0])
    // While the write hangs, the release does not begin: the lease expires.
    expect(failuresOf(events)).toEqual(
      ['set', 'lease'].map((operation) => ({ operation, code: 'ETIMEDOUT' })),
    )
    await fleet.pass(10)
    expect(await fleet.tokenOf()).toBe(provider.currentToken()?.value)
  })

  it.each([
    ['fails', status(400), 0],
    ['succeeds', granted(), 1],
  ])(
    'is released after a look under it failed and the token request %s, and not before the token is written',
    async (_, answer, written) => {
      const { fleet, provider, events } = await began()
      fleet.endpoint.answers.push(answer)
      let looks = 0
      fleet.store.faults.get = (run) => (++looks === 2 ? FAILURES.rejects(run) : run())
      fleet.store.faults.set = slow(fleet.clock, 200)
      const ending = provider.getToken().catch(() => {})
      expect(await fleet.tookMs(ending)).toBe(0) // nobody waits for a write while the store fails
      expect(fleet.store.leased).toBe(written)
      await fleet.pass(200)
      expect([fleet.store.leased, fleet.store.keys.length]).toEqual([0, written])
      expect(failuresOf(events)).toEqual([{ operation: 'get', code: 'ECONNREFUSED' }])
    },
  )

  it.each([
    ['an error', status(400, { error: 'invalid_request' })],
    ['an invalid token response', granted({ expires_in: -1 })],
  ])(
    'is released at once when the token endpoint returns %s, and goes to the next process',
    async (_, answer) => {
      const { fleet, provider } = await began()
      fleet.answerAfter(90, answer)
      const failing = rejection(provider.getToken())
      await quiet()
      const waiting = fleet.tokenOf()
      await fleet.pass(90)
      expect(await failing).toMatchObject({ code: expect.stringMatching(/^ERR_TOKEN_(STATUS|RESPONSE)$/) })
      expect([fleet.store.leased, fleet.store.keys, fleet.endpoint.count]).toEqual([0, [], 1])
      expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(100)
      expect(fleet.endpoint.count).toBe(2)
    },
  )

  it('is released without a write when its holder is closed', async () => {
    const { fleet, provider } = await began()
    fleet.endpoint.answers.push(hang)
    const waiting = rejection(provider.getToken())
    await quiet()
    expect(fleet.store.leased).toBe(1)
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect([fleet.store.leased, fleet.store.keys]).toEqual([0, []])
  })

  it('is released when its acquisition was lost: the one that replaces it does not wait for it', async () => {
    const { fleet, provider } = await began()
    const { clock } = fleet
    const ofRequest = Promise.withResolvers<void>()
    const sleep = vi.spyOn(clock, 'sleep')
    sleep.mockImplementation((ms, signal) =>
      ms > 60_000 ? ofRequest.promise : ManualClock.prototype.sleep.call(clock, ms, signal),
    )
    fleet.endpoint.answers.push(hang)
    const waiting = provider.getToken()
    await fleet.pass(10)
    expect([fleet.store.leased, fleet.endpoint.count]).toEqual([1, 1])
    sleep.mockRestore()
    ofRequest.reject(new Error('The request that this promise belongs to has ended')) // as a runtime of Workers does
    expect(await fleet.tookMs(waiting)).toBe(0)
    expect([fleet.store.leased, fleet.endpoint.count]).toEqual([0, 2])
  })

  it('is not asked for by a call that waits behind its holder when both are closed', async () => {
    const { fleet, provider } = await began()
    const token = await provider.getToken()
    await fleet.skip(800_000)
    fleet.endpoint.answers.push(hang)
    provider.currentToken()
    await quiet()
    fleet.store.asked.length = 0
    const waiting = rejection(provider.renewToken(token))
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    await quiet()
    expect(fleet.store.operations).toEqual(['release'])
  })

  it('is released, whenever its holder is closed after it was acquired', async () => {
    for (let turns = 0; turns < 80; turns += 1) {
      const { fleet, provider } = await began()
      let closing: Promise<void> | undefined
      const closeAfter = async (): Promise<void> => {
        for (let turn = 0; turn < turns; turn += 1) await undefined
        closing = provider.close()
      }
      fleet.store.faults.lease = async (run) => {
        const release = await run()
        closeAfter()
        return release
      }
      await provider.getToken().catch(() => {})
      await quiet()
      await closing
      expect(fleet.store.leased, `closed after ${turns} microtasks`).toBe(0)
      expect(provider.currentToken(), `closed after ${turns} microtasks`).toBeUndefined()
    }
  })

  it.each(['get', 'lease', 'set', 'release'] as const)(
    'keeps nobody who is closed waiting for an operation that hangs: %s',
    async (operation) => {
      const { fleet, provider, events } = await began()
      fleet.store.faults[operation] = FAILURES.hangs
      const waiting = rejection(provider.getToken())
      await fleet.pass(10)
      const closing = provider.close()
      expect(await fleet.tookMs(waiting)).toBe(0)
      expect(await waiting).toBeInstanceOf(ProviderClosedError)
      // What is being written, granted or released may still arrive.
      expect(await fleet.tookMs(closing)).toBe(operation === 'get' ? 0 : OPERATION_MS - 10)
      await fleet.pass(2_000)
      expect([fleet.clock.sleeping, failuresOf(events)]).toEqual([0, []])
    },
  )

  it('that is granted to a holder that was closed meanwhile is released before close() resolves', async () => {
    const { fleet, provider } = await began()
    fleet.store.faults.lease = slow(fleet.clock, 500)
    const waiting = rejection(provider.getToken())
    await fleet.pass(10)
    const closing = provider.close()
    await waiting
    expect(await fleet.tookMs(closing)).toBe(490)
    expect([fleet.store.operations, fleet.store.leased]).toEqual([['get', 'lease', 'release'], 0])
  })

  it('is released without a token request when the read under the lease finds a token', async () => {
    const { fleet, token, write, releaseLease } = await leaseHeldByAnother(60_000)
    releaseLease()
    fleet.store.faults.lease = (run) => {
      write()
      return run()
    }
    const { provider, events } = fleet.start()
    expect((await provider.getToken()).value).toBe(token)
    await quiet()
    expect([fleet.endpoint.count, fleet.store.leased, sourcesOf(events)]).toEqual([1, 0, ['store']])
  })
})

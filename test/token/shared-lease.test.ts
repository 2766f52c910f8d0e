/** Which process asks the token endpoint, how the others wait, and when the lease is released. */
import { getEventListeners } from 'node:events'
import { ProviderClosedError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { elsewhere, Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { answers, FAILURES, slow } from '../store/memory-store.ts'
import { heldByAnother } from '../store/scenes.ts'
import { granted, hang, MERCHANT_URL, rejection, SECRET, status, withoutJitter } from './harness.ts'

withoutJitter()

describe('processes that need a token at the same time', () => {
  it.each([2, 20])('ask once, and share what comes: %i of them', async (count) => {
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
    expect([fleet.store.leased, fleet.clock.sleeping]).toEqual([0, 0])
  })

  it('each ask at once where the store has no lease, and a later one acquires the last', async () => {
    const fleet = new Fleet({ leases: false })
    const tokens = Promise.all([fleet.tokenOf(), fleet.tokenOf()])
    expect(await fleet.tookMs(tokens)).toBe(0)
    await quiet()
    expect(fleet.endpoint.count).toBe(2)
    expect(fleet.store.operations.sort()).toEqual(['get', 'get', 'set', 'set'])
    expect(await tokens).toContain(await fleet.tokenOf())
    expect(fleet.endpoint.count).toBe(2)
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

  it.each([
    ['is released', 2_000, 60_000],
    ['of a holder that died runs out', 3_000, 3_000],
  ])('takes over when the lease %s and nothing is there', async (_, ms, leaseMs) => {
    const { fleet, giveBack } = await heldByAnother(leaseMs)
    const { provider, events } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(ms - 10)
    expect(fleet.endpoint.count).toBe(1)
    await fleet.pass(10)
    giveBack()
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(100)
    await quiet()
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
    expect([fleet.endpoint.count, fleet.store.tokenKey, fleet.store.leased]).toEqual([
      2,
      expect.any(String),
      0,
    ])
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
    const { signal } = new AbortController()
    const leaving = rejection(provider.getToken({ signal: controller.signal }))
    const staying = Promise.all(Array.from({ length: 100 }, () => provider.getToken({ signal })))
    await fleet.pass(230)
    const reason = new Error('no longer needed')
    controller.abort(reason)
    expect(await leaving).toBe(reason)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1) // one for all of them
    giveBack()
    await fleet.pass(50)
    expect(new Set(await staying)).toEqual(new Set([provider.currentToken()]))
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

describe('the lease', () => {
  const began = async (): Promise<{ fleet: Fleet } & Process> => {
    const fleet = new Fleet()
    return { fleet, ...fleet.start() }
  }

  it('is released after the token was written, and not before', async () => {
    const { fleet, provider } = await began()
    fleet.store.faults.set = slow(fleet.clock, 200)
    await provider.getToken()
    await fleet.pass(190)
    expect([fleet.store.leased, fleet.store.keys.length]).toEqual([1, 0])
    await fleet.pass(10)
    expect([fleet.store.leased, fleet.store.keys.length]).toEqual([0, 1])
  })

  it('is released after the token was written, though the rate limit could not be', async () => {
    const { fleet, provider } = await began()
    const token = await provider.getToken()
    await quiet()
    fleet.store.faults.set = async (run) => {
      if (fleet.store.asked.at(-1)?.key.includes('.renewals-')) throw new Error('no')
      await fleet.clock.sleep(200)
      return await run()
    }
    await provider.renewToken(token, { url: MERCHANT_URL })
    await fleet.pass(190)
    expect(fleet.store.leased).toBe(1)
  })

  it.each([
    ['an error', status(400, { error: 'invalid_request' })],
    ['no token response', granted({ expires_in: 0 })],
  ])(
    'is released at once when the token endpoint has %s, and goes to the next process',
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

  it('is released when its holder is closed, which writes nothing', async () => {
    const { fleet, provider } = await began()
    fleet.endpoint.answers.push(hang)
    const waiting = rejection(provider.getToken())
    await quiet()
    expect(fleet.store.leased).toBe(1)
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect([fleet.store.leased, fleet.store.keys, fleet.clock.sleeping]).toEqual([0, [], 0])
  })

  it('that arrives after the process was closed is released', async () => {
    const { fleet, provider } = await began()
    fleet.store.faults.lease = async (run) => {
      const release = await run()
      await fleet.clock.sleep(100)
      return release
    }
    const waiting = rejection(provider.getToken())
    await quiet()
    expect(fleet.store.leased).toBe(1)
    const closing = provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    await fleet.pass(100)
    await closing
    expect([fleet.store.leased, fleet.endpoint.count]).toEqual([0, 0])
  })

  it('is released when the second look finds a token, for which nothing is asked', async () => {
    const { fleet, token, write, giveBack } = await heldByAnother(60_000)
    giveBack()
    fleet.store.faults.lease = (run) => {
      write()
      return run()
    }
    const { provider, events } = fleet.start()
    expect((await provider.getToken()).value).toBe(token)
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'release'])
    expect([fleet.endpoint.count, fleet.store.leased, sourcesOf(events)]).toEqual([1, 0, ['store']])
  })

  it.each([
    ['true', true],
    ['a text', 'yes'],
    ['an object', {}],
  ])('that a store gives by %s is one that cannot be released', async (_, release) => {
    const { fleet, provider, events } = await began()
    fleet.store.faults.lease = answers(release)
    expect(await fleet.tookMs(provider.getToken())).toBe(0)
    await quiet()
    expect(failuresOf(events)).toEqual([{ operation: 'lease' }])
    await provider.close()
  })
})

describe('a process in a cooldown', () => {
  it('does not ask its clientSecret function, and fails at once', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => new Promise<string>(() => {}))
    const { provider } = fleet.start({ clientSecret, timeoutMs: 4_000, retries: 0 })
    const first = rejection(provider.getToken())
    expect(await fleet.tookMs(first)).toBe(4_000)
    await fleet.skip(999)
    expect(await fleet.tookMs(rejection(provider.getToken()))).toBe(0)
    expect(clientSecret).toHaveBeenCalledTimes(1)
  })

  it('looks once a second for what other processes have', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(status(400))
    const { provider } = fleet.start()
    await rejection(provider.getToken())
    await quiet()
    await fleet.skip(500)
    const { token } = await fleet.begin()
    expect(await rejection(provider.getToken())).toMatchObject({ status: 400 })
    expect(fleet.store.asked).toEqual([])
    await fleet.skip(499)
    expect((await rejection(provider.getToken())) ?? 'none').toMatchObject({ status: 400 })
    await fleet.skip(1)
    expect((await provider.getToken()).value).toBe(token)
  })
})

describe('the events of a store', () => {
  it('come once for each unreadable entry, however long it is looked at', async () => {
    const fleet = new Fleet()
    const encryptionKeys = [`${SECRET}-1`, `${SECRET}-2`]
    await fleet.begin({ encryptionKeys })
    const [key = ''] = fleet.store.keys
    const { provider, events } = fleet.start({ encryptionKeys })
    fleet.store.faults.get = async () => ({ value: 'rubbish', ttlMs: 1_000 })
    await fleet.store.lease?.(key, 2_000)
    await fleet.tookMs(provider.getToken())
    expect(failuresOf(events)).toEqual(Array(2).fill({ operation: 'get', code: 'UNREADABLE' }))
  })
})

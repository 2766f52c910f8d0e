/** A token that an API refused, where processes share it: it is renewed once for all, and taken by nobody again. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { CODES, FAILURES, slow } from '../store/memory-store.ts'
import { oneAhead, sharing } from '../store/scenes.ts'
import { granted, MERCHANT_URL, rejection, status } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

const url = MERCHANT_URL
const MERCHANT = 'https://api.test.example/merchant'

describe('a refused token', () => {
  it('is renewed once for all processes that have it, at whatever time they notice', async () => {
    const { fleet, processes, token } = await sharing(5)
    fleet.endpoint.answers.push(async (init) => {
      await fleet.clock.sleep(300)
      return await granted()(init)
    })
    const renewals: Promise<unknown>[] = []
    for (const { provider } of processes) {
      renewals.push(provider.renewToken(token, { url }).then((newer) => newer?.value))
      await fleet.pass(150)
    }
    await fleet.pass(200)
    const newer = new Set(await Promise.all(renewals))
    expect([newer.size, newer.has(token), newer.has(undefined)]).toEqual([1, false, false])
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is followed by the newer one in the store, which costs one look', async () => {
    const { fleet, other, token, newer } = await oneAhead()
    expect((await other.provider.renewToken(token, { url }))?.value).toBe(newer)
    await quiet()
    expect([fleet.endpoint.count, fleet.store.operations]).toEqual([2, ['get']])
    expect(other.events).toMatchObject([
      { type: 'token-rejected', api: MERCHANT },
      { type: 'token-acquired', source: 'store' },
      { type: 'token-renewed', reason: 'rejected' },
    ])
  })

  it('is followed by the newer one although it was refused without a url', async () => {
    const { fleet, other, token, newer } = await oneAhead()
    expect((await other.provider.renewToken(token))?.value).toBe(newer)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is not taken by a process that knows of it by name alone', async () => {
    const { fleet, token } = await sharing(1)
    const { provider, events } = fleet.start()
    expect((await provider.renewToken(token, { url }))?.value).not.toBe(token)
    await quiet()
    expect([fleet.endpoint.count, sourcesOf(events)]).toEqual([2, ['endpoint']])
    expect((await fleet.start().provider.getToken()).value).toBe(provider.currentToken()?.value)
  })

  it('is taken out of the store before another is there', async () => {
    const { fleet, processes, token } = await sharing(1)
    fleet.endpoint.answers.push(async (init) => {
      await fleet.clock.sleep(1_000)
      return await granted()(init)
    })
    const renewal = processes[0]?.provider.renewToken(token, { url })
    await quiet()
    expect(fleet.store.keys.filter((key) => key.startsWith('v1.token'))).toEqual([])
    const late = fleet.start().provider.getToken() // a process that starts just then
    await fleet.pass(1_100)
    expect((await late).value).toBe((await renewal)?.value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is taken out although no other can be had', async () => {
    const { fleet, processes, token } = await sharing(1)
    fleet.endpoint.answers.push(status(400))
    const renewal = processes[0]?.provider.renewToken(token, { url })
    expect(await rejection(Promise.resolve(renewal))).toMatchObject({ status: 400 })
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'get', 'lease', 'get', 'delete', 'get', 'release'])
    expect(fleet.store.keys).toEqual([])
  })

  it('is not taken out where another is there', async () => {
    const { fleet, other, token, newer } = await oneAhead()
    await other.provider.renewToken(token, { url })
    expect(fleet.store.operations).not.toContain('delete')
    expect((await fleet.start().provider.getToken()).value).toBe(newer)
  })

  it('is not taken out where another came while the lease was waited for', async () => {
    const { fleet, processes, token } = await sharing(2)
    const [one, other] = processes as [Process, Process]
    fleet.endpoint.answers.push(async (init) => {
      await fleet.clock.sleep(500)
      return await granted()(init)
    })
    const renewals = [one, other].map(({ provider }) => provider.renewToken(token, { url }))
    await fleet.pass(700)
    const [first, second] = await Promise.all(renewals)
    expect(first?.value).toBe(second?.value)
    expect(fleet.store.operations.filter((operation) => operation === 'delete')).toHaveLength(1)
    expect((await fleet.start().provider.getToken()).value).toBe(first?.value)
  })

  it('is taken out of a store without a lease, too', async () => {
    const fleet = new Fleet({ leases: false })
    const { provider, token } = await fleet.begin()
    fleet.endpoint.answers.push(status(400))
    await rejection(provider.renewToken(token, { url }))
    await quiet()
    expect(fleet.store.keys).toEqual([])
  })

  it('that stays there because the store fails is taken by this process never again', async () => {
    const { fleet, processes, token } = await sharing(1)
    const [{ provider }] = processes as [Process]
    fleet.store.faults.delete = FAILURES.rejects
    fleet.endpoint.answers.push(status(400))
    await rejection(provider.renewToken(token, { url }))
    await fleet.skip(1_000)
    fleet.endpoint.answers.push(status(400))
    await rejection(provider.renewToken(token, { url }))
    fleet.clock.stepWallClock(1_000_000) // the token in memory has come to its end, the store's has not
    await fleet.skip(2_000)
    expect((await provider.getToken()).value).not.toBe(token)
    expect(fleet.store.operations.filter((operation) => operation === 'delete')).toHaveLength(3)
  })

  it('of many is not taken again either, after a dozen others', async () => {
    const { fleet, processes, token } = await sharing(1)
    const [{ provider }] = processes as [Process]
    const key = fleet.store.tokenKey
    const { value = '', ttlMs = 0 } = fleet.store.entry(key) ?? {}
    let refused: string | undefined = token
    for (let time = 0; time < 12; time += 1) {
      refused = (await provider.renewToken(String(refused), { url }))?.value
      await quiet()
      await fleet.skip(62_001)
    }
    fleet.store.put(key, value, ttlMs)
    expect((await provider.renewToken(String(refused), { url }))?.value).not.toBe(token)
  })

  it('at a place outside apiUrls is no matter for the store', async () => {
    const { fleet, processes, token } = await sharing(1)
    const renewal = processes[0]?.provider.renewToken(token, { url: 'https://x.example/orders' })
    expect(await renewal).toBeUndefined()
    expect(fleet.store.asked).toEqual([])
  })

  it('that the token endpoint gives out again yields nothing, and stays in use elsewhere', async () => {
    const fleet = new Fleet()
    fleet.endpoint.otherwise = granted({ access_token: 'the.same.token' })
    const { provider, token } = await fleet.begin()
    expect(await provider.renewToken(token, { url })).toBeUndefined()
    expect(fleet.endpoint.count).toBe(2)
    expect((await provider.getToken()).value).toBe(token)
  })
})

describe.each(['throws', 'rejects', 'hangs'] as const)('a store that %s', (way) => {
  it.each(['get', 'lease', 'set', 'delete', 'release'] as const)(
    'does not keep a refused token from being renewed: %s',
    async (operation) => {
      const { fleet, processes, token } = await sharing(1)
      const [{ provider, events }] = processes as [Process]
      fleet.store.faults[operation] = FAILURES[way]
      const isWaitedFor = way === 'hangs' && (operation === 'get' || operation === 'lease')
      const renewal = provider.renewToken(token, { url })
      expect(await fleet.tookMs(renewal)).toBe(isWaitedFor ? 250 : 0)
      expect([token, undefined]).not.toContain((await renewal)?.value)
      await fleet.pass(500)
      const failures = failuresOf(events)
      expect(failures).toEqual([
        { operation: operation === 'release' ? 'lease' : operation, code: CODES[way] },
      ])
      expect([fleet.clock.sleeping, fleet.endpoint.count]).toEqual([0, 2])
    },
  )

  it('when the refused token is taken out keeps the next one for this process', async () => {
    const { fleet, processes, token } = await sharing(1)
    const [{ provider }] = processes as [Process]
    fleet.store.faults.delete = FAILURES[way]
    await fleet.tookMs(provider.renewToken(token, { url }))
    await fleet.pass(250)
    expect(fleet.store.operations).toEqual(['get', 'get', 'lease', 'get', 'delete', 'get', 'release'])
  })
})

it('a refused token is taken out while another is asked for: no call waits for it', async () => {
  const { fleet, processes, token } = await sharing(1)
  fleet.store.faults.delete = slow(fleet.clock, 200)
  const renewal = processes[0]?.provider.renewToken(token, { url })
  expect(await fleet.tookMs(Promise.resolve(renewal))).toBe(0)
  await fleet.pass(200)
  expect((await fleet.start().provider.getToken()).value).toBe((await renewal)?.value)
})

/** A store that fails or returns invalid data: no call fails because of it, or waits for more than one operation. */
import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { answers, CODES, ERROR_TEXT, FAILURES, slow } from '../store/memory-store.ts'
import { leaseHeldByAnother, longLived, renewedAfterRejection } from '../store/scenes.ts'
import { ENVIRONMENT, granted, hang, MERCHANT_URL, rejection, SECRET, status } from './harness.ts'

const fleetOf = (): { fleet: Fleet } & Process => {
  const fleet = new Fleet()
  return { fleet, ...fleet.start() }
}

describe.each([
  { way: 'throws', waitsMs: { get: 0, lease: 0, set: 0, release: 0 } },
  { way: 'rejects', waitsMs: { get: 0, lease: 0, set: 0, release: 0 } },
  { way: 'hangs', waitsMs: { get: 2_000, lease: 1_000, set: 0, release: 0 } },
] as const)('a store operation that $way', ({ way, waitsMs }) => {
  it.each([
    { operation: 'get', reported: 'get', leased: 0 },
    { operation: 'lease', reported: 'lease', leased: 0 },
    { operation: 'set', reported: 'set', leased: 0 },
    { operation: 'release', reported: 'lease', leased: 1 }, // until it expires
  ] as const)(
    'fails no call, emits only a code, and ends the use of the store until the next acquisition: $operation',
    async ({ operation, reported, leased }) => {
      const { fleet, provider, events } = fleetOf()
      fleet.store.faults[operation] = FAILURES[way]
      const waiting = provider.getToken()
      expect(await fleet.tookMs(waiting)).toBe(waitsMs[operation])
      expect(await waiting).toBe(provider.currentToken())
      await fleet.pass(1_500)
      const failures = [{ operation: reported, code: CODES[way] }]
      expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], failures])
      expect([fleet.store.leased, fleet.clock.sleeping]).toEqual([leased, 0])
      for (const word of ['v1.', ...ERROR_TEXT.split(/\W+/).filter(({ length }) => length > 2)])
        expect(JSON.stringify(events)).not.toContain(word)
      fleet.store.faults[operation] = undefined
      await fleet.skip(1_000_000)
      const { value } = await provider.getToken()
      await quiet()
      expect(await fleet.tokenOf()).toBe(value)
      expect(failuresOf(events)).toEqual(failures)
    },
  )

  it.each(['get', 'lease'] as const)("ends the wait for another process's token: %s", async (operation) => {
    const { fleet } = await leaseHeldByAnother(60_000)
    const { provider, events } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(500)
    fleet.store.faults[operation] = FAILURES[way]
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(1_050)
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], [{ operation, code: CODES[way] }]])
  })
})

it.each([undefined, 'test'])(
  'store-failed has exactly the documented fields, with environment: %s',
  async (environment) => {
    const fleet = new Fleet()
    fleet.store.faults.get = FAILURES.rejects
    const { provider, events } = fleet.start({ environment: { ...ENVIRONMENT, name: environment } })
    await provider.getToken()
    const emitted = { type: 'store-failed', operation: 'get', code: 'ECONNREFUSED' }
    expect(events[0]).toEqual({ ...emitted, ...(environment && { environment }) })
  },
)

describe('a process whose first look at the store failed', () => {
  it('still writes the token that it then requests, once the store answers', async () => {
    const { fleet, provider } = fleetOf()
    const connected = fleet.clock.sleep(5_000)
    fleet.store.failAlways((run) => connected.then(run))
    expect(await fleet.tookMs(provider.getToken())).toBe(2_000)
    const token = provider.currentToken()?.value
    await fleet.pass(2_900)
    expect(fleet.store.keys).toEqual([])
    await fleet.pass(100)
    expect(fleet.store.entry(fleet.store.tokenKey)?.ttlMs).toBe(997_000) // counted from the request
    expect(await fleet.tokenOf()).toBe(token)
  })

  it('still writes it after a background renewal that waited for the store in vain', async () => {
    const { fleet, provider } = fleetOf()
    const connected = fleet.clock.sleep(850_000)
    fleet.store.failAlways((run) => connected.then(run))
    await fleet.tookMs(provider.getToken())
    const token = provider.currentToken()?.value
    await fleet.skip(845_000) // the refresh window is open, whatever its jitter
    provider.currentToken()
    await fleet.pass(1_500)
    expect(fleet.endpoint.count).toBe(1)
    await fleet.skip(30_000)
    expect(await fleet.tokenOf()).toBe(token)
  })

  it.each(['itself', 'another process'])(
    'does not write it over a token that was requested later by %s',
    async (by) => {
      const { fleet, provider } = fleetOf()
      const connected = fleet.clock.sleep(850_000)
      fleet.store.faults.get = (run) => connected.then(run)
      await fleet.tookMs(provider.getToken())
      fleet.store.faults.get = undefined
      await fleet.skip(845_000) // the refresh window is open, whatever its jitter
      const other = by === 'itself' ? undefined : await fleet.tokenOf()
      await quiet()
      provider.currentToken()
      await quiet()
      const newer = provider.currentToken()?.value
      expect(newer).toBe(other ?? newer)
      await fleet.skip(30_000)
      expect(await fleet.tokenOf()).toBe(newer)
      expect(fleet.endpoint.count).toBe(2)
    },
  )

  it('writes nothing after it was closed', async () => {
    const { fleet, provider } = fleetOf()
    const connected = fleet.clock.sleep(5_000)
    fleet.store.faults.get = (run) => connected.then(run)
    await fleet.tookMs(provider.getToken())
    expect(await fleet.tookMs(provider.close())).toBe(0)
    await fleet.pass(5_000)
    expect(fleet.store.keys).toEqual([])
  })
})

describe('a store that hangs', () => {
  /** Makes a call each second; resolves with how long (ms) those took that had to wait. */
  const waits = async (fleet: Fleet, call: () => Promise<unknown>): Promise<number[]> => {
    const tookMs: number[] = []
    for (let second = 0; second < 65; second += 1) {
      tookMs.push(await fleet.tookMs(call()))
      await fleet.skip(1_000)
    }
    return tookMs.filter((ms) => ms > 0)
  }

  it('holds up one call in 30 s at most while the token endpoint fails', async () => {
    const fleet = new Fleet()
    const { provider } = fleet.start({ retries: 0 })
    fleet.store.failAlways(FAILURES.hangs)
    fleet.endpoint.otherwise = status(503)
    expect(await waits(fleet, () => rejection(provider.getToken()))).toEqual([2_000, 1_000, 1_000])
  })

  it('leaves a call that waits behind a background renewal its time for a request of its own', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(granted({ expires_in: 100 }))
    const { provider, events } = fleet.start({ timeoutMs: 900, retries: 0 })
    const token = await provider.getToken()
    await fleet.skip(90_000)
    fleet.store.failAlways(FAILURES.hangs)
    provider.currentToken() // begins a background renewal
    const renewal = provider.renewToken(token, { url: MERCHANT_URL })
    expect(await fleet.tookMs(renewal)).toBe(1_000)
    expect((await renewal)?.value).not.toBe(token.value)
    expect(sourcesOf(events)).toEqual(['endpoint', 'endpoint'])
  })

  it('is used again as soon as it answers', async () => {
    const fleet = longLived()
    const { provider, events } = fleet.start({ retries: 0 })
    const connected = fleet.clock.sleep(5_000)
    fleet.store.failAlways((run) => connected.then(run))
    await fleet.tookMs(provider.getToken())
    await fleet.pass(3_000)
    fleet.store.failAlways((run) => run())
    const { provider: other, token } = await fleet.begin()
    expect(provider.currentToken()?.value).toBe(token)
    const newer = await other.renewToken(token, { url: MERCHANT_URL })
    await quiet()
    expect((await provider.renewToken(token, { url: MERCHANT_URL }))?.value).toBe(newer?.value)
    expect([fleet.endpoint.count, failuresOf(events).length]).toEqual([2, 1])
  })

  it('gets the token that was requested last while it hung, once it answers', async () => {
    const fleet = longLived()
    const { provider } = fleet.start({ retries: 0 })
    const connected = fleet.clock.sleep(5_000)
    fleet.store.failAlways((run) => connected.then(run))
    await fleet.tookMs(provider.getToken())
    const newer = await provider.renewToken(String(provider.currentToken()?.value), { url: MERCHANT_URL })
    await fleet.pass(5_000)
    expect(await fleet.tokenOf()).toBe(newer?.value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('writes no token late that was rejected or replaced meanwhile', async () => {
    const fleet = longLived()
    const { provider } = fleet.start({ retries: 0 })
    const answered = fleet.clock.sleep(60_000)
    fleet.store.faults.get = (run) => answered.then(run)
    await fleet.tookMs(provider.getToken())
    await fleet.skip(31_000)
    fleet.store.faults.get = undefined
    const newer = await provider.renewToken(String(provider.currentToken()?.value), { url: MERCHANT_URL })
    await quiet()
    await fleet.skip(30_000)
    expect(await fleet.tokenOf()).toBe(newer?.value)
  })

  it('holds up one call in 30 s at most while the rate limit allows no renewal', async () => {
    const fleet = longLived()
    const process = fleet.start()
    for (const seconds of [1, 2, 4, 8, 16, 32, 64, 128]) {
      expect(await renewedAfterRejection(fleet, process)).toBe(true)
      await fleet.skip(seconds * 1_000)
    }
    expect(await renewedAfterRejection(fleet, process)).toBe(true)
    fleet.store.failAlways(FAILURES.hangs)
    const token = await process.provider.getToken()
    await fleet.skip(1_000)
    const call = (): Promise<unknown> => process.provider.renewToken(token, { url: MERCHANT_URL })
    expect(await waits(fleet, call)).toEqual([1_000, 1_000, 1_000])
    expect(fleet.endpoint.count).toBe(10)
  })

  it('holds up a background renewal, but behind it no call that may cause no renewal yet', async () => {
    const fleet = new Fleet()
    const { provider, token } = await fleet.begin({ retries: 0 })
    const renew = (): Promise<unknown> => provider.renewToken(token, { url: MERCHANT_URL })
    await fleet.skip(850_000) // the refresh window is open, whatever its jitter
    fleet.endpoint.otherwise = status(503)
    for (const pauseMs of [1_000, 2_000, 4_000, 6_000]) {
      await rejection(renew())
      await fleet.skip(pauseMs)
    }
    fleet.store.failAlways(FAILURES.hangs)
    expect(await fleet.tookMs(renew())).toBe(1_000) // its next renewal is allowed in 1 s
    provider.currentToken()
    await quiet()
    expect(await fleet.tookMs(renew())).toBe(0)
    expect(provider.currentToken()?.value).toBe(token)
  })
})

it('a store that rejects a read is used again a second later', async () => {
  const fleet = longLived()
  const { token: newer, provider: other } = await fleet.begin()
  const { provider } = fleet.start()
  fleet.store.faults.get = FAILURES.rejects
  const { value } = await provider.getToken()
  fleet.store.faults.get = undefined
  await fleet.skip(1_000)
  expect((await provider.renewToken(value, { url: MERCHANT_URL }))?.value).toBe(newer)
  expect(other.currentToken()?.value).toBe(newer)
  expect(fleet.endpoint.count).toBe(2)
})

describe('a slow store operation', () => {
  it('does not fail if it completes within the time limit', async () => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.failAlways(slow(fleet.clock, 200))
    expect(await fleet.tookMs(provider.getToken())).toBe(800) // read, lease, read, read
    await fleet.pass(400)
    const other = fleet.start()
    expect(await fleet.tookMs(other.provider.getToken())).toBe(200)
    expect([...failuresOf(events), ...failuresOf(other.events)]).toEqual([])
    expect([fleet.endpoint.count, fleet.store.leased]).toEqual([1, 0])
  })

  it.each(['the token endpoint', 'the clientSecret function'])(
    'does not extend the timeoutMs of later acquisitions: %s hangs',
    async (what) => {
      const fleet = new Fleet()
      const secrets = what === 'the token endpoint' ? [SECRET, SECRET] : [SECRET]
      const clientSecret = async (): Promise<string> => secrets.shift() ?? (await new Promise(() => {}))
      const { provider } = fleet.start({ clientSecret, retries: 0 })
      fleet.store.failAlways(slow(fleet.clock, 200))
      await fleet.tookMs(provider.getToken())
      await fleet.pass(400)
      fleet.store.failAlways(undefined)
      fleet.endpoint.otherwise = hang
      const renewal = rejection(provider.renewToken(String(provider.currentToken()?.value)))
      expect(await fleet.tookMs(renewal)).toBe(10_000)
    },
  )
})

it('an entry that cannot be decrypted counts as absent, emits store-failed, and is replaced', async () => {
  const { fleet, provider, events } = fleetOf()
  fleet.store.faults.get = answers({ value: 'text', ttlMs: 500_000 })
  await provider.getToken()
  await quiet()
  const emitted = { operation: 'get', code: 'UNREADABLE' }
  expect(sourcesOf(events)).toEqual(['endpoint'])
  expect(failuresOf(events)).toContainEqual(emitted)
  fleet.store.faults.get = undefined
  const other = fleet.start()
  await other.provider.getToken()
  expect(sourcesOf(other.events)).toEqual(['store'])
})

/** A store that fails or returns invalid data: no call fails because of it, or waits for more than one operation. */
import { AsyncLocalStorage } from 'node:async_hooks'
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { FIRST_GAP_MS } from '../../src/token/limits/renewals.ts'
import { FIRST_OPERATION_MS, OPERATION_MS } from '../../src/token/shared/encrypted-store.ts'
import { LOOK_AGAIN_MS, LOOK_EVERY_MS } from '../../src/token/shared/shared-token.ts'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { answers, CODES, ERROR_TEXT, FAILURES, slow } from '../store/memory-store.ts'
import { leaseHeldByAnother, longLived, renewedUntilLimited } from '../store/scenes.ts'
import { ENVIRONMENT, granted, hang, MERCHANT_URL, rejection, SECRET, status } from './harness.ts'

const fleetOf = (): { fleet: Fleet } & Process => {
  const fleet = new Fleet()
  return { fleet, ...fleet.start() }
}

/** A store is connected 2 s after the first look at it and the write after that have timed out. */
const CONNECTED_MS = FIRST_OPERATION_MS + OPERATION_MS + 2_000

describe.each([
  { way: 'throws', waitsMs: { get: 0, lease: 0, set: 0, release: 0 } },
  { way: 'rejects', waitsMs: { get: 0, lease: 0, set: 0, release: 0 } },
  {
    way: 'hangs',
    waitsMs: { get: FIRST_OPERATION_MS, lease: OPERATION_MS, set: OPERATION_MS, release: OPERATION_MS },
  },
] as const)('a store operation that $way', ({ way, waitsMs }) => {
  it.each([
    { operation: 'get', reported: 'get', leased: 0 },
    { operation: 'lease', reported: 'lease', leased: 0 },
    { operation: 'set', reported: 'set', leased: way === 'hangs' ? 1 : 0 }, // it may still be written
    { operation: 'release', reported: 'lease', leased: 1 }, // until it expires
  ] as const)(
    'fails no call, and emits only a code, once: $operation',
    async ({ operation, reported, leased }) => {
      const { fleet, provider, events } = fleetOf()
      fleet.store.faults[operation] = FAILURES[way]
      const waiting = provider.getToken()
      expect(await fleet.tookMs(waiting)).toBe(waitsMs[operation])
      expect(await waiting).toBe(provider.currentToken())
      await fleet.pass(1_500)
      const failures = [{ operation: reported, code: CODES[way] }]
      expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], failures])
      expect(fleet.store.leased).toBe(leased)
      for (const word of ['v2.', ...ERROR_TEXT.split(/\W+/).filter(({ length }) => length > 2)])
        expect(JSON.stringify(events)).not.toContain(word)
    },
  )

  it.each(['get', 'lease'] as const)("ends the wait for another process's token: %s", async (operation) => {
    const { fleet } = await leaseHeldByAnother(60_000)
    const { provider, events } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(500)
    fleet.store.faults[operation] = FAILURES[way]
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(OPERATION_MS + 2 * LOOK_EVERY_MS)
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

describe.each(['throws', 'rejects'] as const)('a store that %s at once, and recovers', (way) => {
  it.each(['get', 'lease', 'release'] as const)('has the token already: %s', async (operation) => {
    const { fleet, provider } = fleetOf()
    fleet.store.faults[operation] = FAILURES[way]
    const { value } = await provider.getToken()
    fleet.store.faults[operation] = undefined
    await quiet()
    expect(await fleet.tokenOf()).toBe(value)
  })

  it.each(['set', 'everything'] as const)('gets the token a second later: %s', async (what) => {
    const { fleet, provider } = fleetOf()
    if (what === 'set') fleet.store.faults.set = FAILURES[way]
    else fleet.store.failAlways(FAILURES[way])
    const { value, expiresAt } = await provider.getToken()
    fleet.store.failAlways(undefined)
    await fleet.skip(999)
    expect(fleet.store.keys).toEqual([])
    await fleet.skip(1)
    expect(await fleet.start().provider.getToken()).toMatchObject({ value, expiresAt })
    expect(fleet.clock.sleeping).toBe(0)
  })
})

describe('a token that could not be written', () => {
  /** A process whose token is not in the store, and the moments (ms after its request) at which it is tried again. */
  const unwritten = async ({ expiresIn = 2_000, refreshAheadMs = 0 } = {}) => {
    const fleet = new Fleet()
    fleet.endpoint.otherwise = granted({ expires_in: expiresIn })
    const process = fleet.start({ refreshAheadMs })
    fleet.store.failAlways(FAILURES.rejects)
    const { value } = await process.provider.getToken()
    const from = fleet.clock.monotonicMs()
    const retriedAt: number[] = []
    fleet.store.faults.get = (run) => {
      retriedAt.push(fleet.clock.monotonicMs() - from)
      return FAILURES.rejects(run)
    }
    return { fleet, ...process, token: value, retriedAt }
  }

  it('is written again after 1 s, doubling to 5 min, while it lives, without an event', async () => {
    const { fleet, events, retriedAt } = await unwritten()
    await quiet()
    events.length = 0
    await fleet.skip(10_000_000)
    const seconds = [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1_111, 1_411, 1_711]
    expect(retriedAt).toEqual(seconds.map((at) => at * 1_000))
    expect([events, fleet.clock.sleeping, fleet.endpoint.count]).toEqual([[], 0, 1])
  })

  it('is not written again in the moment in which it expires', async () => {
    const { fleet, retriedAt } = await unwritten({ expiresIn: 7 })
    await fleet.skip(10_000)
    expect(retriedAt).toEqual([1_000, 3_000])
  })

  it('is not written while the entry cannot be read: it might erase a newer one', async () => {
    const { fleet, retriedAt } = await unwritten()
    fleet.store.faults.set = undefined
    await fleet.skip(10_000)
    expect([retriedAt.length, fleet.store.keys]).toEqual([3, []])
  })

  it('is not written again after the provider was closed', async () => {
    const { fleet, provider, retriedAt } = await unwritten()
    expect(await fleet.tookMs(provider.close())).toBe(0)
    fleet.store.failAlways(undefined)
    await fleet.skip(10_000)
    expect([retriedAt, fleet.store.keys, fleet.clock.sleeping]).toEqual([[], [], 0])
  })

  it('is not written again after an API rejected it', async () => {
    const { fleet, provider, token, retriedAt } = await unwritten()
    fleet.endpoint.answers.push(status(400))
    await rejection(provider.renewToken(token, { url: MERCHANT_URL }))
    fleet.store.failAlways(undefined)
    await fleet.skip(10_000)
    expect([retriedAt, fleet.store.keys, fleet.clock.sleeping]).toEqual([[], [], 0])
  })

  it('is written again after an API rejected it while a quota allowed no renewal', async () => {
    const { fleet, provider, token } = await unwritten()
    const quota = { 'Auth0-Client-Quota-Limit': 'b=h;q=10;r=1;t=5000' }
    fleet.endpoint.answers.push(status(400, '', quota))
    await rejection(provider.getToken({ forceRefresh: true }))
    await fleet.skip(LOOK_AGAIN_MS)
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    fleet.store.failAlways(undefined)
    await fleet.skip(60_000)
    expect(await fleet.tokenOf()).toBe(token)
  })

  it('is not written again after its process has written another one', async () => {
    const { fleet, provider, token } = await unwritten()
    await fleet.skip(3_500) // its next write comes after 7 s
    fleet.store.failAlways(undefined)
    const newer = await provider.renewToken(token, { url: MERCHANT_URL })
    fleet.store.asked.length = 0
    await fleet.skip(10_000)
    expect([fleet.store.asked, fleet.clock.sleeping]).toEqual([[], 0])
    expect(await fleet.tokenOf()).toBe(newer?.value)
  })

  it('is not written again after its process has written another one that was asked for', async () => {
    const { fleet, provider } = await unwritten()
    await fleet.skip(3_500) // its next write comes after 7 s
    fleet.store.failAlways(undefined)
    const { value } = await provider.getToken({ forceRefresh: true })
    await quiet()
    fleet.store.asked.length = 0
    await fleet.skip(10_000)
    expect([fleet.store.asked, fleet.clock.sleeping]).toEqual([[], 0])
    expect(await fleet.tokenOf()).toBe(value)
  })

  it('is not written over that of another process', async () => {
    const { fleet, provider, token } = await unwritten()
    fleet.store.failAlways(undefined)
    const other = await fleet.tokenOf()
    await fleet.skip(10_000)
    expect([await fleet.tokenOf(), fleet.clock.sleeping]).toEqual([other, 0])
    expect(provider.currentToken()?.value).toBe(token)
  })

  it('is written over that of another process which is in its refresh window already', async () => {
    const { fleet, token } = await unwritten({ refreshAheadMs: 60_000 })
    await fleet.skip(3_500) // its next write comes after 7 s
    fleet.store.failAlways(undefined)
    fleet.endpoint.answers.push(granted({ expires_in: 5 }))
    expect(await fleet.tokenOf()).not.toBe(token)
    await fleet.skip(3_500)
    expect([await fleet.tokenOf(), fleet.endpoint.count]).toEqual([token, 2])
  })

  it.each([0, 0.5, 0.999])(
    'is written again over an older one that is still fresh for others (jitter %f)',
    async (jitter) => {
      const random = vi.spyOn(Math, 'random').mockReturnValue(0)
      onTestFinished(() => random.mockRestore())
      const fleet = new Fleet()
      const { provider, token } = await fleet.begin()
      await fleet.skip(790_000) // the refresh window has just opened
      fleet.store.faults.set = FAILURES.rejects
      provider.currentToken()
      await quiet()
      const newer = provider.currentToken()?.value
      fleet.store.faults.set = undefined
      expect([await fleet.tokenOf({ refreshAheadMs: 0 }), fleet.endpoint.count]).toEqual([token, 2])
      random.mockReturnValue(jitter)
      await fleet.skip(1_000)
      expect([await fleet.tokenOf({ refreshAheadMs: 0 }), fleet.endpoint.count]).toEqual([newer, 2])
    },
  )

  it('is not written again after that of another process was found', async () => {
    const { fleet, provider, token } = await unwritten()
    await fleet.skip(3_500) // its next write comes after 7 s
    fleet.store.failAlways(undefined)
    const other = await fleet.tokenOf()
    await fleet.skip(LOOK_AGAIN_MS - 3_500)
    expect((await provider.renewToken(token, { url: MERCHANT_URL }))?.value).toBe(other)
    fleet.store.asked.length = 0
    await fleet.skip(1_000_000)
    expect([fleet.store.asked, fleet.clock.sleeping]).toEqual([[], 0])
  })

  it('is not written again after a renewal that failed has written it, with the limits', async () => {
    const { fleet, provider, token } = await unwritten()
    await fleet.skip(35_000) // its next write comes after 63 s, and a look is due
    fleet.store.failAlways(undefined)
    fleet.endpoint.answers.push(status(429))
    await rejection(provider.getToken({ forceRefresh: true }))
    expect(await fleet.tokenOf()).toBe(token)
    fleet.store.asked.length = 0
    await fleet.skip(1_000_000)
    expect([fleet.store.asked, fleet.clock.sleeping]).toEqual([[], 0])
  })

  it('is still written after a renewal that failed has written its limits beside an older one', async () => {
    const fleet = longLived()
    const { provider, token: older } = await fleet.begin()
    await fleet.skip(1_000)
    fleet.store.faults.set = FAILURES.rejects
    const { value } = await provider.getToken({ forceRefresh: true })
    await fleet.skip(35_000) // its next write comes after 63 s, and a look is due
    fleet.store.faults.set = undefined
    fleet.endpoint.answers.push(status(429))
    await rejection(provider.getToken({ forceRefresh: true }))
    expect(await fleet.tokenOf()).toBe(older)
    await fleet.skip(30_000)
    expect([await fleet.tokenOf(), fleet.endpoint.count]).toEqual([value, 3])
  })

  it.each([
    { when: 'long before it is tried again', atS: 1_712, answerMs: 10 },
    { when: 'while it is written', atS: 1_710, answerMs: 5_000 },
  ])('is in the entry with the limits after a renewal that failed $when', async ({ atS, answerMs }) => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(granted({ expires_in: 2_000 }))
    const { provider } = fleet.start({ refreshAheadMs: 400_000 })
    fleet.store.failAlways(FAILURES.rejects)
    const { value } = await provider.getToken()
    await fleet.skip(atS * 1_000) // the refresh window is open, whatever its jitter
    fleet.store.failAlways(undefined)
    fleet.answerAfter(answerMs, status(429))
    provider.currentToken()
    await fleet.pass(answerMs)
    const other = fleet.start({ refreshAheadMs: 0 })
    expect((await other.provider.getToken()).value).toBe(value)
    expect(fleet.endpoint.count).toBe(2)
  })
})

it('a token that was requested without the store is written with the key of its secret', async () => {
  const fleet = longLived()
  const secrets = [SECRET]
  const { provider } = fleet.start({ clientSecret: () => secrets.pop() ?? 'another secret' })
  fleet.store.failAlways(FAILURES.rejects)
  const token = await provider.getToken()
  const newer = await provider.renewToken(token, { url: MERCHANT_URL })
  fleet.store.failAlways(undefined)
  await fleet.skip(1_000)
  expect(await fleet.tokenOf({ clientSecret: 'another secret' })).toBe(newer?.value)
})

it('a background renewal that waits for the store releases the lease', async () => {
  const fleet = new Fleet()
  const { provider } = await fleet.begin()
  await fleet.skip(850_000) // the refresh window is open, whatever its jitter
  let looks = 0
  fleet.store.faults.get = (run) => (++looks === 2 ? FAILURES.rejects(run) : run())
  provider.currentToken()
  await quiet()
  expect([looks, fleet.store.leased, fleet.endpoint.count]).toEqual([2, 0, 1])
})

describe('a token that was requested while the first look hung', () => {
  it('is written at once, waited for by nobody, and once more after it timed out', async () => {
    const { fleet, provider } = fleetOf()
    const connected = fleet.clock.sleep(CONNECTED_MS)
    fleet.store.failAlways((run) => connected.then(run))
    expect(await fleet.tookMs(provider.getToken())).toBe(FIRST_OPERATION_MS)
    const token = provider.currentToken()?.value
    expect(fleet.store.operations).toEqual(['get', 'set'])
    await fleet.pass(OPERATION_MS + 1_900)
    expect([fleet.store.keys, fleet.store.operations]).toEqual([[], ['get', 'set']])
    await fleet.pass(100)
    expect(await fleet.tokenOf()).toBe(token)
    fleet.store.asked.length = 0
    await fleet.pass(1_000) // 3 s after the write timed out
    expect(fleet.store.operations).toEqual(['get', 'set'])
    await fleet.skip(1_000_000)
    expect([fleet.store.operations.length, fleet.clock.sleeping]).toEqual([2, 0])
  })

  it('is not written where the store has answered this process before', async () => {
    const { fleet, provider } = fleetOf()
    fleet.store.faults.lease = FAILURES.hangs
    expect(await fleet.tookMs(provider.getToken())).toBe(OPERATION_MS)
    await fleet.skip(10_000)
    expect(fleet.store.operations).toEqual(['get', 'lease'])
  })

  it('is the last one that was requested while the store hung', async () => {
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

  it('is still written after a background renewal that waited for the store in vain', async () => {
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
})

describe('a store that hangs', () => {
  /** Each operation rejects after 5 s: no longer than until the next look. */
  const stuck = (fleet: Fleet): void =>
    fleet.store.failAlways(async () => {
      await fleet.clock.sleep(5_000)
      throw new Error()
    })

  /** Makes a call each second until a third look is due; resolves with how long (ms) those took that had to wait. */
  const waits = async (fleet: Fleet, call: () => Promise<unknown>): Promise<number[]> => {
    const tookMs: number[] = []
    const endsAt = fleet.clock.monotonicMs() + 2.2 * LOOK_AGAIN_MS
    while (fleet.clock.monotonicMs() < endsAt) {
      tookMs.push(await fleet.tookMs(call()))
      await fleet.skip(1_000)
    }
    return tookMs.filter((ms) => ms > 0)
  }

  it('holds up one call in 30 s at most while the token endpoint fails', async () => {
    const fleet = new Fleet()
    const { provider } = fleet.start({ retries: 0 })
    stuck(fleet)
    fleet.endpoint.otherwise = status(503)
    expect(await waits(fleet, () => rejection(provider.getToken()))).toEqual([
      FIRST_OPERATION_MS,
      OPERATION_MS,
      OPERATION_MS,
    ])
  })

  it('holds up one call in 30 s at most while the limits of an API allow no renewal', async () => {
    const fleet = longLived()
    const process = fleet.start()
    await renewedUntilLimited(fleet, process, 3 * LOOK_AGAIN_MS)
    const requests = fleet.endpoint.count
    await fleet.skip(LOOK_AGAIN_MS)
    stuck(fleet)
    const token = await process.provider.getToken()
    const call = (): Promise<unknown> => process.provider.renewToken(token, { url: MERCHANT_URL })
    expect(await waits(fleet, call)).toEqual([OPERATION_MS, OPERATION_MS, OPERATION_MS])
    expect(fleet.endpoint.count).toBe(requests)
  })

  it('holds up one write at most: those that follow are waited for by nobody', async () => {
    const fleet = longLived()
    const { provider } = fleet.start()
    fleet.store.faults.set = FAILURES.hangs
    expect(await fleet.tookMs(provider.getToken())).toBe(OPERATION_MS)
    for (let call = 0; call < 3; call += 1) {
      const token = String(provider.currentToken()?.value)
      expect(await fleet.tookMs(provider.renewToken(token, { url: MERCHANT_URL }))).toBe(0)
      expect(provider.currentToken()?.value).not.toBe(token)
      await fleet.skip(10_000)
    }
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set'])
  })

  it('holds up a write no longer than any other one, even the first operation after the secret was rotated', async () => {
    const fleet = longLived()
    const secrets = [SECRET, 'another secret']
    fleet.endpoint.answers.push(status(401))
    const { provider } = fleet.start({ clientSecret: () => secrets.shift() ?? 'another secret' })
    fleet.store.faults.set = FAILURES.hangs
    expect(await fleet.tookMs(provider.getToken())).toBe(OPERATION_MS)
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
    expect(await fleet.tookMs(renewal)).toBe(OPERATION_MS)
    expect((await renewal)?.value).not.toBe(token.value)
    expect(sourcesOf(events)).toEqual(['endpoint', 'endpoint'])
  })

  it('holds up a background renewal, but behind it no call that may cause no renewal yet', async () => {
    const fleet = new Fleet()
    const { provider, token } = await fleet.begin({ retries: 0 })
    const renew = (): Promise<unknown> => provider.renewToken(token, { url: MERCHANT_URL })
    await fleet.skip(800_000) // the refresh window is open, whatever its jitter
    fleet.endpoint.otherwise = status(503)
    for (let gapMs = FIRST_GAP_MS; gapMs <= 16 * FIRST_GAP_MS; gapMs *= 2) {
      await rejection(renew())
      await fleet.skip(gapMs)
    }
    await rejection(renew())
    await fleet.skip(10 * FIRST_GAP_MS) // of a gap of 32, and longer than the cooldown
    fleet.store.failAlways(FAILURES.hangs)
    provider.currentToken()
    await quiet()
    expect(await fleet.tookMs(renew())).toBe(0)
    expect(provider.currentToken()?.value).toBe(token)
    expect(fleet.store.operations.at(-1)).toBe('get')
  })

  it('is used again after it has answered', async () => {
    const fleet = longLived()
    const { provider, events } = fleet.start({ retries: 0 })
    const connected = fleet.clock.sleep(CONNECTED_MS)
    fleet.store.failAlways((run) => connected.then(run))
    await fleet.tookMs(provider.getToken())
    await fleet.pass(CONNECTED_MS - FIRST_OPERATION_MS)
    fleet.store.failAlways(undefined)
    const { provider: other, token } = await fleet.begin()
    expect(provider.currentToken()?.value).toBe(token)
    const newer = await other.renewToken(token, { url: MERCHANT_URL })
    await fleet.pass(1_000) // it has tried to write its token again
    expect((await provider.renewToken(token, { url: MERCHANT_URL }))?.value).toBe(newer?.value)
    expect([fleet.endpoint.count, failuresOf(events).length]).toEqual([2, 1])
  })
})

it('a lease that cannot be released is an event where another process wrote a token before it was acquired', async () => {
  const { fleet, token, write, releaseLease } = await leaseHeldByAnother(60_000)
  releaseLease()
  fleet.store.faults.lease = (run) => {
    write()
    return run()
  }
  fleet.store.faults.release = FAILURES.rejects
  const { provider, events } = fleet.start()
  expect((await provider.getToken()).value).toBe(token)
  expect(failuresOf(events)).toEqual([{ operation: 'lease', code: CODES.rejects }])
})

describe('a slow store operation', () => {
  it('does not fail if it completes within the time limit', async () => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.failAlways(slow(fleet.clock, 200))
    expect(await fleet.tookMs(provider.getToken())).toBe(1_000) // get, lease, get, set, release
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

it.each([
  { name: 'hkdfSync', operation: 'get' },
  { name: 'createCipheriv', operation: 'set' },
] as const)(
  'a store whose entries cannot be encrypted has failed, and is tried again: $name',
  async ({ name, operation }) => {
    const real = crypto[name]
    const replace = (by: unknown): void => {
      Object.assign(crypto, { [name]: by })
      syncBuiltinESMExports()
    }
    onTestFinished(() => replace(real))
    const { fleet, provider, events } = fleetOf()
    replace(() => {
      throw Object.assign(new Error(ERROR_TEXT), { code: 'ERR_CRYPTO_INVALID_STATE' })
    })
    const { value } = await provider.getToken()
    expect(failuresOf(events)).toEqual([{ operation, code: 'ERR_CRYPTO_INVALID_STATE' }])
    expect(fleet.store.leased).toBe(0)
    replace(real)
    await fleet.skip(1_000)
    expect(await fleet.tokenOf()).toBe(value)
  },
)

it('a write that is tried again does not keep the async context of the call that requested the token', async () => {
  const { fleet, provider } = fleetOf()
  const request = new AsyncLocalStorage<string>()
  const seen: unknown[] = []
  const { get } = fleet.store
  fleet.store.get = (key) => {
    seen.push(request.getStore())
    return get.call(fleet.store, key)
  }
  fleet.store.faults.set = FAILURES.rejects
  await request.run('a request', () => provider.getToken())
  const { length } = seen
  await fleet.pass(1_500)
  expect(seen.slice(0, length)).toContain('a request')
  expect(seen.slice(length)).toEqual([undefined])
})

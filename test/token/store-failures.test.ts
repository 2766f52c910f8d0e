/** A store that fails or returns invalid data: no call fails because of it, or waits for more than one operation. */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { describe, expect, it, onTestFinished } from 'vitest'
import { FIRST_OPERATION_MS, OPERATION_MS } from '../../src/token/shared/encrypted-store.ts'
import { LOOK_AGAIN_MS, LOOK_EVERY_MS } from '../../src/token/shared/shared-token.ts'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { CODES, ERROR_TEXT, FAILURES, type Operation, slow } from '../store/memory-store.ts'
import {
  leaseHeldByAnother,
  longLived,
  renewedAfterRejection,
  renewedUntilLimited,
  sharing,
} from '../store/scenes.ts'
import { ENVIRONMENT, granted, hang, MERCHANT_URL, rejection, SECRET, status } from './harness.ts'

const fleetOf = (): { fleet: Fleet } & Process => {
  const fleet = new Fleet()
  return { fleet, ...fleet.start() }
}

/** Events call the release of a lease a lease, too. */
const reported = (operation: Operation): string => (operation === 'release' ? 'lease' : operation)

const failing = (operations: readonly Operation[], code: string): unknown[] =>
  operations.map((operation) => ({ operation: reported(operation), code }))

interface Case {
  readonly operation: Operation
  /** Whether the store has the token afterwards, and how many leases. */
  readonly written: number
  readonly leased: number
  /** While an operation hangs, no other one begins: which ones fail with it. */
  readonly fails?: readonly Operation[]
}

const AT_ONCE: readonly Case[] = [
  { operation: 'get', written: 1, leased: 0 },
  { operation: 'lease', written: 1, leased: 0 },
  { operation: 'set', written: 0, leased: 0 },
  { operation: 'release', written: 1, leased: 1 }, // until it expires
]
const HANGING: readonly Case[] = [
  { operation: 'get', written: 1, leased: 0 }, // a first look: the token is written all the same
  { operation: 'lease', written: 0, leased: 0, fails: ['lease', 'set'] },
  { operation: 'set', written: 0, leased: 1, fails: ['set', 'release'] }, // it may still be written
  { operation: 'release', written: 1, leased: 1 },
]

describe.each([
  { way: 'throws', cases: AT_ONCE, firstMs: 0, waitMs: 0 },
  { way: 'rejects', cases: AT_ONCE, firstMs: 0, waitMs: 0 },
  { way: 'hangs', cases: HANGING, firstMs: FIRST_OPERATION_MS, waitMs: OPERATION_MS },
] as const)('a store operation that $way', ({ way, cases, firstMs, waitMs }) => {
  it.each(cases)(
    'fails no call, is an event with only a code, and is not tried again: $operation',
    async ({ operation, written, leased, fails = [operation] }) => {
      const { fleet, provider, events } = fleetOf()
      fleet.store.faults[operation] = FAILURES[way]
      const waiting = provider.getToken()
      expect(await fleet.tookMs(waiting)).toBe(operation === 'get' ? firstMs : waitMs)
      expect(await waiting).toBe(provider.currentToken())
      await fleet.pass(1_500)
      expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], failing(fails, CODES[way])])
      expect([fleet.store.keys.length, fleet.store.leased]).toEqual([written, leased])
      for (const word of ['v2.', ...ERROR_TEXT.split(/\W+/).filter(({ length }) => length > 2)])
        expect(JSON.stringify(events)).not.toContain(word)
    },
  )

  it.each(cases)('does not prevent the renewal of a rejected token: $operation', async ({ operation }) => {
    const { fleet, provider, token } = await sharing()
    fleet.store.faults[operation] = FAILURES[way]
    const renewal = provider.renewToken(token, { url: MERCHANT_URL })
    expect(await fleet.tookMs(renewal)).toBe(waitMs)
    expect([token, undefined]).not.toContain((await renewal)?.value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it.each(['get', 'lease'] as const)("ends the wait for another process's token: %s", async (operation) => {
    const { fleet } = await leaseHeldByAnother(60_000)
    const { provider, events } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(500)
    fleet.store.faults[operation] = FAILURES[way]
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(OPERATION_MS + 2 * LOOK_EVERY_MS)
    expect(sourcesOf(events)).toEqual(['endpoint'])
    expect(failuresOf(events)[0]).toEqual({ operation, code: CODES[way] })
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
  /** The store connects 2 s after the first look, and the write after it, have timed out. */
  const CONNECTED_MS = FIRST_OPERATION_MS + OPERATION_MS + 2_000

  it('writes the token that it then requests, once', async () => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.faults.get = FAILURES.rejects
    const { value } = await provider.getToken()
    fleet.store.faults.get = undefined
    expect(await fleet.tokenOf()).toBe(value)
    fleet.store.asked.length = 0
    await fleet.skip(1_000_000)
    expect([fleet.store.asked, fleet.clock.sleeping]).toEqual([[], 0])
    expect(failuresOf(events)).toEqual([{ operation: 'get', code: CODES.rejects }])
  })

  it('writes it once although the look still hangs, and nobody waits for that', async () => {
    const { fleet, provider } = fleetOf()
    const connected = fleet.clock.sleep(CONNECTED_MS)
    fleet.store.failAlways((run) => connected.then(run))
    expect(await fleet.tookMs(provider.getToken())).toBe(FIRST_OPERATION_MS)
    await fleet.pass(CONNECTED_MS - FIRST_OPERATION_MS)
    expect(await fleet.tokenOf()).toBe(provider.currentToken()?.value)
    await fleet.skip(1_000_000)
    expect(fleet.store.operations).toEqual(['get', 'set', 'get']) // the last one is that of the other process
    expect(fleet.clock.sleeping).toBe(0)
  })

  it('writes the last one that it requested while the look hung', async () => {
    const fleet = longLived()
    const { provider } = fleet.start({ retries: 0 })
    const connected = fleet.clock.sleep(CONNECTED_MS)
    fleet.store.failAlways((run) => connected.then(run))
    await fleet.tookMs(provider.getToken())
    const newer = await provider.renewToken(String(provider.currentToken()?.value), { url: MERCHANT_URL })
    await fleet.pass(CONNECTED_MS)
    expect([await fleet.tokenOf(), fleet.endpoint.count]).toEqual([newer?.value, 2])
  })

  it('makes nobody wait for a write that hangs', async () => {
    const { fleet, provider } = fleetOf()
    fleet.store.faults.get = FAILURES.rejects
    fleet.store.faults.set = FAILURES.hangs
    expect(await fleet.tookMs(provider.getToken())).toBe(0)
    expect(fleet.store.operations).toEqual(['get', 'set'])
  })

  it('is not one that the store has answered before: while that hangs, no write begins', async () => {
    const { fleet, provider } = fleetOf()
    fleet.store.faults.lease = FAILURES.hangs
    await fleet.tookMs(provider.getToken())
    expect(fleet.store.operations).toEqual(['get', 'lease'])
  })
})

it.each(['throws', 'rejects'] as const)(
  'a write that %s is one event, is not tried again, and costs the next process one request',
  async (way) => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.faults.set = FAILURES[way]
    const { value } = await provider.getToken()
    fleet.store.faults.set = undefined
    await fleet.skip(600_000)
    expect(failuresOf(events)).toEqual([{ operation: 'set', code: CODES[way] }])
    expect(fleet.store.operations.filter((operation) => operation === 'set')).toHaveLength(1)
    expect(fleet.clock.sleeping).toBe(0)
    const next = await fleet.tokenOf()
    expect(next).not.toBe(value)
    expect(await fleet.tokenOf()).toBe(next)
    expect(fleet.endpoint.count).toBe(2)
  },
)

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

  it('holds up a background renewal, but meanwhile no call whose API has used up its renewals', async () => {
    const fleet = new Fleet()
    const process = await fleet.begin()
    while (await renewedAfterRejection(fleet, process));
    const token = String(process.provider.currentToken()?.value)
    await fleet.skip(850_000) // the refresh window is open, whatever its jitter
    fleet.store.failAlways(FAILURES.hangs)
    expect(process.provider.currentToken()?.value).toBe(token)
    await quiet()
    expect(fleet.store.operations.at(-1)).toBe('get')
    const renewal = process.provider.renewToken(token, { url: MERCHANT_URL })
    expect(await fleet.tookMs(renewal)).toBe(0)
    expect(await renewal).toBeUndefined()
  })

  it('is used again after it has answered', async () => {
    const fleet = longLived()
    const { provider } = fleet.start()
    const connected = fleet.clock.sleep(5_000)
    fleet.store.failAlways((run) => connected.then(run))
    await fleet.tookMs(provider.getToken())
    await fleet.pass(5_000)
    fleet.store.failAlways(undefined)
    const { provider: other, token } = await fleet.begin()
    const newer = await other.renewToken(token, { url: MERCHANT_URL })
    await fleet.skip(LOOK_AGAIN_MS)
    expect((await provider.renewToken(token, { url: MERCHANT_URL }))?.value).toBe(newer?.value)
    expect(fleet.endpoint.count).toBe(2)
  })
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

it.each([
  { name: 'hkdfSync', failures: ['get', 'set'] },
  { name: 'createCipheriv', failures: ['set'] },
] as const)(
  'a store whose entries cannot be encrypted has failed, and is tried again: $name',
  async ({ name, failures }) => {
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
    await provider.getToken()
    expect(failuresOf(events)).toEqual(failing(failures, 'ERR_CRYPTO_INVALID_STATE'))
    expect(fleet.store.leased).toBe(0)
    replace(real)
    const { value } = await provider.getToken({ forceRefresh: true })
    expect(await fleet.tokenOf()).toBe(value)
  },
)

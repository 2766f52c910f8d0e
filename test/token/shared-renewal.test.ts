import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { CODES, FAILURES } from '../store/memory-store.ts'
import { oneHasNewerToken, sharing } from '../store/scenes.ts'
import { MERCHANT_URL, rejection, status, withoutJitter } from './harness.ts'

const random = withoutJitter()

/** When the refresh window opens: a token lives for 1 000 s, with a margin of 10 s and a window of 200 s before it. */
const DUE_MS = 790_000

/** Processes whose token has entered its refresh window, before any of them called. */
async function due(count = 1) {
  const shared = await sharing(count)
  await shared.fleet.skip(DUE_MS)
  return shared
}

describe('a shared token in its refresh window', () => {
  it('is renewed by one process, and the others acquire the new one with a single store read', async () => {
    const { fleet, processes, token } = await due(5)
    processes[0]?.provider.currentToken()
    await quiet()
    fleet.store.asked.length = 0
    for (const { provider } of processes) provider.currentToken()
    await quiet()
    const tokens = processes.map(({ provider }) => provider.currentToken()?.value)
    expect(new Set(tokens).size).toBe(1)
    expect(tokens).not.toContain(token)
    expect(fleet.endpoint.count).toBe(2)
    expect(fleet.store.operations).toEqual(['get', 'get', 'get', 'get'])
    for (const { events } of processes.slice(1))
      expect(events).toMatchObject([
        { type: 'token-acquired', source: 'store', lifetimeMs: 1_000_000 },
        { type: 'token-renewed', reason: 'expiring' },
      ])
  })

  it.each([0, 0.9])(
    'is not mistaken for a newer one when it is read from the store (jitter %f)',
    async (jitter) => {
      const { fleet, provider, token, events } = await due()
      random.mockReturnValue(jitter)
      expect(provider.currentToken()?.value).toBe(token)
      await quiet()
      expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'get', 'set', 'release'])
      expect(provider.currentToken()?.value).not.toBe(token)
      expect([fleet.endpoint.count, sourcesOf(events)]).toEqual([2, ['endpoint']])
    },
  )

  it('is replaced by a stored token that is not yet in its refresh window, however old', async () => {
    const fleet = new Fleet()
    const { provider } = await fleet.begin()
    fleet.store.remove(fleet.store.tokenKey)
    await fleet.skip(600_000)
    const other = await fleet.begin()
    await fleet.skip(190_000)
    provider.currentToken()
    await quiet()
    expect(provider.currentToken()?.value).toBe(other.token)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is served at once while another process holds the lease, and renewed after its release', async () => {
    const { fleet, provider, token } = await due()
    const release = fleet.store.hold(fleet.store.tokenKey, 60_000)
    for (let look = 0; look < 20; look += 1) {
      expect((await provider.getToken()).value).toBe(token)
      await fleet.pass(50)
    }
    expect([fleet.endpoint.count, fleet.clock.sleeping]).toEqual([1, 0]) // and nothing waits for the lease
    release()
    await fleet.skip(1_000) // the process does not wait, and tries again with a later call
    provider.currentToken()
    await fleet.pass(50)
    expect(fleet.endpoint.count).toBe(2)
    expect(provider.currentToken()?.value).not.toBe(token)
  })

  it('causes no store operation and no token request in the pause after a failed renewal', async () => {
    const { fleet, provider, token } = await due()
    fleet.endpoint.answers.push(status(400))
    for (const [passMs, requests] of [
      [0, 2],
      [37_499, 2], // a quarter of 200 s, less a quarter of that
      [1, 3],
    ] as const) {
      await fleet.skip(passMs)
      fleet.store.asked.length = 0
      expect((await provider.getToken()).value).toBe(token)
      await quiet()
      expect([fleet.endpoint.count, fleet.store.leased]).toEqual([requests, 0])
      if (passMs === 37_499) expect(fleet.store.asked).toEqual([])
    }
    expect((await provider.getToken()).value).not.toBe(token)
  })
})

describe('a store that fails while a token is in its refresh window', () => {
  it.each(
    (['throws', 'rejects', 'hangs'] as const).flatMap((way) =>
      (['get', 'lease'] as const).map((operation) => [operation, way] as const),
    ),
  )('delays the renewal, but no caller: %s %s', async (operation, way) => {
    const { fleet, provider, token, events } = await due()
    fleet.store.faults[operation] = FAILURES[way]
    for (let second = 0; second < 145; second += 1) {
      const from = fleet.clock.monotonicMs()
      expect((await provider.getToken()).value).toBe(token)
      expect(fleet.clock.monotonicMs()).toBe(from)
      await fleet.skip(1_000)
    }
    await fleet.pass(1_500) // operations that hang have timed out
    expect([fleet.endpoint.count, fleet.clock.sleeping]).toEqual([1, 0])
    expect(failuresOf(events)).toContainEqual({ operation, code: CODES[way] })
    expect(failuresOf(events).length).toBeLessThan(8) // the store is retried as rarely as the token endpoint
    for (let second = 0; second < 20 && provider.currentToken()?.value === token; second += 1)
      await fleet.pass(1_000)
    expect(provider.currentToken()?.value).not.toBe(token)
    expect(fleet.endpoint.count).toBe(2)
  })

  it.each([0, 0.2, 0.4, 0.6, 0.8, 0.99])(
    'delays the renewal until a random moment in the last quarter of the window (chance %f)',
    async (chance) => {
      random.mockReturnValue(chance)
      const { fleet, provider, token } = await sharing()
      const windowMs = 200_000 * (1 - 0.25 * chance)
      fleet.store.faults.get = FAILURES.rejects
      await fleet.skip(990_000 - windowMs)
      let leftMs = windowMs
      for (; provider.currentToken()?.value === token; leftMs -= 100) {
        await quiet()
        if (provider.currentToken()?.value !== token) break
        await fleet.clock.advance(100)
      }
      const momentMs = windowMs / 4 - leftMs // within the last quarter
      expect(momentMs).toBeGreaterThanOrEqual(0)
      expect(momentMs).toBeLessThan(windowMs / 4)
      expect(Math.abs(momentMs / (windowMs / 4) - chance)).toBeLessThan(0.01) // uniformly distributed
      expect(fleet.endpoint.count).toBe(2)
    },
  )
})

const url = MERCHANT_URL
const MERCHANT = 'https://api.test.example/merchant'

describe('a rejected token', () => {
  it.each([url, undefined])(
    'is replaced by a newer one from the store with a single read: rejected at %s',
    async (at) => {
      const { fleet, other, token, newer } = await oneHasNewerToken()
      expect((await other.provider.renewToken(token, { url: at }))?.value).toBe(newer)
      await quiet()
      expect([fleet.endpoint.count, fleet.store.operations]).toEqual([2, ['get']])
      expect(other.events).toMatchObject([
        { type: 'token-rejected', ...(at && { api: MERCHANT }) },
        { type: 'token-acquired', source: 'store' },
        { type: 'token-renewed', reason: 'rejected' },
      ])
    },
  )

  it('is not acquired from the store by a process that only received its value', async () => {
    const { fleet, token } = await sharing(1)
    const { provider, events } = fleet.start()
    expect((await provider.renewToken(token, { url }))?.value).not.toBe(token)
    await quiet()
    expect([fleet.endpoint.count, sourcesOf(events)]).toEqual([2, ['endpoint']])
    expect(await fleet.tokenOf()).toBe(provider.currentToken()?.value)
  })

  it('stays in the store until its renewal overwrites it', async () => {
    const { fleet, provider, token } = await sharing()
    fleet.answerAfter(1_000)
    const renewal = provider.renewToken(token, { url })
    await quiet()
    expect(await fleet.tokenOf()).toBe(token) // a process that starts meanwhile learns it by its first 401
    await fleet.pass(1_000)
    expect(await fleet.tokenOf()).toBe((await renewal)?.value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it.each([MERCHANT_URL, undefined])(
    'is never acquired from the store by a process that knows it: rejected at %s',
    async (url) => {
      const { fleet, provider, token } = await sharing()
      fleet.endpoint.answers.push(status(400))
      await rejection(provider.renewToken(token, { url }))
      fleet.clock.stepWallClock(1_000_000) // the cached token expires, the stored one does not
      await fleet.skip(1_000)
      expect((await provider.getToken()).value).not.toBe(token)
      await quiet()
      expect(await fleet.tokenOf()).toBe(provider.currentToken()?.value)
    },
  )

  it('causes no store operation if it was rejected outside apiUrls', async () => {
    const { fleet, provider, token } = await sharing()
    const renewal = provider.renewToken(token, { url: 'https://x.example/orders' })
    expect(await renewal).toBeUndefined()
    expect(fleet.store.asked).toEqual([])
    fleet.clock.stepWallClock(1_000_000) // the cached token expires, the stored one does not
    await fleet.skip(1_000)
    expect((await provider.getToken()).value).toBe(token)
  })
})

describe.each(['throws', 'rejects', 'hangs'] as const)('a store that %s', (way) => {
  it.each(['get', 'lease', 'set', 'release'] as const)(
    'does not prevent the renewal of a rejected token: %s',
    async (operation) => {
      const { fleet, provider, events, token } = await sharing()
      fleet.store.faults[operation] = FAILURES[way]
      const isWaitedFor = way === 'hangs' && (operation === 'get' || operation === 'lease')
      const renewal = provider.renewToken(token, { url })
      expect(await fleet.tookMs(renewal)).toBe(isWaitedFor ? 1_000 : 0)
      expect([token, undefined]).not.toContain((await renewal)?.value)
      await fleet.pass(1_500)
      const failures = failuresOf(events)
      expect(failures).toEqual([
        { operation: operation === 'release' ? 'lease' : operation, code: CODES[way] },
      ])
      expect([fleet.clock.sleeping, fleet.endpoint.count]).toEqual([0, 2])
    },
  )
})

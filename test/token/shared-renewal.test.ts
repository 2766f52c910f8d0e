import { createAuthFetch, type TokenProvider, type TokenProviderOptions } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { BACKGROUND_PAUSE_SHARE, BACKGROUND_PAUSE_SPREAD } from '../../src/token/limits/request-limits.ts'
import { RejectedTokens, WINDOW_SPREAD } from '../../src/token/request/access-token.ts'
import { LOOK_AGAIN_MS } from '../../src/token/shared/shared-token.ts'
import { Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { CODES, FAILURES, slow } from '../store/memory-store.ts'
import { oneHasNewerToken, sharing } from '../store/scenes.ts'
import { granted, grantedWith, MERCHANT_URL, rejection, status, withoutJitter } from './harness.ts'

const random = withoutJitter()

const KEY = 'key-1-'.repeat(8)
const NEW_KEY = 'key-2-'.repeat(8)

/** When the refresh window opens: a token lives for 1 000 s, with a margin of 10 s and a window of 200 s before it. */
const DUE_MS = 790_000
/** The shortest pause after a renewal that failed at that moment. */
const PAUSE_MS = 200_000 * BACKGROUND_PAUSE_SHARE * (1 - BACKGROUND_PAUSE_SPREAD)

/** Processes whose token has entered its refresh window, before any of them called. */
async function due(count = 1) {
  const shared = await sharing(count)
  await shared.fleet.skip(DUE_MS)
  return shared
}

/** A process whose token lives for 300 s, while the store still has an older one, which no API rejected: for 990 s from then on. */
interface OlderInStore {
  readonly fleet: Fleet
  readonly provider: TokenProvider
  readonly older: string
  readonly token: string
}

/** Another token is asked for, 10 s after the one of the store; a look is due another 30 s later. */
async function beginWithOlder(
  keep: (fleet: Fleet) => void = () => {},
  [before, after]: readonly Partial<TokenProviderOptions>[] = [],
): Promise<OlderInStore> {
  const fleet = new Fleet()
  const { token: older } = await fleet.begin(before)
  const { provider } = await fleet.begin(after)
  await fleet.skip(10_000)
  keep(fleet)
  fleet.endpoint.answers.push(granted({ expires_in: 300 }))
  const { value } = await provider.getToken({ forceRefresh: true })
  await fleet.skip(LOOK_AGAIN_MS)
  return { fleet, provider, older, token: value }
}

/** The cases of {@link OlderInStore}. */
const OLDER: { readonly what: string; readonly begin: () => Promise<OlderInStore> }[] = [
  {
    what: 'the store still has an older one, because the write of this one failed',
    begin: () => beginWithOlder(({ store }) => (store.faults.set = FAILURES.rejects)),
  },
  {
    what: 'the store still has an older one, under the second of the encryptionKeys',
    begin: () => beginWithOlder(undefined, [{ encryptionKeys: [KEY] }, { encryptionKeys: [NEW_KEY, KEY] }]),
  },
  {
    what: 'the store has an older one again, because it went back',
    begin: async () => {
      let back = (): void => {}
      const made = await beginWithOlder(({ store }) => {
        const { tokenKey } = store
        const { value = '', ttlMs = 0 } = store.entry(tokenKey) ?? {}
        back = () => store.put(tokenKey, value, ttlMs - LOOK_AGAIN_MS)
      })
      back()
      return made
    },
  },
]

describe('a shared token in its refresh window', () => {
  it('is renewed by one process, and the others acquire the new one without asking for the lease', async () => {
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
    expect(fleet.store.operations).not.toContain('lease')
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
      expect(provider.currentToken()?.value).not.toBe(token)
      expect([fleet.endpoint.count, sourcesOf(events)]).toEqual([2, ['endpoint']])
    },
  )

  it('is acquired by a process that has none', async () => {
    const { fleet, token } = await due()
    expect(await fleet.tokenOf()).toBe(token)
    expect(fleet.endpoint.count).toBe(1)
  })

  it('is not replaced by a stored token that is in its refresh window, too', async () => {
    const fleet = new Fleet()
    const { provider, token } = await fleet.begin()
    fleet.store.remove(fleet.store.tokenKey)
    await fleet.skip(10_000)
    const other = await fleet.begin()
    await fleet.skip(DUE_MS)
    provider.currentToken()
    await quiet()
    expect([token, other.token]).not.toContain(provider.currentToken()?.value)
    expect(fleet.endpoint.count).toBe(3)
  })

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

  it('is served at once while another process holds the lease, and renewed after the pause of a failed renewal', async () => {
    const { fleet, provider, token } = await due()
    const release = fleet.store.hold(fleet.store.tokenKey, 60_000)
    for (let look = 0; look < 20; look += 1) {
      expect((await provider.getToken()).value).toBe(token)
      await fleet.pass(50)
    }
    expect([fleet.endpoint.count, fleet.store.operations]).toEqual([1, ['get', 'lease']])
    release()
    await fleet.skip(PAUSE_MS - 1_001) // of which a second is over
    provider.currentToken()
    await quiet()
    expect(fleet.endpoint.count).toBe(1)
    await fleet.skip(1)
    provider.currentToken()
    await quiet()
    expect(fleet.endpoint.count).toBe(2)
    expect(provider.currentToken()?.value).not.toBe(token)
  })

  it('is looked for once in the pause of a failed renewal while another process holds the lease, up to its end', async () => {
    const { fleet, provider, token } = await due()
    await fleet.skip(160_000) // the last quarter of the window
    fleet.store.hold(fleet.store.tokenKey, 60_000)
    for (let look = 0; look < 20; look += 1) {
      expect((await provider.getToken()).value).toBe(token)
      await fleet.pass(50)
    }
    expect([fleet.endpoint.count, fleet.store.operations]).toEqual([1, ['get', 'lease']])
  })

  it.each(OLDER)('is replaced by a requested token where $what', async ({ begin }) => {
    const { fleet, provider, older, token } = await begin()
    await fleet.skip(250_000) // that of the older one opens 490 s later
    expect(provider.currentToken()?.value).toBe(token)
    await quiet()
    expect([older, token, undefined]).not.toContain(provider.currentToken()?.value)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('causes no store operation and no token request in the pause after a failed renewal', async () => {
    const { fleet, provider, token } = await due()
    fleet.endpoint.answers.push(status(400))
    const callAfter = async (passMs: number): Promise<void> => {
      await fleet.skip(passMs)
      fleet.store.asked.length = 0
      expect((await provider.getToken()).value).toBe(token)
      await quiet()
      expect(fleet.store.leased).toBe(0)
    }
    await callAfter(0)
    expect(fleet.endpoint.count).toBe(2)
    await callAfter(PAUSE_MS - 1)
    expect(fleet.store.asked).toEqual([])
    expect(fleet.endpoint.count).toBe(2)
    await callAfter(1)
    expect(fleet.endpoint.count).toBe(3)
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
    expect(fleet.endpoint.count).toBe(1)
    expect(failuresOf(events)).toContainEqual({ operation, code: CODES[way] })
    expect(failuresOf(events).length).toBeLessThan(15) // the store is retried as rarely as the token endpoint
    for (let second = 0; second < 20 && provider.currentToken()?.value === token; second += 1)
      await fleet.pass(1_000)
    expect(provider.currentToken()?.value).not.toBe(token)
    expect(fleet.endpoint.count).toBe(2)
  })

  it.each([
    { chance: 0, share: 0.25 },
    { chance: 0.2, share: 0.2 },
    { chance: 0.4, share: 0.15 },
    { chance: 0.6, share: 0.1 },
    { chance: 0.8, share: 0.05 },
    { chance: 0.99, share: 0.0025 },
  ])(
    'delays the renewal until a random moment in the last quarter of the window: a share of $share is left',
    async ({ chance, share }) => {
      random.mockReturnValue(chance)
      const windowMs = 200_000 * (1 - WINDOW_SPREAD * chance)
      const leftMs = windowMs * share
      const { fleet, provider, token } = await sharing()
      fleet.store.faults.get = FAILURES.rejects
      await fleet.skip(990_000 - windowMs)
      let passedMs = 0
      const isRenewed = async (): Promise<boolean> => {
        const isOld = provider.currentToken()?.value === token
        await quiet()
        return !isOld || provider.currentToken()?.value !== token
      }
      for (; passedMs < windowMs && !(await isRenewed()); passedMs += 100) await fleet.clock.advance(100)
      expect(windowMs - passedMs).toBeLessThanOrEqual(leftMs)
      expect(windowMs - passedMs).toBeGreaterThan(leftMs - 100) // this test looks every 100 ms
      expect(fleet.endpoint.count).toBe(2)
    },
  )
})

it('a store that is back is found by the next background renewal, which takes the token of another process', async () => {
  const { fleet, one, other } = await sharing(2)
  await fleet.skip(900_000) // less than half of the refresh window is left
  fleet.store.faults.get = FAILURES.rejects
  one.provider.currentToken()
  await quiet()
  fleet.store.faults.get = undefined
  const { value } = await other.provider.getToken({ forceRefresh: true })
  await fleet.skip(20_000) // after the pause, which is shorter than that between two looks for a call
  one.provider.currentToken()
  await quiet()
  expect(one.provider.currentToken()?.value).toBe(value)
  expect(fleet.endpoint.count).toBe(2)
})

const url = MERCHANT_URL
const MERCHANT = 'https://api.test.example/merchant'

describe('a rejected token', () => {
  it.each([url, undefined])(
    'is replaced by a newer one from the store without a token request: rejected at %s',
    async (at) => {
      const { fleet, other, token, newer } = await oneHasNewerToken()
      expect((await other.provider.renewToken(token, { url: at }))?.value).toBe(newer)
      await quiet()
      expect(fleet.endpoint.count).toBe(2)
      expect(other.events).toMatchObject([
        { type: 'token-rejected', ...(at && { api: MERCHANT }) },
        { type: 'token-acquired', source: 'store' },
        { type: 'token-renewed', reason: 'rejected' },
      ])
    },
  )

  it('is replaced for all calls by what the store has, where no renewal is allowed and one call looks', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(grantedWith({ 'Auth0-Client-Quota-Limit': 'b=h;q=10;r=1;t=5000' }))
    const [one, other] = [await fleet.begin(), await fleet.begin()]
    await fleet.skip(1_000)
    const { value: newer } = await one.provider.getToken({ forceRefresh: true })
    await fleet.skip(LOOK_AGAIN_MS)
    fleet.store.faults.get = slow(fleet.clock, 200)
    const first = other.provider.renewToken(other.token, { url })
    await fleet.pass(100)
    const second = other.provider.renewToken(other.token, { url })
    await fleet.pass(100)
    expect([(await first)?.value, (await second)?.value]).toEqual([newer, newer])
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is not acquired from the store by a process that only received its value', async () => {
    const { fleet, token } = await sharing(1)
    const { provider, events } = fleet.start()
    expect((await provider.renewToken(token, { url }))?.value).not.toBe(token)
    await quiet()
    expect([fleet.endpoint.count, sourcesOf(events)]).toEqual([2, ['endpoint']])
    expect(await fleet.tokenOf()).toBe(provider.currentToken()?.value)
  })

  it('is renewed once for all processes that an API rejects it from', async () => {
    const { fleet, processes, token } = await sharing(2)
    fleet.answerAfter(330)
    const renewals = Promise.all(processes.map(({ provider }) => provider.renewToken(token, { url })))
    await fleet.tookMs(renewals)
    const [newer, same] = await renewals
    expect([token, undefined]).not.toContain(newer?.value)
    expect(same?.value).toBe(newer?.value)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is renewed once for the calls of all processes, even if the endpoint returns the same token again', async () => {
    const fleet = new Fleet()
    fleet.endpoint.otherwise = granted({ access_token: 'the.same.token' })
    const processes = [await fleet.begin(), await fleet.begin()]
    fleet.answerAfter(330, fleet.endpoint.otherwise)
    const rejecting = async (): Promise<Response> => new Response(null, { status: 401 })
    const calls = processes.map(({ provider }) => createAuthFetch(provider, { fetch: rejecting })(url))
    await fleet.tookMs(Promise.all(calls))
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([401, 401])
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is renewed while it is being written, although calls with the one before it still wait', async () => {
    const { fleet, provider, token } = await due()
    fleet.store.faults.set = slow(fleet.clock, 200)
    provider.currentToken() // begins a background renewal
    const before = provider.renewToken(token, { url })
    await quiet()
    const newer = provider.currentToken()?.value
    const renewal = provider.renewToken(String(newer), { url })
    await fleet.pass(400)
    expect([token, newer, undefined]).not.toContain((await renewal)?.value)
    expect((await before)?.value).toBe(newer)
    expect(fleet.endpoint.count).toBe(3)
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

  it('is never acquired again, even if it is in the store after others were rejected', async () => {
    const { fleet, provider, token } = await sharing()
    const first = fleet.store.entry(fleet.store.tokenKey)
    let rejected = token
    for (let count = 0; count < 3; count += 1) {
      await fleet.skip(10_000)
      const newer = provider.renewToken(rejected, { url })
      for (let call = 0; call < 20; call += 1) provider.renewToken(rejected, { url }) // other calls got a 401, too
      rejected = String((await newer)?.value)
    }
    await quiet()
    fleet.store.put(fleet.store.tokenKey, String(first?.value), 900_000)
    await fleet.skip(10_000)
    expect([token, rejected]).not.toContain((await provider.renewToken(rejected, { url }))?.value)
  })

  it.each(OLDER)('is replaced by a requested token where $what', async ({ begin }) => {
    const { fleet, provider, older, token } = await begin()
    const renewed = (await provider.renewToken(token, { url }))?.value
    expect([older, token, undefined]).not.toContain(renewed)
    expect(provider.currentToken()?.value).toBe(renewed)
    expect(fleet.endpoint.count).toBe(3)
  })

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

it('the sixteen most recently rejected tokens are known, whatever the store still has', () => {
  const rejected = new RejectedTokens()
  const values = Array.from({ length: 18 }, (_, nth) => `token-${nth}`)
  for (const value of values) rejected.add(value)
  rejected.add('token-17') // again
  expect(values.filter((value) => rejected.has(value))).toEqual(values.slice(2))
})

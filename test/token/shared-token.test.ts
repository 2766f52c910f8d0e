import { describe, expect, it } from 'vitest'
import { MARGIN_SHARE, WINDOW_SHARE } from '../../src/token/request/access-token.ts'
import { elsewhere, Fleet, failuresOf, quiet, sourcesOf } from '../store/fleet.ts'
import { FAILURES, MemoryStore, slow } from '../store/memory-store.ts'
import { sharing } from '../store/scenes.ts'
import { ENVIRONMENT, granted, hang, MERCHANT_URL, rejection, SECRET, withoutJitter } from './harness.ts'

withoutJitter()

describe('a provider without a store', () => {
  it('acquires its own token from the endpoint while other processes share one', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    const alone = fleet.start({ store: undefined })
    expect((await alone.provider.getToken()).value).not.toBe(token)
    expect(sourcesOf(alone.events)).toEqual(['endpoint'])
    expect([fleet.endpoint.count, fleet.store.asked.length]).toEqual([2, 0])
  })
})

describe('a token in the store', () => {
  it.each([{ scope: 'merchant' }, {}])(
    'is acquired by the next process without a request or a lease: %j',
    async (scope) => {
      const fleet = new Fleet()
      fleet.endpoint.answers.push(granted(scope))
      const first = fleet.start()
      const { value } = await first.provider.getToken()
      await quiet()
      fleet.store.asked.length = 0
      await fleet.clock.advance(300_000)
      const { provider, events } = fleet.start()
      const tokens = await Promise.all(Array.from({ length: 1_000 }, () => provider.getToken()))
      expect(new Set(tokens)).toEqual(new Set([provider.currentToken()]))
      expect({ ...tokens[0], value: tokens[0]?.value }).toEqual({
        ...{ value, tokenType: 'Bearer', expiresAt: fleet.clock.epochMs() + 700_000 },
        ...scope,
      })
      expect(fleet.endpoint.count).toBe(1)
      expect(fleet.store.operations).not.toContain('lease')
      expect(events).toEqual([
        {
          type: 'token-acquired',
          source: 'store',
          durationMs: 0,
          lifetimeMs: 1_000_000,
          remainsMs: 700_000,
          environment: 'test',
        },
      ])
    },
  )

  it('stays cached in a process after the store lost it, without further reads', async () => {
    const { fleet, provider, token } = await sharing()
    fleet.store.remove(fleet.store.tokenKey)
    for (let call = 0; call < 1_000; call += 1) {
      expect(provider.currentToken()?.value).toBe(token)
      expect((await provider.getToken()).value).toBe(token)
    }
    expect([fleet.store.asked.length, fleet.endpoint.count]).toEqual([0, 1])
    expect(await fleet.tokenOf()).not.toBe(token)
    expect((await provider.getToken()).value).toBe(token)
  })

  it('is not shared with another client, audience, token endpoint or store', async () => {
    const fleet = new Fleet()
    const { audience, authUrl } = ENVIRONMENT
    const others = [
      {},
      { clientId: 'client-2' },
      { environment: { ...ENVIRONMENT, audience: `${audience}/` } },
      { environment: { ...ENVIRONMENT, authUrl: `${authUrl}/other` } },
    ]
    for (const [n, options] of others.entries()) {
      await fleet.begin(options)
      expect([fleet.endpoint.count, fleet.store.keys.length]).toEqual([n + 1, n + 1])
    }
    await fleet.begin({ store: new MemoryStore(fleet.clock) })
    expect([fleet.endpoint.count, fleet.store.keys.length]).toEqual([5, 4])
  })

  it('is shared by processes with an equivalent authUrl or other apiUrls', async () => {
    const fleet = new Fleet()
    const { audience } = ENVIRONMENT
    for (const [n, authUrl] of ['https://auth.test.example/', 'https://AUTH.test.example:443'].entries())
      await fleet.begin({ environment: { authUrl, audience, apiUrls: [`https://api-${n}.example`] } })
    expect(fleet.endpoint.count).toBe(1)
  })
})

describe('writing the token', () => {
  it('is waited for by the call that caused the request, and by no other', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = slow(fleet.clock, 200)
    const { provider } = fleet.start()
    const waiting = provider.getToken()
    await quiet()
    const token = provider.currentToken()
    expect(await provider.getToken()).toBe(token)
    expect(await fleet.tookMs(waiting)).toBe(200)
    expect(await waiting).toBe(token)
    expect(await fleet.tokenOf()).toBe(token?.value)
    expect([fleet.endpoint.count, fleet.store.leased]).toEqual([1, 0])
  })

  it('is waited for where the clientSecret function failed before, too', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = slow(fleet.clock, 200)
    const secrets = ['', SECRET]
    const { provider } = fleet.start({ clientSecret: () => secrets.shift() ?? SECRET })
    const waiting = provider.getToken()
    expect(await fleet.tookMs(waiting)).toBe(200)
    expect(await fleet.tokenOf()).toBe((await waiting).value)
    expect(fleet.endpoint.count).toBe(1)
  })

  it('that is under way when the provider is closed is finished by close()', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = slow(fleet.clock, 200)
    const { provider } = fleet.start()
    const waiting = rejection(provider.getToken())
    await fleet.pass(50)
    expect(await fleet.tookMs(provider.close())).toBe(150)
    await waiting
    expect([fleet.endpoint.count, fleet.store.leased, fleet.store.keys.length]).toEqual([1, 0, 1])
  })

  it.each(['works', 'fails'])(
    'does not begin after the provider was closed, whenever that was: a store that %s',
    async (how) => {
      for (let turns = 0; turns < 60; turns += 1) {
        const fleet = new Fleet()
        const { provider } = fleet.start()
        let wasWritten: boolean | undefined
        const closeAfter = async (): Promise<void> => {
          for (let turn = 0; turn < turns; turn += 1) await undefined
          wasWritten = fleet.store.operations.includes('set')
          provider.close()
        }
        if (how === 'fails') fleet.store.faults.get = FAILURES.rejects
        fleet.endpoint.answers.push(async (init) => {
          const answer = await granted()(init)
          closeAfter()
          return answer
        })
        await provider.getToken().catch(() => {})
        await fleet.skip(10_000)
        expect(fleet.store.operations.includes('set'), `after ${turns} microtasks`).toBe(wasWritten)
        expect([fleet.store.leased, fleet.clock.sleeping], `after ${turns} microtasks`).toEqual([0, 0])
      }
    },
  )

  it('does not shorten the timeoutMs of the next acquisition', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = slow(fleet.clock, 200)
    const { provider } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(50)
    fleet.endpoint.otherwise = hang
    const failing = rejection(provider.renewToken(String(provider.currentToken()?.value)))
    expect(await fleet.tookMs(failing)).toBe(150 + 10_000)
    await waiting
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT' })
  })

  it('that hangs delays no acquisition that follows', async () => {
    const fleet = new Fleet()
    const { provider } = fleet.start()
    const token = await provider.getToken()
    fleet.store.failAlways(FAILURES.hangs)
    const renewal = provider.renewToken(token)
    await fleet.tookMs(renewal)
    const next = provider.renewToken(String((await renewal)?.value), { url: MERCHANT_URL })
    expect(await fleet.tookMs(next)).toBe(0)
    expect((await next)?.value).toBe(provider.currentToken()?.value)
  })
})

describe('the life of a token in the store', () => {
  it('ends at a whole millisecond, as Date.now() counts, although the monotonic clock counts fractions', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    await fleet.skip(400_000.4)
    const clock = { ...elsewhere(fleet.clock, {}), epochMs: () => Math.floor(fleet.clock.epochMs()) }
    const { expiresAt } = await fleet.start({ clock }).provider.getToken()
    expect(expiresAt % 1).toBe(0)
  })

  it.each([
    ['the same', {}],
    ['hours ahead', { monotonicMs: 5_000_000, epochMs: 3 * 3_600_000 }],
    ['hours behind', { monotonicMs: -900, epochMs: -3 * 3_600_000 }],
  ])('lives for as long as the store says, if the clocks of the next machine are %s', async (_, offsets) => {
    const fleet = new Fleet()
    await fleet.begin()
    await fleet.skip(400_000)
    const clock = elsewhere(fleet.clock, offsets)
    const { provider } = fleet.start({ clock, refreshAheadMs: 0 })
    const token = await provider.getToken()
    expect(token.expiresAt).toBe(clock.epochMs() + 600_000)
    await fleet.skip(589_999) // the margin of 10 s ends its use
    expect(provider.currentToken()).toBe(token)
    await fleet.skip(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('does not outlive a sleep of the machine after the wall clock was set back', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    await fleet.skip(300_000)
    const { provider } = fleet.start({ refreshAheadMs: 0 })
    const token = await provider.getToken()
    for (const stepMs of [-400_000, 400_000]) {
      fleet.clock.stepWallClock(stepMs)
      expect(provider.currentToken()).toBe(token)
    }
    await fleet.skip(289_999)
    expect(provider.currentToken()).toBe(token)
    await fleet.skip(1)
    expect(provider.currentToken()).toBeUndefined()
  })

  it('has the margin and the refresh window of its full lifetime, however late it is acquired', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(granted({ expires_in: 100 }))
    await fleet.begin({ refreshAheadMs: 0 })
    await fleet.skip(60_000)
    const { provider } = fleet.start({ refreshAheadMs: undefined, expiryMarginMs: undefined })
    const token = await provider.getToken()
    fleet.store.asked.length = 0
    await fleet.skip(100_000 * (1 - MARGIN_SHARE - WINDOW_SHARE) - 60_000 - 1)
    expect(provider.currentToken()).toBe(token)
    await quiet()
    expect(fleet.store.asked).toEqual([])
    await fleet.skip(1)
    expect(provider.currentToken()).toBe(token)
    await quiet()
    expect(fleet.store.operations).toContain('get')
    expect(provider.currentToken()?.value).not.toBe(token.value)
  })

  it('has the response time of the store subtracted from its lifetime', async () => {
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

  it('is not acquired within its expiry margin, and another one is requested', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    await fleet.skip(989_999)
    const withoutWindow = { refreshAheadMs: 0 }
    expect(await fleet.tokenOf(withoutWindow)).toBe(token)
    await fleet.skip(1)
    const { provider, events } = fleet.start(withoutWindow)
    expect((await provider.getToken()).value).not.toBe(token)
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
  })

  it.each([
    { lifetimeS: 1_000, ttlMs: 6 * 3_600_000 },
    { lifetimeS: 86_400, ttlMs: 86_398_500 },
  ])(
    'is in an entry that lives as long as it, or 6 h, and whose reader knows its exact end: $lifetimeS s',
    async ({ lifetimeS, ttlMs }) => {
      const fleet = new Fleet()
      fleet.answerAfter(1_500, granted({ expires_in: lifetimeS }))
      const expiresAt = fleet.clock.epochMs() + lifetimeS * 1_000
      await fleet.tookMs(fleet.tokenOf())
      expect(fleet.store.asked.find(({ operation }) => operation === 'set')).toMatchObject({ ttlMs })
      await fleet.skip(100_000)
      expect((await fleet.start().provider.getToken()).expiresAt).toBe(expiresAt)
    },
  )

  it('that 0.1.0 wrote is never read', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    const key = fleet.store.tokenKey
    fleet.store.put(key.replace('v2.', 'v1.'), fleet.store.entry(key)?.value ?? '', 900_000)
    fleet.store.remove(key)
    const { provider, events } = fleet.start()
    await provider.getToken()
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
    expect(fleet.store.asked.filter(({ key }) => !key.startsWith('v2.'))).toEqual([])
  })
})

/** One token for all processes that have a store in common, and how long it lives in each. */
import type { AuthEvent } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { elsewhere, Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { FAILURES, MemoryStore, slow } from '../store/memory-store.ts'
import { oneAhead, sharing } from '../store/scenes.ts'
import { granted, hang, IN_STORE_URL, MERCHANT_URL, rejection, rig, SECRET, status } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

describe('a provider without a store', () => {
  it.each([
    ['a secret', SECRET, 12],
    ['a function', async () => SECRET, 12],
  ])(
    'sends its first request and its renewals as soon as without the option: with %s',
    async (_, clientSecret, turns) => {
      const { provider, endpoint } = rig([], { clientSecret, store: undefined })
      const first = provider.getToken()
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve()
      expect(endpoint.count).toBe(1)
      const renewal = provider.renewToken(await first)
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve()
      expect(endpoint.count).toBe(2)
      await renewal
    },
  )

  it('has a token of its own, from the endpoint, though others share theirs', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    const alone = fleet.start({ store: undefined })
    expect((await alone.provider.getToken()).value).not.toBe(token)
    expect(sourcesOf(alone.events)).toEqual(['endpoint'])
    expect([fleet.endpoint.count, fleet.store.asked.length]).toEqual([2, 0])
  })
})

describe('a token in the store', () => {
  it('is acquired by the next process: one token request, and an event that says so', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    await fleet.clock.advance(300_000)
    const { provider, events } = fleet.start()
    expect((await provider.getToken()).value).toBe(token)
    expect(fleet.endpoint.count).toBe(1)
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
  })

  it('costs the one who asks 5 operations, and who takes it 1', async () => {
    const fleet = new Fleet()
    const { provider } = fleet.start()
    await provider.getToken()
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set', 'release'])
    fleet.store.asked.length = 0
    await fleet.start().provider.getToken()
    await quiet()
    expect(fleet.store.operations).toEqual(['get'])
  })

  it('is acquired with its scope, or without one where it has none', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(granted({ scope: 'merchant' }), granted())
    await fleet.begin()
    expect(await fleet.start().provider.getToken()).toMatchObject({ scope: 'merchant' })
    fleet.store.remove(fleet.store.tokenKey)
    await fleet.begin()
    expect(await fleet.start().provider.getToken()).not.toHaveProperty('scope')
  })

  it('that one process has lost to an expiry is replaced once for all', async () => {
    const fleet = new Fleet()
    const processes = [await fleet.begin(), await fleet.begin(), await fleet.begin()]
    await fleet.skip(1_000_000)
    const waiting = Promise.all(processes.map(({ provider }) => provider.getToken()))
    await fleet.pass(100)
    expect(new Set((await waiting).map(({ value }) => value)).size).toBe(1)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('is not asked for by those who have it in memory', async () => {
    const fleet = new Fleet()
    const { provider, token } = await fleet.begin()
    for (let call = 0; call < 1_000; call += 1) {
      expect(provider.currentToken()?.value).toBe(token)
      expect((await provider.getToken()).value).toBe(token)
    }
    expect([fleet.store.asked.length, fleet.endpoint.count]).toEqual([0, 1])
  })

  it('is looked for once, however many calls wait for it', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    const { provider } = fleet.start()
    const tokens = await Promise.all(Array.from({ length: 1_000 }, () => provider.getToken()))
    expect(new Set(tokens.map(({ value }) => value))).toEqual(new Set([token]))
    expect(fleet.store.operations).toEqual(['get'])
  })

  it('that the store loses stays in use where it is in memory', async () => {
    const fleet = new Fleet()
    const { provider, token } = await fleet.begin()
    fleet.store.remove(fleet.store.tokenKey)
    expect((await provider.getToken()).value).toBe(token)
    expect((await fleet.start().provider.getToken()).value).not.toBe(token)
    expect((await provider.getToken()).value).toBe(token)
  })

  it('stays there when the process that asked for it is closed', async () => {
    const fleet = new Fleet()
    const { provider, token } = await fleet.begin()
    await provider.close()
    expect((await fleet.start().provider.getToken()).value).toBe(token)
    expect(fleet.endpoint.count).toBe(1)
  })

  it('is none of the business of another client, audience or token endpoint', async () => {
    const fleet = new Fleet()
    const environment = {
      name: 'test',
      authUrl: 'https://auth.test.example',
      audience: 'https://api.test.example',
      apiUrls: ['https://api.test.example/merchant'],
    }
    const others = [
      { environment },
      { environment, clientId: 'client-2' },
      { environment: { ...environment, audience: 'https://api.test.example/' } },
      { environment: { ...environment, authUrl: 'https://auth.test.example/other' } },
    ]
    for (const [n, options] of others.entries()) {
      await fleet.begin(options)
      expect([fleet.endpoint.count, fleet.store.keys.length]).toEqual([n + 1, n + 1])
    }
  })

  it('is shared by those whose base URLs are written differently, or that name other APIs', async () => {
    const fleet = new Fleet()
    const audience = 'https://api.test.example'
    await fleet.begin({
      environment: { authUrl: 'https://auth.test.example/', audience, apiUrls: ['https://a.example'] },
    })
    await fleet.begin({
      environment: { authUrl: 'https://AUTH.test.example:443', audience, apiUrls: ['https://b.example'] },
    })
    expect(fleet.endpoint.count).toBe(1)
  })
})

describe('writing the token', () => {
  it('is waited for by no call', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = FAILURES.hangs
    fleet.store.faults.release = FAILURES.hangs
    expect(await fleet.tookMs(fleet.start().provider.getToken())).toBe(0)
  })

  it('is waited for by close()', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = slow(fleet.clock, 200)
    const { provider } = fleet.start()
    await provider.getToken()
    expect(await fleet.tookMs(provider.close())).toBe(200)
    expect(fleet.store.tokenKey).toBeDefined()
    expect(fleet.store.leased).toBe(0)
  })

  it('comes before the next turn, and costs no request any time', async () => {
    const fleet = new Fleet()
    fleet.store.faults.set = slow(fleet.clock, 200)
    const { provider } = fleet.start()
    const token = await provider.getToken()
    fleet.endpoint.otherwise = hang
    const failing = rejection(provider.renewToken(token))
    expect(await fleet.tookMs(failing)).toBe(200 + 10_000)
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT', attempts: 2 })
  })

  it('is left out where its time is over by then', async () => {
    const fleet = new Fleet()
    const onEvent = ({ type }: AuthEvent): void => {
      if (type === 'token-acquired') fleet.clock.stepWallClock(1_000_000)
    }
    const waiting = fleet.start({ onEvent }).provider.getToken()
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_TOKEN_RESPONSE' })
    await quiet()
    expect(fleet.store.operations).not.toContain('set')
    expect(fleet.store.leased).toBe(0)
  })
})

it('two stores have nothing in common', async () => {
  const fleet = new Fleet()
  const { token } = await fleet.begin()
  const other = fleet.start({ store: new MemoryStore(fleet.clock) })
  expect((await other.provider.getToken()).value).not.toBe(token)
})

describe('a token in the store', () => {
  it.each([
    ['the same', {}],
    ['hours ahead', { monotonicMs: 5_000_000, epochMs: 3 * 3_600_000 }],
    ['hours behind', { monotonicMs: -900, epochMs: -3 * 3_600_000 }],
  ])(
    'lives on for as long as the store says, where the clocks of the next machine are %s',
    async (_, hands) => {
      const fleet = new Fleet()
      await fleet.begin()
      await fleet.skip(400_000)
      const clock = elsewhere(fleet.clock, hands)
      const { provider } = fleet.start({ clock, refreshAheadMs: 0 })
      const token = await provider.getToken()
      expect(token.expiresAt).toBe(clock.epochMs() + 600_000)
      await fleet.skip(589_999) // the margin of 10 s ends its use
      expect(provider.currentToken()).toBe(token)
      await fleet.skip(1)
      expect(provider.currentToken()).toBeUndefined()
    },
  )

  it('has the margin and the refresh window of its whole lifetime, however late it is acquired', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(granted({ expires_in: 100 }))
    await fleet.begin({ refreshAheadMs: 0 })
    await fleet.skip(60_000)
    const { provider } = fleet.start()
    const token = await provider.getToken() // a margin of 5 s, and before it a window of 20 s
    fleet.store.asked.length = 0
    await fleet.skip(14_999)
    expect(provider.currentToken()).toBe(token)
    await quiet()
    expect(fleet.store.asked).toEqual([])
    await fleet.skip(1)
    expect(provider.currentToken()).toBe(token)
    await quiet()
    expect(fleet.store.operations).toContain('get')
    expect(provider.currentToken()?.value).not.toBe(token.value)
  })

  it('is older by the time that the store took to answer', async () => {
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

  it('lives no longer than the token endpoint said, whatever the store says', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    const key = fleet.store.tokenKey
    fleet.store.put(key, String(fleet.store.entry(key)?.value), 10_000_000)
    const { expiresAt } = await fleet.start().provider.getToken()
    expect(expiresAt).toBe(fleet.clock.epochMs() + 1_000_000)
  })

  it('within its margin is left there, and another is asked for', async () => {
    const fleet = new Fleet()
    const { token } = await fleet.begin()
    await fleet.skip(989_999)
    const unhurried = { refreshAheadMs: 0 }
    expect((await fleet.start(unhurried).provider.getToken()).value).toBe(token)
    await fleet.skip(1)
    const { provider, events } = fleet.start(unhurried)
    expect((await provider.getToken()).value).not.toBe(token)
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], []])
  })

  it('is kept there for exactly the time that it has left', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(async (init) => {
      await fleet.clock.sleep(1_500)
      return await granted()(init)
    })
    const { provider } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(1_500)
    await waiting
    expect(fleet.store.asked.find(({ operation }) => operation === 'set')).toMatchObject({ ttlMs: 998_500 })
  })
})

const url = MERCHANT_URL

describe('a newer token of another process', () => {
  it('is acquired although it came between the look at the token and that at the rate limit', async () => {
    const { fleet, processes, token } = await sharing(2)
    const [one, other] = processes as [Process, Process]
    fleet.store.faults.get = async (run) => {
      if (!fleet.store.asked.at(-1)?.key.includes('.ration-')) return await run()
      fleet.store.faults.get = undefined
      await one.provider.renewToken(token, { url })
      await quiet()
      return await run()
    }
    const newer = await other.provider.renewToken(token, { url })
    expect([newer?.value, fleet.endpoint.count]).toEqual([one.provider.currentToken()?.value, 2])
    expect(other.events.map(({ type }) => type)).not.toContain('renewal-suppressed')
  })

  it('uses up nothing of the rate limit', async () => {
    const { fleet, other, token, newer } = await oneAhead()
    await fleet.skip(1_000) // so that the first one's gap is over
    await other.provider.renewToken(token, { url })
    const third = await other.provider.renewToken(newer, { url })
    expect([newer, undefined]).not.toContain(third?.value)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('is acquired while the rate limit allows no renewal', async () => {
    const { fleet, one, other, token, newer } = await oneAhead()
    await fleet.skip(1_000)
    await other.provider.renewToken(token, { url })
    const third = await other.provider.renewToken(newer, { url }) // and now the gap is 2 s
    await fleet.skip(1_000)
    expect((await one.provider.renewToken(newer, { url }))?.value).toBe(third?.value)
    expect(fleet.endpoint.count).toBe(3)
    expect(one.events.map(({ type }) => type)).not.toContain('renewal-suppressed')
  })

  it('is looked for at most once a second while the rate limit allows no renewal', async () => {
    const { fleet, one, newer } = await oneAhead()
    await fleet.skip(1_000)
    const latest = String((await one.provider.renewToken(newer, { url }))?.value)
    await quiet()
    fleet.store.asked.length = 0
    await fleet.skip(500)
    const reject = async (times: number): Promise<void> => {
      for (let time = 0; time < times; time += 1)
        expect(await one.provider.renewToken(latest, { url })).toBeUndefined()
    }
    await reject(10)
    await fleet.skip(499)
    await reject(10)
    expect(fleet.store.operations).toEqual([])
    await fleet.skip(1)
    await reject(10)
    await quiet()
    const once = ['get', 'lease', 'get', 'delete', 'release'] // nobody else is to take it
    expect(fleet.store.operations).toEqual(once)
    await fleet.skip(499)
    await reject(10)
    expect(fleet.store.operations).toEqual(once)
  })

  it('is acquired while the token endpoint is not asked after a failure', async () => {
    const { fleet, processes, token } = await sharing(2)
    const [one, other] = processes as [Process, Process]
    fleet.endpoint.answers.push(status(400))
    await rejection(one.provider.renewToken(token, { url }))
    const newer = await other.provider.renewToken(token, { url: IN_STORE_URL })
    await quiet()
    expect((await one.provider.renewToken(token, { url }))?.value).toBe(newer?.value)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('that is not there leaves the failure, and what remains of its time', async () => {
    const { fleet, processes, token } = await sharing(1)
    const [{ provider }] = processes as [Process]
    fleet.endpoint.answers.push(status(400))
    await rejection(provider.renewToken(token, { url }))
    await fleet.skip(400)
    const error = await rejection(provider.renewToken(token, { url }))
    expect(error).toMatchObject({ status: 400, retryAfterMs: 600 })
    expect(fleet.endpoint.count).toBe(2)
  })
})

/** One token for all processes that have a store in common: who asks, who takes, and how long it lives where it is taken. */
import type { AuthEvent } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Fleet, quiet, sourcesOf } from '../store/fleet.ts'
import { FAILURES, MemoryStore, slow } from '../store/memory-store.ts'
import { granted, hang, rejection, rig, SECRET } from './harness.ts'

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
  it('is taken by the next process: one token request, and an event that says so', async () => {
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

  it('is taken with its scope, or without one where it has none', async () => {
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

  it('comes before the next turn, and is taken off the time of nobody', async () => {
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

it('a store that is given to two providers of one process is shared by them, too', async () => {
  const fleet = new Fleet()
  const [one, two] = [fleet.start(), fleet.start()]
  const waiting = Promise.all([one.provider.getToken(), two.provider.getToken()])
  await fleet.pass(100)
  const [first, second] = await waiting
  expect(first.value).toBe(second.value)
  expect(fleet.endpoint.count).toBe(1)
})

it('two stores have nothing in common', async () => {
  const fleet = new Fleet()
  const { token } = await fleet.begin()
  const other = fleet.start({ store: new MemoryStore(fleet.clock) })
  expect((await other.provider.getToken()).value).not.toBe(token)
})
